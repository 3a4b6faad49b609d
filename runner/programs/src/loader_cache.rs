//! `/etc/ld.so.cache`: where glibc's loader finds a library by its name.

use std::collections::HashMap;
use std::path::PathBuf;

use crate::names::path_of;

const OLD_MAGIC: &[u8] = b"ld.so-1.7.0";
const MAGIC: &[u8] = b"glibc-ld.so.cache1.1";
const HEADER: usize = 48;
const ENTRY: usize = 24;
const MOST_ENTRIES: usize = 1 << 18;

fn number(bytes: &[u8], at: usize) -> Option<usize> {
    let field = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_le_bytes(field.try_into().ok()?) as usize)
}

fn text(bytes: &[u8], at: usize) -> Option<&[u8]> {
    let rest = bytes.get(at..)?;
    rest.iter().position(|byte| *byte == 0).map(|end| &rest[..end])
}

/// Every path by name; several where the machine's features decide between them. Empty for a file of another form: then
/// the default directories decide alone, as they do for the loader.
pub fn read(bytes: &[u8]) -> HashMap<Vec<u8>, Vec<PathBuf>> {
    entries(bytes).unwrap_or_default()
}

fn entries(bytes: &[u8]) -> Option<HashMap<Vec<u8>, Vec<PathBuf>>> {
    let start = if bytes.starts_with(OLD_MAGIC) {
        // The old form comes first: a count at 12, then entries of 12 bytes; the new one is aligned to 8.
        let count = number(bytes, 12).filter(|count| *count <= MOST_ENTRIES)?;
        (16 + 12 * count).next_multiple_of(8)
    } else {
        0
    };
    let table = bytes.get(start..)?;
    if !table.starts_with(MAGIC) {
        return None;
    }
    let count = number(table, 20).filter(|count| *count <= MOST_ENTRIES)?;
    let mut found: HashMap<Vec<u8>, Vec<PathBuf>> = HashMap::new();
    for index in 0..count {
        let at = HEADER + ENTRY * index;
        // Offsets count from the start of the new form.
        let (name, path) = (text(table, number(table, at + 4)?)?, text(table, number(table, at + 8)?)?);
        found.entry(name.to_vec()).or_default().push(path_of(path));
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache(entries: &[(&str, &str)]) -> Vec<u8> {
        let mut bytes = [MAGIC, &(entries.len() as u32).to_le_bytes(), &[0; 24]].concat();
        let mut strings = Vec::new();
        let base = HEADER + ENTRY * entries.len();
        for (name, path) in entries {
            let at = |strings: &[u8]| ((base + strings.len()) as u32).to_le_bytes();
            let name_at = at(&strings);
            strings.extend_from_slice(&[name.as_bytes(), b"\0"].concat());
            let path_at = at(&strings);
            strings.extend_from_slice(&[path.as_bytes(), b"\0"].concat());
            bytes.extend_from_slice(&[&[0; 4][..], &name_at, &path_at, &[0; 12]].concat());
        }
        bytes.extend_from_slice(&strings);
        bytes
    }

    #[test]
    fn every_path_of_a_name_is_found_in_both_forms() {
        let new = cache(&[("libc.so.6", "/lib/x/libc.so.6"), ("libm.so.6", "/a"), ("libm.so.6", "/b")]);
        let old = [OLD_MAGIC, b"\0", &1u32.to_le_bytes(), &[0; 12], &[0; 4], &new[..]].concat();
        for bytes in [new, old] {
            let found = read(&bytes);
            assert_eq!(found[&b"libc.so.6"[..]], [PathBuf::from("/lib/x/libc.so.6")]);
            assert_eq!(found[&b"libm.so.6"[..]], [PathBuf::from("/a"), PathBuf::from("/b")]);
        }
    }

    #[test]
    fn a_broken_cache_is_none() {
        let good = cache(&[("libc.so.6", "/lib/libc.so.6")]);
        for cut in 0..good.len() {
            assert!(read(&good[..cut]).is_empty(), "{cut}");
        }
        let mut endless = good;
        endless[20..24].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(read(&endless).is_empty());
    }
}
