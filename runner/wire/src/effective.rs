//! What was measured to be in force: the `Effective` of the protocol page, and its parts as they are measured.

use crate::frames::{Failure, Reader, Writer};

/// Layers on which a forbidden act is tried when an envelope is made; bits of `tried` and `held`.
pub mod layer {
    pub const SECCOMP: u32 = 1;
    pub const READ_ONLY_ROOT: u32 = 2;
    pub const LANDLOCK: u32 = 4;
    pub const NETWORK: u32 = 8;
    pub const PROC_MASKS: u32 = 16;
    pub const DEVICES: u32 = 32;
    pub const OTHER_PROCESSES: u32 = 64;
    /// Tried where a list of programs is in force.
    pub const PROGRAMS: u32 = 128;

    /// Every layer that no kernel lacks, with its name for people.
    pub const ALWAYS: [(u32, &str); 6] = [
        (SECCOMP, "seccomp"),
        (READ_ONLY_ROOT, "read-only root"),
        (NETWORK, "network"),
        (PROC_MASKS, "proc masks"),
        (DEVICES, "devices"),
        (OTHER_PROCESSES, "other processes"),
    ];
}

/// By what a limit is enforced.
pub mod via {
    pub const NONE: u8 = 0;
    pub const CGROUP_V1: u8 = 1;
    pub const CGROUP_V2: u8 = 2;
    pub const RLIMIT: u8 = 4;
}

/// By what a list of programs is enforced; bits.
pub mod programs_via {
    pub const NOEXEC_MOUNTS: u8 = 1;
    pub const LANDLOCK: u8 = 2;
    /// `vm.memfd_noexec` of the envelope's pid namespace.
    pub const MEMFD_NOEXEC: u8 = 4;
    pub const MEMFD_FILTER: u8 = 8;
}

/// What holds the five roots and bounds their size.
pub mod workspace_via {
    pub const TMPFS: u8 = 1;
    pub const LOOP: u8 = 2;
    pub const PROJECT_QUOTA: u8 = 3;
}

/// What `/proc/self/status` says of a command after its last privilege is gone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Status {
    pub uid: u32,
    pub gid: u32,
    pub groups: u32,
    pub no_new_privs: u8,
    pub seccomp: u8,
    pub seccomp_filters: u32,
    /// Inheritable, permitted, effective, bounding, ambient.
    pub capabilities: [u64; 5],
}

/// What PID 1 measures of its envelope when it is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Made {
    pub landlock: u8,
    pub tried: u32,
    pub held: u32,
    /// Bits of `programs_via`.
    pub programs_via: u8,
    /// Inodes of the user, pid, mnt, net, ipc, uts and cgroup namespaces.
    pub namespaces: [u32; 7],
    /// Of a trial command.
    pub status: Status,
}

/// The limits of one exec, and by what they are enforced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    pub memory_via: u8,
    pub pids_via: u8,
    pub cpu_via: u8,
    pub memory_bytes: u64,
    pub workspace_bytes: u64,
    pub workspace_inodes: u64,
    pub cpu_millis: u32,
    pub pids: u32,
    pub workspace_via: u8,
}

/// All of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Effective {
    /// Whether PID 1 shares the command's user id.
    pub same_user: bool,
    pub own_user_namespace: bool,
    pub host_uid: u32,
    pub status: Status,
    pub made: Made,
    pub limits: Limits,
    /// Programs that can be executed, where a list is in force.
    pub programs: u16,
    /// Descriptors that a command starts with: those from 0 on.
    pub descriptors: u8,
}

impl Effective {
    /// Appends the 144 bytes of the protocol page.
    pub fn write(&self, writer: Writer) -> Writer {
        let (status, made, limits) = (&self.status, &self.made, &self.limits);
        let mut writer = writer
            .u8(if self.same_user { 2 } else { 1 })
            .u8(u8::from(self.own_user_namespace))
            .u8(status.no_new_privs)
            .u8(status.seccomp)
            .u8(made.landlock)
            .u8(limits.memory_via)
            .u8(limits.pids_via)
            .u8(limits.cpu_via)
            .u32(status.uid)
            .u32(status.gid)
            .u32(self.host_uid)
            .u32(status.groups);
        for set in status.capabilities {
            writer = writer.u64(set);
        }
        for inode in made.namespaces {
            writer = writer.u32(inode);
        }
        writer
            .u32(status.seccomp_filters)
            .u32(made.tried)
            .u32(made.held)
            .u64(limits.memory_bytes)
            .u64(limits.workspace_bytes)
            .u64(limits.workspace_inodes)
            .u32(limits.cpu_millis)
            .u32(limits.pids)
            .u8(limits.workspace_via)
            .u8(self.descriptors)
            .raw(&[0; 2])
            .u8(made.programs_via)
            .u8(0)
            .u16(self.programs)
    }
}

