//! What clients ask for, as far as it is more than an id.

use super::{Code, Failure, MAX_ARGUMENTS, MAX_INLINE, MAX_PROGRAM_NAMES, MAX_PROGRAMS, Reader};

/// errno of execve for too long a list.
const E2BIG: i32 = 7;

/// A UUID's bytes; never all 0.
pub type WorkspaceId = [u8; 16];

/// What holds the five roots of a new sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkspaceKind {
    Tmpfs,
    NewDisk(WorkspaceId),
    KeptDisk(WorkspaceId),
}

impl WorkspaceKind {
    fn read(reader: &mut Reader<'_>) -> Result<Self, Failure> {
        let kind = reader.u8()?;
        reader.zeros::<7>()?;
        let id = reader.id()?;
        match (kind, id == WorkspaceId::default()) {
            (0, true) => Ok(Self::Tmpfs),
            (1, false) => Ok(Self::NewDisk(id)),
            (2, false) => Ok(Self::KeptDisk(id)),
            _ => Err(Failure::new(Code::BadFrame, "workspace")),
        }
    }

    /// The id of a disk workspace.
    pub fn id(self) -> Option<WorkspaceId> {
        match self {
            Self::Tmpfs => None,
            Self::NewDisk(id) | Self::KeptDisk(id) => Some(id),
        }
    }
}

/// open_sandbox's payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Open {
    pub memory_bytes: u64,
    pub workspace_bytes: u64,
    pub pids: u32,
    pub cpu_millis: u32,
    pub inodes: u32,
    pub root: u16,
    pub fresh: bool,
    pub memory_required: bool,
    pub cpu_required: bool,
    pub workspace: WorkspaceKind,
}

impl Open {
    /// What a sandbox is made with before anybody asks for one: the product's defaults.
    pub const USUAL: Self = Self {
        memory_bytes: 1 << 30,
        workspace_bytes: 1 << 30,
        pids: 256,
        cpu_millis: 0,
        inodes: 262_144,
        root: 0,
        fresh: false,
        memory_required: false,
        cpu_required: false,
        workspace: WorkspaceKind::Tmpfs,
    };

    pub fn read(payload: &[u8]) -> Result<Self, Failure> {
        let mut reader = Reader::new(payload);
        let (memory_bytes, workspace_bytes) = (reader.u64()?, reader.u64()?);
        let (pids, cpu_millis, inodes) = (reader.u32()?, reader.u32()?, reader.u32()?);
        let (root, flags) = (reader.u16()?, reader.u16()?);
        let workspace = WorkspaceKind::read(&mut reader)?;
        reader.end()?;
        if flags & !7 != 0 {
            return Err(Failure::new(Code::BadFrame, "flags"));
        }
        Ok(Self {
            memory_bytes,
            workspace_bytes,
            pids,
            cpu_millis,
            inodes,
            root,
            fresh: flags & 1 != 0,
            memory_required: flags & 2 != 0,
            cpu_required: flags & 4 != 0,
            workspace,
        })
    }
}

/// close_sandbox's payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Close {
    Sandbox {
        id: u64,
        keep: bool,
    },
    /// A kept workspace is to be removed.
    Workspace(WorkspaceId),
}

impl Close {
    pub fn read(payload: &[u8]) -> Result<Self, Failure> {
        let mut reader = Reader::new(payload);
        let (id, keep) = (reader.u64()?, flag(reader.u8()?, "keep")?);
        reader.zeros::<7>()?;
        let workspace = reader.id()?;
        reader.end()?;
        match (id, keep, workspace == WorkspaceId::default()) {
            (0, false, false) => Ok(Self::Workspace(workspace)),
            (_, _, true) => Ok(Self::Sandbox { id, keep }),
            _ => Err(Failure::new(Code::BadFrame, "workspace")),
        }
    }
}

/// programs' payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Programs<'a> {
    pub sandbox: u64,
    /// Names in their encoded form, count and all; none where everything may be executed.
    pub list: Option<&'a [u8]>,
}

impl<'a> Programs<'a> {
    pub fn read(payload: &'a [u8]) -> Result<Self, Failure> {
        let mut reader = Reader::new(payload);
        let (sandbox, kernel) = (reader.u64()?, flag(reader.u8()?, "enforce")?);
        reader.zeros::<7>()?;
        let encoded = reader.rest();
        let names = Self::names(encoded)?;
        let total: usize = names.iter().map(|name| name.len()).sum();
        let refuse = |what: &str| Err(Failure::new(Code::InvalidArgument, "programs").detail(what));
        match () {
            () if !kernel && !names.is_empty() => Err(Failure::new(Code::BadFrame, "programs")),
            () if names.len() > MAX_PROGRAMS || total > MAX_PROGRAM_NAMES => refuse("too many"),
            () if names.iter().any(|name| name.is_empty() || name.contains(&0)) => {
                refuse("an empty name, or a NUL byte")
            }
            () => Ok(Self { sandbox, list: kernel.then_some(encoded) }),
        }
    }

