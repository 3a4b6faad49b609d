//! The runner protocol's frames: `docs/reference/runner-protocol.md`. Pure: bytes in, values out.

mod answers;
mod requests;

pub use answers::{Cause, End, Ended, State, attached, done, error, measured, outcome, programs_set};
pub use requests::{Close, Exec, ExecHead, Open, Programs, Strings, WorkspaceId, WorkspaceKind, list_flags, stdin};

pub const HEADER: usize = 12;
pub const VERSION: u8 = 1;
/// The longest payload that is read.
pub const MAX_PAYLOAD: usize = 4 << 20;
/// The most bytes of arguments and environment together.
pub const MAX_ARGUMENTS: usize = 3 << 20;
/// The longest standard input that travels inside an exec frame; a pipe holds it without a reader.
pub const MAX_INLINE: usize = 64 << 10;
/// The most programs of a list, and the most bytes of their names together.
pub const MAX_PROGRAMS: usize = 1024;
pub const MAX_PROGRAM_NAMES: usize = 64 << 10;
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
    pub const PROGRAMS: u8 = 0x0c;
    pub const DONE: u8 = 0x80;
    pub const OPENED: u8 = 0x81;
    pub const STARTED: u8 = 0x83;
    pub const ATTACHED: u8 = 0x84;
    pub const LISTING: u8 = 0x89;
    pub const PROBED: u8 = 0x8a;
    pub const PROGRAMS_SET: u8 = 0x8c;
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
    NoWorkspace = 16,
    WorkspaceExists = 17,
    WorkspaceInUse = 18,
    ProgramRefused = 19,
    SandboxInUse = 20,
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

    /// The bytes of an id of a workspace.
    pub fn id(&mut self) -> Result<[u8; 16], Failure> {
        self.array()
    }

    /// Bytes that must be 0.
    pub fn zeros<const N: usize>(&mut self) -> Result<(), Failure> {
        if self.array::<N>()? == [0; N] { Ok(()) } else { Err(Failure::new(Code::BadFrame, "reserved")) }
    }

    /// A length and that many bytes.
    pub fn bytes(&mut self) -> Result<&'a [u8], Failure> {
        let length = self.u32()? as usize;
        self.take(length)
    }

    /// The bytes that no field has taken yet.
    pub fn rest(&self) -> &'a [u8] {
        self.0
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

    /// What is written so far, for bytes that come from elsewhere.
    pub fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.0
    }

    pub fn finish(self) -> Vec<u8> {
        self.finish_with(0)
    }

    /// The frame up to `more` bytes of payload that follow it on the wire.
    pub fn finish_with(mut self, more: usize) -> Vec<u8> {
        let length = (self.0.len() - HEADER + more) as u32;
        self.0[..4].copy_from_slice(&length.to_le_bytes());
        self.0
    }
}
