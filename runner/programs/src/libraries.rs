//! Where a loader finds the libraries of a file. Where the machine's features decide between several, all of them count.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::elf::{self, Elf, Machine};
use crate::names::{is_replaceable, path_of};
use crate::{files, loader_cache};

/// Libraries that one loads by itself when it is needed, though its file does not say so, each with its reason.
const UNSAID: [(&[u8], &[u8]); 3] = [
    (b"libc.so.6", b"libgcc_s.so.1"), // a thread that ends by pthread_exit or is cancelled
    (b"libc.so.6", b"libnss_files.so.2"), // users and hosts, before glibc 2.34
    (b"libpthread.so.0", b"libgcc_s.so.1"), // the same as the first, before glibc 2.34
];

/// Directories of glibc's loader after its cache, then those of musl's.
const DEFAULT: [&str; 9] = [
    concat!("/lib/", triplet!()),
    concat!("/usr/lib/", triplet!()),
    "/lib64",
    "/usr/lib64",
    "/lib",
    "/usr/local/lib",
    "/usr/lib",
    "/lib32",
    "/usr/lib32",
];

/// Subdirectories of a directory of libraries in which glibc looks first.
const FEATURES: [&str; 5] =
    ["glibc-hwcaps/x86-64-v4", "glibc-hwcaps/x86-64-v3", "glibc-hwcaps/x86-64-v2", "tls", "haswell"];

const MOST_CACHE: u64 = 64 << 20;
const MOST_DIRECTORIES: usize = 64;

/// The libraries of one root, each file read once.
pub struct Libraries {
    cache: HashMap<Vec<u8>, Vec<PathBuf>>,
    seen: HashMap<PathBuf, Option<Elf>>,
}

/// A library that is not there.
pub struct Missing(pub Vec<u8>);

impl Libraries {
    /// Of the root that is the process's own.
    pub fn new() -> Self {
        let cache = files::whole(Path::new("/etc/ld.so.cache"), MOST_CACHE).unwrap_or_default();
        Self { cache: loader_cache::read(&cache), seen: HashMap::new() }
    }

    /// What the file says; `None` for one that is no ELF file.
    pub fn elf(&mut self, path: &Path) -> Option<&Elf> {
        let read = || files::open(path).ok().as_ref().and_then(elf::read);
        self.seen.entry(path.to_owned()).or_insert_with(read).as_ref()
    }

    /// Adds to `code` what loading `path` loads, and what that loads. `path` is a real path and in `code` already.
    pub fn follow(&mut self, path: &Path, code: &mut HashSet<PathBuf>, most: usize) -> Result<(), Missing> {
        // The directories of the files on the way there: DT_RPATH is inherited.
        let mut waiting = vec![(path.to_owned(), Vec::new())];
        while let Some((path, inherited)) = waiting.pop() {
            let Some(elf) = self.elf(&path).cloned() else { continue };
            let own = elf.rpath.as_deref().filter(|_| elf.runpath.is_none());
            let mut rpaths: Vec<PathBuf> = own.map(|list| directories(list, &path)).unwrap_or_default();
            rpaths.extend(inherited);
            rpaths.truncate(MOST_DIRECTORIES);
            let unsaid = UNSAID.iter().filter(|(name, _)| path.file_name().is_some_and(|own| own.as_bytes() == *name));
            let needed =
                elf.needed.iter().map(|name| (name.as_slice(), true)).chain(unsaid.map(|(_, name)| (*name, false)));
            for (name, must) in needed {
                let found = self.find(name, &elf, &rpaths, &path);
                if found.is_empty() && must {
                    return Err(Missing(name.to_vec()));
                }
                for library in found {
                    if code.len() < most && code.insert(library.clone()) {
                        waiting.push((library, rpaths.clone()));
                    }
                }
            }
        }
        Ok(())
    }

