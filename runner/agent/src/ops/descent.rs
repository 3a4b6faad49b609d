//! Walking down and up a tree by descriptors, at any depth, with a bounded number of them.
//!
//! No link is followed. Only the deepest levels keep their descriptor; an upper one is opened again
//! through `..` of its child and must be the same directory as before: a tree that is moved while it
//! is walked ends the walk, it never leads it elsewhere.

use crate::fail::{Code, Errno, Fail};
use crate::sys;
use std::ffi::{CStr, CString};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

/// Levels that keep their descriptor.
const OPEN_LEVELS: usize = 32;

struct Level<T> {
    name: CString,
    identity: (u64, u64),
    open: Option<(OwnedFd, T)>,
}

/// A stack of directories, each inside the one before. `T` is what the walk keeps for an open level
/// and starts anew when the level is opened again.
pub struct Descent<T> {
    levels: Vec<Level<T>>,
}

impl<T: Default> Descent<T> {
    /// Begins in an open directory.
    pub fn new(root: OwnedFd, name: CString) -> Result<Descent<T>, Fail> {
        let identity = sys::fstat(root.as_raw_fd())?.identity();
        Ok(Descent { levels: vec![Level { name, identity, open: Some((root, T::default())) }] })
    }

    /// Levels below the root.
    pub fn depth(&self) -> usize {
        self.levels.len() - 1
    }

    /// The directory that the walk is in.
    pub fn top(&mut self) -> Result<(RawFd, &mut T), Fail> {
        match self.levels.last_mut().and_then(|level| level.open.as_mut()) {
            Some((fd, state)) => Ok((fd.as_raw_fd(), state)),
            None => Err(Fail::new(Code::Io, "no directory is open")),
        }
    }

    /// Goes into an open child directory.
    pub fn enter(&mut self, name: CString, child: OwnedFd) -> Result<(), Fail> {
        let identity = sys::fstat(child.as_raw_fd())?.identity();
        self.levels.push(Level { name, identity, open: Some((child, T::default())) });
        if let Some(at) = self.levels.len().checked_sub(OPEN_LEVELS + 1) {
            self.levels[at].open = None;
        }
        Ok(())
    }

    /// Goes back to the parent and returns the name of the directory that was left; `None` at the root.
    pub fn leave(&mut self) -> Result<Option<CString>, Fail> {
        if self.levels.len() == 1 {
            return Ok(None);
        }
        let Some(left) = self.levels.pop() else { return Ok(None) };
        let Some(parent) = self.levels.last_mut() else { return Ok(None) };
        if parent.open.is_none() {
            let Some((child, _)) = &left.open else {
                return Err(Fail::new(Code::Io, "no directory is open"));
            };
            let fd = sys::openat(child.as_raw_fd(), c"..", libc::O_RDONLY | libc::O_DIRECTORY, 0)?;
            if sys::fstat(fd.as_raw_fd())?.identity() != parent.identity {
                return Err(Fail::new(Code::Changed, "the tree was moved during the call"));
            }
            parent.open = Some((fd, T::default()));
        }
        Ok(Some(left.name))
    }
}

/// Opens a child directory although its mode forbids it, by giving its owner all rights first.
pub fn open_forced(dir: RawFd, name: &CStr) -> Result<OwnedFd, Errno> {
    let child = match sys::open_dir_at(dir, name) {
        Err(Errno(libc::EACCES)) => {
            unlock(dir, name)?;
            sys::open_dir_at(dir, name)?
        }
        other => other?,
    };
    let mode = sys::fstat(child.as_raw_fd())?.permissions();
    if mode & 0o700 != 0o700 {
        match sys::fchmod(child.as_raw_fd(), mode | 0o700) {
            // Not ours, or on a read-only file system: the removal itself says what is missing.
            Ok(()) | Err(Errno(libc::EPERM | libc::EROFS)) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(child)
}

fn unlock(dir: RawFd, name: &CStr) -> Result<(), Errno> {
    let flags = libc::O_PATH | libc::O_NOFOLLOW | libc::O_DIRECTORY;
    let handle = sys::openat(dir, name, flags, 0)?;
    match sys::chmod_opath(handle.as_raw_fd(), 0o700) {
        // Before Linux 6.6 only the name can be changed; whoever replaces it by a link right now
        // changes the mode of a file of his own.
        Err(Errno(libc::ENOSYS | libc::EPERM)) => sys::chmodat(dir, name, 0o700),
        other => other,
    }
}
