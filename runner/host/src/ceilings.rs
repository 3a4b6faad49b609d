//! Bounds of what may be asked for a sandbox; a request beyond them is refused, never cut.

use boxkite_wire::frames::{Code, Failure, Open, WorkspaceKind};
use std::ops::RangeInclusive;

const MEMORY: RangeInclusive<u64> = 16 << 20..=u64::MAX;
const WORKSPACE: RangeInclusive<u64> = 1 << 20..=1 << 50;
const INODES: RangeInclusive<u64> = 64..=1 << 30;
const PIDS: RangeInclusive<u64> = 1..=1 << 20;
const CPU_MILLIS: RangeInclusive<u64> = 10..=4_096_000;

/// The operator's ceilings of one sandbox, of the command line: no request lifts them. `None`: only what makes sense.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ceilings {
    pub memory_bytes: Option<u64>,
    pub workspace_bytes: Option<u64>,
    pub inodes: Option<u64>,
    pub pids: Option<u64>,
    pub cpu_millis: Option<u64>,
}

impl Ceilings {
    /// A ceiling that is not in force would be none.
    pub fn require(&self, open: &mut Open) {
        open.memory_required |= self.memory_bytes.is_some();
        open.cpu_required |= self.cpu_millis.is_some();
    }

    /// Refuses with the name of the first field that is out of its bounds.
    pub fn check(&self, open: &Open) -> Result<(), Failure> {
        let machine = machine();
        // What is on disk is bounded by the disk.
        let room = if open.workspace == WorkspaceKind::Tmpfs { machine } else { *WORKSPACE.end() };
        // A sandbox without a rate would have all of the machine.
        let is_free = open.cpu_millis == 0 && self.cpu_millis.is_none();
        let fields = [
            // More than the machine has would hold nothing.
            ("memory", open.memory_bytes, MEMORY, self.memory_bytes.unwrap_or(machine).min(machine)),
            ("workspace", open.workspace_bytes, WORKSPACE, self.workspace_bytes.unwrap_or(room).min(room)),
            ("inodes", open.inodes.into(), INODES, self.inodes.unwrap_or(*INODES.end())),
            ("pids", open.pids.into(), PIDS, self.pids.unwrap_or(*PIDS.end())),
            ("cpu", open.cpu_millis.into(), CPU_MILLIS, self.cpu_millis.unwrap_or(*CPU_MILLIS.end())),
        ];
        for (field, asked, possible, ceiling) in fields {
            let is_checked = field != "cpu" || !is_free;
            if is_checked && (!possible.contains(&asked) || asked > ceiling) {
                return Err(Failure::new(Code::InvalidArgument, field));
            }
        }
        Ok(())
    }
}

/// Bytes of memory of the machine.
fn machine() -> u64 {
    // SAFETY: no effect but its results, -1 where it is not known.
    let (pages, size) = unsafe { (libc::sysconf(libc::_SC_PHYS_PAGES), libc::sysconf(libc::_SC_PAGESIZE)) };
    match (u64::try_from(pages), u64::try_from(size)) {
        (Ok(pages), Ok(size)) => pages.saturating_mul(size),
        _ => *WORKSPACE.end(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(memory_bytes: u64, workspace_bytes: u64, cpu_millis: u32) -> Open {
        Open {
            memory_bytes,
            workspace_bytes,
            cpu_millis,
            pids: 64,
            inodes: 64,
            root: 0,
            fresh: false,
            memory_required: false,
            cpu_required: false,
            workspace: WorkspaceKind::Tmpfs,
        }
    }

    fn refused(ceilings: Ceilings, open: &Open) -> Option<String> {
        ceilings.check(open).err().map(|failure| failure.step)
    }

    #[test]
    fn a_ceiling_binds_its_field_alone() {
        let mib = 1 << 20;
        let free = Ceilings::default();
        assert_eq!(refused(free, &open(64 * mib, mib, 0)), None);
        assert_eq!(refused(free, &open(mib, mib, 0)).as_deref(), Some("memory"));
        assert_eq!(refused(free, &open(u64::MAX, mib, 0)).as_deref(), Some("memory"));
        assert_eq!(refused(free, &open(64 * mib, u64::MAX, 0)).as_deref(), Some("workspace"));
        assert_eq!(refused(free, &open(64 * mib, mib, 1)).as_deref(), Some("cpu"));
        let small = |name: &str, value| {
            let one = |field| (field == name).then_some(value);
            Ceilings {
                memory_bytes: one("memory"),
                workspace_bytes: one("workspace"),
                inodes: one("inodes"),
                pids: one("pids"),
                cpu_millis: one("cpu"),
            }
        };
        for (name, at, below) in [
            ("memory", 64 * mib, 64 * mib - 1),
            ("workspace", mib, mib - 1),
            ("inodes", 64, 63),
            ("pids", 64, 63),
            ("cpu", 500, 499),
        ] {
            assert_eq!(refused(small(name, at), &open(64 * mib, mib, 500)), None, "{name}");
            assert_eq!(refused(small(name, below), &open(64 * mib, mib, 500)).as_deref(), Some(name));
        }
        assert_eq!(refused(small("cpu", 500), &open(64 * mib, mib, 0)).as_deref(), Some("cpu"));
        let mut free = open(64 * mib, mib, 0);
        Ceilings::default().require(&mut free);
        assert!(!free.memory_required && !free.cpu_required);
        small("memory", mib).require(&mut free);
        assert!(free.memory_required && !free.cpu_required);
        small("cpu", 1).require(&mut free);
        assert!(free.cpu_required);
    }
}
