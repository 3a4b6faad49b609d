//! Where a write goes: the directory, the name in it, and what is there now.

use crate::fail::{Code, Errno, Fail};
use crate::sys::{self, CWD, Stat};
use std::ffi::{CStr, CString};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

/// The kernel's own limit on links in one path.
const MAX_LINKS: usize = 40;

/// Splits a path into its directory and its last name, which must be a plain name.
pub fn split(path: &CStr) -> Result<(CString, CString), Fail> {
    let bytes = path.to_bytes();
    let (parent, name) = match bytes.iter().rposition(|&byte| byte == b'/') {
        Some(at) => (&bytes[..at + 1], &bytes[at + 1..]),
        None => (&b"."[..], bytes),
    };
    if matches!(name, b"" | b"." | b"..") {
        return Err(Fail::new(Code::IsDirectory, "the path names a directory"));
    }
    Ok((c_string(parent)?, c_string(name)?))
}

/// Makes all missing directories above the last name of `path`, with mode 0755.
pub fn create_parents(base: RawFd, path: &CStr) -> Result<(), Fail> {
    let bytes = path.to_bytes();
    let trimmed = bytes.len() - bytes.iter().rev().take_while(|&&byte| byte == b'/').count();
    let Some(end) = bytes[..trimmed].iter().rposition(|&byte| byte == b'/') else { return Ok(()) };
    let parent = &bytes[..end];
    if parent.is_empty() || sys::fstatat(base, &c_string(parent)?, true).is_ok_and(|s| s.is_dir()) {
        return Ok(());
    }
    let mut from = 1;
    while from <= parent.len() {
        let stop = parent[from..].iter().position(|&byte| byte == b'/');
        let upto = stop.map_or(parent.len(), |at| from + at);
        let prefix = c_string(&parent[..upto])?;
        match sys::mkdirat(base, &prefix, 0o755) {
            Ok(()) | Err(Errno(libc::EEXIST)) => {}
            // A directory that is there above a read-only or foreign one answers with these.
            Err(errno @ Errno(libc::EROFS | libc::EACCES)) => {
                if !sys::fstatat(base, &prefix, true).is_ok_and(|stat| stat.is_dir()) {
                    return Err(errno.into());
                }
            }
            Err(errno) => return Err(errno.into()),
        }
        from = upto + 1;
    }
    Ok(())
}

/// A name in an open directory.
pub struct Target {
    pub dir: OwnedFd,
    pub name: CString,
    pub existing: Option<Stat>,
}

impl Target {
    /// Finds the place; links at the last component are followed, so that they stay links.
    pub fn resolve(path: &CStr, follow: bool, parents: bool) -> Result<Target, Fail> {
        let (parent, mut name) = split(path)?;
        let mut dir = open_parent(CWD, &parent, parents.then_some(path))?;
        for _ in 0..MAX_LINKS {
            let existing = match sys::fstatat(dir.as_raw_fd(), &name, false) {
                Ok(stat) => Some(stat),
                Err(Errno(libc::ENOENT)) => None,
                Err(errno) => return Err(errno.into()),
            };
            if !follow || !existing.is_some_and(|stat| stat.is_link()) {
                return Ok(Target { dir, name, existing });
            }
            let link = sys::readlinkat(dir.as_raw_fd(), &name)?;
            let (parent, next) = split(&link)?;
            dir = open_parent(dir.as_raw_fd(), &parent, None)?;
            name = next;
        }
        Err(Errno(libc::ELOOP).into())
    }
}

fn open_parent(base: RawFd, parent: &CStr, create_for: Option<&CStr>) -> Result<OwnedFd, Fail> {
    let flags = libc::O_PATH | libc::O_DIRECTORY;
    match (sys::openat(base, parent, flags, 0), create_for) {
        (Err(Errno(libc::ENOENT)), Some(path)) => {
            create_parents(base, path)?;
            Ok(sys::openat(base, parent, flags, 0)?)
        }
        (opened, _) => Ok(opened?),
    }
}

/// A C string of bytes that must not contain a NUL.
pub fn c_string(bytes: &[u8]) -> Result<CString, Fail> {
    CString::new(bytes).map_err(|_| Fail::invalid("the path contains a NUL"))
}
