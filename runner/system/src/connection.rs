//! A client's connection: frames in, frames out, neither side's memory without bound.

use crate::spool::Spool;
use std::collections::VecDeque;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use crate::sys::{self, Errno};
use crate::wipe::wipe;
use boxkite_wire::frames::{self, Failure, HEADER, Header};

const CHUNK: usize = 64 << 10;
/// Above this many unsent bytes nothing more is read from the client nor taken from a spool.
const HIGH_WATER: usize = 512 << 10;

/// Of a connection with long output, which fills it while its client has other work.
static SEND_BUFFER: libc::c_int = 1 << 20;

/// The rest of an output frame, whose header is sent or queued.
#[derive(Clone, Copy, Debug)]
pub struct Body {
    pub exec: u64,
    pub stream: usize,
    pub offset: u64,
    pub left: usize,
}

/// One connection.
pub struct Connection {
    pub socket: OwnedFd,
    input: Vec<u8>,
    output: Vec<u8>,
    written: usize,
    enlarged: bool,
    /// What follows `output` on the wire straight from a spool, and what follows that.
    body: Option<Body>,
    after: Vec<u8>,
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
            enlarged: false,
            body: None,
            after: Vec::new(),
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

    /// Queues a frame behind all that is queued.
    pub fn push(&mut self, frame: &[u8]) {
        if self.body.is_some() { self.after.extend_from_slice(frame) } else { self.output.extend_from_slice(frame) }
    }

    /// Queues bytes of a spool behind their header, which was pushed last. There is one body at a time.
    pub fn push_body(&mut self, body: Body) {
        debug_assert!(self.body.is_none());
        if !self.enlarged {
            self.enlarged = true;
            grow_send_buffer(&self.socket);
        }
        self.body = Some(body);
    }

    pub fn body(&self) -> Option<Body> {
        self.body
    }

    /// Says how much of the body is sent.
    pub fn body_sent(&mut self, count: usize) {
        if let Some(body) = &mut self.body {
            body.offset += count as u64;
            body.left -= count;
            if body.left == 0 {
                self.finish_body();
            }
        }
    }

    /// The spool is about to change or to go: the rest of the body is copied from it.
    pub fn copy_body(&mut self, spool: &Spool) {
        if let Some(body) = self.body.take() {
            let (mut offset, mut left) = (body.offset, body.left);
            while left > 0 {
                // Uncommitted bytes are all there; a client that committed bytes that it had not got gets zeros.
                let piece = spool.piece(offset, left);
                if piece == 0 {
                    self.output.resize(self.output.len() + left, 0);
                    break;
                }
                spool.copy_to(offset, piece, &mut self.output);
                (offset, left) = (offset + piece as u64, left - piece);
            }
            self.finish_body();
        }
    }

    fn finish_body(&mut self) {
        self.body = None;
        let mut after = std::mem::take(&mut self.after);
        if self.output.is_empty() { self.output = after } else { self.output.append(&mut after) }
    }

    /// Whether more may be taken from spools or read from the client.
    pub fn has_room(&self) -> bool {
        self.output.len() - self.written + self.after.len() < HIGH_WATER
    }

    /// Whether everything that was queued is sent.
    pub fn is_empty(&self) -> bool {
        self.output.is_empty() && self.body.is_none()
    }

    /// What epoll should tell of: a client that does not read its answers is not read from either.
    pub fn interest(&self) -> (bool, bool) {
        (self.has_room(), self.written < self.output.len() || self.body.is_some())
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

/// The socket stays as it is where the system allows no more.
fn grow_send_buffer(socket: &OwnedFd) {
    let length = size_of_val(&SEND_BUFFER) as libc::socklen_t;
    // What is allowed to everybody comes second.
    for option in [libc::SO_SNDBUFFORCE, libc::SO_SNDBUF] {
        // SAFETY: the value is a constant of the length that is given, and only read.
        let result = unsafe {
            libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, option, (&raw const SEND_BUFFER).cast(), length)
        };
        if result == 0 {
            return;
        }
    }
}

impl Drop for Connection {
    /// Half a frame may hold a secret.
    fn drop(&mut self) {
        wipe(&mut self.input);
    }
}
