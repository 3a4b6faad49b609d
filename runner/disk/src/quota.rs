//! A workspace as a directory of the host's file system, which limits it by a project quota.
//!
//! A project's number is inherited by all that is made below the directory; only root outside of every user namespace can
//! change it. Root itself is bound by no quota, so that the limit is shown by `statfs` and not by a trial.

use std::fs::File;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use boxkite_system::step::{At, Broken};
use boxkite_system::sys::{self, Errno};

use crate::image::measure;

/// Projects of ours: this and the number of the workspace's range of ids.
const FIRST_PROJECT: u32 = 0x7000_0000;
/// What the directory itself and its roots take.
const OWN_BYTES: u64 = 64 << 10;
const OWN_INODES: u64 = 8;

/// `struct fsxattr`.
#[repr(C)]
struct Attributes {
    flags: u32,
    extent_size: u32,
    extents: u32,
    project: u32,
    copy_extent_size: u32,
    padding: [u8; 8],
}

const GET_ATTRIBUTES: u64 = 0x801c_581f;
const SET_ATTRIBUTES: u64 = 0x401c_5820;
const INHERIT: u32 = 0x200;

/// `struct if_dqblk`; sizes in KiB, but for what is used.
#[repr(C)]
struct Limits {
    bytes_hard: u64,
    bytes_soft: u64,
    bytes_used: u64,
    inodes_hard: u64,
    inodes_soft: u64,
    inodes_used: u64,
    times: [u64; 2],
    valid: u32,
}

/// `QCMD(Q_GETQUOTA, PRJQUOTA)` and `QCMD(Q_SETQUOTA, PRJQUOTA)`.
const GET: u32 = 0x8000_0702;
const SET: u32 = 0x8000_0802;
/// Both limits, not the grace times.
const LIMITS: u32 = 1 | 4;

fn quotactl(directory: BorrowedFd<'_>, command: u32, range: u32, limits: &mut Limits) -> Result<(), Errno> {
    let project = FIRST_PROJECT + range;
    // SAFETY: the call reads and writes a local value of the kernel's layout.
    let result = unsafe {
        libc::syscall(libc::SYS_quotactl_fd, directory.as_raw_fd(), command, project, std::ptr::from_mut(limits))
    };
    if result < 0 { Err(sys::errno()) } else { Ok(()) }
}

/// All zero: no limit.
fn unlimited() -> Limits {
    // SAFETY: all-zero bytes are a valid value of that C structure.
    unsafe { zeroed() }
}

/// Makes a new, empty directory a project of its own, and limits what it can hold.
pub fn limit(directory: &File, range: u32, bytes: u64, inodes: u64) -> Result<(), Broken> {
    const { assert!(size_of::<Attributes>() == 28 && size_of::<Limits>() == 72) };
    // SAFETY: all-zero bytes are a valid value of that C structure, which the ioctls fill and read.
    unsafe {
        let mut attributes: Attributes = zeroed();
        if libc::ioctl(directory.as_raw_fd(), GET_ATTRIBUTES as _, &raw mut attributes) < 0 {
            return Err(sys::errno()).at("workspace: project");
        }
        attributes.project = FIRST_PROJECT + range;
        attributes.flags |= INHERIT;
        if libc::ioctl(directory.as_raw_fd(), SET_ATTRIBUTES as _, &raw const attributes) < 0 {
            return Err(sys::errno()).at("workspace: project");
        }
    }
    let bytes_hard = (bytes + OWN_BYTES).div_ceil(1024);
    let mut limits = Limits { bytes_hard, inodes_hard: inodes + OWN_INODES, valid: LIMITS, ..unlimited() };
    quotactl(borrowed(directory), SET, range, &mut limits).at("workspace: quota")?;
    let (shown, _) = measure(borrowed(directory))?;
    if shown > bytes + 2 * OWN_BYTES {
        // The limit is noted, but the file system does not hold to it.
        return Err(Broken { step: "workspace: quota is off", errno: libc::ENOTSUP });
    }
    Ok(())
}

fn borrowed(file: &File) -> BorrowedFd<'_> {
    std::os::fd::AsFd::as_fd(file)
}

/// Bytes that the project may still take.
pub fn left(directory: &File, range: u32) -> u64 {
    let mut limits = unlimited();
    match quotactl(borrowed(directory), GET, range, &mut limits) {
        Ok(()) => (limits.bytes_hard * 1024).saturating_sub(limits.bytes_used),
        Err(_) => 0,
    }
}

/// The project has no limit any more, so that nothing of it is left on the file system.
pub fn forget(directory: &File, range: u32) {
    let mut limits = Limits { valid: LIMITS, ..unlimited() };
    // A limit that stays is overwritten when the range is used again.
    let _ = quotactl(borrowed(directory), SET, range, &mut limits);
}

/// The directory as a mount, attached nowhere.
pub fn mount(directory: &File) -> Result<OwnedFd, Broken> {
    let flags = libc::OPEN_TREE_CLONE | libc::OPEN_TREE_CLOEXEC | libc::AT_EMPTY_PATH as u32;
    let tree = sys::open_tree(directory.as_raw_fd(), c"", flags).at("workspace: mount")?;
    let attributes = libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV;
    sys::set_mount_attributes(std::os::fd::AsFd::as_fd(&tree), attributes, false).at("workspace: mount")?;
    Ok(tree)
}
