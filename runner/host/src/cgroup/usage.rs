//! What a sandbox uses, read from its own group: one small file per number.

use super::{SandboxGroup, Serves, Via};
use std::fs;
use std::path::Path;

/// Counted for all of a sandbox; none where no control group counts it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Bytes that are charged now.
    pub memory_bytes: Option<u64>,
    /// Microseconds of CPU so far.
    pub cpu_us: Option<u64>,
    /// Processes and threads now.
    pub processes: Option<u32>,
}

fn number(dir: &Path, file: &str) -> Option<u64> {
    fs::read_to_string(dir.join(file)).ok()?.trim_end().parse().ok()
}

fn cpu_us(via: Via, dir: &Path) -> Option<u64> {
    match via {
        Via::V1 => number(dir, "cpuacct.usage").map(|nanoseconds| nanoseconds / 1000),
        Via::V2 => {
            let text = fs::read_to_string(dir.join("cpu.stat")).ok()?;
            text.lines().find_map(|line| line.strip_prefix("usage_usec ")?.parse().ok())
        }
    }
}

impl SandboxGroup {
    pub fn usage(&self) -> Usage {
        let first = |has: fn(&Serves) -> bool| self.dirs.iter().find(|(serves, _)| has(serves));
        let memory = first(|serves| serves.memory).and_then(|(serves, dir)| match serves.via {
            Via::V1 => number(dir, "memory.usage_in_bytes"),
            Via::V2 => number(dir, "memory.current"),
        });
        let processes = first(|serves| serves.pids).and_then(|(_, dir)| number(dir, "pids.current"));
        Usage {
            memory_bytes: memory,
            cpu_us: first(|serves| serves.cpu_time).and_then(|(serves, dir)| cpu_us(serves.via, dir)),
            processes: processes.and_then(|count| u32::try_from(count).ok()),
        }
    }
}
