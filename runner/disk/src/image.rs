//! One ext4 image: made by the host's mke2fs, bound to a loop device, mounted.
//!
//! The lock on an image is taken on the very open file that its loop device gets. The kernel holds that file until the
//! device is free, so an image whose lock can be had is mounted nowhere, whoever was killed in between.

use std::fs::File;
use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use boxkite_system::step::{At, Broken};
use boxkite_system::sys::{self, Errno};

/// Where the host's mke2fs may be.
const MKE2FS: [&str; 2] = ["/usr/sbin/mke2fs", "/sbin/mke2fs"];
const MKE2FS_TIME: Duration = Duration::from_secs(60);
const FEATURES: &str = "none,has_journal,ext_attr,dir_index,filetype,extent,64bit,flex_bg,sparse_super,large_file,\
                        huge_file,dir_nlink,extra_isize,metadata_csum";

const BLOCK: u64 = 4096;
const INODE: u64 = 256;
/// Blocks that one bitmap block describes, and inodes.
const PER_GROUP: u64 = 8 * BLOCK;
/// Bytes of a group's descriptor.
const DESCRIPTOR: u64 = 64;
/// Inodes that every file system has for itself, and those of the five roots.
const OWN_INODES: u64 = 16;
/// Blocks of the root, of `lost+found` and of the five roots.
const OWN_BLOCKS: u64 = 16;
/// The smallest journal that the kernel takes, in blocks, and the largest that is made.
const JOURNAL: (u64, u64) = (1024, 16_384);

/// How large an image is to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    pub image_bytes: u64,
    pub inodes: u64,
    pub journal_bytes: u64,
}

impl Geometry {
    /// An image in which `bytes` and `inodes` can be used: what ext4 needs for itself comes on top.
    pub fn of(bytes: u64, inodes: u64) -> Self {
        let data = bytes.div_ceil(BLOCK);
        let inodes = inodes + OWN_INODES;
        // A multiple of MiB, the unit of mke2fs.
        let journal = (data / 64).clamp(JOURNAL.0, JOURNAL.1) / 256 * 256;
        let plain = data + OWN_BLOCKS + journal + inodes.div_ceil(BLOCK / INODE);
        let mut total = plain;
        // The groups' own blocks make more groups necessary, now and then.
        for _ in 0..4 {
            let groups = total.div_ceil(PER_GROUP).max(inodes.div_ceil(PER_GROUP));
            let descriptors = 1 + (groups * DESCRIPTOR).div_ceil(BLOCK);
            // Bitmaps, the rounding of each group's inode table, and the groups with a copy of the descriptors.
            let own = 3 * groups + descriptors * groups.min(2 + 3 * u64::from(groups.ilog2()));
            // ext4 keeps 2 % from everybody, at most 4,096 blocks.
            total = plain + own + ((plain + own) / 48).min(4096);
            // A last group that is hardly more than its own tables would be left off.
            let least = descriptors + inodes.div_ceil(groups).div_ceil(BLOCK / INODE) + 64;
            let rest = total % PER_GROUP;
            if total > PER_GROUP && rest != 0 && rest < least {
                total += least - rest;
            }
        }
        // mke2fs wants a journal to be at most half of the whole.
        let total = total.max(2 * journal + 64);
        Self { image_bytes: total * BLOCK, inodes, journal_bytes: journal * BLOCK }
    }
}

