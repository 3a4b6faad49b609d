//! The files of version 1.

use super::{Error, write};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;

/// The quota's period, the kernel's own default.
const PERIOD_US: u64 = 100_000;

/// Limits memory and, where the kernel counts it, memory plus swap to the same value, so that nothing swaps.
/// The kernel wants limit <= limit with swap at every moment: so it depends on the old values which comes first.
pub fn set_memory(dir: &Path, bytes: Option<u64>) -> Result<(), Error> {
    let text = bytes.map_or_else(|| "-1".to_string(), |bytes| bytes.to_string());
    let (plain, swap) = (dir.join("memory.limit_in_bytes"), dir.join("memory.memsw.limit_in_bytes"));
    let has_swap = swap.exists();
    match write(&plain, "limit memory", &text) {
        Err(error) if error.errno == libc::EINVAL && has_swap => {
            write(&swap, "limit swap", &text)?;
            write(&plain, "limit memory", &text)
        }
        Ok(()) if has_swap => write(&swap, "limit swap", &text),
        other => other,
    }
}

/// Limits the rate of CPU.
pub fn set_cpu(dir: &Path, millis: Option<u32>) -> Result<(), Error> {
    let quota = millis.map_or(-1, |millis| i64::from(millis) * (PERIOD_US as i64) / 1000);
    write(&dir.join("cpu.cfs_period_us"), "limit cpu", &PERIOD_US.to_string())?;
    write(&dir.join("cpu.cfs_quota_us"), "limit cpu", &quota.to_string())
}

/// Children count for their parents only in hierarchical mode, which old kernels have to be told.
pub fn make_hierarchical(dir: &Path) -> Result<(), Error> {
    let path = dir.join("memory.use_hierarchy");
    match super::read(&path, "read hierarchy mode") {
        Ok(text) if text.trim() == "0" => write(&path, "set hierarchy mode", "1"),
        Err(error) if error.errno != libc::ENOENT => Err(error),
        _ => Ok(()),
    }
}

/// An event descriptor that becomes readable when the group runs out of memory, or is removed.
pub fn oom_event(dir: &Path, oom_control: &File) -> Result<OwnedFd, Error> {
    let path = dir.join("cgroup.event_control");
    // SAFETY: takes two integers.
    let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
    if fd < 0 {
        return Err(Error::new("make an event descriptor", &path, &io::Error::last_os_error()));
    }
    // SAFETY: `fd` is new and owned by nothing else.
    let event = unsafe { OwnedFd::from_raw_fd(fd) };
    write(&path, "watch out-of-memory", &format!("{} {}", event.as_raw_fd(), oom_control.as_raw_fd()))?;
    Ok(event)
}
