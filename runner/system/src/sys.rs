//! System calls that libc has no wrapper for, and small safe forms of those that it has. No policy here.
//!
//! Each function is one call, or one loop over one call, and returns its errno.

use std::ffi::{CStr, CString, c_int, c_uint, c_void};
use std::mem::{size_of, zeroed};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

/// A failed system call.
pub type Errno = i32;

/// The calling thread's errno.
pub fn errno() -> Errno {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)
}

fn check(result: i64) -> Result<i64, Errno> {
    if result < 0 { Err(errno()) } else { Ok(result) }
}

macro_rules! syscall {
    ($number:expr $(, $arg:expr)*) => {
        // SAFETY: raw system calls touch only the memory that their arguments name; every caller in this module
        // passes integers, C strings that outlive the call, or references to structures of the kernel's layout.
        check(unsafe { libc::syscall($number $(, $arg)*) })
    };
}

fn owned(fd: i64) -> OwnedFd {
    // SAFETY: the kernel has just returned this descriptor to us, so nobody else owns it.
    unsafe { OwnedFd::from_raw_fd(fd as RawFd) }
}

mod mounts;
mod sockets;
pub use mounts::{mount, move_mount, move_mount_onto, new_mount, open_tree, pivot_here, set_mount_attributes, umount};
pub use sockets::{packet_pair, shutdown, stream_pair};

/// Arguments of clone3(2), up to `set_tid_size`.
#[repr(C)]
#[derive(Default)]
pub struct CloneArgs {
    pub flags: u64,
    pub pidfd: u64,
    pub child_tid: u64,
    pub parent_tid: u64,
    pub exit_signal: u64,
    pub stack: u64,
    pub stack_size: u64,
    pub tls: u64,
    pub set_tid: u64,
    pub set_tid_size: u64,
    pub cgroup: u64,
}

/// A child process as its parent sees it, or the child's own side.
pub enum Fork {
    Parent { pid: i32, pidfd: OwnedFd },
    Child,
}

/// clone3 without a shared address space: the child continues on a copy of this stack. Only for single-threaded
/// processes: then the child may allocate.
pub fn fork_into(flags: u64, exit_signal: i32, cgroup: Option<BorrowedFd<'_>>) -> Result<Fork, Errno> {
    let mut pidfd: c_int = -1;
    let into = if cgroup.is_some() { libc::CLONE_INTO_CGROUP as u64 } else { 0 };
    let args = CloneArgs {
        flags: flags | into | libc::CLONE_PIDFD as u64,
        pidfd: &raw mut pidfd as u64,
        exit_signal: exit_signal as u64,
        cgroup: cgroup.map_or(0, |fd| fd.as_raw_fd() as u64),
        ..CloneArgs::default()
    };
    match syscall!(libc::SYS_clone3, &raw const args, size_of::<CloneArgs>())? {
        0 => Ok(Fork::Child),
        pid => Ok(Fork::Parent { pid: pid as i32, pidfd: owned(i64::from(pidfd)) }),
    }
}

/// clone(2) as a plain fork, which a filter that refuses clone3 lets through.
pub fn fork_plain() -> Result<i32, Errno> {
    Ok(syscall!(libc::SYS_clone, libc::SIGCHLD as u64, 0u64, 0u64, 0u64, 0u64)? as i32)
}

pub fn pidfd_send_signal(pidfd: BorrowedFd<'_>, signal: i32) -> Result<(), Errno> {
    syscall!(libc::SYS_pidfd_send_signal, pidfd.as_raw_fd(), signal, 0u64, 0u32).map(drop)
}

