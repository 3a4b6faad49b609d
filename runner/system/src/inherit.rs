//! What a process takes over from whoever started it, and how it waits for signals.

use std::os::fd::{FromRawFd, OwnedFd, RawFd};

use crate::sys::{self, Errno};

/// The socket that whoever started this process gave it at this number; ENOTSOCK where it is none. Called once for a number.
pub fn socket(number: RawFd) -> Result<OwnedFd, Errno> {
    // SAFETY: an all-zero stat is a valid value, filled by the call; fcntl takes an open descriptor and constants.
    let is_socket = unsafe {
        let mut stat: libc::stat = std::mem::zeroed();
        libc::fstat(number, &raw mut stat) == 0
            && stat.st_mode & libc::S_IFMT == libc::S_IFSOCK
            && libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) == 0
    };
    // SAFETY: it is open, and nobody else in this process has it: it is taken once.
    if is_socket { Ok(unsafe { OwnedFd::from_raw_fd(number) }) } else { Err(libc::ENOTSOCK) }
}

/// Blocks `asked`, and gives a descriptor that is readable when one of them has come.
pub fn signals(asked: &[i32]) -> Result<OwnedFd, Errno> {
    // SAFETY: plain calls on a local signal set; the new descriptor is ours.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        for signal in asked {
            libc::sigaddset(&raw mut set, *signal);
        }
        libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
        let fd = libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
        if fd < 0 { Err(sys::errno()) } else { Ok(OwnedFd::from_raw_fd(fd)) }
    }
}
