//! Control groups, version 1 or 2: `boxkite-<instance>/s<sandbox>/e<envelope>` in each hierarchy that
//! carries a limit or a counter. Directories go by `remove`, never by drop: only the caller knows when a
//! group is empty.

mod detect;
mod envelope;
mod lock;
mod place;
mod sweep;
#[cfg(test)]
mod tests;
mod usage;
mod v1;
mod v2;

use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use boxkite_wire::effective::via;

pub use envelope::{EnvelopeGroup, join};
pub use sweep::remove_left;
pub use usage::Usage;

/// A step that failed, at which file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    pub step: &'static str,
    pub path: PathBuf,
    pub errno: i32,
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cause = io::Error::from_raw_os_error(self.errno);
        write!(out, "{} at {}: {cause}", self.step, self.path.display())
    }
}

impl std::error::Error for Error {}

impl Error {
    fn new(step: &'static str, path: &Path, error: &io::Error) -> Error {
        Error { step, path: path.to_path_buf(), errno: error.raw_os_error().unwrap_or(libc::EIO) }
    }

    fn missing(step: &'static str) -> Error {
        Error { step, path: PathBuf::new(), errno: libc::EOPNOTSUPP }
    }
}

/// The version of the hierarchy that a control comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Via {
    V1,
    V2,
}

impl Via {
    /// Its number on the wire.
    pub fn number(via: Option<Self>) -> u8 {
        match via {
            None => via::NONE,
            Some(Self::V1) => via::CGROUP_V1,
            Some(Self::V2) => via::CGROUP_V2,
        }
    }
}

/// What can be limited or counted here; `reasons` says why something can't, one sentence each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Availability {
    pub memory: Option<Via>,
    pub pids: Option<Via>,
    pub cpu: Option<Via>,
    pub cpu_time: Option<Via>,
    pub reasons: Vec<String>,
}

impl Availability {
    /// Of what is asked for an envelope: what can be limited.
    pub fn envelope(&self, memory_bytes: u64, pids: u32) -> EnvelopeLimits {
        EnvelopeLimits { memory_bytes: self.memory.map(|_| memory_bytes), pids: self.pids.map(|_| pids) }
    }

    /// Of what is asked for a sandbox: what can be limited. A rate of 0 is none.
    pub fn sandbox(&self, memory_bytes: u64, pids: u32, cpu_millis: u32) -> SandboxLimits {
        SandboxLimits {
            memory_bytes: self.memory.map(|_| memory_bytes),
            pids: self.pids.map(|_| pids),
            cpu_millis: Some(cpu_millis).filter(|rate| *rate != 0),
        }
    }
}

/// Limits of a sandbox as a whole; `None` is no limit of its own.
#[derive(Clone, Copy, Debug, Default)]
pub struct SandboxLimits {
    pub memory_bytes: Option<u64>,
    pub pids: Option<u32>,
    /// Thousandths of one processor, at least 10.
    pub cpu_millis: Option<u32>,
}

/// Limits of one envelope; `None` is no limit of its own.
#[derive(Clone, Copy, Debug, Default)]
pub struct EnvelopeLimits {
    pub memory_bytes: Option<u64>,
    pub pids: Option<u32>,
}

/// What a hierarchy is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Serves {
    via: Via,
    memory: bool,
    pids: bool,
    cpu: bool,
    cpu_time: bool,
}

impl Serves {
    /// A rate of CPU binds the sandbox as a whole; such a hierarchy has no directory per envelope.
    fn per_envelope(self) -> bool {
        self.via == Via::V2 || self.memory || self.pids || self.cpu_time
    }
}

/// One hierarchy with our instance directory in it.
#[derive(Debug)]
struct Tree {
    serves: Serves,
    dir: PathBuf,
}

/// All hierarchies in use, with the instance directory of this runner in each.
#[derive(Debug)]
pub struct Cgroups {
    trees: Vec<Tree>,
    /// Directories in which this or an earlier runner may have put its instance directory.
    bases: Vec<PathBuf>,
    instance: String,
    moved: Option<place::Moved>,
    reasons: Vec<String>,
    /// Locks on our instance directories: what is not locked belongs to a runner that is gone.
    _locks: Vec<lock::Lock>,
}

impl Cgroups {
    /// Finds the hierarchies by trying: a control counts only after a directory was made and its file exists.
    /// `instance` (letters, digits, `_`) names this runner; the texts are those of /proc/self/cgroup and
    /// /proc/self/mountinfo. Never fails: what can't be had is in `available().reasons`.
    pub fn detect(instance: &str, self_cgroup: &str, mounts: &str) -> Cgroups {
        detect::detect(instance, self_cgroup, mounts)
    }

    /// What this machine gives.
    pub fn available(&self) -> Availability {
        let via =
            |has: fn(&Serves) -> bool| self.trees.iter().map(|tree| tree.serves).find(has).map(|serves| serves.via);
        Availability {
            memory: via(|serves| serves.memory),
            pids: via(|serves| serves.pids),
            cpu: via(|serves| serves.cpu),
            cpu_time: via(|serves| serves.cpu_time),
            reasons: self.reasons.clone(),
        }
    }

