//! The runner protocol's frames: `docs/reference/runner-protocol.md`. Pure: bytes in, values out.

use crate::effective::Effective;

pub const HEADER: usize = 12;
pub const VERSION: u8 = 1;
/// The longest payload that is read.
pub const MAX_PAYLOAD: usize = 4 << 20;
/// The most bytes of arguments and environment together.
pub const MAX_ARGUMENTS: usize = 3 << 20;
/// The longest standard input that travels inside an exec frame; a pipe holds it without a reader.
pub const MAX_INLINE: usize = 64 << 10;
/// The `u64` that stands for "not measured".
pub const NONE: u64 = u64::MAX;

/// Frame types.
pub mod kind {
    pub const OPEN: u8 = 0x01;
    pub const CLOSE: u8 = 0x02;
    pub const EXEC: u8 = 0x03;
    pub const ATTACH: u8 = 0x04;
    pub const SIGNAL: u8 = 0x05;
    pub const RESIZE: u8 = 0x06;
    pub const FILE: u8 = 0x07;
    pub const LIST: u8 = 0x09;
    pub const PROBE: u8 = 0x0a;
    pub const COMMIT: u8 = 0x0b;
    pub const DONE: u8 = 0x80;
    pub const OPENED: u8 = 0x81;
    pub const STARTED: u8 = 0x83;
    pub const ATTACHED: u8 = 0x84;
    pub const LISTING: u8 = 0x89;
    pub const PROBED: u8 = 0x8a;
    pub const OUTPUT: u8 = 0xc1;
    pub const GAP: u8 = 0xc2;
    pub const ENDED: u8 = 0xc3;
    pub const ERROR: u8 = 0xff;
}

/// Error codes of the protocol page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Code {
    BadFrame = 1,
    Unsupported = 2,
    UnknownSandbox = 3,
    UnknownExec = 4,
    IsolationUnavailable = 5,
    LimitReached = 6,
    InvalidArgument = 7,
    StartFailed = 8,
    CommandNotFound = 9,
    NotExecutable = 10,
    ArgumentListTooLong = 11,
    Closing = 12,
    Internal = 13,
    Ended = 14,
    BadDirectory = 15,
}

/// A refusal or failure, as the ERROR frame carries it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub code: Code,
    pub errno: i32,
    pub step: String,
    pub detail: String,
}

impl Failure {
    /// A failure of `code` in `step`, without an errno.
    pub fn new(code: Code, step: &str) -> Self {
        Self { code, errno: 0, step: step.to_owned(), detail: String::new() }
    }

    /// The same with the errno of the failed call.
    pub fn with(code: Code, step: &str, errno: i32) -> Self {
        Self { errno, ..Self::new(code, step) }
    }

    /// The same with words for people.
    pub fn detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = detail.into();
        self
    }
}

/// A frame's header, checked.
#[derive(Clone, Copy, Debug)]
pub struct Header {
    pub length: usize,
    pub kind: u8,
    pub request: u32,
}

/// Reads a header; `Err` where the layout is broken.
pub fn header(bytes: &[u8; HEADER]) -> Result<Header, Failure> {
    let length = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) as usize;
    let request = u32::from_le_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]);
    let broken = |what: &str| Err(Failure::new(Code::BadFrame, what));
    match () {
        () if bytes[4] != VERSION => broken("version"),
        () if bytes[6] != 0 || bytes[7] != 0 => broken("reserved"),
        () if request == 0 => broken("request"),
        () if length > MAX_PAYLOAD => broken("length"),
        () => Ok(Header { length, kind: bytes[5], request }),
    }
}

/// Takes fixed-layout fields off the front of a payload.
pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], Failure> {
        if count > self.0.len() {
            return Err(Failure::new(Code::BadFrame, "payload"));
        }
        let (head, rest) = self.0.split_at(count);
        self.0 = rest;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Failure> {
        let mut out = [0; N];
        out.copy_from_slice(self.take(N)?);
        Ok(out)
    }

    pub fn u8(&mut self) -> Result<u8, Failure> {
        Ok(u8::from_le_bytes(self.array()?))
    }

    pub fn u16(&mut self) -> Result<u16, Failure> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    pub fn u32(&mut self) -> Result<u32, Failure> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub fn u64(&mut self) -> Result<u64, Failure> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    pub fn i32(&mut self) -> Result<i32, Failure> {
        Ok(i32::from_le_bytes(self.array()?))
    }

    /// A length and that many bytes.
    pub fn bytes(&mut self) -> Result<&'a [u8], Failure> {
        let length = self.u32()? as usize;
        self.take(length)
    }

    /// Refuses bytes that no field has taken.
    pub fn end(self) -> Result<(), Failure> {
        if self.0.is_empty() { Ok(()) } else { Err(Failure::new(Code::BadFrame, "payload")) }
    }
}

