//! One open call: its credit, what the client has sent on it, and its end.

use crate::connection::Connection;
use crate::executor::lock;
use crate::fail::Fail;
use crate::frames::{self, INITIAL_GRANT, INITIAL_WINDOW, MAX_WINDOW, kind};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};

struct State {
    /// Stream bytes that may still be sent to the client.
    credit: u64,
    /// Stream bytes that the client may still send.
    granted: u64,
    inbox: VecDeque<Vec<u8>>,
    committed: bool,
    waker: Option<Waker>,
}

/// The state that a call's task and its connection share.
pub struct Call {
    pub id: u32,
    pub connection: Arc<Connection>,
    cancelled: AtomicBool,
    state: Mutex<State>,
}

impl Call {
    pub fn new(id: u32, connection: Arc<Connection>) -> Arc<Call> {
        let state = State {
            credit: INITIAL_WINDOW,
            granted: INITIAL_GRANT,
            inbox: VecDeque::new(),
            committed: false,
            waker: None,
        };
        Arc::new(Call { id, connection, cancelled: AtomicBool::new(false), state: Mutex::new(state) })
    }

    /// Ends the call at its next step.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::SeqCst);
        self.wake();
    }

    /// Fails once the call is cancelled; long loops ask between their steps.
    pub fn check(&self) -> Result<(), Fail> {
        if self.cancelled.load(Ordering::Relaxed) { Err(Fail::cancelled()) } else { Ok(()) }
    }

    /// Wakes the call's task.
    pub fn wake(&self) {
        let waker = lock(&self.state).waker.take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// The client took `bytes` of the stream.
    pub fn add_credit(&self, bytes: u64) -> Result<(), Fail> {
        let mut state = lock(&self.state);
        state.credit += bytes;
        if state.credit > MAX_WINDOW {
            return Err(Fail::protocol("too much credit"));
        }
        drop(state);
        self.wake();
        Ok(())
    }

    /// The client sent a piece of its stream.
    pub fn receive(&self, bytes: Vec<u8>) -> Result<(), Fail> {
        let mut state = lock(&self.state);
        let Some(left) = state.granted.checked_sub(bytes.len() as u64) else {
            return Err(Fail::protocol("more was sent than was granted"));
        };
        if state.committed {
            return Err(Fail::protocol("data after the commit"));
        }
        state.granted = left;
        state.inbox.push_back(bytes);
        drop(state);
        self.wake();
        Ok(())
    }

    /// The client's stream is complete.
    pub fn commit(&self) {
        lock(&self.state).committed = true;
        self.wake();
    }

    /// The next piece of the client's stream, `None` once it is complete. Grants its bytes anew.
    pub async fn next_chunk(&self) -> Result<Option<Vec<u8>>, Fail> {
        let chunk = self
            .wait(|state| match state.inbox.pop_front() {
                Some(chunk) => Some(Some(chunk)),
                None if state.committed => Some(None),
                None => None,
            })
            .await?;
        if let Some(chunk) = &chunk {
            let size = chunk.len() as u32;
            lock(&self.state).granted += u64::from(size);
            self.connection.push(&frames::frame(kind::GRANT, self.id, &size.to_le_bytes()));
        }
        Ok(chunk)
    }

    /// Waits for credit and takes up to `most` bytes of it, at least one.
    pub async fn take_credit(&self, most: usize) -> Result<usize, Fail> {
        self.wait(|state| {
            let count = state.credit.min(most as u64);
            state.credit -= count;
            (count > 0).then_some(count as usize)
        })
        .await
    }

    /// Takes `bytes` of credit; it may become owed, so that a batch larger than the rest can go.
    pub async fn spend(&self, bytes: usize) -> Result<(), Fail> {
        self.wait(|state| {
            if state.credit == 0 {
                return None;
            }
            state.credit = state.credit.saturating_sub(bytes as u64);
            Some(())
        })
        .await
    }

    /// Gives back credit that was taken and not used.
    pub fn return_credit(&self, bytes: usize) {
        lock(&self.state).credit += bytes as u64;
    }

    /// Sends frames of this call, after waiting for the connection to have room.
    pub async fn send(&self, frames: &[u8]) -> Result<(), Fail> {
        self.connection.room().await?;
        self.check()?;
        self.connection.push(frames);
        Ok(())
    }

    /// Sends one stream frame of any size below the limit, within the call's credit.
    pub async fn send_stream(&self, frame_kind: u8, payload: &[u8]) -> Result<(), Fail> {
        self.spend(payload.len()).await?;
        self.send(&frames::frame(frame_kind, self.id, payload)).await
    }

    /// Waits until the call is woken and `step` has an answer.
    async fn wait<T>(&self, mut step: impl FnMut(&mut State) -> Option<T>) -> Result<T, Fail> {
        std::future::poll_fn(|context| {
            let mut state = lock(&self.state);
            if self.cancelled.load(Ordering::SeqCst) {
                return Poll::Ready(Err(Fail::cancelled()));
            }
            match step(&mut state) {
                Some(value) => Poll::Ready(Ok(value)),
                None => {
                    state.waker = Some(context.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }

    /// Waits for `source` to say it has something, or for the call to be cancelled.
    pub async fn wait_for(&self, ready: &AtomicBool) -> Result<(), Fail> {
        self.wait(|_| ready.swap(false, Ordering::SeqCst).then_some(())).await
    }
}
