//! Walking down and up a tree by descriptors, at any depth, with a bounded number of them.
//!
//! No link is followed. Only some levels keep their descriptor; another one is opened again by its
//! name from a level above and must be the same directory as before: a tree that is moved while it
//! is walked ends the walk, it never leads it elsewhere. `..` is not used: below a bind mount the
//! kernel checks each `..` against the whole path, which makes a deep tree quadratic.

use crate::fail::{Code, Errno, Fail};
use crate::sys;
use std::ffi::{CStr, CString};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

/// Whether a level keeps its descriptor: all near the top of the stack, and below it ever fewer, so
/// that going back opens each level a few times at most.
fn keeps(level: usize, top: usize) -> bool {
    let below = top - level;
    below < 32 || (level % 16 == 0 && below < 512) || (level % 256 == 0 && below < 8192) || level % 4096 == 0
}

struct Level<T> {
    name: CString,
    identity: (u64, u64),
    fd: Option<OwnedFd>,
    /// Lost when the level is deep below the top.
    state: Option<T>,
}

/// A stack of directories, each inside the one before. `T` is what the walk keeps for a level; it
/// starts anew when the level has been far below the top.
pub struct Descent<T> {
    levels: Vec<Level<T>>,
}

impl<T: Default> Descent<T> {
    /// Begins in an open directory.
    pub fn new(root: OwnedFd, name: CString) -> Result<Descent<T>, Fail> {
        let identity = sys::fstat(root.as_raw_fd())?.identity();
        let root = Level { name, identity, fd: Some(root), state: Some(T::default()) };
        Ok(Descent { levels: vec![root] })
    }

    /// Levels below the root.
    pub fn depth(&self) -> usize {
        self.levels.len() - 1
    }

    /// The directory that the walk is in.
    pub fn top(&mut self) -> Result<(RawFd, &mut T), Fail> {
        let level = self.levels.last_mut().and_then(|level| level.fd.as_ref().zip(level.state.as_mut()));
        match level {
            Some((fd, state)) => Ok((fd.as_raw_fd(), state)),
            None => Err(Fail::new(Code::Io, "no directory is open")),
        }
    }

    /// Goes into an open child directory.
    pub fn enter(&mut self, name: CString, child: OwnedFd) -> Result<(), Fail> {
        let identity = sys::fstat(child.as_raw_fd())?.identity();
        self.levels.push(Level { name, identity, fd: Some(child), state: Some(T::default()) });
        let top = self.depth();
        for distance in [32, 512, 8192] {
            if let Some(level) = top.checked_sub(distance) {
                self.levels[level].state = None;
                if !keeps(level, top) {
                    self.levels[level].fd = None;
                }
            }
        }
        Ok(())
    }

    /// Goes back to the parent and returns the name of the directory that was left; `None` at the root.
    pub fn leave(&mut self) -> Result<Option<CString>, Fail> {
        if self.levels.len() == 1 {
            return Ok(None);
        }
        let Some(left) = self.levels.pop() else { return Ok(None) };
        let top = self.depth();
        let from = self.levels.iter().rposition(|level| level.fd.is_some()).unwrap_or(0);
        for level in from..top {
            self.open_again(level + 1)?;
            if !keeps(level, top) {
                self.levels[level].fd = None;
            }
        }
        let parent = &mut self.levels[top];
        if let (Some(fd), None) = (&parent.fd, &parent.state) {
            sys::seek(fd.as_raw_fd(), 0)?;
            parent.state = Some(T::default());
        }
        Ok(Some(left.name))
    }

    /// Opens a level from the one above it, which is open.
    fn open_again(&mut self, level: usize) -> Result<(), Fail> {
        let changed = || Fail::new(Code::Changed, "the tree was moved during the call");
        let above = self.levels[level - 1].fd.as_ref().map(AsRawFd::as_raw_fd).ok_or_else(changed)?;
        let fd = sys::open_dir_at(above, &self.levels[level].name).map_err(|_| changed())?;
        if sys::fstat(fd.as_raw_fd())?.identity() != self.levels[level].identity {
            return Err(changed());
        }
        self.levels[level].fd = Some(fd);
        Ok(())
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
