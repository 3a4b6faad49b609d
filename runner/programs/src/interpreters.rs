//! Interpreters that load shared objects of modules, and the directories that these are in.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::elf;
use crate::files;
use crate::names::is_replaceable;

/// One kind of interpreter.
struct Kind {
    /// Its file is called this, and then maybe a version.
    name: &'static str,
    /// Directories below its prefix (the parent of the directory that it is in), all that is below them included. `*` in
    /// a component stands for any text, `%` for the version in the file's own name.
    directories: &'static [&'static str],
    /// It takes only what is below its own directory, which this file tells from a system's.
    own: Option<&'static str>,
}

/// Each with the reason for what it may load.
const KINDS: [Kind; 8] = [
    // The standard library's lib-dynload, and the packages of the system: numpy and its like are shared objects.
    Kind {
        name: "python",
        directories: &[
            "lib/python%",
            "lib64/python%",
            "lib/python3",
            "local/lib/python%",
            "local/lib/python3",
            "local/lib64/python%",
        ],
        own: None,
    },
    // The XS parts of the standard library (List::Util, POSIX) and of packages.
    Kind {
        name: "perl",
        directories: &["lib/perl*", "lib/*/perl*", "lib64/perl*", "local/lib/perl*", "local/lib/*/perl*"],
        own: None,
    },
    // The standard library's extensions, and gems.
    Kind {
        name: "ruby",
        directories: &["lib/ruby", "lib64/ruby", "lib/*/ruby", "share/rubygems-integration", "local/lib/ruby"],
        own: None,
    },
    // Addons of packages that are installed for all.
    Kind {
        name: "node",
        directories: &["lib/node_modules", "lib/nodejs", "lib/*/nodejs", "share/nodejs", "local/lib/node_modules"],
        own: None,
    },
    Kind { name: "nodejs", directories: &["lib/node_modules", "lib/*/nodejs", "share/nodejs"], own: None },
    // C modules.
    Kind { name: "lua", directories: &["lib/lua", "lib64/lua", "lib/*/lua", "local/lib/lua"], own: None },
    // Its extensions.
    Kind { name: "php", directories: &["lib/php", "lib64/php", "lib/*/php"], own: None },
    // The virtual machine itself is a shared object beside the launcher.
    Kind { name: "java", directories: &["lib"], own: Some("release") },
];

const MOST_ENTRIES: usize = 400_000;
const DEEPEST: usize = 32;

/// The shared objects of the module directories of a program that is an interpreter, as real paths.
pub fn modules(program: &Path) -> Vec<PathBuf> {
    let Some((prefix, name)) = prefix_and_name(program) else { return Vec::new() };
    let Some((kind, version)) = kind_of(name) else { return Vec::new() };
    if kind.own.is_some_and(|file| !prefix.join(file).is_file()) {
        return Vec::new();
    }
    let mut walk = Walk { entries: 0, found: Vec::new() };
    for pattern in kind.directories {
        // A version that the file does not say can be any.
        let pattern = pattern.replace('%', if version.is_empty() { "*" } else { version });
        for directory in expand(prefix, &pattern) {
            walk.below(&directory, 0);
        }
    }
    walk.found
}

fn prefix_and_name(program: &Path) -> Option<(&Path, &str)> {
    Some((program.parent()?.parent()?, program.file_name()?.to_str()?))
}

fn kind_of(name: &str) -> Option<(&'static Kind, &str)> {
    KINDS.iter().find_map(|kind| {
        let version = name.strip_prefix(kind.name)?;
        let is_version = version.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        is_version.then_some((kind, version))
    })
}

