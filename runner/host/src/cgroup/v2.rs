//! The files of version 2, and the place of our directory in its one tree.

use super::{Error, Serves, make_dir, read, write};
use std::ffi::CString;
use std::fs;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

const WANTED: [&str; 3] = ["memory", "pids", "cpu"];

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

/// When memory runs out, everything in the group ends, not one process of it.
pub fn kill_as_one(dir: &Path) -> Result<(), Error> {
    unless_missing(write(&dir.join("memory.oom.group"), "group out-of-memory", "1"))
}

/// An inotify descriptor that becomes readable when `memory.events` changes.
pub fn oom_event(dir: &Path) -> Result<OwnedFd, Error> {
    let path = dir.join("memory.events");
    let fail = |step| Error::new(step, &path, &io::Error::last_os_error());
    // SAFETY: takes flags only.
    let fd = unsafe { libc::inotify_init1(libc::IN_CLOEXEC | libc::IN_NONBLOCK) };
    if fd < 0 {
        return Err(fail("make an inotify descriptor"));
    }
    // SAFETY: `fd` is new and owned by nothing else.
    let event = unsafe { OwnedFd::from_raw_fd(fd) };
    let Ok(name) = CString::new(path.as_os_str().as_bytes()) else {
        return Err(Error { step: "watch out-of-memory", path, errno: libc::EINVAL });
    };
    // SAFETY: `name` is a NUL-terminated string that outlives the call.
    if unsafe { libc::inotify_add_watch(fd, name.as_ptr(), libc::IN_MODIFY) } < 0 {
        return Err(fail("watch out-of-memory"));
    }
    Ok(event)
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

fn enable(dir: &Path, controller: &str) -> Result<(), Error> {
    write(&dir.join("cgroup.subtree_control"), "enable a controller", &format!("+{controller}"))
}

fn listed(dir: &Path, file: &str) -> Result<Vec<String>, Error> {
    let text = read(&dir.join(file), "list controllers")?;
    Ok(text.split_whitespace().map(str::to_string).collect())
}

/// The runner's own move into a leaf, so that its former group may hand controllers down.
#[derive(Debug)]
pub struct Moved {
    from: PathBuf,
    instance: PathBuf,
    enabled: Vec<&'static str>,
}

impl Moved {
    /// Moves back and removes the leaf.
    pub fn undo(self) -> Result<(), Error> {
        for dir in [&self.instance, &self.from] {
            for controller in &self.enabled {
                let path = dir.join("cgroup.subtree_control");
                write(&path, "disable a controller", &format!("-{controller}"))?;
            }
        }
        write(&self.from.join("cgroup.procs"), "move back", "0")?;
        super::remove_dirs([self.instance.join("runner")].iter())
    }
}

/// A place for our directory: made, with these controllers usable by its children.
pub struct Place {
    pub dir: PathBuf,
    pub controllers: Vec<&'static str>,
    pub moved: Option<Moved>,
}

/// Finds a place from the runner's `own` group upwards to `mount`. A group with processes can't hand
/// controllers down, and the runner leaves its own only when it is alone there; so often a parent, which
/// has groups only, is the first that can. A group with a limit is never left: the limit would not bind
/// the sandboxes any more. Answers what each candidate lacked.
pub fn place(own: &Path, mount: &Path, name: &str) -> Result<Place, Vec<String>> {
    let mut reasons = Vec::new();
    for dir in own.ancestors().take_while(|dir| dir.starts_with(mount)) {
        match place_at(dir, name) {
            Ok(place) => return Ok(place),
            Err(error) => reasons.push(error.to_string()),
        }
        if let Some(limit) = limit_of(dir) {
            reasons.push(format!("{} has {limit}, which a group above it would escape", dir.display()));
            break;
        }
    }
    Err(reasons)
}

fn limit_of(dir: &Path) -> Option<&'static str> {
    ["memory.max", "memory.high", "cpu.max"]
        .into_iter()
        .find(|file| fs::read_to_string(dir.join(file)).is_ok_and(|text| !text.starts_with("max")))
}

fn place_at(dir: &Path, name: &str) -> Result<Place, Error> {
    let offered = listed(dir, "cgroup.controllers")?;
    let wanted: Vec<&str> = WANTED.into_iter().filter(|name| offered.iter().any(|offer| offer == name)).collect();
    let instance = dir.join(name);
    make_dir(&instance)?;
    let mut moved = None;
    let placed = enable_at(dir, &instance, &wanted, &mut moved);
    if placed.is_err() {
        if let Some(moved) = moved.take() {
            moved.undo()?;
        }
        super::remove_dirs([instance.clone()].iter())?;
    }
    placed.map(|controllers| Place { dir: instance, controllers, moved })
}

/// Without memory and processes a place is none, unless version 1 has all controllers (`wanted` is empty).
fn enable_at(
    dir: &Path,
    instance: &Path,
    wanted: &[&'static str],
    moved: &mut Option<Moved>,
) -> Result<Vec<&'static str>, Error> {
    let before = listed(dir, "cgroup.subtree_control")?;
    let lacking: Vec<&str> = wanted.iter().copied().filter(|name| !before.iter().any(|has| has == name)).collect();
    for controller in &lacking {
        match enable(dir, controller) {
            Err(error) if error.errno == libc::EBUSY && moved.is_none() && alone(dir)? => {
                let leaf = instance.join("runner");
                make_dir(&leaf)?;
                *moved =
                    Some(Moved { from: dir.to_path_buf(), instance: instance.to_path_buf(), enabled: lacking.clone() });
                write(&leaf.join("cgroup.procs"), "move into a leaf", "0")?;
                enable(dir, controller)?;
            }
            // A rate of CPU is the one control that a place may lack.
            Err(error) if *controller != "cpu" => return Err(error),
            _ => {}
        }
    }
    let enabled = listed(dir, "cgroup.subtree_control")?;
    let usable: Vec<&'static str> =
        wanted.iter().copied().filter(|name| enabled.iter().any(|has| has == name)).collect();
    for controller in &usable {
        enable(instance, controller)?;
    }
    Ok(usable)
}

fn alone(dir: &Path) -> Result<bool, Error> {
    let text = read(&dir.join("cgroup.procs"), "list processes")?;
    let own = std::process::id().to_string();
    Ok(text.lines().all(|line| line == own))
}

/// Ends everything in the group; false where the kernel can't (before 5.14).
pub fn kill(dir: &Path) -> Result<bool, Error> {
    match write(&dir.join("cgroup.kill"), "kill the group", "1") {
        Ok(()) => Ok(true),
        Err(error) if error.errno == libc::ENOENT => Ok(false),
        Err(error) => Err(error),
    }
}
