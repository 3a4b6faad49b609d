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
    /// A digest of /proc/net/sockstat and sockstat6: sockets of every kind, waiting ones too.
    sockets: u64,
}

const SHM_INFO: i32 = 14;
const SEM_INFO: i32 = 19;
const MSG_INFO: i32 = 12;

/// `None` where something can't be read, which counts as "left".
pub fn look() -> Option<Look> {
    Some(Look { shared_memory_files: files(c"/dev/shm")?, ipc: ipc()?, sockets: sockets()? })
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