/// Makes the file system in an image whose length is set.
pub fn make(path: &Path, geometry: &Geometry) -> Result<(), Broken> {
    let tool = MKE2FS.iter().find(|tool| Path::new(tool).exists());
    let tool = tool.ok_or(Broken { step: "workspace: mke2fs is not installed", errno: libc::ENOENT })?;
    let mut command = Command::new(tool);
    command.env_clear().stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.args(["-q", "-F", "-t", "ext4", "-b", "4096", "-I", "256", "-m", "0", "-e", "remount-ro", "-O", FEATURES]);
    // A hole reads as zeros, so nothing has to be written to it.
    command.args(["-E", "lazy_itable_init=1,lazy_journal_init=1", "-N", &geometry.inodes.to_string()]);
    command.args(["-J", &format!("size={}", geometry.journal_bytes >> 20)]).arg(path);
    // SAFETY: the closure makes one system call and allocates nothing.
    unsafe {
        command.pre_exec(|| sys::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as u64, 0).map(drop).map_err(from_errno));
    }
    let mut child = command.spawn().at("workspace: mke2fs")?;
    let begun = Instant::now();
    loop {
        match child.try_wait().at("workspace: mke2fs")? {
            Some(status) if status.success() => return Ok(()),
            Some(_) => return Err(Broken { step: "workspace: mke2fs", errno: libc::EIO }),
            None if begun.elapsed() > MKE2FS_TIME => {
                // It has ended already, or ends by this.
                let _ = child.kill();
                let _ = child.wait();
                return Err(Broken { step: "workspace: mke2fs", errno: libc::ETIMEDOUT });
            }
            None => std::thread::sleep(Duration::from_micros(300)),
        }
    }
}

fn from_errno(errno: Errno) -> io::Error {
    io::Error::from_raw_os_error(errno)
}

