//! The group of one envelope (or file agent). Files that are read per command stay open.

use super::{EnvelopeLimits, Error, Serves, Via, make_dir, remove_dirs, set_memory_and_pids, v1, v2};
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Directories in each hierarchy, and what is read of them again and again.
#[derive(Debug)]
pub struct EnvelopeGroup {
    pub(super) dirs: Vec<(Serves, PathBuf)>,
    procs: Vec<OwnedFd>,
    unified: Option<OwnedFd>,
    memory: Option<Memory>,
    cpu: Option<(Via, File)>,
    pids: Option<File>,
}

#[derive(Debug)]
struct Memory {
    via: Via,
    dir: PathBuf,
    current: File,
    /// Only where the kernel can reset it.
    peak: Option<File>,
    events: File,
}

/// Joins the calling process to the groups whose open `cgroup.procs` are given.
/// For use after fork: it neither allocates nor locks. The error is an errno.
pub fn join(fds: &[RawFd]) -> Result<(), i32> {
    for fd in fds {
        // SAFETY: writes one byte from a constant; a bad descriptor is an error.
        while unsafe { libc::write(*fd, b"0".as_ptr().cast(), 1) } != 1 {
            // SAFETY: the address of this thread's errno is always valid.
            match unsafe { *libc::__errno_location() } {
                libc::EINTR => {}
                error => return Err(error),
            }
        }
    }
    Ok(())
}

fn open(path: &Path, step: &'static str, options: &fs::OpenOptions) -> Result<File, Error> {
    options.open(path).map_err(|error| Error::new(step, path, &error))
}

fn reading(path: &Path) -> Result<File, Error> {
    open(path, "open a counter", File::options().read(true))
}

/// A whole small control file by one `pread`.
fn with_text<T>(file: &File, parse: impl FnOnce(&str) -> Option<T>) -> Option<T> {
    let mut buffer = [0u8; 1024];
    let length = file.read_at(&mut buffer, 0).ok()?;
    parse(std::str::from_utf8(&buffer[..length]).ok()?)
}

fn number(file: &File) -> Option<u64> {
    with_text(file, |text| text.trim_end().parse().ok())
}

/// The number in the line `key NUMBER`.
fn field(file: &File, key: &str) -> Option<u64> {
    with_text(file, |text| text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' ')?.parse().ok()))
}

impl EnvelopeGroup {
    pub(super) fn make(parents: &[(Serves, PathBuf)], name: &str) -> Result<EnvelopeGroup, Error> {
        let mut group = EnvelopeGroup::empty();
        for (serves, parent) in parents {
            let dir = if serves.per_envelope() { parent.join(name) } else { parent.clone() };
            let made = if serves.per_envelope() {
                make_dir(&dir).map(|()| group.dirs.push((*serves, dir.clone())))
            } else {
                Ok(())
            };
            if let Err(error) = made.and_then(|()| group.open(*serves, &dir)) {
                // The first failure is the one to report.
                let _ = group.remove();
                return Err(error);
            }
        }
        Ok(group)
    }

    /// A group without limits or counters of its own. Version 1 lets processes be in the sandbox's own directory, so
    /// none has to be made there.
    pub(super) fn shared(parents: &[(Serves, PathBuf)], name: &str) -> Result<EnvelopeGroup, Error> {
        let (first, second): (Vec<_>, Vec<_>) = parents.iter().cloned().partition(|(serves, _)| serves.via == Via::V1);
        let mut group = Self::make(&second, name)?;
        for (_, dir) in &first {
            match open(&dir.join("cgroup.procs"), "open group", File::options().write(true)) {
                Ok(procs) => group.procs.push(procs.into()),
                Err(error) => {
                    // The first failure is the one to report.
                    let _ = group.remove();
                    return Err(error);
                }
            }
        }
        Ok(group)
    }

    pub(super) fn empty() -> EnvelopeGroup {
        EnvelopeGroup { dirs: Vec::new(), procs: Vec::new(), unified: None, memory: None, cpu: None, pids: None }
    }

    pub(super) fn open(&mut self, serves: Serves, dir: &Path) -> Result<(), Error> {
        let procs = open(&dir.join("cgroup.procs"), "open group", File::options().write(true))?;
        self.procs.push(procs.into());
        if serves.via == Via::V2 {
            let mut options = File::options();
            let handle = open(dir, "open group", options.read(true).custom_flags(libc::O_DIRECTORY))?;
            self.unified = Some(handle.into());
        }
        if serves.memory {
            self.memory = Some(Memory::open(serves.via, dir)?);
        }
        if serves.cpu_time {
            let file = if serves.via == Via::V1 { "cpuacct.usage" } else { "cpu.stat" };
            self.cpu = Some((serves.via, reading(&dir.join(file))?));
        }
        if serves.pids {
            self.pids = Some(reading(&dir.join("pids.current"))?);
        }
        Ok(())
    }

