//! Tries one forbidden act per layer, as a command would, when an envelope is made. A layer "holds" where the act was
//! refused in the way in which this layer refuses it.

use std::ffi::CStr;
use std::os::fd::{AsFd, OwnedFd};

use super::{code, command};
use crate::programs::Fence;
use crate::weakening::Weakening;
use boxkite_system::step::{At, Broken};
use boxkite_system::sys;
use boxkite_wire::effective::{Status, layer};
use boxkite_wire::frames::{Failure, HEADER, Reader, Writer};

/// An abstract socket made before the Landlock domain, which from inside must be out of reach (ABI 6 and later).
pub struct Outside(Option<OwnedFd>);

const OUTSIDE_NAME: &[u8] = b"\0boxkite-outside";

impl Outside {
    /// `None` inside where it can't be made: then Landlock's other trial decides alone.
    pub fn new() -> Self {
        let (address, length) = outside_address();
        // SAFETY: plain socket calls on a local address; the descriptor is owned right after it is made.
        unsafe {
            use std::os::fd::FromRawFd;
            let fd = libc::socket(libc::AF_UNIX, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0);
            if fd < 0 {
                return Self(None);
            }
            let socket = OwnedFd::from_raw_fd(fd);
            let bound = libc::bind(fd, (&raw const address).cast(), length) == 0 && libc::listen(fd, 1) == 0;
            Self(bound.then_some(socket))
        }
    }
}

fn outside_address() -> (libc::sockaddr_un, u32) {
    // SAFETY: an all-zero sockaddr_un is a valid value.
    let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    address.sun_family = libc::AF_UNIX as _;
    for (to, from) in address.sun_path.iter_mut().zip(OUTSIDE_NAME) {
        *to = *from as _;
    }
    (address, (std::mem::size_of::<libc::sa_family_t>() + OUTSIDE_NAME.len()) as u32)
}

/// What the trial found: layers tried, layers that held, and what a command's status says.
pub struct Found {
    pub tried: u32,
    pub held: u32,
    pub status: Status,
}

/// What a trial is about.
pub struct Subject<'a> {
    pub outside: &'a Outside,
    pub abi: u32,
    pub fence: Option<&'a Fence>,
}

/// Forks a child that becomes what a command is, tries everything, and tells.
pub fn run(subject: &Subject<'_>, own_init: bool, weakening: Weakening) -> Result<Found, Broken> {
    let (from, to) = sys::pipe(0).at("trial: pipe")?;
    let pid = sys::fork_plain().at("trial: fork")?;
    if pid == 0 {
        let found = command::give_up(own_init, weakening).and_then(|()| command::measure());
        let told = match found {
            Ok(status) => {
                let (tried, held) = attempt(subject);
                status.write(Writer::new(0, 0).u32(tried).u32(held)).finish()
            }
            Err(_) => Vec::new(),
        };
        let mut failed = sys::write(to.as_fd(), &told).is_err();
        // The last thing it does: where the list is not enforced, this child becomes the unlisted program.
        if subject.fence.is_some_and(code::unlisted_refused) {
            failed |= sys::write(to.as_fd(), REFUSED).is_err();
        }
        // SAFETY: ends this child at once, without the parent's exit handlers.
        unsafe { libc::_exit(i32::from(failed)) }
    }
    drop(to);
    let (told, count) = read_told(&from)?;
    // SAFETY: waits for our own child.
    if unsafe { libc::waitpid(pid, std::ptr::null_mut(), 0) } != pid {
        return Err(Broken { step: "trial: wait", errno: sys::errno() });
    }
    let refused = told[..count].strip_suffix(REFUSED);
    let mut reader = Reader::new(refused.unwrap_or(&told[..count]).get(HEADER..).unwrap_or_default());
    let mut read = || Ok(Found { tried: reader.u32()?, held: reader.u32()?, status: Status::read(&mut reader)? });
    let mut found = read().map_err(|_: Failure| Broken { step: "trial: drop", errno: libc::EPERM })?;
    if refused.is_none() {
        found.held &= !layer::PROGRAMS;
    }
    Ok(found)
}

/// What follows a report once the unlisted program was refused.
const REFUSED: &[u8] = b"refused!";

/// All that the child has written before it ended or became a program.
fn read_told(from: &OwnedFd) -> Result<([u8; 256], usize), Broken> {
    let mut bytes = [0; 256];
    let mut count = 0;
    loop {
        match sys::read(from.as_fd(), &mut bytes[count..]) {
            Ok(0) => return Ok((bytes, count)),
            Ok(more) => count += more,
            Err(libc::EINTR) => {}
            Err(errno) => return Err(errno).at("trial: read"),
        }
    }
}