/// Reaps the child of `pidfd`; `None` while it lives. The status is waitpid's.
pub fn wait_pidfd(pidfd: BorrowedFd<'_>) -> Result<Option<i32>, Errno> {
    // SAFETY: an all-zero siginfo_t is a valid value of that C structure.
    let mut info: libc::siginfo_t = unsafe { zeroed() };
    syscall!(
        libc::SYS_waitid,
        libc::P_PIDFD,
        pidfd.as_raw_fd(),
        &raw mut info,
        libc::WEXITED | libc::WNOHANG | libc::__WALL,
        0u64
    )?;
    // SAFETY: waitid has filled the fields of a child event, or left zeros.
    let (pid, status) = unsafe { (info.si_pid(), info.si_status()) };
    if pid == 0 {
        return Ok(None);
    }
    Ok(Some(if info.si_code == libc::CLD_EXITED { status << 8 } else { status }))
}

/// Leaves what asks to end to the parent, whether it comes from a terminal or to every process of a service at once.
/// What this process executes ignores it too.
pub fn leave_signals_to_parent() {
    // SAFETY: no effect but on this process. It has a session of its own already where it leads a group.
    unsafe {
        libc::setsid();
        for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP] {
            libc::signal(signal, libc::SIG_IGN);
        }
    }
}

/// Waits until a descriptor is readable, which a process descriptor is when its process has ended; false where that
/// takes longer. A negative time has no end.
pub fn wait_readable(fd: BorrowedFd<'_>, milliseconds: i32) -> bool {
    let mut poll = libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    loop {
        // SAFETY: `poll` is valid for the call.
        match unsafe { libc::poll(&raw mut poll, 1, milliseconds) } {
            0 => return false,
            count if count > 0 => return true,
            _ if errno() == libc::EINTR => {}
            _ => return false,
        }
    }
}

pub fn unshare(flags: c_int) -> Result<(), Errno> {
    syscall!(libc::SYS_unshare, flags).map(drop)
}

pub fn chdir(path: &CStr) -> Result<(), Errno> {
    syscall!(libc::SYS_chdir, path.as_ptr()).map(drop)
}

pub fn mkdirat(dir: RawFd, path: &CStr, mode: u32) -> Result<(), Errno> {
    syscall!(libc::SYS_mkdirat, dir, path.as_ptr(), mode).map(drop)
}

pub fn openat(dir: RawFd, path: &CStr, flags: c_int, mode: u32) -> Result<OwnedFd, Errno> {
    syscall!(libc::SYS_openat, dir, path.as_ptr(), flags | libc::O_CLOEXEC, mode).map(owned)
}

pub fn symlinkat(target: &CStr, dir: RawFd, path: &CStr) -> Result<(), Errno> {
    syscall!(libc::SYS_symlinkat, target.as_ptr(), dir, path.as_ptr()).map(drop)
}

/// Opens what is below `dir` as if that were the root directory; no link on the way is followed, and none at its end.
pub fn open_without_links(dir: BorrowedFd<'_>, path: &CStr, flags: c_int) -> Result<OwnedFd, Errno> {
    // SAFETY: an all-zero open_how is a valid value of that C structure.
    let mut how: libc::open_how = unsafe { zeroed() };
    how.flags = (flags | libc::O_CLOEXEC) as u64;
    how.resolve = libc::RESOLVE_IN_ROOT | libc::RESOLVE_NO_SYMLINKS;
    syscall!(libc::SYS_openat2, dir.as_raw_fd(), path.as_ptr(), &raw const how, size_of::<libc::open_how>()).map(owned)
}

/// Opens what a descriptor of this process stands for once more, in another way.
pub fn open_again(fd: RawFd, flags: c_int) -> Result<OwnedFd, Errno> {
    let path = CString::new(format!("/proc/self/fd/{fd}")).map_err(|_| libc::EINVAL)?;
    openat(libc::AT_FDCWD, &path, flags, 0)
}

/// Marks every descriptor from `first` to `last` close-on-exec, or with `close` closes it.
pub fn close_range(first: u32, last: u32, close: bool) -> Result<(), Errno> {
    let flags = if close { 0 } else { libc::CLOSE_RANGE_CLOEXEC };
    syscall!(libc::SYS_close_range, first, last, flags).map(drop)
}

