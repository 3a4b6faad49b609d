//! Operations of one or a few system calls: stat, mkdir, rename, chmod, symlink.

use super::target::{create_parents, split};
use super::{Flags, plain_mode};
use crate::fail::{Code, Errno, Fail};
use crate::payload::{Reader, put_bytes, put_stat};
use crate::sys::{self, CWD};
use std::ffi::{CStr, CString};
use std::os::fd::AsRawFd;

const STAT_NOFOLLOW: u16 = 1;
const MKDIR_PARENTS: u16 = 1;
const RENAME_NO_REPLACE: u16 = 1;
const RENAME_PARENTS: u16 = 2;
const CHMOD_RESET: u16 = 1;

/// Attributes, and the target of a link that was not followed.
pub fn stat(flags: Flags, payload: &[u8]) -> Result<Vec<u8>, Fail> {
    let flags = flags.only(STAT_NOFOLLOW)?;
    let mut reader = Reader::new(payload);
    let path = reader.path()?;
    reader.finish()?;
    let stat = sys::fstatat(CWD, &path, !flags.has(STAT_NOFOLLOW))?;
    let mut out = Vec::with_capacity(64);
    put_stat(&mut out, &stat);
    let target = if stat.is_link() { sys::readlinkat(CWD, &path)? } else { CString::default() };
    put_bytes(&mut out, target.as_bytes());
    Ok(out)
}

/// Makes a directory; with parents, one that exists already is what was asked for.
pub fn mkdir(flags: Flags, payload: &[u8]) -> Result<Vec<u8>, Fail> {
    let flags = flags.only(MKDIR_PARENTS)?;
    let mut reader = Reader::new(payload);
    let path = reader.path()?;
    let mode = plain_mode(reader.u32()?)?;
    reader.finish()?;
    if !flags.has(MKDIR_PARENTS) {
        sys::mkdirat(CWD, &path, mode)?;
        return Ok(Vec::new());
    }
    match sys::mkdirat(CWD, &path, mode) {
        Err(Errno(libc::ENOENT)) => {
            create_parents(CWD, &path)?;
            made_or_there(sys::mkdirat(CWD, &path, mode), &path)?;
        }
        other => made_or_there(other, &path)?,
    }
    Ok(Vec::new())
}

fn made_or_there(result: Result<(), Errno>, path: &CStr) -> Result<(), Fail> {
    match result {
        // A mount point below a read-only parent answers EROFS although it is there.
        Err(Errno(libc::EEXIST | libc::EROFS | libc::EACCES)) if is_directory(path) => Ok(()),
        other => Ok(other?),
    }
}

fn is_directory(path: &CStr) -> bool {
    sys::fstatat(CWD, path, true).is_ok_and(|stat| stat.is_dir())
}

/// Renames within one file system.
pub fn rename(flags: Flags, payload: &[u8]) -> Result<Vec<u8>, Fail> {
    let flags = flags.only(RENAME_NO_REPLACE | RENAME_PARENTS)?;
    let mut reader = Reader::new(payload);
    let from = reader.path()?;
    let to = reader.path()?;
    reader.finish()?;
    if flags.has(RENAME_PARENTS) {
        sys::fstatat(CWD, &from, false)?;
        create_parents(CWD, &to)?;
    }
    let how = if flags.has(RENAME_NO_REPLACE) { libc::RENAME_NOREPLACE } else { 0 };
    sys::rename((CWD, &from), (CWD, &to), how)?;
    Ok(Vec::new())
}

/// Sets the nine permission bits of what the path leads to; of a directory that is reset also the sticky bit.
pub fn chmod(flags: Flags, payload: &[u8]) -> Result<Vec<u8>, Fail> {
    let flags = flags.only(CHMOD_RESET)?;
    let mut reader = Reader::new(payload);
    let path = reader.path()?;
    let mode = reader.u32()?;
    reader.finish()?;
    if flags.has(CHMOD_RESET) {
        plain_mode(mode & !libc::S_ISVTX)?;
        reset_directory(&path, mode)?;
    } else {
        sys::chmodat(CWD, &path, plain_mode(mode)?)?;
    }
    Ok(Vec::new())
}

/// Takes from a directory what commands may have left on it itself: its mode, and extended attributes, of which access
/// lists are some.
fn reset_directory(path: &CStr, mode: u32) -> Result<(), Fail> {
    // One that is closed can't be opened.
    sys::chmodat(CWD, path, 0o700)?;
    let directory = sys::openat(CWD, path, libc::O_RDONLY | libc::O_DIRECTORY, 0)?;
    for name in sys::attributes(directory.as_raw_fd())? {
        // Of the machine, not of a user.
        if !name.as_bytes().starts_with(b"security.") {
            sys::remove_attribute(directory.as_raw_fd(), &name)?;
        }
    }
    // Behind the removal of access lists, which changes it.
    Ok(sys::fchmod(directory.as_raw_fd(), mode)?)
}

/// Makes a link with any target: a link that leads out of the roots leads nowhere.
pub fn symlink(flags: Flags, payload: &[u8]) -> Result<Vec<u8>, Fail> {
    flags.only(0)?;
    let mut reader = Reader::new(payload);
    let target = reader.bytes()?;
    let path = reader.path()?;
    reader.finish()?;
    let target = CString::new(target).map_err(|_| Fail::invalid("the target contains a NUL"))?;
    let (parent, name) = split(&path)?;
    let dir = sys::openat(CWD, &parent, libc::O_PATH | libc::O_DIRECTORY, 0)?;
    if target.as_bytes().is_empty() {
        return Err(Fail::new(Code::Invalid, "the target is empty"));
    }
    sys::symlinkat(&target, dir.as_raw_fd(), &name)?;
    Ok(Vec::new())
}
