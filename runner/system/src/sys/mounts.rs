//! Mounts, by the calls that take descriptors where there are such.

use std::ffi::{CStr, c_int, c_uint};
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};

use super::{Errno, chdir, check, owned};

pub fn open_tree(dir: RawFd, path: &CStr, flags: u32) -> Result<OwnedFd, Errno> {
    syscall!(libc::SYS_open_tree, dir, path.as_ptr(), flags).map(owned)
}

pub fn move_mount(from: BorrowedFd<'_>, to_dir: RawFd, to: &CStr) -> Result<(), Errno> {
    let flags: c_uint = libc::MOVE_MOUNT_F_EMPTY_PATH;
    syscall!(libc::SYS_move_mount, from.as_raw_fd(), c"".as_ptr(), to_dir, to.as_ptr(), flags).map(drop)
}

/// The same onto what `to` is.
pub fn move_mount_onto(from: BorrowedFd<'_>, to: BorrowedFd<'_>) -> Result<(), Errno> {
    let flags: c_uint = libc::MOVE_MOUNT_F_EMPTY_PATH | libc::MOVE_MOUNT_T_EMPTY_PATH;
    syscall!(libc::SYS_move_mount, from.as_raw_fd(), c"".as_ptr(), to.as_raw_fd(), c"".as_ptr(), flags).map(drop)
}

/// mount_setattr(2) that sets `attributes` on the mount of `fd`, and with `recursive` on all below it.
pub fn set_mount_attributes(fd: BorrowedFd<'_>, attributes: u64, recursive: bool) -> Result<(), Errno> {
    // SAFETY: an all-zero mount_attr is a valid value of that C structure.
    let mut attr: libc::mount_attr = unsafe { zeroed() };
    attr.attr_set = attributes;
    let flags = libc::AT_EMPTY_PATH | if recursive { libc::AT_RECURSIVE } else { 0 };
    syscall!(
        libc::SYS_mount_setattr,
        fd.as_raw_fd(),
        c"".as_ptr(),
        flags,
        &raw const attr,
        size_of::<libc::mount_attr>()
    )
    .map(drop)
}

/// A new, unattached mount of `kind` with `options` (`name=value` strings), by fsopen, fsconfig and fsmount.
pub fn new_mount(kind: &CStr, options: &[(&CStr, &CStr)], attributes: u64) -> Result<OwnedFd, Errno> {
    const SET_STRING: c_uint = 1;
    const CMD_CREATE: c_uint = 6;
    let context = syscall!(libc::SYS_fsopen, kind.as_ptr(), 1u32).map(owned)?;
    let fd = context.as_raw_fd();
    for (name, value) in options {
        syscall!(libc::SYS_fsconfig, fd, SET_STRING, name.as_ptr(), value.as_ptr(), 0)?;
    }
    syscall!(libc::SYS_fsconfig, fd, CMD_CREATE, 0u64, 0u64, 0)?;
    syscall!(libc::SYS_fsmount, fd, 1u32, attributes as u32).map(owned)
}

/// mount(2).
pub fn mount(
    source: Option<&CStr>,
    target: &CStr,
    kind: Option<&CStr>,
    flags: u64,
    data: Option<&CStr>,
) -> Result<(), Errno> {
    let pointer = |text: Option<&CStr>| text.map_or(std::ptr::null(), CStr::as_ptr);
    syscall!(libc::SYS_mount, pointer(source), target.as_ptr(), pointer(kind), flags, pointer(data)).map(drop)
}

pub fn umount(target: &CStr, flags: c_int) -> Result<(), Errno> {
    syscall!(libc::SYS_umount2, target.as_ptr(), flags).map(drop)
}

/// Makes the working directory the root and lets go of the old one.
pub fn pivot_here() -> Result<(), Errno> {
    syscall!(libc::SYS_pivot_root, c".".as_ptr(), c".".as_ptr())?;
    umount(c".", libc::MNT_DETACH)?;
    chdir(c"/")
}
