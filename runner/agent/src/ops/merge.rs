//! Moving a finished tree into an existing directory: all of it, or, after a failure, nothing.

use crate::fail::{Code, Errno, Fail};
use crate::sys::{self, Entries};
use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};

/// What was done to one name, so that it can be undone.
enum Done {
    Moved,
    /// What was there before is now in the source tree.
    Exchanged,
}

/// A merge of `from` into `to`, both on one file system.
pub struct Merge<'a> {
    from: &'a OwnedFd,
    to: &'a OwnedFd,
    /// Fail instead of replacing a file.
    keep: bool,
    log: Vec<(Vec<CString>, CString, Done)>,
}

impl<'a> Merge<'a> {
    pub fn new(from: &'a OwnedFd, to: &'a OwnedFd, keep: bool) -> Merge<'a> {
        Merge { from, to, keep, log: Vec::new() }
    }

    /// Moves everything. What was replaced is left in the source tree.
    pub fn run(mut self) -> Result<(), Fail> {
        let Err(fail) = self.move_all() else { return Ok(()) };
        match self.undo() {
            Ok(()) => Err(fail),
            Err(undo) => Err(Fail {
                message: format!("{}; and it could not be undone: {}", fail.message, undo.message).into(),
                ..undo
            }),
        }
    }

    fn move_all(&mut self) -> Result<(), Fail> {
        // Directories that are on both sides, by their names below the roots.
        let mut both = vec![Vec::new()];
        while let Some(names) = both.pop() {
            let from = descend(self.from, &names)?;
            let to = descend(self.to, &names)?;
            let mut entries = Entries::default();
            let mut found = Vec::new();
            while let Some(entry) = entries.next(from.as_raw_fd())? {
                found.push(entry.name.to_owned());
            }
            for name in found {
                let both_are_directories = self.move_one(from.as_raw_fd(), to.as_raw_fd(), &names, &name);
                if both_are_directories.map_err(|fail| fail.at(name.to_bytes()))? {
                    let mut below = names.clone();
                    below.push(name);
                    both.push(below);
                }
            }
        }
        Ok(())
    }

    /// Moves one name; answers whether it is a directory on both sides and was left for later.
    fn move_one(&mut self, from: RawFd, to: RawFd, names: &[CString], name: &CStr) -> Result<bool, Fail> {
        match sys::rename((from, name), (to, name), libc::RENAME_NOREPLACE) {
            Ok(()) => {
                self.log.push((names.to_vec(), name.to_owned(), Done::Moved));
                return Ok(false);
            }
            Err(Errno(libc::EEXIST)) => {}
            Err(errno) => return Err(errno.into()),
        }
        let new = sys::fstatat(from, name, false)?;
        let old = sys::fstatat(to, name, false)?;
        match (new.is_dir(), old.is_dir()) {
            (true, true) => return Ok(true),
            (false, true) => return Err(Errno(libc::EISDIR).into()),
            (true, false) => return Err(Errno(libc::ENOTDIR).into()),
            (false, false) if self.keep => return Err(Errno(libc::EEXIST).into()),
            (false, false) => {}
        }
        sys::rename((from, name), (to, name), libc::RENAME_EXCHANGE)?;
        self.log.push((names.to_vec(), name.to_owned(), Done::Exchanged));
        Ok(false)
    }

    fn undo(&mut self) -> Result<(), Fail> {
        while let Some((names, name, done)) = self.log.pop() {
            let from = descend(self.from, &names)?;
            let to = descend(self.to, &names)?;
            let how = match done {
                Done::Moved => libc::RENAME_NOREPLACE,
                Done::Exchanged => libc::RENAME_EXCHANGE,
            };
            sys::rename((to.as_raw_fd(), &name), (from.as_raw_fd(), &name), how)?;
        }
        Ok(())
    }
}

/// Opens a directory below a root, name by name; a link that took a directory's place is refused.
fn descend(root: &OwnedFd, names: &[CString]) -> Result<OwnedFd, Fail> {
    let mut dir = sys::openat(root.as_raw_fd(), c".", libc::O_RDONLY | libc::O_DIRECTORY, 0)
        .or_else(|_| sys::duplicate(root.as_fd()))?;
    for name in names {
        dir = sys::open_dir_at(dir.as_raw_fd(), name)
            .map_err(|_| Fail::new(Code::Changed, "the destination changed during the call"))?;
    }
    Ok(dir)
}