/// Locks an image, waiting at most so long for a loop device that still has it.
pub fn lock(image: &File, most: Duration) -> Result<(), Broken> {
    let begun = Instant::now();
    // SAFETY: takes an open descriptor and constants.
    while unsafe { libc::flock(image.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } != 0 {
        let errno = sys::errno();
        if errno != libc::EWOULDBLOCK || begun.elapsed() > most {
            return Err(errno).at("workspace: in use");
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// `struct loop_config` with its `struct loop_info64`.
#[repr(C)]
struct LoopConfig {
    file: u32,
    block_size: u32,
    places: [u64; 5],
    number_and_encryption: [u32; 3],
    flags: u32,
    names: [[u8; 64]; 2],
    key: [u8; 32],
    init: [u64; 2],
    reserved: [u64; 8],
}

const LOOP_CONFIGURE: u64 = 0x4c0a;
const LOOP_CTL_GET_FREE: u64 = 0x4c82;
/// The device is free again when nobody has it open.
const AUTOCLEAR: u32 = 4;
/// The host keeps no second copy of every page, where its file system can do without.
const DIRECT: u32 = 16;
/// Others may take the device that was free.
const TRIES: usize = 100;

/// Binds a locked image to a free loop device; the device's path, and the descriptor that keeps it bound.
fn bind(image: &File) -> Result<(String, OwnedFd), Broken> {
    let control = File::options().read(true).write(true).open("/dev/loop-control").at("workspace: loop control")?;
    for _ in 0..TRIES {
        // SAFETY: the ioctl takes no argument.
        let number = unsafe { libc::ioctl(control.as_raw_fd(), LOOP_CTL_GET_FREE as _) };
        if number < 0 {
            return Err(sys::errno()).at("workspace: free loop device");
        }
        let path = format!("/dev/loop{number}");
        let device = File::options().read(true).write(true).open(&path).at("workspace: loop device")?;
        // SAFETY: all-zero bytes are a valid value of that C structure.
        let mut config: LoopConfig = unsafe { zeroed() };
        config.file = image.as_raw_fd() as u32;
        config.block_size = BLOCK as u32;
        config.flags = AUTOCLEAR | DIRECT;
        const { assert!(size_of::<LoopConfig>() == 304) };
        // SAFETY: the ioctl reads a local value of the right type and size.
        if unsafe { libc::ioctl(device.as_raw_fd(), LOOP_CONFIGURE as _, &raw const config) } == 0 {
            return Ok((path, device.into()));
        }
        match sys::errno() {
            libc::EBUSY => {}
            errno => return Err(errno).at("workspace: loop"),
        }
    }
    Err(Broken { step: "workspace: loop", errno: libc::EBUSY })
}

/// Mounts a locked image, attached nowhere.
pub fn mount(image: &File) -> Result<OwnedFd, Broken> {
    let (path, _bound) = bind(image)?;
    let path = std::ffi::CString::new(path).map_err(|_| libc::EINVAL).at("workspace: loop device")?;
    let attributes = libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV;
    sys::new_mount(c"ext4", &[(c"source", &path)], attributes).at("workspace: mount")
}

/// Bytes and inodes of a mounted file system, as `df` shows them.
pub fn measure(mount: BorrowedFd<'_>) -> Result<(u64, u64), Broken> {
    let stat = statfs(mount).at("workspace: size")?;
    Ok((stat.f_blocks * stat.f_bsize as u64, stat.f_files))
}

/// Bytes that are free on the file system of an open file.
pub fn free(file: BorrowedFd<'_>) -> Result<u64, Broken> {
    let stat = statfs(file).at("workspace: free space")?;
    Ok(stat.f_bavail * stat.f_bsize as u64)
}

fn statfs(file: BorrowedFd<'_>) -> Result<libc::statfs, Errno> {
    // SAFETY: all-zero bytes are a valid `statfs`, which the call fills.
    unsafe {
        let mut stat: libc::statfs = zeroed();
        if libc::fstatfs(file.as_raw_fd(), &raw mut stat) < 0 { Err(sys::errno()) } else { Ok(stat) }
    }
}

/// `_IOWR('X', 121, struct fstrim_range)` and `_IOR('X', 125, __u32)`.
const FITRIM: u64 = 0xc018_5879;
const SHUTDOWN: u64 = 0x8004_587d;
/// Neither data nor journal is written any more.
const NO_FLUSH: u32 = 2;

/// Writes everything down, and gives the host what deleted files took.
pub fn flush(mount: BorrowedFd<'_>) -> Result<(), Broken> {
    let root = sys::openat(mount.as_raw_fd(), c".", libc::O_RDONLY | libc::O_DIRECTORY, 0).at("workspace: flush")?;
    // SAFETY: takes an open descriptor.
    if unsafe { libc::syncfs(root.as_raw_fd()) } < 0 {
        return Err(sys::errno()).at("workspace: flush");
    }
    let mut everything = [0, u64::MAX, 0];
    // A file system below that has no holes keeps the space.
    // SAFETY: the ioctl reads and writes a local value of the right size.
    let _ = unsafe { libc::ioctl(root.as_raw_fd(), FITRIM as _, everything.as_mut_ptr()) };
    Ok(())
}

/// Forgets what is not written yet of a file system that is to be removed; without it unmounting would write it first.
pub fn forget(mount: BorrowedFd<'_>) {
    if let Ok(root) = sys::openat(mount.as_raw_fd(), c".", libc::O_RDONLY | libc::O_DIRECTORY, 0) {
        let how = NO_FLUSH;
        // Where it fails, unmounting takes longer.
        // SAFETY: the ioctl reads a local value of the right size.
        let _ = unsafe { libc::ioctl(root.as_raw_fd(), SHUTDOWN as _, &raw const how) };
    }
}

#[cfg(test)]
mod tests {
    use super::Geometry;

    #[test]
    fn an_image_has_room_for_what_is_asked_and_little_more() {
        for mebibytes in [8, 16, 100, 128, 129, 1024, 4096, 16_384, 100_000] {
            for inodes in [64, 10_000, 262_144, 1 << 20] {
                let geometry = Geometry::of(mebibytes << 20, inodes);
                let own = inodes * 256 + geometry.journal_bytes;
                let rest = (geometry.image_bytes - own - (mebibytes << 20)) as f64 / (own + (mebibytes << 20)) as f64;
                assert!(rest > 0.0 && rest < 0.05, "{mebibytes} MiB, {inodes} inodes: {rest}");
                assert_eq!(geometry.image_bytes % 4096, 0);
                assert_eq!(geometry.journal_bytes % (1 << 20), 0);
                assert!(geometry.journal_bytes >= 4 << 20);
            }
        }
    }
}
