//! What a runner sets on its own process before it serves.

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;

use boxkite_system::inherit;
use boxkite_system::step::{At, Broken};
use boxkite_system::sys;

/// The owner's socket.
const OWNER: i32 = 3;
/// The least that the caller must let files grow to: below it output and workspaces would be cut.
const SMALLEST_FILES: u64 = 64 << 20;

/// A name that no other runner has.
pub fn instance() -> Result<String, Broken> {
    let mut bytes = [0; 8];
    File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes)).at("instance")?;
    Ok(format!("{:016x}", u64::from_le_bytes(bytes)))
}

/// Many sandboxes need many descriptors, and spools and workspaces are files. A core limit of 0 keeps no core from a
/// core_pattern that is a program, which runs as root on the host; one of 1 does.
pub fn raise_limits() -> Result<(), Broken> {
    let (_, hard) = sys::limit(libc::RLIMIT_NOFILE as _).at("open files")?;
    sys::set_limit(libc::RLIMIT_NOFILE as _, hard, hard).at("open files")?;
    let (_, hard) = sys::limit(libc::RLIMIT_CORE as _).at("core size")?;
    if hard == 0 && sys::set_limit(libc::RLIMIT_CORE as _, 1, 1).is_err() && cores_go_to_a_program()? {
        return Err(Broken { step: "core size limit (ulimit -Hc) must be at least 1 here", errno: libc::EPERM });
    }
    let (_, hard) = sys::limit(libc::RLIMIT_FSIZE as _).at("file size")?;
    if hard < SMALLEST_FILES {
        return Err(Broken { step: "file size limit (ulimit -f) is too small", errno: libc::EFBIG });
    }
    sys::set_limit(libc::RLIMIT_FSIZE as _, hard, hard).at("file size")
}

/// Or to a socket, which is a program's as well.
fn cores_go_to_a_program() -> Result<bool, Broken> {
    let pattern = std::fs::read("/proc/sys/kernel/core_pattern").at("core_pattern")?;
    Ok(pattern.starts_with(b"|") || pattern.starts_with(b"@"))
}

/// Descriptor 3, which must be a socket.
pub fn owner() -> Result<OwnedFd, Broken> {
    inherit::socket(OWNER).at("owner: descriptor 3 is no socket")
}

/// Whether the caller has said that this signal is to be ignored, as `nohup` does.
pub fn is_ignored(signal: i32) -> bool {
    // SAFETY: an all-zero sigaction is a valid value, filled by the call, which changes nothing.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &raw mut action) == 0 && action.sa_sigaction == libc::SIG_IGN
    }
}