/// The directories that a pattern means.
fn expand(prefix: &Path, pattern: &str) -> Vec<PathBuf> {
    let step = |places: Vec<PathBuf>, component: &str| -> Vec<PathBuf> {
        let Some((before, after)) = component.split_once('*') else {
            return places.into_iter().map(|place| place.join(component)).collect();
        };
        let fits = |name: &OsStr| {
            let rest = name.as_bytes().strip_prefix(before.as_bytes());
            rest.is_some_and(|rest| rest.ends_with(after.as_bytes()))
        };
        let entries = places.iter().flat_map(fs::read_dir).flatten().flatten();
        entries.filter(|entry| fits(&entry.file_name())).map(|entry| entry.path()).collect()
    };
    pattern.split('/').fold(vec![prefix.to_owned()], step)
}

struct Walk {
    entries: usize,
    found: Vec<PathBuf>,
}

impl Walk {
    /// Links to directories are not followed, links to shared objects are.
    fn below(&mut self, directory: &Path, depth: usize) {
        let Ok(entries) = fs::read_dir(directory) else { return };
        for entry in entries.flatten() {
            self.entries += 1;
            if self.entries > MOST_ENTRIES {
                return;
            }
            match entry.file_type() {
                Ok(kind) if kind.is_dir() && depth < DEEPEST => self.below(&entry.path(), depth + 1),
                Ok(kind) if kind.is_dir() => {}
                Ok(_) if is_module(&entry.file_name()) => self.add(&entry.path()),
                _ => {}
            }
        }
    }

    fn add(&mut self, path: &Path) {
        let Ok(real) = fs::canonicalize(path) else { return };
        let head = files::open(&real).ok().and_then(|file| files::beginning(&file, 4));
        if head.is_some_and(|head| elf::is_elf(&head)) && !is_replaceable(&real) {
            self.found.push(real);
        }
    }
}

fn is_module(name: &OsStr) -> bool {
    let name = name.as_bytes();
    name.ends_with(b".so") || name.ends_with(b".node") || name.windows(4).any(|part| part == b".so.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_told_by_name_and_version() {
        let version = |name| kind_of(name).map(|(kind, version)| (kind.name, version));
        assert_eq!(version("python3.11"), Some(("python", "3.11")));
        assert_eq!(version("python"), Some(("python", "")));
        assert_eq!(version("node"), Some(("node", "")));
        assert_eq!(version("nodejs"), Some(("nodejs", "")));
        assert_eq!(version("python3-config"), None);
        assert_eq!(version("perldoc"), None);
        assert_eq!(version("sh"), None);
    }

    #[test]
    fn names_of_shared_objects() {
        for name in ["_ssl.cpython-311-x86_64-linux-gnu.so", "libx.so.1", "addon.node", "a.so"] {
            assert!(is_module(OsStr::new(name)), "{name}");
        }
        for name in ["x.py", "x.sox", "so", "tool", "t64.exe"] {
            assert!(!is_module(OsStr::new(name)), "{name}");
        }
    }

    #[test]
    fn patterns_stay_below_their_prefix() {
        let place = std::env::temp_dir().join(format!("boxkite-modules-{}", std::process::id()));
        for directory in ["bin", "lib/python3.11/lib-dynload", "lib/python3.12", "lib/x/perl5"] {
            fs::create_dir_all(place.join(directory)).unwrap();
        }
        fs::write(place.join("lib/python3.11/lib-dynload/a.so"), b"\x7fELF").unwrap();
        fs::write(place.join("lib/python3.11/lib-dynload/text.so"), b"INPUT ( libx )").unwrap();
        fs::write(place.join("lib/python3.12/b.so"), b"\x7fELF").unwrap();
        assert_eq!(expand(&place, "lib/*/perl*"), [place.join("lib/x/perl5")]);
        // Real paths of a temporary directory are replaceable, so nothing of it counts.
        assert!(modules(&place.join("bin/python3.11")).is_empty());
        let mut walk = Walk { entries: 0, found: Vec::new() };
        walk.below(&place.join("lib"), 0);
        assert!(walk.found.is_empty());
        assert!(walk.entries >= 7);
        fs::remove_dir_all(&place).unwrap();
    }
}
