//! The files of version 2.

use super::{Error, Serves, write};
use std::path::Path;

/// Limits memory; swap, where the kernel counts it, to nothing.
pub fn set_memory(dir: &Path, bytes: Option<u64>) -> Result<(), Error> {
    let text = bytes.map_or_else(|| "max".to_string(), |bytes| bytes.to_string());
    write(&dir.join("memory.max"), "limit memory", &text)?;
    let swap = if bytes.is_some() { "0" } else { "max" };
    unless_missing(write(&dir.join("memory.swap.max"), "limit swap", swap))
}

/// Limits the rate of CPU.
pub fn set_cpu(dir: &Path, millis: Option<u32>) -> Result<(), Error> {
    let text = millis.map_or_else(|| "max 100000".to_string(), |millis| format!("{} 100000", u64::from(millis) * 100));
    write(&dir.join("cpu.max"), "limit cpu", &text)
}

/// When memory runs out, everything in the group ends, not one process of it: so the end of PID 1 tells, and nobody has
/// to watch `memory.events`, which would take one of the user's few inotify instances per envelope.
pub fn kill_as_one(dir: &Path) -> Result<(), Error> {
    unless_missing(write(&dir.join("memory.oom.group"), "group out-of-memory", "1"))
}

/// Lets the children of a sandbox's group have limits of their own.
pub fn hand_down(dir: &Path, serves: Serves) -> Result<(), Error> {
    for (name, wanted) in [("memory", serves.memory), ("pids", serves.pids)] {
        if wanted {
            enable(dir, name)?;
        }
    }
    Ok(())
}

fn unless_missing(result: Result<(), Error>) -> Result<(), Error> {
    result.or_else(|error| if error.errno == libc::ENOENT { Ok(()) } else { Err(error) })
}

pub fn enable(dir: &Path, controller: &str) -> Result<(), Error> {
    write(&dir.join("cgroup.subtree_control"), "enable a controller", &format!("+{controller}"))
}

/// Ends everything in the group; false where the kernel can't (before 5.14).
pub fn kill(dir: &Path) -> Result<bool, Error> {
    match write(&dir.join("cgroup.kill"), "kill the group", "1") {
        Ok(()) => Ok(true),
        Err(error) if error.errno == libc::ENOENT => Ok(false),
        Err(error) => Err(error),
    }
}
