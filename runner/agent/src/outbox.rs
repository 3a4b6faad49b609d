//! What a connection has still to send, bounded: producers wait, the socket never blocks a thread.

use crate::executor::lock;
use crate::fail::Fail;
use std::collections::VecDeque;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Mutex;
use std::task::{Poll, Waker};

/// Queued bytes above which producers wait.
const HIGH: usize = 1 << 20;
/// Queued bytes below which they go on.
const LOW: usize = 256 << 10;

#[derive(Default)]
struct State {
    queue: VecDeque<Vec<u8>>,
    sent_of_first: usize,
    bytes: usize,
    waiting: Vec<Waker>,
    closed: bool,
}

/// The sending half of one connection.
pub struct Outbox {
    socket: OwnedFd,
    state: Mutex<State>,
}

/// What the caller has to do about the socket's readiness.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// All is sent.
    Sent,
    /// Something waits for the socket to take more.
    Waiting,
    /// The peer has gone.
    Gone,
}

impl Outbox {
    pub fn new(socket: OwnedFd) -> Outbox {
        Outbox { socket, state: Mutex::default() }
    }

    pub fn fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    /// Sends frames in order, or queues what the socket does not take now.
    pub fn push(&self, frames: &[u8]) -> After {
        let mut state = lock(&self.state);
        if state.closed {
            return After::Gone;
        }
        let mut sent = 0;
        if state.queue.is_empty() {
            match self.send(frames) {
                Some(count) => sent = count,
                None => return After::Gone,
            }
        }
        if sent == frames.len() {
            return After::Sent;
        }
        let first = state.queue.is_empty();
        state.bytes += frames.len() - sent;
        state.queue.push_back(frames[sent..].to_vec());
        if first { After::Waiting } else { After::Sent }
    }

    /// Sends what was queued, when the socket takes it again.
    pub fn flush(&self) -> After {
        let mut state = lock(&self.state);
        let mut answer = After::Sent;
        while let Some(first) = state.queue.front() {
            let from = state.sent_of_first;
            let length = first.len();
            let Some(count) = self.send(&first[from..]) else {
                answer = After::Gone;
                break;
            };
            state.bytes -= count;
            state.sent_of_first += count;
            if state.sent_of_first < length {
                answer = After::Waiting;
                break;
            }
            state.queue.pop_front();
            state.sent_of_first = 0;
        }
        let wake = if state.bytes < LOW { std::mem::take(&mut state.waiting) } else { Vec::new() };
        drop(state);
        wake.into_iter().for_each(Waker::wake);
        answer
    }

    /// Whether so much is queued that nothing more should be asked for.
    pub fn is_full(&self) -> bool {
        lock(&self.state).bytes >= HIGH
    }

    /// Whether something is queued.
    pub fn is_waiting(&self) -> bool {
        !lock(&self.state).queue.is_empty()
    }

    /// Waits until the queue is short.
    pub async fn room(&self) -> Result<(), Fail> {
        std::future::poll_fn(|context| {
            let mut state = lock(&self.state);
            if state.closed {
                return Poll::Ready(Err(Fail::cancelled()));
            }
            if state.bytes < HIGH {
                return Poll::Ready(Ok(()));
            }
            state.waiting.push(context.waker().clone());
            Poll::Pending
        })
        .await
    }

    /// Drops what is queued; nothing is sent from here on.
    pub fn close(&self) {
        let mut state = lock(&self.state);
        state.closed = true;
        state.queue.clear();
        state.bytes = 0;
        let wake = std::mem::take(&mut state.waiting);
        drop(state);
        wake.into_iter().for_each(Waker::wake);
        // SAFETY: no memory is passed. A socket whose peer has gone may refuse: it is closed anyway.
        unsafe { libc::shutdown(self.fd(), libc::SHUT_RDWR) };
    }

    /// As many bytes as the socket takes now; `None` when the peer has gone.
    fn send(&self, mut bytes: &[u8]) -> Option<usize> {
        let total = bytes.len();
        while !bytes.is_empty() {
            let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
            // SAFETY: `bytes` is readable for the length that is passed.
            let count = unsafe { libc::send(self.fd(), bytes.as_ptr().cast(), bytes.len(), flags) };
            if count >= 0 {
                bytes = &bytes[count as usize..];
                continue;
            }
            match crate::fail::Errno::last().0 {
                libc::EINTR => {}
                libc::EAGAIN | libc::ENOBUFS => break,
                _ => return None,
            }
        }
        Some(total - bytes.len())
    }
}