    /// The open `cgroup.procs` of every hierarchy, for `join`; empty after `release_procs`.
    pub fn procs(&self) -> &[OwnedFd] {
        &self.procs
    }

    /// Closes the descriptors of `procs` and `dir_fd`, which nobody needs once PID 1 has joined.
    pub fn release_procs(&mut self) {
        self.procs.clear();
        self.unified = None;
    }

    /// The directory of version 2, for CLONE_INTO_CGROUP.
    pub fn dir_fd(&self) -> Option<BorrowedFd<'_>> {
        self.unified.as_ref().map(AsFd::as_fd)
    }

    /// Writes all limits, swap included. A limit that is asked for and can't be had is an error (EOPNOTSUPP).
    pub fn set(&self, limits: &EnvelopeLimits) -> Result<(), Error> {
        set_memory_and_pids(&self.dirs, limits.memory_bytes, limits.pids)
    }

    /// Bytes charged now.
    pub fn memory_current(&self) -> Option<u64> {
        number(&self.memory.as_ref()?.current)
    }

    /// The most bytes charged since the last `reset_memory_peak`; none where the kernel can't reset.
    pub fn memory_peak(&self) -> Option<u64> {
        number(self.memory.as_ref()?.peak.as_ref()?)
    }

    /// Lets the peak begin anew; false where the kernel can't.
    pub fn reset_memory_peak(&self) -> bool {
        let peak = self.memory.as_ref().and_then(|memory| memory.peak.as_ref());
        peak.is_some_and(|file| file.write_at(b"0", 0).is_ok())
    }

    /// How many processes of the group the kernel has killed for lack of memory, ever.
    pub fn oom_kills(&self) -> Option<u64> {
        field(&self.memory.as_ref()?.events, "oom_kill")
    }

    /// A descriptor that becomes readable when the group may have run out of memory: then read `oom_kills`.
    /// None without memory control, in version 2, where the kernel ends the whole group and nobody has to, and where
    /// the kernel refuses (descriptors used up).
    pub fn oom_event_fd(&self) -> Option<OwnedFd> {
        let memory = self.memory.as_ref().filter(|memory| memory.via == Via::V1)?;
        v1::oom_event(&memory.dir, &memory.events).ok()
    }

    /// Microseconds of CPU that the group's processes have used, ever.
    pub fn cpu_usec(&self) -> Option<u64> {
        let (via, file) = self.cpu.as_ref()?;
        match via {
            Via::V1 => number(file).map(|nanoseconds| nanoseconds / 1000),
            Via::V2 => field(file, "usage_usec"),
        }
    }

    /// Tasks in the group now, threads included.
    pub fn pids_current(&self) -> Option<u64> {
        number(self.pids.as_ref()?)
    }

    /// Kills everything in the group at once; false where the kernel can't: version 1, or before 5.14.
    pub fn kill(&self) -> Result<bool, Error> {
        match self.dirs.iter().find(|(serves, _)| serves.via == Via::V2) {
            Some((_, dir)) => v2::kill(dir),
            None => Ok(false),
        }
    }

    /// Removes the directories: EBUSY while a process, a zombie included, is in one. Repeatable.
    pub fn remove(&self) -> Result<(), Error> {
        remove_dirs(self.dirs.iter().map(|(_, dir)| dir))
    }
}

impl Memory {
    fn open(via: Via, dir: &Path) -> Result<Memory, Error> {
        let (current, peak, events) = match via {
            Via::V1 => ("memory.usage_in_bytes", "memory.max_usage_in_bytes", "memory.oom_control"),
            Via::V2 => ("memory.current", "memory.peak", "memory.events"),
        };
        if via == Via::V2 {
            v2::kill_as_one(dir)?;
        }
        let peak = File::options().read(true).write(true).open(dir.join(peak)).ok();
        // Version 2 takes the write since 6.12, and then counts anew for this open file only.
        let peak = peak.filter(|file| file.write_at(b"0", 0).is_ok());
        Ok(Memory {
            via,
            dir: dir.to_path_buf(),
            current: reading(&dir.join(current))?,
            peak,
            events: reading(&dir.join(events))?,
        })
    }
}

impl From<Error> for io::Error {
    fn from(error: Error) -> io::Error {
        io::Error::new(io::Error::from_raw_os_error(error.errno).kind(), error)
    }
}