/// The same file by a number that is not below `least`.
pub fn raise(fd: OwnedFd, least: c_int) -> Result<OwnedFd, Errno> {
    if fd.as_raw_fd() >= least {
        return Ok(fd);
    }
    syscall!(libc::SYS_fcntl, fd.as_raw_fd(), libc::F_DUPFD_CLOEXEC, least).map(owned)
}

/// The three user ids of the calling thread (the whole of a single-threaded process).
pub fn set_user(uid: u32) -> Result<(), Errno> {
    syscall!(libc::SYS_setresuid, uid, uid, uid).map(drop)
}

/// The three group ids.
pub fn set_group(gid: u32) -> Result<(), Errno> {
    syscall!(libc::SYS_setresgid, gid, gid, gid).map(drop)
}

/// Leaves every supplementary group.
pub fn clear_groups() -> Result<(), Errno> {
    syscall!(libc::SYS_setgroups, 0u64, 0u64).map(drop)
}

pub fn prctl(option: c_int, arg2: u64, arg3: u64) -> Result<i64, Errno> {
    syscall!(libc::SYS_prctl, option, arg2, arg3, 0u64, 0u64)
}

/// Sets the permitted and effective sets to `set`, and the inheritable one to nothing.
pub fn set_capabilities(set: u64) -> Result<(), Errno> {
    const VERSION_3: u32 = 0x2008_0522;
    let header: [u32; 2] = [VERSION_3, 0];
    let (low, high) = (set as u32, (set >> 32) as u32);
    let data: [u32; 6] = [low, low, 0, high, high, 0];
    syscall!(libc::SYS_capset, header.as_ptr(), data.as_ptr()).map(drop)
}

pub fn set_limit(resource: c_int, soft: u64, hard: u64) -> Result<(), Errno> {
    let limit = libc::rlimit { rlim_cur: soft, rlim_max: hard };
    syscall!(libc::SYS_prlimit64, 0, resource, &raw const limit, 0u64).map(drop)
}

/// The same where that lowers them: a limit that is lower already stays, since only privilege raises one.
pub fn lower_limit(resource: c_int, soft: u64, hard: u64) -> Result<(), Errno> {
    let (_, most) = limit(resource)?;
    set_limit(resource, soft.min(most), hard.min(most))
}

/// Sets the size of a terminal, in characters.
pub fn set_window(terminal: BorrowedFd<'_>, columns: u16, rows: u16) -> Result<(), Errno> {
    let size = libc::winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    syscall!(libc::SYS_ioctl, terminal.as_raw_fd(), libc::TIOCSWINSZ, &raw const size).map(drop)
}

/// The soft and hard limit.
pub fn limit(resource: c_int) -> Result<(u64, u64), Errno> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    syscall!(libc::SYS_prlimit64, 0, resource, 0u64, &raw mut limit)?;
    Ok((limit.rlim_cur, limit.rlim_max))
}

/// A pipe: read end, write end.
pub fn pipe(flags: c_int) -> Result<(OwnedFd, OwnedFd), Errno> {
    let mut fds: [c_int; 2] = [-1; 2];
    syscall!(libc::SYS_pipe2, fds.as_mut_ptr(), flags | libc::O_CLOEXEC)?;
    Ok((owned(i64::from(fds[0])), owned(i64::from(fds[1]))))
}

/// A pipe of a command, whose user opens `/dev/stdin` and its like by their names, though another one has made them.
pub fn command_pipe() -> Result<(OwnedFd, OwnedFd), Errno> {
    let (from, to) = pipe(0)?;
    syscall!(libc::SYS_fchmod, to.as_raw_fd(), 0o666 as c_uint)?;
    Ok((from, to))
}

pub fn set_nonblocking(fd: BorrowedFd<'_>, on: bool) -> Result<(), Errno> {
    let flags = syscall!(libc::SYS_fcntl, fd.as_raw_fd(), libc::F_GETFL, 0u64)? as c_int;
    let wanted = if on { flags | libc::O_NONBLOCK } else { flags & !libc::O_NONBLOCK };
    syscall!(libc::SYS_fcntl, fd.as_raw_fd(), libc::F_SETFL, wanted).map(drop)
}