    /// The names of an encoded list.
    pub fn names(encoded: &[u8]) -> Result<Vec<&[u8]>, Failure> {
        let mut reader = Reader::new(encoded);
        let names = list(&mut reader)?;
        reader.end()?;
        Ok(names)
    }
}

/// list's payload: whether usage is asked for.
pub fn list_flags(payload: &[u8]) -> Result<bool, Failure> {
    let mut reader = Reader::new(payload);
    let usage = flag(reader.u8()?, "flags")?;
    reader.end()?;
    Ok(usage)
}

/// The fixed part of exec's payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExecHead {
    pub sandbox: u64,
    pub timeout_ms: u64,
    pub memory_bytes: u64,
    pub cpu_ms: u64,
    pub pids: u32,
    pub columns: u16,
    pub rows: u16,
    pub stdin: u8,
    pub terminal: bool,
    pub block: bool,
    pub fresh: bool,
}

/// Where a command's standard input comes from.
pub mod stdin {
    pub const NULL: u8 = 0;
    pub const INLINE: u8 = 1;
    pub const ATTACH: u8 = 2;
    /// There is none: a later attach writes to the command's channel.
    pub const CHANNEL: u8 = 3;
}

/// exec's payload. The strings stay in their encoded form, which goes on to the envelope as it is.
#[derive(Clone, Copy, Debug)]
pub struct Exec<'a> {
    pub head: ExecHead,
    /// cwd, arguments and environment, as `Strings` reads them.
    pub strings: &'a [u8],
    pub inline: &'a [u8],
}

impl<'a> Exec<'a> {
    pub fn read(payload: &'a [u8]) -> Result<Self, Failure> {
        let mut reader = Reader::new(payload);
        let head = ExecHead {
            sandbox: reader.u64()?,
            timeout_ms: reader.u64()?,
            memory_bytes: reader.u64()?,
            cpu_ms: reader.u64()?,
            pids: reader.u32()?,
            columns: reader.u16()?,
            rows: reader.u16()?,
            stdin: reader.u8()?,
            terminal: flag(reader.u8()?, "terminal")?,
            block: flag(reader.u8()?, "overflow")?,
            fresh: flag(reader.u8()?, "flags")?,
        };
        let rest = reader.rest();
        let mut walker = Reader::new(rest);
        Strings::read(&mut walker)?;
        let strings = &rest[..rest.len() - walker.rest().len()];
        let inline = walker.bytes()?;
        walker.end()?;
        let channel = head.stdin == stdin::CHANNEL;
        if head.stdin > stdin::CHANNEL || channel && head.terminal || head.stdin != stdin::INLINE && !inline.is_empty()
        {
            return Err(Failure::new(Code::BadFrame, "stdin"));
        }
        if inline.len() > MAX_INLINE {
            return Err(Failure::new(Code::InvalidArgument, "inline stdin"));
        }
        if strings.len() > MAX_ARGUMENTS {
            return Err(Failure::with(Code::ArgumentListTooLong, "arguments", E2BIG));
        }
        Ok(Self { head, strings, inline })
    }
}

fn flag(value: u8, field: &str) -> Result<bool, Failure> {
    if value > 1 { Err(Failure::new(Code::BadFrame, field)) } else { Ok(value == 1) }
}

/// cwd, arguments and environment.
#[derive(Debug, PartialEq, Eq)]
pub struct Strings<'a> {
    pub cwd: &'a [u8],
    pub arguments: Vec<&'a [u8]>,
    pub environment: Vec<&'a [u8]>,
}

impl<'a> Strings<'a> {
    pub fn read(reader: &mut Reader<'a>) -> Result<Self, Failure> {
        let cwd = reader.bytes()?;
        let arguments = list(reader)?;
        let environment = list(reader)?;
        let refuse = |step: &str| Err(Failure::new(Code::InvalidArgument, step));
        let nul = |bytes: &[u8]| bytes.contains(&0);
        match () {
            () if !cwd.starts_with(b"/") || nul(cwd) => refuse("cwd"),
            () if arguments.first().is_none_or(|program| program.is_empty()) => refuse("program"),
            () if arguments.iter().any(|text| nul(text)) => refuse("argument"),
            () if environment.iter().any(|text| nul(text) || !text[1.min(text.len())..].contains(&b'=')) => {
                refuse("environment")
            }
            () => Ok(Self { cwd, arguments, environment }),
        }
    }
}

fn list<'a>(reader: &mut Reader<'a>) -> Result<Vec<&'a [u8]>, Failure> {
    let count = reader.u32()? as usize;
    // Each entry takes at least four bytes, so a hostile count can't make the vector larger than the frame.
    let mut entries = Vec::with_capacity(count.min(reader.rest().len() / 4));
    for _ in 0..count {
        entries.push(reader.bytes()?);
    }
    Ok(entries)
}
