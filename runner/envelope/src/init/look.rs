//! What a command may have left in its envelope besides files of the five roots. PID 1 only looks; it never cleans.

use std::os::fd::AsFd;

use boxkite_system::sys;

/// Counters that an untouched envelope repeats exactly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// Inodes in /dev/shm.
    shared_memory_files: u64,
    /// System V segments, semaphore sets and queues.
    ipc: [i64; 3],
    /// What a command that has PID 1's own user id could change of it: limits, nice, policy, affinity, and the modes of
    /// what it mounted.
    own: Own,
    /// A digest of /proc/net/sockstat and sockstat6: sockets of every kind, waiting ones too.
    sockets: u64,
}

const SHM_INFO: i32 = 14;
const SEM_INFO: i32 = 19;
const MSG_INFO: i32 = 12;

/// `None` where something can't be read, which counts as "left".
pub fn look() -> Option<Look> {
    Some(Look { shared_memory_files: files(c"/dev/shm")?, ipc: ipc()?, own: own()?, sockets: sockets()? })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Own {
    limits: [(u64, u64); 16],
    nice: i32,
    policy: i32,
    affinity: [u64; 16],
    modes: [(u32, u32); 3],
}

fn own() -> Option<Own> {
    let mut limits = [(0, 0); 16];
    for (resource, limit) in limits.iter_mut().enumerate() {
        *limit = sys::limit(resource as i32).ok()?;
    }
    let mut affinity = [0u64; 16];
    let mut modes = [(0, 0); 3];
    // SAFETY: plain calls on this process; `affinity` is as long as is said, an all-zero stat is a valid value.
    unsafe {
        libc::sched_getaffinity(0, std::mem::size_of_val(&affinity), affinity.as_mut_ptr().cast());
        for (mode, path) in modes.iter_mut().zip([c"/dev/shm", c"/dev/pts", c"/dev/pts/ptmx"]) {
            let mut stat: libc::stat = std::mem::zeroed();
            if libc::stat(path.as_ptr(), &raw mut stat) < 0 {
                return None;
            }
            *mode = (stat.st_mode, stat.st_uid);
        }
        let nice = libc::getpriority(libc::PRIO_PROCESS, 0);
        Some(Own { limits, nice, policy: libc::sched_getscheduler(0), affinity, modes })
    }
}

fn files(path: &std::ffi::CStr) -> Option<u64> {
    // SAFETY: an all-zero statfs is a valid value, filled by the call.
    unsafe {
        let mut stat: libc::statfs = std::mem::zeroed();
        (libc::statfs(path.as_ptr(), &raw mut stat) == 0).then(|| stat.f_files.wrapping_sub(stat.f_ffree))
    }
}

/// The number of used ids per kind. The *_INFO calls give it in one `int` of their structures: `used_ids` of shm_info,
/// `semusz` of seminfo, `msgpool` of msginfo.
fn ipc() -> Option<[i64; 3]> {
    let mut shm = [0i32; 32];
    let mut sem = [0i32; 32];
    let mut msg = [0i32; 32];
    // SAFETY: the three structures are at most 56 bytes long; each call fills a buffer of 128.
    let called = unsafe {
        libc::shmctl(0, SHM_INFO, shm.as_mut_ptr().cast()) >= 0
            && libc::semctl(0, 0, SEM_INFO, sem.as_mut_ptr()) >= 0
            && libc::msgctl(0, MSG_INFO, msg.as_mut_ptr().cast()) >= 0
    };
    called.then(|| [i64::from(shm[0]), i64::from(sem[7]), i64::from(msg[0])])
}

fn sockets() -> Option<u64> {
    let mut digest = 0xcbf2_9ce4_8422_2325_u64;
    for path in [c"/proc/net/sockstat", c"/proc/net/sockstat6"] {
        let file = match sys::openat(libc::AT_FDCWD, path, libc::O_RDONLY, 0) {
            Err(libc::ENOENT) => continue,
            other => other.ok()?,
        };
        let mut buffer = [0; 1024];
        let count = sys::read(file.as_fd(), &mut buffer).ok()?;
        for byte in strip_machine_wide(&buffer[..count]) {
            digest = (digest ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
    Some(digest)
}

/// Page and orphan counters are the whole machine's, so they say nothing of this namespace.
fn strip_machine_wide(text: &[u8]) -> impl Iterator<Item = u8> + '_ {
    let mut skip = false;
    text.split(u8::is_ascii_whitespace).flat_map(move |word| {
        let drop = skip;
        skip = matches!(word, b"mem" | b"alloc" | b"orphan" | b"memory");
        word.iter().copied().filter(move |_| !drop)
    })
}