fn attempt(&Subject { outside, abi, fence }: &Subject<'_>) -> (u32, u32) {
    let mut trials = vec![
        (layer::SECCOMP, seccomp()),
        (layer::READ_ONLY_ROOT, read_only_root()),
        (layer::NETWORK, network()),
        (layer::PROC_MASKS, proc_masks()),
        (layer::DEVICES, devices()),
        (layer::OTHER_PROCESSES, other_processes()),
    ];
    // Always tried, so that a kernel or a twin without Landlock shows it as not held.
    trials.push((layer::LANDLOCK, landlock() && (abi < 6 || outside.0.is_none() || outside_refused())));
    trials.extend(fence.map(|fence| (layer::PROGRAMS, code::is_data(fence))));
    trials.iter().fold((0, 0), |(tried, held), (bit, holds)| (tried | bit, if *holds { held | bit } else { held }))
}

/// keyctl is refused with EPERM by the filter alone: without it, this call succeeds.
fn seccomp() -> bool {
    // SAFETY: KEYCTL_GET_KEYRING_ID of the process keyring, without creating one, changes nothing.
    let result = unsafe { libc::syscall(libc::SYS_keyctl, 0, -2, 0) };
    result < 0 && sys::errno() == libc::EPERM
}

/// An unnamed file leaves nothing behind where it can be made, as in the twin.
fn read_only_root() -> bool {
    [c"/usr", c"/etc", c"/"].iter().all(|directory| {
        let made = sys::openat(libc::AT_FDCWD, directory, libc::O_TMPFILE | libc::O_WRONLY, 0o600);
        matches!(made, Err(libc::EROFS | libc::ENOENT))
    })
}

/// The mode of /dev/urandom lets everybody write; the Landlock rules do not.
fn landlock() -> bool {
    sys::openat(libc::AT_FDCWD, c"/dev/urandom", libc::O_WRONLY, 0).err() == Some(libc::EACCES)
}

fn outside_refused() -> bool {
    let (address, length) = outside_address();
    // SAFETY: plain socket calls on a local address; the descriptor ends with this short-lived child.
    unsafe {
        let fd = libc::socket(libc::AF_UNIX, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0);
        fd >= 0 && libc::connect(fd, (&raw const address).cast(), length) < 0 && sys::errno() == libc::EPERM
    }
}

/// No route leads anywhere: 192.0.2.1 is an address for documentation, and nothing is sent by connecting a UDP socket.
fn network() -> bool {
    // SAFETY: an all-zero sockaddr_in is a valid value; plain socket calls.
    unsafe {
        let mut address: libc::sockaddr_in = std::mem::zeroed();
        address.sin_family = libc::AF_INET as _;
        address.sin_port = 9u16.to_be();
        address.sin_addr.s_addr = u32::from_be_bytes([192, 0, 2, 1]).to_be();
        let fd = libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0);
        let length = std::mem::size_of::<libc::sockaddr_in>() as u32;
        let connected = libc::connect(fd, (&raw const address).cast(), length);
        connected < 0 && sys::errno() == libc::ENETUNREACH && only_loopback()
    }
}

fn only_loopback() -> bool {
    let Ok(text) = std::fs::read_to_string("/proc/net/dev") else { return false };
    text.lines().skip(2).filter_map(|line| line.split(':').next()).all(|name| name.trim() == "lo")
}

/// A masked file reads as empty, a masked sysctl can't be opened for writing.
fn proc_masks() -> bool {
    let empty = |path: &CStr| match sys::openat(libc::AT_FDCWD, path, libc::O_RDONLY, 0) {
        Ok(file) => sys::read(file.as_fd(), &mut [0]) == Ok(0),
        Err(errno) => errno == libc::ENOENT || errno == libc::EACCES,
    };
    empty(c"/proc/kallsyms") && empty(c"/proc/timer_list") && empty(c"/proc/modules") && sysctls_read_only()
}

fn sysctls_read_only() -> bool {
    // SAFETY: an all-zero statvfs is a valid value, filled by the call.
    unsafe {
        let mut stat: libc::statvfs = std::mem::zeroed();
        libc::statvfs(c"/proc/sys".as_ptr(), &raw mut stat) == 0 && stat.f_flag & libc::ST_RDONLY != 0
    }
}

fn devices() -> bool {
    // SAFETY: a call that must fail; if it does not, the node lies in the envelope's own /dev/shm, where it is dead.
    let made = unsafe { libc::mknod(c"/dev/shm/.node".as_ptr(), libc::S_IFCHR | 0o600, libc::makedev(1, 1)) };
    let absent = |path: &CStr| sys::openat(libc::AT_FDCWD, path, libc::O_PATH, 0).err() == Some(libc::ENOENT);
    made < 0 && absent(c"/dev/mem") && absent(c"/dev/kmsg") && absent(c"/sys")
}

/// /proc shows PID 1 and this process, nobody else.
fn other_processes() -> bool {
    let Ok(entries) = std::fs::read_dir("/proc") else { return false };
    let number = |entry: std::io::Result<std::fs::DirEntry>| entry.ok()?.file_name().to_str()?.parse::<u32>().ok();
    // SAFETY: getpid has no effect.
    let own = unsafe { libc::getpid() } as u32;
    entries.filter_map(number).all(|pid| pid == 1 || pid == own)
}