impl Made {
    /// A layer that was tried and did not hold. Landlock counts where the kernel has it.
    pub fn broken_layer(&self) -> Option<&'static str> {
        let landlock = (self.landlock > 0).then_some((layer::LANDLOCK, "Landlock"));
        let programs = (self.tried & layer::PROGRAMS != 0).then_some((layer::PROGRAMS, "programs"));
        let broken = layer::ALWAYS.into_iter().chain(landlock).chain(programs).find(|(bit, _)| self.held & bit == 0);
        broken.map(|(_, name)| name)
    }

    /// The encoding between PID 1 and the runner.
    pub fn write(&self, writer: Writer) -> Writer {
        let writer = writer.u8(self.landlock).u32(self.tried).u32(self.held).u8(self.programs_via);
        self.status.write(self.namespaces.iter().fold(writer, |writer, inode| writer.u32(*inode)))
    }

    pub fn read(reader: &mut Reader<'_>) -> Result<Self, Failure> {
        let (landlock, tried, held, programs_via) = (reader.u8()?, reader.u32()?, reader.u32()?, reader.u8()?);
        let mut namespaces = [0; 7];
        for inode in &mut namespaces {
            *inode = reader.u32()?;
        }
        Ok(Self { landlock, tried, held, programs_via, namespaces, status: Status::read(reader)? })
    }
}

impl Status {
    /// Reads the text of `/proc/PID/status`; `None` where a line is missing or odd.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let mut status = Self::default();
        let mut seen = 0u32;
        for line in text.split(|byte| *byte == b'\n') {
            let Some(colon) = line.iter().position(|byte| *byte == b':') else { continue };
            let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
            let bit = match name {
                b"Uid" => same(value, &mut status.uid, 0)?,
                b"Gid" => same(value, &mut status.gid, 1)?,
                b"Groups" => {
                    status.groups = value.split(u8::is_ascii_whitespace).filter(|id| !id.is_empty()).count() as u32;
                    2
                }
                b"NoNewPrivs" => {
                    status.no_new_privs = decimal(value)? as u8;
                    3
                }
                b"Seccomp" => {
                    status.seccomp = decimal(value)? as u8;
                    4
                }
                b"Seccomp_filters" => {
                    status.seccomp_filters = decimal(value)?;
                    continue;
                }
                b"CapInh" => hexadecimal(value, &mut status.capabilities[0], 5)?,
                b"CapPrm" => hexadecimal(value, &mut status.capabilities[1], 6)?,
                b"CapEff" => hexadecimal(value, &mut status.capabilities[2], 7)?,
                b"CapBnd" => hexadecimal(value, &mut status.capabilities[3], 8)?,
                b"CapAmb" => hexadecimal(value, &mut status.capabilities[4], 9)?,
                _ => continue,
            };
            seen |= 1 << bit;
        }
        (seen == 0x3ff).then_some(status)
    }

    /// The encoding between the command's child, PID 1 and the runner.
    pub fn write(&self, writer: Writer) -> Writer {
        let writer = writer
            .u32(self.uid)
            .u32(self.gid)
            .u32(self.groups)
            .u8(self.no_new_privs)
            .u8(self.seccomp)
            .u32(self.seccomp_filters);
        self.capabilities.iter().fold(writer, |writer, set| writer.u64(*set))
    }

    pub fn read(reader: &mut Reader<'_>) -> Result<Self, Failure> {
        let mut status = Self {
            uid: reader.u32()?,
            gid: reader.u32()?,
            groups: reader.u32()?,
            no_new_privs: reader.u8()?,
            seccomp: reader.u8()?,
            seccomp_filters: reader.u32()?,
            capabilities: [0; 5],
        };
        for set in &mut status.capabilities {
            *set = reader.u64()?;
        }
        Ok(status)
    }
}

fn decimal(value: &[u8]) -> Option<u32> {
    std::str::from_utf8(value).ok()?.parse().ok()
}

/// All ids of a line, which must be the same one.
fn same(value: &[u8], into: &mut u32, bit: u32) -> Option<u32> {
    let mut ids = value.split(u8::is_ascii_whitespace).filter(|id| !id.is_empty()).map(decimal);
    let first = ids.next()??;
    *into = first;
    ids.all(|id| id == Some(first)).then_some(bit)
}

fn hexadecimal(value: &[u8], into: &mut u64, bit: u32) -> Option<u32> {
    *into = u64::from_str_radix(std::str::from_utf8(value).ok()?, 16).ok()?;
    Some(bit)
}
