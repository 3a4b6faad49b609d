//! The three ways in: root, an ordinary user with a range of ids, an ordinary user with one.

use std::fs;
use std::ops::Range;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::ids::{IdSource, SubIds, sub_range_for};
use boxkite_system::step::{At, Broken};
use boxkite_system::sys;

/// How ids are given to sandboxes, by its number on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Mode {
    Root = 1,
    IdRange = 2,
    OneId = 3,
}

/// Host ids of the runner's own user namespace.
#[derive(Clone, Copy, Debug)]
pub enum HostIds {
    Same,
    /// Id 0 is the user's own; those from 1 on start at `sub`.
    Mapped {
        own: u32,
        sub: u32,
    },
}

impl HostIds {
    /// The host's number of an id of the runner's namespace.
    pub fn host(self, id: u32) -> u32 {
        match self {
            Self::Same => id,
            Self::Mapped { own, .. } if id == 0 => own,
            Self::Mapped { sub, .. } => sub.saturating_add(id - 1),
        }
    }
}

/// How ids are given from now on.
pub struct Entered {
    pub mode: Mode,
    pub ids: IdSource,
    pub host_ids: HostIds,
    /// Why an ordinary user has no range.
    pub no_range: String,
}

pub(crate) const ROOT_LOCKS: &str = "/run/boxkite/ids";
/// The fewest ids that a container's user namespace must have to spare for sandboxes.
const FEWEST: u32 = 64;
/// How many of the spare ids of a container are for daemons.
const SERVICES: u32 = 16;

/// Gives the calling process every capability over a user namespace that it may map ids in. `fallback` holds the lock
/// files of an ordinary user without a home.
pub fn enter(fallback: &Path) -> Result<Entered, Broken> {
    // SAFETY: no effect but their results.
    let (uid, gid) = unsafe { (libc::geteuid(), libc::getegid()) };
    let map = fs::read_to_string("/proc/self/uid_map").at("uid_map")?;
    if uid == 0 {
        sys::unshare(libc::CLONE_NEWNS).at("mount namespace")?;
        return as_root(&map);
    }
    let locks = user_locks(uid, fallback);
    match range_of(uid) {
        Ok(range) => match with_range(uid, gid, range) {
            Ok(()) => {
                let host_ids = HostIds::Mapped { own: uid, sub: range.uid_start };
                let ids = IdSource::SubRange { first: 1, start: range.uid_start, count: range.count, dir: locks };
                Ok(Entered { mode: Mode::IdRange, ids, host_ids, no_range: String::new() })
            }
            Err(broken) if broken.step == "newuidmap" => one_id(uid, gid, "newuidmap or newgidmap failed".into()),
            Err(broken) => Err(broken),
        },
        Err(reason) => {
            sys::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNS).at("user namespace")?;
            one_id(uid, gid, reason)
        }
    }
}

fn as_root(map: &str) -> Result<Entered, Broken> {
    let dir = PathBuf::from(ROOT_LOCKS);
    let ids = match spare_ids(map) {
        Some(Spare::Host) => IdSource::Root { dir },
        Some(Spare::Range { first, count, .. }) => IdSource::SubRange { first, start: 0, count, dir },
        None => return Err(Broken { step: "ids: the user namespace maps too few", errno: libc::EPERM }),
    };
    Ok(Entered { mode: Mode::Root, ids, host_ids: HostIds::Same, no_range: String::new() })
}

/// The ids that root in a user namespace has to spare.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Spare {
    /// The host's own namespace: every id.
    Host,
    /// `count` ids from `first` on for sandboxes, then those for daemons.
    Range { first: u32, count: u32, services: Range<u32> },
}

/// Of a container, the upper half of the largest range that is mapped, where it has no users of its own.
pub(crate) fn spare_ids(map: &str) -> Option<Spare> {
    if map.split_whitespace().eq(["0", "0", "4294967295"]) {
        return Some(Spare::Host);
    }
    let ranges = map.lines().filter_map(|line| {
        let mut fields = line.split_whitespace().map(str::parse::<u32>);
        let (first, _, count) = (fields.next()?.ok()?, fields.next()?.ok()?, fields.next()?.ok()?);
        Some((first, count))
    });
    let (first, count) = ranges.max_by_key(|range| range.1)?;
    let (end, count) = (first.checked_add(count)?, (count / 2).checked_sub(SERVICES)?);
    let services = end - SERVICES..end;
    (count >= FEWEST).then_some(Spare::Range { first: services.start - count, count, services })
}

