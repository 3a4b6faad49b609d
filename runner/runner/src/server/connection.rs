//! A client's connection: frames in, frames out, neither side's memory without bound.

use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};

use boxkite_system::sys::{self, Errno};
use boxkite_system::wipe::wipe;
use boxkite_wire::frames::{self, Failure, HEADER, Header};

const CHUNK: usize = 64 << 10;
/// Above this many unsent bytes nothing more is read from the client nor taken from a spool.
const HIGH_WATER: usize = 512 << 10;

/// One connection.
pub struct Connection {
    pub socket: OwnedFd,
    input: Vec<u8>,
    output: Vec<u8>,
    written: usize,
    /// Execs with something to send, each at most once.
    pub ready: VecDeque<u64>,
    /// What epoll tells of: input, room for output.
    pub watched: (bool, bool),
    /// To be closed once everything is written.
    pub closing: bool,
}

impl Connection {
    pub fn new(socket: OwnedFd) -> Self {
        Self {
            socket,
            input: Vec::new(),
            output: Vec::new(),
            written: 0,
            ready: VecDeque::new(),
            watched: (true, false),
            closing: false,
        }
    }

    /// Reads what there is, up to one chunk. `Ok(0)`: the client has ended.
    pub fn read(&mut self) -> Result<usize, Errno> {
        let wanted = self.expected().saturating_sub(self.input.len()).max(CHUNK);
        self.reserve(wanted);
        let length = self.input.len();
        self.input.resize(length + wanted, 0);
        let result = sys::read(self.socket.as_fd(), &mut self.input[length..]);
        self.input.truncate(length + result.unwrap_or(0));
        result
    }

    /// The length of the frame that has begun to arrive.
    fn expected(&self) -> usize {
        match self.input.first_chunk::<HEADER>().map(frames::header) {
            Some(Ok(header)) => HEADER + header.length,
            _ => 0,
        }
    }

    /// Like `Vec::reserve`, but the old copy is wiped: frames carry secrets.
    fn reserve(&mut self, more: usize) {
        if self.input.capacity() - self.input.len() < more {
            let mut larger = Vec::with_capacity(self.input.len() + more);
            larger.extend_from_slice(&self.input);
            wipe(&mut self.input);
            self.input = larger;
        }
    }

    /// Takes the next whole frame out of the input.
    pub fn next_frame(&mut self) -> Result<Option<(Header, Vec<u8>)>, Failure> {
        let Some(bytes) = self.input.first_chunk::<HEADER>() else { return Ok(None) };
        let header = frames::header(bytes)?;
        let end = HEADER + header.length;
        if self.input.len() < end {
            return Ok(None);
        }
        let payload = self.input[HEADER..end].to_vec();
        let left = self.input.len() - end;
        self.input.copy_within(end.., 0);
        wipe(&mut self.input[left..]);
        self.input.truncate(left);
        Ok(Some((header, payload)))
    }

    /// Whether the client has sent more than whole frames.
    pub fn has_input(&self) -> bool {
        !self.input.is_empty()
    }

    pub fn push(&mut self, frame: &[u8]) {
        self.output.extend_from_slice(frame);
    }

    /// Whether more may be taken from spools or read from the client.
    pub fn has_room(&self) -> bool {
        self.output.len() - self.written < HIGH_WATER
    }

    /// What epoll should tell of: a client that does not read its answers is not read from either.
    pub fn interest(&self) -> (bool, bool) {
        (self.has_room(), self.written < self.output.len())
    }

    /// Writes what the socket takes. `Ok(true)`: everything is written.
    pub fn write(&mut self) -> Result<bool, Errno> {
        while self.written < self.output.len() {
            match sys::write(self.socket.as_fd(), &self.output[self.written..]) {
                Ok(count) => self.written += count,
                Err(libc::EAGAIN) => return Ok(false),
                Err(libc::EINTR) => {}
                Err(errno) => return Err(errno),
            }
        }
        self.output.clear();
        self.written = 0;
        Ok(true)
    }
}
