//! Removing a file or a whole tree, of any depth and size, whatever its modes.

use super::descent::{Descent, open_forced};
use super::target::split;
use super::{Flags, Started};
use crate::call::Call;
use crate::executor::{Weight, yield_now};
use crate::fail::{Errno, Fail};
use crate::frames::{self, kind};
use crate::payload::Reader;
use crate::sys::{self, CWD, Entries, FileKind};
use std::ffi::{CStr, CString};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;

const RECURSIVE: u16 = 1;
const MISSING_OK: u16 = 2;

/// Entries between two looks at other work.
const SLICE: usize = 512;
/// How often a directory that others fill meanwhile is read again.
const MAX_RESCANS: u32 = 16;

pub fn start(call: &Arc<Call>, flags: Flags, payload: &[u8]) -> Result<Started, Fail> {
    let flags = flags.only(RECURSIVE | MISSING_OK)?;
    let mut reader = Reader::new(payload);
    let path = reader.path()?;
    reader.finish()?;
    let bytes = path.to_bytes();
    let end = bytes.iter().rposition(|&byte| byte != b'/').map_or(0, |at| at + 1);
    let (parent, name) = split(&super::target::c_string(&bytes[..end])?)?;
    let removed = |count: u64| frames::frame(kind::END, call.id, &count.to_le_bytes());
    let dir = match sys::openat(CWD, &parent, libc::O_PATH | libc::O_DIRECTORY, 0) {
        Err(Errno(libc::ENOENT)) if flags.has(MISSING_OK) => {
            return Ok(Started::Answered(removed(0)));
        }
        other => other?,
    };
    match sys::unlinkat(dir.as_raw_fd(), &name, false) {
        Ok(()) => return Ok(Started::Answered(removed(1))),
        Err(Errno(libc::ENOENT)) if flags.has(MISSING_OK) => {
            return Ok(Started::Answered(removed(0)));
        }
        // What unlink says of a directory; anything else is the answer, once it is known to be one.
        Err(Errno(libc::EISDIR)) => {}
        Err(errno) => {
            let directory = sys::fstatat(dir.as_raw_fd(), &name, false).is_ok_and(|s| s.is_dir());
            if !directory || errno.0 == libc::EROFS {
                return Err(errno.into());
            }
        }
    }
    if !flags.has(RECURSIVE) {
        sys::unlinkat(dir.as_raw_fd(), &name, true)?;
        return Ok(Started::Answered(removed(1)));
    }
    let call = call.clone();
    let work = async move {
        let count = remove_tree(Some(&call), &dir, &name).await?;
        Ok(count.to_le_bytes().to_vec())
    };
    Ok(Started::Task(Weight::Heavy, Box::pin(work)))
}

/// What a removal keeps per open directory.
#[derive(Default)]
struct Reading {
    entries: Entries,
    rescans: u32,
}

/// One step's outcome.
enum Step {
    Removed,
    Enter(CString),
    Exhausted,
}

/// Removes the directory `name` of `dir` with all it contains; answers how many entries went. What somebody else removes
/// meanwhile is gone too. Without a call nothing can stop it: that is how the agent takes away its own leftovers.
pub async fn remove_tree(call: Option<&Call>, dir: &OwnedFd, name: &CStr) -> Result<u64, Fail> {
    let root = match open_forced(dir.as_raw_fd(), name) {
        Err(Errno(libc::ENOENT)) => return Ok(0),
        other => other?,
    };
    let mut descent: Descent<Reading> = Descent::new(root, name.to_owned())?;
    let mut removed = 0u64;
    let mut steps = 0usize;
    loop {
        steps += 1;
        if steps % SLICE == 0 {
            if let Some(call) = call {
                call.check()?;
            }
            yield_now().await;
        }
        let (fd, reading) = descent.top()?;
        match step(fd, reading)? {
            Step::Removed => removed += 1,
            Step::Enter(child) => match open_forced(fd, &child) {
                Ok(opened) => descent.enter(child, opened)?,
                Err(Errno(libc::ENOENT)) => {}
                Err(errno) => return Err(Fail::from(errno).at(child.to_bytes())),
            },
            Step::Exhausted => {
                let rescans = reading.rescans;
                let Some(left) = descent.leave()? else {
                    return finish_root(dir, name, removed);
                };
                let (parent, _) = descent.top()?;
                match sys::unlinkat(parent, &left, true) {
                    Ok(()) | Err(Errno(libc::ENOENT)) => removed += 1,
                    Err(Errno(libc::ENOTEMPTY)) if rescans < MAX_RESCANS => {
                        let again = match open_forced(parent, &left) {
                            Err(Errno(libc::ENOENT)) => continue,
                            other => other?,
                        };
                        descent.enter(left, again)?;
                        descent.top()?.1.rescans = rescans + 1;
                    }
                    Err(errno) => return Err(Fail::from(errno).at(left.to_bytes())),
                }
            }
        }
    }
}

fn finish_root(dir: &OwnedFd, name: &CStr, removed: u64) -> Result<u64, Fail> {
    match sys::unlinkat(dir.as_raw_fd(), name, true) {
        Ok(()) | Err(Errno(libc::ENOENT)) => Ok(removed + 1),
        Err(errno) => Err(errno.into()),
    }
}

fn step(fd: RawFd, reading: &mut Reading) -> Result<Step, Fail> {
    let Some(entry) = reading.entries.next(fd)? else { return Ok(Step::Exhausted) };
    if entry.kind == FileKind::Directory {
        return Ok(Step::Enter(entry.name.to_owned()));
    }
    match sys::unlinkat(fd, entry.name, false) {
        Ok(()) | Err(Errno(libc::ENOENT)) => Ok(Step::Removed),
        Err(Errno(libc::EISDIR)) => Ok(Step::Enter(entry.name.to_owned())),
        Err(errno) => Err(Fail::from(errno).at(entry.name.to_bytes())),
    }
}
