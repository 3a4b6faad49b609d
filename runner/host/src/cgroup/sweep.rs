//! Removes what runners that were killed have left.

use super::lock::Lock;
use super::{Error, pids_in, v2};
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

/// Rounds of killing and waiting for one directory, 2 ms each: a killed process needs time to leave.
const ROUNDS: u32 = 250;

/// See `Cgroups::sweep`. Answers what could not be removed.
pub fn sweep(bases: &[PathBuf], own: &str) -> Vec<Error> {
    let mut errors = Vec::new();
    for base in bases {
        // Somebody who is making an instance here holds it; whoever else does keeps the dead for the next sweep.
        let Some(_guard) = Lock::wait(base) else { continue };
        for (name, dir) in children(base, &mut errors) {
            let instance = name.strip_prefix("boxkite-").unwrap_or_default();
            let ours =
                !instance.is_empty() && instance.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
            if ours && instance != own && Lock::now(&dir).is_some() {
                remove_instance(&dir, &mut errors);
            }
        }
    }
    errors
}

/// Removes instance directories that a dead runner has written down, wherever its own group was.
pub fn remove_left(dirs: &[PathBuf]) {
    let ours = |dir: &&PathBuf| {
        let name = dir.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_prefix("boxkite-"));
        name.is_some_and(|name| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric()))
    };
    for dir in dirs.iter().filter(ours) {
        let guard = Lock::now(dir);
        if guard.is_some() {
            // What can't be removed is found again by the next sweep.
            remove_instance(dir, &mut Vec::new());
        }
    }
}

fn remove_instance(dir: &Path, errors: &mut Vec<Error>) {
    for (name, sandbox) in children(dir, errors) {
        if numbered(&name, 's') {
            for (name, envelope) in children(&sandbox, errors) {
                if numbered(&name, 'e') {
                    remove(&envelope, errors);
                }
            }
            remove(&sandbox, errors);
        }
    }
    remove(dir, errors);
}

fn numbered(name: &str, letter: char) -> bool {
    name.strip_prefix(letter)
        .is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()))
}

/// The directories in `dir` by name; one that has vanished has none.
fn children(dir: &Path, errors: &mut Vec<Error>) -> Vec<(String, PathBuf)> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Vec::new(),
        Err(error) => {
            errors.push(Error::new("list groups", dir, &error));
            return Vec::new();
        }
    };
    entries
        .flatten()
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .filter_map(|entry| Some((entry.file_name().into_string().ok()?, entry.path())))
        .collect()
}

fn remove(dir: &Path, errors: &mut Vec<Error>) {
    for round in 0..ROUNDS {
        let Err(error) = fs::remove_dir(dir) else { return };
        if error.kind() == io::ErrorKind::NotFound {
            return;
        }
        let error = Error::new("remove a left group", dir, &error);
        let killed = if error.errno == libc::EBUSY { kill_all(dir) } else { Ok(false) };
        // A group stays busy for a moment after its last process has gone, so the first rounds only wait.
        match killed {
            Ok(true) => sleep(Duration::from_millis(2)),
            Ok(false) if error.errno == libc::EBUSY && round < 10 => sleep(Duration::from_millis(2)),
            Ok(false) => return errors.push(error),
            Err(error) => return errors.push(error),
        }
    }
    errors.push(Error { step: "empty a left group", path: dir.to_path_buf(), errno: libc::EBUSY });
}

/// Sends SIGKILL to everything in the group; false if nothing was there.
fn kill_all(dir: &Path) -> Result<bool, Error> {
    let pids = pids_in(dir)?;
    if pids.is_empty() || v2::kill(dir)? {
        return Ok(!pids.is_empty());
    }
    for pid in pids.iter().filter(|pid| **pid != std::process::id() as i32) {
        // SAFETY: takes two integers.
        let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, *pid, 0u32) };
        if fd < 0 {
            continue;
        }
        // SAFETY: `fd` is new and owned by nothing else.
        let process = unsafe { OwnedFd::from_raw_fd(fd as i32) };
        // The descriptor keeps its process; that it is still listed proves that it is the one meant.
        if pids_in(dir)?.contains(pid) {
            // SAFETY: a live descriptor, a signal, no information, no flags.
            unsafe {
                libc::syscall(
                    libc::SYS_pidfd_send_signal,
                    process.as_raw_fd(),
                    libc::SIGKILL,
                    std::ptr::null::<libc::siginfo_t>(),
                    0u32,
                )
            };
        }
    }
    Ok(true)
}