    /// Every file that the loader may take for `name`.
    fn find(&mut self, name: &[u8], of: &Elf, rpaths: &[PathBuf], path: &Path) -> Vec<PathBuf> {
        if name.contains(&b'/') {
            let place = origin(name, path);
            return self.real(&place, of.machine).into_iter().collect();
        }
        let runpaths = of.runpath.as_deref().map(|list| directories(list, path)).unwrap_or_default();
        let rpaths = if of.runpath.is_some() { &[][..] } else { rpaths };
        for directory in rpaths.iter().chain(&runpaths) {
            let found = self.in_directory(directory, name, of.machine);
            if !found.is_empty() {
                return found;
            }
        }
        let cached = self.cache.get(name).cloned().unwrap_or_default();
        let found: Vec<PathBuf> = cached.iter().filter_map(|place| self.real(place, of.machine)).collect();
        if !found.is_empty() {
            return found;
        }
        // Loaders differ in the order of these, and in which of them they know.
        DEFAULT.iter().flat_map(|directory| self.in_directory(Path::new(directory), name, of.machine)).collect()
    }

    fn in_directory(&mut self, directory: &Path, name: &[u8], machine: Machine) -> Vec<PathBuf> {
        let name = path_of(name);
        let variants = FEATURES.iter().map(|feature| directory.join(feature)).chain([directory.to_owned()]);
        variants.filter_map(|place| self.real(&place.join(&name), machine)).collect()
    }

    /// The real path of a library that fits and is the root's own.
    fn real(&mut self, place: &Path, machine: Machine) -> Option<PathBuf> {
        let real = fs::canonicalize(place).ok().filter(|real| !is_replaceable(real))?;
        let fits = self.elf(&real).is_some_and(|elf| elf.machine == machine);
        fits.then_some(real)
    }
}

/// The directories of a list that are certain: one with a token that is not known here is left out.
fn directories(list: &[u8], of: &Path) -> Vec<PathBuf> {
    let list = list.split(|byte| *byte == b':').filter(|part| !part.is_empty());
    list.map(|part| origin(part, of)).filter(|place| place.is_absolute()).take(MOST_DIRECTORIES).collect()
}

/// Puts the file's directory, and the usual name of a directory of libraries, in place of their tokens.
fn origin(text: &[u8], of: &Path) -> PathBuf {
    let directory = of.parent().unwrap_or(Path::new("/")).as_os_str().as_bytes();
    let library = concat!("lib/", triplet!()).as_bytes();
    let tokens = [(&b"$ORIGIN"[..], directory), (b"${ORIGIN}", directory), (b"$LIB", library), (b"${LIB}", library)];
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, after)) = rest.split_first() {
        match tokens.iter().find(|(token, _)| rest.starts_with(token)) {
            Some((token, value)) => {
                out.extend_from_slice(value);
                rest = &rest[token.len()..];
            }
            None => {
                out.push(*first);
                rest = after;
            }
        }
    }
    path_of(&out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn closure(path: &str) -> HashSet<PathBuf> {
        let mut code = HashSet::new();
        let real = fs::canonicalize(path).unwrap();
        assert!(Libraries::new().follow(&real, &mut code, 4096).is_ok());
        code
    }

    #[test]
    fn the_shell_needs_what_its_loader_says() {
        let names = |code: &HashSet<PathBuf>| -> Vec<String> {
            code.iter().map(|path| path.file_name().unwrap().to_string_lossy().into_owned()).collect()
        };
        let found = names(&closure("/bin/sh"));
        assert!(found.iter().any(|name| name.starts_with("libc.so") || name.starts_with("libc-")), "{found:?}");
        assert!(found.len() < 16, "{found:?}");
    }

    #[test]
    fn tokens() {
        let of = Path::new("/opt/x/bin/program");
        assert_eq!(origin(b"$ORIGIN/../lib", of), Path::new("/opt/x/bin/../lib"));
        assert_eq!(origin(b"${ORIGIN}", of), Path::new("/opt/x/bin"));
        assert_eq!(directories(b"$ORIGIN:relative::/usr/lib:$PLATFORM/x", of).len(), 2);
    }
}
