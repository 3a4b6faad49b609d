//! The place of our directory in the one tree of version 2.

use super::v2::enable;
use super::{Error, make_dir, pids_in, read, remove_dirs, write};
use std::ffi::CStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

const WANTED: [&str; 3] = ["memory", "pids", "cpu"];
/// Where the processes of a group live on that hands controllers down. No instance has this name, so no sweep kills
/// what is in it, and a runner that is started from there finds its place one level up.
const LEAF: &str = "boxkite.processes";
/// What systemd writes on a group that it has handed over; the second can be read by root alone.
const DELEGATED: [&CStr; 2] = [c"user.delegate", c"trusted.delegate"];
/// Rounds of moving: processes start others while they are moved.
const ROUNDS: u32 = 100;

/// The processes that left a group, so that it may hand controllers down.
#[derive(Debug)]
pub struct Moved {
    from: PathBuf,
    enabled: Vec<&'static str>,
}

impl Moved {
    /// Moves back and removes the leaf, unless another runner has its place here.
    pub fn undo(self) -> Result<(), Error> {
        for controller in &self.enabled {
            let path = self.from.join("cgroup.subtree_control");
            match write(&path, "disable a controller", &format!("-{controller}")) {
                Err(error) if error.errno == libc::EBUSY => return Ok(()),
                other => other?,
            }
        }
        let leaf = self.from.join(LEAF);
        move_all(&leaf, &self.from)?;
        remove_dirs([leaf].iter())
    }
}

/// A place for our directory: made, with these controllers usable by its children.
pub struct Place {
    pub dir: PathBuf,
    pub controllers: Vec<&'static str>,
    pub moved: Option<Moved>,
}

/// Finds a place from the runner's `own` group upwards to `mount`. A group with processes can't hand controllers down.
/// Those of the own group are moved into a leaf where that is ours to do; else a parent, which often has groups only,
/// is the first that can. systemd enables a rate of CPU only where somebody asked for one, so the first place with all
/// that the machine offers comes before one that lacks it. A group with a limit is never left: the limit would not bind
/// the sandboxes any more. Answers what each candidate lacked.
pub fn find(own: &Path, mount: &Path, name: &str) -> Result<Place, Vec<String>> {
    let own = if own.ends_with(LEAF) { own.parent().unwrap_or(own) } else { own };
    let offered = listed(mount, "cgroup.controllers").unwrap_or_default();
    let all = WANTED.iter().filter(|name| offered.iter().any(|offer| offer == *name)).count();
    walk(own, mount, name, all).or_else(|_| walk(own, mount, name, 0))
}

