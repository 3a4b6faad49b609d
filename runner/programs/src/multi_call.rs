//! Binaries that hold many programs and choose by the name that they are called by.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

const NAMES: [&str; 6] = ["busybox", "toybox", "coreutils", "uutils", "sbase-box", "ubase-box"];

/// What such binaries say of themselves, so that another name does not hide them.
const MARKS: [&[u8]; 3] = [
    b"multi-call binary", // busybox; coreutils of Rust and of GNU built as one file
    b"multicall binary",  // older ones of both
    b"--coreutils-prog",  // GNU coreutils built as one file
];
const LONGEST_MARK: usize = 20;

/// No such binary is longer; a program that is has this much of it read.
const MOST: u64 = 32 << 20;
const CHUNK: usize = 256 << 10;

/// Whether a program is one of them, by its own file name or by what it says.
pub fn is_one(path: &Path, file: &File) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    NAMES
        .iter()
        .any(|known| name == *known || name.strip_prefix(known).is_some_and(|rest| rest.starts_with(['.', '-'])))
        || says_so(file)
}

fn says_so(file: &File) -> bool {
    let mut buffer = vec![0; CHUNK + LONGEST_MARK];
    let (mut kept, mut at) = (0, 0);
    while at < MOST {
        let Ok(count) = file.read_at(&mut buffer[kept..kept + CHUNK], at) else { return false };
        if count == 0 {
            return false;
        }
        let filled = kept + count;
        if MARKS.iter().any(|mark| contains(&buffer[..filled], mark)) {
            return true;
        }
        // A mark may lie across two reads.
        kept = filled.min(LONGEST_MARK);
        buffer.copy_within(filled - kept..filled, 0);
        at += count as u64;
    }
    false
}

/// By the first byte, which is rare enough in programs.
fn contains(bytes: &[u8], mark: &[u8]) -> bool {
    let mut rest = bytes;
    while let Some(at) = rest.iter().position(|byte| *byte == mark[0]) {
        if rest[at..].starts_with(mark) {
            return true;
        }
        rest = &rest[at + 1..];
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_found_across_reads_and_names_by_themselves() {
        assert!(MARKS.iter().all(|mark| mark.len() <= LONGEST_MARK));
        let place = std::env::temp_dir().join(format!("boxkite-multi-call-{}", std::process::id()));
        let write = |bytes: &[u8]| {
            std::fs::write(&place, bytes).unwrap();
            File::open(&place).unwrap()
        };
        for shift in 0..20 {
            let bytes = [&vec![b'x'; CHUNK - shift][..], b"is a multi-call binary that"].concat();
            assert!(is_one(Path::new("/bin/ls"), &write(&bytes)), "{shift}");
        }
        let plain = write(b"multi-call binar");
        assert!(!is_one(Path::new("/bin/ls"), &plain));
        assert!(is_one(Path::new("/bin/busybox"), &plain));
        assert!(is_one(Path::new("/bin/busybox.static"), &plain));
        assert!(!is_one(Path::new("/bin/busyboxes"), &plain));
        std::fs::remove_file(&place).unwrap();
    }
}