/// Asks for a pipe of `size` bytes; a refusal leaves it as it is.
pub fn grow_pipe(fd: BorrowedFd<'_>, size: usize) -> Result<(), Errno> {
    syscall!(libc::SYS_fcntl, fd.as_raw_fd(), libc::F_SETPIPE_SZ, size).map(drop)
}

/// How many bytes a read would give now.
pub fn readable(fd: BorrowedFd<'_>) -> Result<usize, Errno> {
    let mut count: c_int = 0;
    syscall!(libc::SYS_ioctl, fd.as_raw_fd(), libc::FIONREAD, &raw mut count)?;
    Ok(usize::try_from(count).unwrap_or(0))
}

pub fn read(fd: BorrowedFd<'_>, buffer: &mut [u8]) -> Result<usize, Errno> {
    syscall!(libc::SYS_read, fd.as_raw_fd(), buffer.as_mut_ptr(), buffer.len()).map(|n| n as usize)
}

pub fn write(fd: BorrowedFd<'_>, bytes: &[u8]) -> Result<usize, Errno> {
    syscall!(libc::SYS_write, fd.as_raw_fd(), bytes.as_ptr(), bytes.len()).map(|n| n as usize)
}

/// A file in memory, without a name and without the right to be executed where the kernel can say so.
pub fn memory_file(name: &CStr) -> Result<OwnedFd, Errno> {
    let create = |flags: c_uint| syscall!(libc::SYS_memfd_create, name.as_ptr(), flags).map(owned);
    match create(libc::MFD_CLOEXEC | libc::MFD_NOEXEC_SEAL) {
        // Before Linux 6.3.
        Err(libc::EINVAL) => create(libc::MFD_CLOEXEC),
        other => other,
    }
}

/// One that holds `bytes`, to be read from its start.
pub fn memory_file_of(name: &CStr, bytes: &[u8]) -> Result<OwnedFd, Errno> {
    let file = memory_file(name)?;
    let mut written = 0;
    while written < bytes.len() {
        written += write_at(file.as_fd(), &bytes[written..], written as u64)?;
    }
    Ok(file)
}

/// Sets a file's length.
pub fn truncate(fd: BorrowedFd<'_>, length: usize) -> Result<(), Errno> {
    syscall!(libc::SYS_ftruncate, fd.as_raw_fd(), length).map(drop)
}

/// Moves what a pipe holds, at most `count` bytes, into a file at `offset`, without waiting.
pub fn splice_from_pipe(pipe: BorrowedFd<'_>, file: BorrowedFd<'_>, offset: u64, count: usize) -> Result<usize, Errno> {
    let flags = libc::SPLICE_F_NONBLOCK | libc::SPLICE_F_MOVE;
    let offset = offset as libc::loff_t;
    syscall!(libc::SYS_splice, pipe.as_raw_fd(), 0u64, file.as_raw_fd(), &raw const offset, count, flags)
        .map(|n| n as usize)
}

/// Sends `count` bytes of a file from `offset` to a socket, without a copy through this process.
pub fn send_file(socket: BorrowedFd<'_>, file: BorrowedFd<'_>, offset: u64, count: usize) -> Result<usize, Errno> {
    let offset = offset as libc::off_t;
    syscall!(libc::SYS_sendfile, socket.as_raw_fd(), file.as_raw_fd(), &raw const offset, count).map(|n| n as usize)
}

/// Reads from a file at `offset`.
pub fn read_at(fd: BorrowedFd<'_>, buffer: &mut [u8], offset: u64) -> Result<usize, Errno> {
    syscall!(libc::SYS_pread64, fd.as_raw_fd(), buffer.as_mut_ptr(), buffer.len(), offset).map(|n| n as usize)
}

/// Writes to a file at `offset`.
pub fn write_at(fd: BorrowedFd<'_>, bytes: &[u8], offset: u64) -> Result<usize, Errno> {
    syscall!(libc::SYS_pwrite64, fd.as_raw_fd(), bytes.as_ptr(), bytes.len(), offset).map(|n| n as usize)
}

