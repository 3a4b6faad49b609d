//! From a name of the list to a file of the root.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use crate::{Reason, files};

/// Where commands look for programs, in their order.
const PATH: [&str; 6] = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];

/// Top-level directories that never come from the root: agents, or the kernel, decide what is in them.
const NOT_OF_THE_ROOT: [&str; 10] = ["workspace", "tmp", "mnt", "proc", "sys", "dev", "run", "var", "home", "root"];

/// The path of some bytes.
pub fn path_of(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(bytes))
}

/// Whether a path lies where the root's owner does not decide what is there.
pub fn is_replaceable(path: &Path) -> bool {
    match path.components().nth(1) {
        Some(Component::Normal(first)) => NOT_OF_THE_ROOT.iter().any(|name| first == *name),
        _ => false,
    }
}

/// The real file of a name; `None` where the root has none.
pub fn resolve(name: &[u8]) -> Result<Option<PathBuf>, Reason> {
    if !name.contains(&b'/') {
        return by_search(name);
    }
    let path = path_of(name);
    if !path.is_absolute() {
        return Err(Reason::RelativePath);
    }
    if is_replaceable(&path) || is_reached_by_what_is_replaceable(&path) {
        return Err(Reason::WritableRoot);
    }
    match fs::canonicalize(&path) {
        Ok(real) if is_replaceable(&real) => Err(Reason::WritableRoot),
        Ok(real) if files::is_executable(&real) => Ok(Some(real)),
        Ok(_) => Err(Reason::NotAProgram),
        Err(_) => Ok(None),
    }
}

/// Whether its directory is one of those by `..` or by links, wherever the name in it leads from there.
fn is_reached_by_what_is_replaceable(path: &Path) -> bool {
    path.parent().and_then(|directory| fs::canonicalize(directory).ok()).is_some_and(|real| is_replaceable(&real))
}

fn by_search(name: &[u8]) -> Result<Option<PathBuf>, Reason> {
    let places = PATH.iter().map(|directory| Path::new(directory).join(OsStr::from_bytes(name)));
    match places.into_iter().find(|path| files::is_executable(path)).and_then(|path| fs::canonicalize(path).ok()) {
        Some(real) if is_replaceable(&real) => Err(Reason::WritableRoot),
        found => Ok(found),
    }
}

/// Every file that is found by a bare name, the first directory's first.
pub fn all() -> impl Iterator<Item = PathBuf> {
    PATH.iter().flat_map(fs::read_dir).flatten().flatten().map(|entry| entry.path())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_by_search_and_paths_as_they_are() {
        let shell = fs::canonicalize("/bin/sh").unwrap();
        assert_eq!(resolve(b"sh"), Ok(Some(shell.clone())));
        assert_eq!(resolve(b"/bin/sh"), Ok(Some(shell)));
        assert_eq!(resolve(b"no-such-program"), Ok(None));
        assert_eq!(resolve(b"/usr/bin/no-such-program"), Ok(None));
        assert_eq!(resolve(b"/etc/passwd"), Err(Reason::NotAProgram));
        assert_eq!(resolve(b"/usr/bin"), Err(Reason::NotAProgram));
        assert_eq!(resolve(b"."), Ok(None));
    }

    #[test]
    fn what_an_agent_can_replace_is_refused() {
        assert_eq!(resolve(b"./gradlew"), Err(Reason::RelativePath));
        assert_eq!(resolve(b"bin/sh"), Err(Reason::RelativePath));
        for path in ["/workspace/x", "/tmp/x", "/mnt/skills/x", "/dev/shm/x", "/proc/self/exe", "//tmp//x", "/./tmp/x"]
        {
            assert_eq!(resolve(path.as_bytes()), Err(Reason::WritableRoot), "{path}");
        }
        assert_eq!(resolve(b"/usr/../proc/self/exe"), Err(Reason::WritableRoot));
    }
}