/// Takes the first place with at least `least` controllers. For those that a place may lack, no group is left that
/// systemd has handed over: whoever did that has decided.
fn walk(own: &Path, mount: &Path, name: &str, least: usize) -> Result<Place, Vec<String>> {
    let mut reasons = Vec::new();
    for dir in own.ancestors().take_while(|dir| dir.starts_with(mount)) {
        match place_at(dir, name, dir == own, least) {
            Ok(place) => return Ok(place),
            Err(error) => reasons.push(error.to_string()),
        }
        if let Some(limit) = limit_of(dir) {
            let dir = dir.display();
            reasons.push(format!("{dir} has {limit}, which a group above it would escape: run it with Delegate=yes"));
            break;
        }
        if least > 0 && is_delegated(dir) {
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

fn listed(dir: &Path, file: &str) -> Result<Vec<String>, Error> {
    let text = read(&dir.join(file), "list controllers")?;
    Ok(text.split_whitespace().map(str::to_string).collect())
}

fn place_at(dir: &Path, name: &str, is_own: bool, least: usize) -> Result<Place, Error> {
    let offered = listed(dir, "cgroup.controllers")?;
    let wanted: Vec<&str> = WANTED.into_iter().filter(|name| offered.iter().any(|offer| offer == name)).collect();
    let too_few = || Error::new("find all controllers", dir, &io::Error::from_raw_os_error(libc::EOPNOTSUPP));
    if wanted.len() < least {
        return Err(too_few());
    }
    let instance = dir.join(name);
    make_dir(&instance)?;
    let mut moved = None;
    let placed = enable_at(dir, &instance, &wanted, is_own, &mut moved);
    let placed = placed.and_then(|usable| if usable.len() < least { Err(too_few()) } else { Ok(usable) });
    if placed.is_err() {
        remove_dirs([instance.clone()].iter())?;
        if let Some(moved) = moved.take() {
            moved.undo()?;
        }
    }
    placed.map(|controllers| Place { dir: instance, controllers, moved })
}

/// Without memory and processes a place is none, unless version 1 has all controllers (`wanted` is empty).
fn enable_at(
    dir: &Path,
    instance: &Path,
    wanted: &[&'static str],
    is_own: bool,
    moved: &mut Option<Moved>,
) -> Result<Vec<&'static str>, Error> {
    let before = listed(dir, "cgroup.subtree_control")?;
    let lacking: Vec<&str> = wanted.iter().copied().filter(|name| !before.iter().any(|has| has == name)).collect();
    for controller in &lacking {
        match enable(dir, controller) {
            Err(error) if error.errno == libc::EBUSY && moved.is_none() && is_own && is_ours(dir)? => {
                *moved = Some(Moved { from: dir.to_path_buf(), enabled: lacking.clone() });
                let leaf = dir.join(LEAF);
                make_dir(&leaf).or_else(|error| if error.errno == libc::EEXIST { Ok(()) } else { Err(error) })?;
                move_all(dir, &leaf)?;
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

/// Whether the processes of our own group are ours to move: systemd has handed the group over to those in it, or there
/// is nobody but this process and its children. A user's own systemd (as of 252) leaves no sign of what it hands over:
/// so a user's own group is taken where its limit leaves no other place.
fn is_ours(dir: &Path) -> Result<bool, Error> {
    if is_delegated(dir) || (limit_of(dir).is_some() && is_of_user(dir)) {
        return Ok(true);
    }
    let own = std::process::id() as i32;
    Ok(pids_in(dir)?.into_iter().all(|pid| pid == own || parent_of(pid).is_none_or(|parent| parent == own)))
}

fn is_delegated(dir: &Path) -> bool {
    let Ok(path) = std::ffi::CString::new(dir.as_os_str().as_bytes()) else { return false };
    DELEGATED.iter().any(|name| {
        let mut value = [0u8; 8];
        // SAFETY: two NUL-terminated strings and a buffer of the length passed.
        let length = unsafe { libc::getxattr(path.as_ptr(), name.as_ptr(), value.as_mut_ptr().cast(), value.len()) };
        length == 1 && value[0] == b'1'
    })
}

/// Whether the group belongs to this process's user, who is not the machine's root.
fn is_of_user(dir: &Path) -> bool {
    let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    // SAFETY: takes nothing and cannot fail.
    let own = unsafe { libc::geteuid() };
    let is_root = own == 0 && map.split_whitespace().eq(["0", "0", "4294967295"]);
    !is_root && fs::metadata(dir).is_ok_and(|found| found.uid() == own)
}

/// None for a process that has ended.
fn parent_of(pid: i32) -> Option<i32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

/// Moves every process from one group to another.
fn move_all(from: &Path, to: &Path) -> Result<(), Error> {
    let procs = to.join("cgroup.procs");
    for _ in 0..ROUNDS {
        let pids = pids_in(from)?;
        if pids.is_empty() {
            return Ok(());
        }
        for pid in pids {
            match write(&procs, "move a process", &pid.to_string()) {
                Err(error) if error.errno != libc::ESRCH => return Err(error),
                _ => {}
            }
        }
    }
    Err(Error::new("move all processes", from, &io::Error::from_raw_os_error(libc::EBUSY)))
}
