//! What this machine gives, found out by trying when the runner starts.

use std::path::Path;

use crate::cgroup::Availability;
use crate::disk::Disk;
use crate::user_namespace::Mode;
use boxkite_wire::frames::Writer;

/// One thing that was tried.
#[derive(Clone, Debug)]
pub struct Fact {
    pub name: &'static str,
    pub status: Status,
    /// A version, or the reason why it is missing; for people.
    pub detail: String,
}

/// Its outcome, by its number on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Status {
    Missing = 0,
    Works = 1,
    NotNeeded = 2,
}

fn fact(name: &'static str, works: bool, detail: impl Into<String>) -> Fact {
    Fact { name, status: if works { Status::Works } else { Status::Missing }, detail: detail.into() }
}

/// What is known once the makers stand, which means that user (unless root), mount and pid namespaces, proc and the root
/// itself have been made. `no_range` is why an ordinary user has no range of ids,
/// `abi` the Landlock version.
pub fn facts(mode: Mode, available: &Availability, no_range: &str, abi: u32) -> Vec<Fact> {
    let ids = match mode {
        Mode::Root => Fact { name: "id_range", status: Status::NotNeeded, detail: "root".into() },
        Mode::IdRange => fact("id_range", true, "newuidmap"),
        Mode::OneId => fact("id_range", false, no_range),
    };
    let reason = |what: &str| {
        let own = available.reasons.iter().filter(|reason| reason.contains(what) || reason.starts_with("version 2"));
        own.cloned().collect::<Vec<_>>().join("; ")
    };
    let cgroup = |name, what, via: Option<crate::cgroup::Via>| match via {
        Some(via) => fact(name, true, format!("{via:?}")),
        None => fact(name, false, reason(what)),
    };
    let noexec = Path::new("/proc/sys/vm/memfd_noexec").exists();
    vec![
        fact("root_file_system", true, "mount namespace, proc, devices"),
        ids,
        fact("landlock", abi > 0, if abi > 0 { format!("ABI {abi}") } else { "not enabled at boot".into() }),
        fact("seccomp", Path::new("/proc/sys/kernel/seccomp/actions_avail").exists(), "filter"),
        cgroup("memory_limit", "memory", available.memory),
        cgroup("process_limit", "pids", available.pids),
        cgroup("cpu_limit", "cpu", available.cpu),
        cgroup("cpu_time_limit", "cpu time", available.cpu_time),
        fact("memfd_noexec", noexec, if noexec { "vm.memfd_noexec" } else { "kernel before 6.3" }),
    ]
}

/// What can hold disk workspaces.
pub fn disk(disk: &Result<Disk, String>, is_wanted: bool) -> [Fact; 2] {
    let forms = [("loop_workspaces", "ext4 images"), ("project_quota", "directories with a limit")];
    let mut place = 0;
    forms.map(|(name, words)| {
        let tried = disk.as_ref().map_or_else(|why| Err(why.clone()), |disk| disk.tried[place].clone());
        place += 1;
        let fact = fact(name, tried.is_ok(), tried.err().unwrap_or_else(|| words.into()));
        // Nobody who gave the runner no place for them misses them.
        if is_wanted { fact } else { Fact { status: Status::NotNeeded, ..fact } }
    })
}

/// Appends PROBED's list.
pub fn write(writer: Writer, facts: &[Fact]) -> Writer {
    facts.iter().fold(writer.u32(facts.len() as u32), |writer, fact| {
        writer.bytes(fact.name.as_bytes()).u8(fact.status as u8).bytes(fact.detail.as_bytes())
    })
}