/// One place per user, whatever the environment says: two runners that lock in different places could give the same ids.
fn user_locks(uid: u32, fallback: &Path) -> PathBuf {
    let passwd = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let home = entry_of(uid, &passwd).and_then(|entry| entry.split(':').nth(5)).map(Path::new);
    let state = home.filter(|home| home.is_absolute()).map(|home| home.join(".local/state/boxkite"));
    match state {
        Some(dir) if fs::create_dir_all(&dir).is_ok() => dir.join("ids"),
        _ => fallback.join("ids"),
    }
}

/// The user's line.
fn entry_of(uid: u32, passwd: &str) -> Option<&str> {
    passwd.lines().find(|line| line.split(':').nth(2).is_some_and(|id| id.parse() == Ok(uid)))
}

/// The user's range, or why there is none.
fn range_of(uid: u32) -> Result<SubIds, String> {
    let text = |path| fs::read_to_string(path).unwrap_or_default();
    let passwd = text("/etc/passwd");
    let name = entry_of(uid, &passwd).and_then(|entry| entry.split(':').next());
    let range = sub_range_for(name.unwrap_or_default(), uid, &text("/etc/subuid"), &text("/etc/subgid"));
    let range = range.ok_or("no entry in /etc/subuid and /etc/subgid")?;
    let tools = ["newuidmap", "newgidmap"].iter().all(|tool| Path::new("/usr/bin").join(tool).exists());
    if tools { Ok(range) } else { Err("newuidmap is not installed".into()) }
}

/// Enters a user namespace in which 0 is the user and 1 to `count` are its range, mapped by the set-uid tools.
fn with_range(uid: u32, gid: u32, range: SubIds) -> Result<(), Broken> {
    let (ours, theirs) = sys::packet_pair().at("user namespace")?;
    // SAFETY: no effect but its result.
    let target = unsafe { libc::getpid() }.to_string();
    // The tools must run outside of the new namespace, so a child stays behind to start them.
    let helper = sys::fork_plain().at("user namespace")?;
    if helper == 0 {
        drop(ours);
        let asked = matches!(sys::receive(theirs.as_fd(), &mut [0; 1]), Ok((1, _)));
        let run = |tool: &str, own: u32, start: u32| {
            let words = [target.clone(), "0".into(), own.to_string(), "1".into(), "1".into()];
            let words = words.into_iter().chain([start.to_string(), range.count.to_string()]);
            Command::new(tool).args(words).status().is_ok_and(|status| status.success())
        };
        let done =
            asked && run("/usr/bin/newuidmap", uid, range.uid_start) && run("/usr/bin/newgidmap", gid, range.gid_start);
        // SAFETY: ends this child at once, without the parent's exit handlers.
        unsafe { libc::_exit(i32::from(!done)) }
    }
    drop(theirs);
    sys::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNS).at("user namespace")?;
    sys::send(ours.as_fd(), b"g", &[]).at("user namespace")?;
    let mut status = 0;
    // SAFETY: waits for our own child.
    let waited = unsafe { libc::waitpid(helper, &raw mut status, 0) };
    if waited != helper || status != 0 {
        return Err(Broken { step: "newuidmap", errno: libc::EPERM });
    }
    sys::clear_groups().at("setgroups")?;
    become_root()
}

/// Maps the user alone. The caller is in a new user namespace already.
fn one_id(uid: u32, gid: u32, no_range: String) -> Result<Entered, Broken> {
    fs::write("/proc/self/setgroups", "deny").at("setgroups")?;
    fs::write("/proc/self/uid_map", format!("0 {uid} 1\n")).at("uid_map")?;
    fs::write("/proc/self/gid_map", format!("0 {gid} 1\n")).at("gid_map")?;
    become_root()?;
    let host_ids = HostIds::Mapped { own: uid, sub: 0 };
    Ok(Entered { mode: Mode::OneId, ids: IdSource::OneId, host_ids, no_range })
}

fn become_root() -> Result<(), Broken> {
    sys::set_group(0).at("setresgid")?;
    sys::set_user(0).at("setresuid")
}

#[cfg(test)]
mod tests {
    use super::{Spare, spare_ids};

    fn range(first: u32, count: u32, services: std::ops::Range<u32>) -> Option<Spare> {
        Some(Spare::Range { first, count, services })
    }

    #[test]
    fn a_container_gives_the_upper_half_of_its_largest_range() {
        assert_eq!(spare_ids("         0     100000      65536\n"), range(32_768, 32_752, 65_520..65_536));
        assert_eq!(spare_ids("0 1000 1\n1 100000 1000\n"), range(501, 484, 985..1001));
        assert_eq!(spare_ids("0 0 4294967295\n"), Some(Spare::Host));
        assert_eq!(spare_ids("0 1000 1\n"), None);
        assert_eq!(spare_ids("0 0 4294967295\n1 2 4294967295\n"), None);
        assert_eq!(spare_ids("garbage\n\n"), None);
    }
}