    /// Makes the group of a sandbox, without limits.
    pub fn sandbox(&self, id: u64) -> Result<SandboxGroup, Error> {
        let mut group = SandboxGroup { dirs: Vec::new() };
        for tree in &self.trees {
            let dir = tree.dir.join(format!("s{id}"));
            let made = make_dir(&dir).and_then(|()| {
                group.dirs.push((tree.serves, dir.clone()));
                match tree.serves.via {
                    Via::V1 => Ok(()),
                    Via::V2 => v2::hand_down(&dir, tree.serves),
                }
            });
            if let Err(error) = made {
                // The first failure is the one to report.
                let _ = group.remove();
                return Err(error);
            }
        }
        Ok(group)
    }

    /// Removes what earlier runners left: instance directories that nobody has locked. Kills what still runs in them.
    /// Directories with names that are not ours are neither entered nor removed.
    pub fn sweep(&self) -> Vec<Error> {
        sweep::sweep(&self.bases, &self.instance)
    }

    /// The instance directories, for `remove_left` of a later runner in another group.
    pub fn directories(&self) -> impl Iterator<Item = &Path> {
        self.trees.iter().map(|tree| tree.dir.as_path())
    }

    /// Removes the instance directories, which no sandbox group uses any more. Goes on after a failure and
    /// reports the first.
    pub fn remove(&mut self) -> Result<(), Error> {
        let removed = remove_dirs(self.trees.iter().map(|tree| &tree.dir));
        removed.and(self.moved.take().map_or(Ok(()), place::Moved::undo))
    }
}

/// The group of one sandbox: a directory in each hierarchy.
#[derive(Debug)]
pub struct SandboxGroup {
    dirs: Vec<(Serves, PathBuf)>,
}

impl SandboxGroup {
    /// Writes all limits. A limit that is asked for and can't be had is an error (EOPNOTSUPP).
    pub fn set(&self, limits: &SandboxLimits) -> Result<(), Error> {
        set_memory_and_pids(&self.dirs, limits.memory_bytes, limits.pids)?;
        let mut cpu = limits.cpu_millis.is_none();
        for (serves, dir) in self.dirs.iter().filter(|(serves, _)| serves.cpu) {
            cpu = true;
            match serves.via {
                Via::V1 => v1::set_cpu(dir, limits.cpu_millis)?,
                Via::V2 => v2::set_cpu(dir, limits.cpu_millis)?,
            }
        }
        if cpu { Ok(()) } else { Err(Error::missing("limit cpu")) }
    }

    /// Makes the group of an envelope.
    pub fn envelope(&self, id: u64) -> Result<EnvelopeGroup, Error> {
        EnvelopeGroup::make(&self.dirs, &format!("e{id}"))
    }

    /// Makes the group of a file agent, which the sandbox's limits alone bind.
    pub fn agent(&self, id: u64) -> Result<EnvelopeGroup, Error> {
        EnvelopeGroup::shared(&self.dirs, &format!("e{id}"))
    }

    /// Removes the directories: EBUSY while an envelope has its own. Repeatable.
    pub fn remove(&self) -> Result<(), Error> {
        remove_dirs(self.dirs.iter().map(|(_, dir)| dir))
    }
}

fn set_memory_and_pids(dirs: &[(Serves, PathBuf)], memory_bytes: Option<u64>, pids: Option<u32>) -> Result<(), Error> {
    let (mut memory_set, mut pids_set) = (memory_bytes.is_none(), pids.is_none());
    for (serves, dir) in dirs {
        if serves.memory {
            memory_set = true;
            match serves.via {
                Via::V1 => v1::set_memory(dir, memory_bytes)?,
                Via::V2 => v2::set_memory(dir, memory_bytes)?,
            }
        }
        if serves.pids {
            pids_set = true;
            let text = pids.map_or_else(|| "max".to_string(), |pids| pids.to_string());
            write(&dir.join("pids.max"), "limit processes", &text)?;
        }
    }
    match (memory_set, pids_set) {
        (true, true) => Ok(()),
        (false, _) => Err(Error::missing("limit memory")),
        (true, false) => Err(Error::missing("limit processes")),
    }
}

/// For nobody else to enter or to lock.
fn make_dir(dir: &Path) -> Result<(), Error> {
    fs::DirBuilder::new().mode(0o700).create(dir).map_err(|error| Error::new("make group", dir, &error))
}

fn remove_dirs<'a>(dirs: impl Iterator<Item = &'a PathBuf>) -> Result<(), Error> {
    let mut result = Ok(());
    for dir in dirs {
        match fs::remove_dir(dir) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => result = result.and(Err(Error::new("remove group", dir, &error))),
        }
    }
    result
}

/// Writes a control file that exists, in one call, as the kernel wants it.
fn write(path: &Path, step: &'static str, text: &str) -> Result<(), Error> {
    let mut file = fs::OpenOptions::new().write(true).open(path).map_err(|error| Error::new(step, path, &error))?;
    io::Write::write_all(&mut file, text.as_bytes()).map_err(|error| Error::new(step, path, &error))
}

fn read(path: &Path, step: &'static str) -> Result<String, Error> {
    fs::read_to_string(path).map_err(|error| Error::new(step, path, &error))
}

/// The processes of a group that this pid namespace can see.
fn pids_in(dir: &Path) -> Result<Vec<i32>, Error> {
    let text = read(&dir.join("cgroup.procs"), "list processes")?;
    Ok(text.lines().filter_map(|line| line.parse().ok()).filter(|pid| *pid > 0).collect())
}