/// Builds a frame; `finish` fills the length in.
pub struct Writer(Vec<u8>);

impl Writer {
    pub fn new(kind: u8, request: u32) -> Self {
        let mut bytes = Vec::with_capacity(256);
        bytes.extend_from_slice(&[0, 0, 0, 0, VERSION, kind, 0, 0]);
        bytes.extend_from_slice(&request.to_le_bytes());
        Self(bytes)
    }

    pub fn u8(mut self, value: u8) -> Self {
        self.0.push(value);
        self
    }

    pub fn u16(mut self, value: u16) -> Self {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    pub fn u32(mut self, value: u32) -> Self {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    pub fn i32(mut self, value: i32) -> Self {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    pub fn u64(mut self, value: u64) -> Self {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    /// Bytes without a length.
    pub fn raw(mut self, bytes: &[u8]) -> Self {
        self.0.extend_from_slice(bytes);
        self
    }

    pub fn bytes(self, bytes: &[u8]) -> Self {
        self.u32(bytes.len() as u32).raw(bytes)
    }

    pub fn finish(mut self) -> Vec<u8> {
        let length = (self.0.len() - HEADER) as u32;
        self.0[..4].copy_from_slice(&length.to_le_bytes());
        self.0
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
}

impl Open {
    pub fn read(payload: &[u8]) -> Result<Self, Failure> {
        let mut reader = Reader::new(payload);
        let (memory_bytes, workspace_bytes) = (reader.u64()?, reader.u64()?);
        let (pids, cpu_millis, inodes) = (reader.u32()?, reader.u32()?, reader.u32()?);
        let (root, flags) = (reader.u16()?, reader.u16()?);
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
        })
    }
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
        let rest = reader.0;
        let mut walker = Reader::new(rest);
        Strings::read(&mut walker)?;
        let strings = &rest[..rest.len() - walker.0.len()];
        let inline = walker.bytes()?;
        walker.end()?;
        if head.stdin > stdin::ATTACH || (head.stdin != stdin::INLINE && !inline.is_empty()) {
            return Err(Failure::new(Code::BadFrame, "stdin"));
        }
        if inline.len() > MAX_INLINE {
            return Err(Failure::new(Code::InvalidArgument, "inline stdin"));
        }
        if strings.len() > MAX_ARGUMENTS {
            return Err(Failure::with(Code::ArgumentListTooLong, "arguments", libc::E2BIG));
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
    let mut entries = Vec::with_capacity(count.min(reader.0.len() / 4));
    for _ in 0..count {
        entries.push(reader.bytes()?);
    }
    Ok(entries)
}

/// Why an exec ended, by its number on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum End {
    Exited = 1,
    Signaled = 2,
    TimedOut = 3,
    OutOfMemory = 4,
    Killed = 5,
    Lost = 6,
}

/// What lies behind `End::Killed`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Cause {
    None = 0,
    CpuLimit = 1,
    Asked = 2,
    SandboxClosed = 3,
    InitDied = 4,
}

/// The ended event's payload.
#[derive(Clone, Copy, Debug)]
pub struct Ended {
    pub exec: u64,
    pub end: End,
    pub cause: Cause,
    pub retired: bool,
    pub exit_code: i32,
    pub signal: u32,
    pub stdout_bytes: u64,
    pub stderr_bytes: u64,
    pub duration_us: u64,
    pub cpu_us: u64,
    pub memory_peak: u64,
}

impl Ended {
    pub fn frame(&self) -> Vec<u8> {
        Writer::new(kind::ENDED, 0)
            .u64(self.exec)
            .u8(self.end as u8)
            .u8(self.cause as u8)
            .u8(u8::from(self.retired))
            .u8(0)
            .i32(self.exit_code)
            .u32(self.signal)
            .u32(0)
            .u64(self.stdout_bytes)
            .u64(self.stderr_bytes)
            .u64(self.duration_us)
            .u64(self.cpu_us)
            .u64(self.memory_peak)
            .finish()
    }
}

pub fn done(request: u32) -> Vec<u8> {
    Writer::new(kind::DONE, request).finish()
}

/// OPENED and STARTED: an id and what was measured.
pub fn measured(kind: u8, request: u32, id: u64, effective: &Effective) -> Vec<u8> {
    effective.write(Writer::new(kind, request).u64(id)).finish()
}

pub fn error(request: u32, failure: &Failure) -> Vec<u8> {
    Writer::new(kind::ERROR, request)
        .u16(failure.code as u16)
        .u16(0)
        .i32(failure.errno)
        .bytes(failure.step.as_bytes())
        .bytes(failure.detail.as_bytes())
        .finish()
}