/// The most descriptors that one message carries here.
pub const MAX_FDS: usize = 16;

#[repr(C, align(8))]
struct ControlBuffer([u8; 128]);

/// Sends one message with `fds`. Does not wait where the socket does not.
pub fn send(socket: BorrowedFd<'_>, bytes: &[u8], fds: &[RawFd]) -> Result<usize, Errno> {
    if fds.len() > MAX_FDS {
        return Err(libc::EINVAL);
    }
    let mut control = ControlBuffer([0; 128]);
    let mut iov = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast::<c_void>(), iov_len: bytes.len() };
    // SAFETY: an all-zero msghdr is a valid value; its pointers are set below to locals that outlive the call. The
    // control buffer is aligned for cmsghdr and, at 128 bytes, holds one header and MAX_FDS descriptors (16 + 64).
    let mut message: libc::msghdr = unsafe { zeroed() };
    message.msg_iov = &raw mut iov;
    message.msg_iovlen = 1;
    if !fds.is_empty() {
        let length = std::mem::size_of_val(fds);
        message.msg_control = control.0.as_mut_ptr().cast::<c_void>();
        // SAFETY: CMSG_SPACE and CMSG_LEN only compute; CMSG_FIRSTHDR points into `control`, which is large enough.
        unsafe {
            message.msg_controllen = libc::CMSG_SPACE(length as u32) as _;
            let header = libc::CMSG_FIRSTHDR(&raw const message);
            (*header).cmsg_level = libc::SOL_SOCKET;
            (*header).cmsg_type = libc::SCM_RIGHTS;
            (*header).cmsg_len = libc::CMSG_LEN(length as u32) as _;
            std::ptr::copy_nonoverlapping(fds.as_ptr().cast::<u8>(), libc::CMSG_DATA(header), length);
        }
    }
    syscall!(libc::SYS_sendmsg, socket.as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL).map(|n| n as usize)
}

/// Receives one message and its descriptors (close-on-exec). Zero bytes and no descriptor: the other side has ended.
/// EMFILE: the message is in the buffer, but not all its descriptors could be had, and none is.
pub fn receive(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> Result<(usize, Vec<OwnedFd>), Errno> {
    let mut control = ControlBuffer([0; 128]);
    let mut iov = libc::iovec { iov_base: buffer.as_mut_ptr().cast::<c_void>(), iov_len: buffer.len() };
    // SAFETY: as in `send`.
    let mut message: libc::msghdr = unsafe { zeroed() };
    message.msg_iov = &raw mut iov;
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast::<c_void>();
    message.msg_controllen = control.0.len() as _;
    let count = loop {
        match syscall!(libc::SYS_recvmsg, socket.as_raw_fd(), &raw mut message, libc::MSG_CMSG_CLOEXEC) {
            Err(libc::EINTR) => {}
            other => break other? as usize,
        }
    };
    let mut fds = Vec::new();
    // SAFETY: the kernel has written well-formed control messages of `msg_controllen` bytes into `control`; each
    // SCM_RIGHTS message holds descriptors that are now ours alone.
    unsafe {
        let mut header = libc::CMSG_FIRSTHDR(&raw const message);
        while !header.is_null() {
            if (*header).cmsg_level == libc::SOL_SOCKET && (*header).cmsg_type == libc::SCM_RIGHTS {
                let bytes = (*header).cmsg_len as usize - libc::CMSG_LEN(0) as usize;
                let data = libc::CMSG_DATA(header).cast::<RawFd>();
                for index in 0..bytes / size_of::<RawFd>() {
                    fds.push(OwnedFd::from_raw_fd(data.add(index).read_unaligned()));
                }
            }
            header = libc::CMSG_NXTHDR(&raw const message, header);
        }
    }
    if message.msg_flags & libc::MSG_CTRUNC != 0 { Err(libc::EMFILE) } else { Ok((count, fds)) }
}
