//! Sockets: connected pairs, and their end.

use std::ffi::c_int;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use super::{Errno, check, owned};

/// Two connected packet sockets: message borders are kept, and the end of one side is the end of file of the other.
pub fn packet_pair() -> Result<(OwnedFd, OwnedFd), Errno> {
    socket_pair(libc::SOCK_SEQPACKET)
}

/// Two connected stream sockets.
pub fn stream_pair() -> Result<(OwnedFd, OwnedFd), Errno> {
    socket_pair(libc::SOCK_STREAM)
}

fn socket_pair(kind: c_int) -> Result<(OwnedFd, OwnedFd), Errno> {
    let mut fds: [c_int; 2] = [-1; 2];
    syscall!(libc::SYS_socketpair, libc::AF_UNIX, kind | libc::SOCK_CLOEXEC, 0, fds.as_mut_ptr())?;
    Ok((owned(i64::from(fds[0])), owned(i64::from(fds[1]))))
}

/// Ends both directions of a socket, whoever else holds it.
pub fn shutdown(socket: BorrowedFd<'_>) -> Result<(), Errno> {
    syscall!(libc::SYS_shutdown, socket.as_raw_fd(), libc::SHUT_RDWR).map(drop)
}
