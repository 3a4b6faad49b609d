//! What the runner answers and tells.

use super::{Failure, Writer, kind};
use crate::effective::Effective;

/// Where an exec is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Starting,
    Running,
    /// Nothing is alive, but output is still in the pipes.
    Draining,
    Ended,
}

impl State {
    /// Its number on the wire.
    pub fn number(self) -> u8 {
        match self {
            Self::Starting => 0,
            Self::Running | Self::Draining => 1,
            Self::Ended => 2,
        }
    }
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

/// How an exec ended, its exit code and signal: what the command's own wait status says, unless there is a verdict.
pub fn outcome(wait_status: i32, verdict: Option<(End, Cause)>) -> (End, Cause, i32, u32) {
    const KILLED: u32 = 9;
    let signal = (wait_status & 0x7f) as u32;
    let own = if signal == 0 { End::Exited } else { End::Signaled };
    let (end, cause) = verdict.unwrap_or((own, Cause::None));
    match end {
        End::Exited => (end, cause, wait_status >> 8 & 0xff, 0),
        End::Signaled => (end, cause, -1, signal),
        _ => (end, cause, -1, KILLED),
    }
}

pub fn done(request: u32) -> Vec<u8> {
    Writer::new(kind::DONE, request).finish()
}

/// OPENED and STARTED: an id and what was measured.
pub fn measured(kind: u8, request: u32, id: u64, effective: &Effective) -> Vec<u8> {
    effective.write(Writer::new(kind, request).u64(id)).finish()
}

/// PROGRAMS_SET: what was measured, and the names that no file has, in the encoding of `Strings`' lists.
pub fn programs_set(request: u32, effective: &Effective, missing: &[u8]) -> Vec<u8> {
    effective.write(Writer::new(kind::PROGRAMS_SET, request)).raw(missing).finish()
}

/// ATTACHED: the exec, where each stream goes on, and what was measured.
pub fn attached(request: u32, exec: u64, from: [u64; 2], effective: &Effective) -> Vec<u8> {
    effective.write(Writer::new(kind::ATTACHED, request).u64(exec).u64(from[0]).u64(from[1])).finish()
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
