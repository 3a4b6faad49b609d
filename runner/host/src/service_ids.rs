//! Host ids of daemons: the user and group that a root daemon's unprivileged processes have.
//!
//! They lie in a range of their own, which no sandbox is given ids of, whether a daemon runs or not: the files of a daemon
//! keep their owner for ever. A running daemon holds its id by a lock, so that two never share one.

use std::fs;
use std::ops::Range;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use crate::ids::{SERVICE, ids_in_use, lock, open_folder, random};
use crate::user_namespace::{ROOT_LOCKS, Spare, spare_ids};
use boxkite_system::step::{At, Broken};

/// Above the ranges of sandboxes, below the foreign ids of systemd.
const HOST: Range<u32> = 0x7ff0_0000..0x7ffe_0000;
/// How many ids one choice tries.
const PROBES: u32 = 4096;

/// A service id, held until it is dropped.
#[derive(Debug)]
pub struct ServiceId {
    file: PathBuf,
    _lock: OwnedFd,
}

impl Drop for ServiceId {
    /// The file goes while it is locked. One that stays can be locked again.
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.file);
    }
}

/// The range of service ids in a user namespace with this map; a container's has the end of its spare ids.
fn range(map: &str) -> Result<Range<u32>, Broken> {
    match spare_ids(map) {
        Some(Spare::Host) => Ok(HOST),
        Some(Spare::Range { services, .. }) => Ok(services),
        None => Err(Broken { step: "ids: the user namespace maps too few", errno: libc::EPERM }),
    }
}

fn own_range() -> Result<Range<u32>, Broken> {
    // SAFETY: no effect but its result.
    if unsafe { libc::geteuid() } != 0 {
        return Err(Broken { step: "service id: only root has any", errno: libc::EPERM });
    }
    range(&fs::read_to_string("/proc/self/uid_map").at("uid_map")?)
}

/// An id that no entry of the machine covers and no running daemon has.
pub fn choose() -> Result<u32, Broken> {
    choose_in(&own_range()?, Path::new(ROOT_LOCKS))
}

fn choose_in(range: &Range<u32>, dir: &Path) -> Result<u32, Broken> {
    let taken = ids_in_use().at("service id")?;
    let count = range.end - range.start;
    let first = random().at("service id")? % count;
    for id in (0..count.min(PROBES)).map(|step| range.start + (first + step) % count) {
        let is_taken = taken.iter().any(|&(from, to)| from <= id && id <= to);
        if !is_taken && hold(id, dir)?.is_some() {
            return Ok(id);
        }
    }
    Err(Broken { step: "service id: none is free", errno: libc::EAGAIN })
}

/// Holds an id that was chosen before. EBUSY where a running daemon has it; EPERM where it is none of the range, or an
/// entry of the machine covers it by now.
pub fn claim(id: u32) -> Result<ServiceId, Broken> {
    claim_in(id, &own_range()?, Path::new(ROOT_LOCKS))
}

fn claim_in(id: u32, range: &Range<u32>, dir: &Path) -> Result<ServiceId, Broken> {
    if !range.contains(&id) {
        return Err(Broken { step: "service id: none of this machine's service ids", errno: libc::EPERM });
    }
    if ids_in_use().at("service id")?.iter().any(|&(from, to)| from <= id && id <= to) {
        return Err(Broken {
            step: "service id: an entry of passwd, group, subuid or subgid covers it",
            errno: libc::EPERM,
        });
    }
    hold(id, dir)?.ok_or(Broken { step: "service id: another daemon has it", errno: libc::EBUSY })
}

fn hold(id: u32, dir: &Path) -> Result<Option<ServiceId>, Broken> {
    let folder = open_folder(dir).at("service id: locks")?;
    // No name of a sandbox's range, which are digits.
    let name = format!("{SERVICE}{id}");
    let held = lock(folder.as_raw_fd(), &name).at("service id: lock")?;
    Ok(held.map(|lock| ServiceId { file: dir.join(name), _lock: lock }))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            Self(std::env::temp_dir().join(format!("boxkite-service-ids-{name}-{}", std::process::id())))
        }
        fn files(&self) -> usize {
            fs::read_dir(&self.0).unwrap().count()
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).unwrap();
        }
    }

    #[test]
    fn an_id_is_held_by_one_daemon_and_leaves_nothing() {
        let folder = Folder::new("one");
        let id = choose_in(&HOST, &folder.0).unwrap();
        assert!(HOST.contains(&id));
        assert_eq!(folder.files(), 0);
        let held = claim_in(id, &HOST, &folder.0).unwrap();
        assert_eq!(claim_in(id, &HOST, &folder.0).unwrap_err().errno, libc::EBUSY);
        drop(held);
        assert_eq!(folder.files(), 0);
        claim_in(id, &HOST, &folder.0).unwrap();
    }

    #[test]
    fn an_id_that_is_held_is_not_chosen_and_a_full_range_is_told() {
        let folder = Folder::new("full");
        let two = HOST.start..HOST.start + 2;
        let first = claim_in(two.start, &two, &folder.0).unwrap();
        for _ in 0..8 {
            assert_eq!(choose_in(&two, &folder.0).unwrap(), two.start + 1);
        }
        let second = claim_in(two.start + 1, &two, &folder.0).unwrap();
        assert_eq!(choose_in(&two, &folder.0).unwrap_err().errno, libc::EAGAIN);
        drop((first, second));
    }

    #[test]
    fn an_id_of_somebody_else_is_refused() {
        let folder = Folder::new("foreign");
        fs::create_dir(&folder.0).unwrap();
        for id in [0, 1000, 65_532, HOST.start - 1, HOST.end] {
            assert_eq!(claim_in(id, &HOST, &folder.0).unwrap_err().errno, libc::EPERM, "{id}");
        }
    }

    #[test]
    fn no_sandbox_is_given_a_service_id() {
        assert_eq!(range("0 0 4294967295\n").unwrap(), HOST);
        const { assert!(HOST.start >= crate::ids::ROOT_END) };
        let map = "0 100000 65536\n";
        let Some(Spare::Range { first, count, services }) = spare_ids(map) else { panic!("no range") };
        assert_eq!(range(map).unwrap(), services);
        assert_eq!((first + count, services.end), (services.start, 65_536));
        assert!(range("0 1000 1\n").is_err());
    }
}
