//! One client connection: frames in, calls started, answers out.

use crate::call::Call;
use crate::control::Control;
use crate::executor::{Pool, Source, Weight, hand_over, lock};
use crate::fail::{Code, Errno, Fail};
use crate::frames::{self, HEADER, Header, MAX_CALLS, kind};
use crate::ops::{self, Started};
use crate::outbox::{After, Outbox};
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex};

const READ_BUFFER: usize = 64 << 10;
const IN: u32 = (libc::EPOLLIN | libc::EPOLLRDHUP) as u32;
const OUT: u32 = libc::EPOLLOUT as u32;

/// Bytes that were received and are not yet frames.
#[derive(Default)]
struct Receiver {
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// A payload that did not fit in the buffer: it is received straight into its own memory.
    large: Option<(Header, Vec<u8>, usize)>,
}

/// One accepted client.
pub struct Connection {
    pool: Arc<Pool>,
    control: Arc<Control>,
    outbox: Outbox,
    key: u64,
    /// 0: nobody reads, 1: a thread reads, 2: it has to look once more.
    reading: AtomicU8,
    closed: AtomicBool,
    receiver: Mutex<Receiver>,
    calls: Mutex<HashMap<u32, Arc<Call>>>,
}

impl Connection {
    /// Serves a socket until either side closes it.
    pub fn serve(pool: &Arc<Pool>, control: Arc<Control>, socket: OwnedFd) -> Result<(), Errno> {
        let connection = Arc::new(Connection {
            pool: pool.clone(),
            control,
            outbox: Outbox::new(socket),
            key: pool.new_key(),
            reading: AtomicU8::new(0),
            closed: AtomicBool::new(false),
            receiver: Mutex::default(),
            calls: Mutex::default(),
        });
        pool.add(connection.key, connection.outbox.fd(), IN, connection.clone())
    }

    /// The pool whose threads serve this connection.
    pub fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    /// Sends frames, or queues them.
    pub fn push(&self, frames: &[u8]) {
        let after = self.outbox.push(frames);
        self.after(after);
    }

    /// Waits until little enough is queued.
    pub async fn room(&self) -> Result<(), Fail> {
        self.outbox.room().await
    }

    fn after(&self, after: After) {
        match after {
            After::Sent => {}
            After::Gone => self.close(),
            After::Waiting => self.watch_events(IN | OUT),
        }
    }

    fn watch_events(&self, events: u32) {
        if self.closed.load(Ordering::SeqCst) {
            return;
        }
        if self.pool.modify(self.outbox.fd(), events, self.key).is_err() {
            self.close();
        }
    }

    /// Cancels all calls and forgets the socket.
    fn close(&self) {
        if self.closed.swap(true, Ordering::SeqCst) {
            return;
        }
        self.outbox.close();
        self.pool.remove(self.outbox.fd(), self.key);
        let calls: Vec<Arc<Call>> = lock(&self.calls).drain().map(|(_, call)| call).collect();
        calls.iter().for_each(|call| call.cancel());
    }

    /// Tells the client why, then closes: the protocol was broken.
    fn refuse(&self, fail: &Fail) {
        self.outbox.push(&frames::error(0, fail));
        self.close();
    }

    /// Reads frames until nothing is there; at most one thread does at a time.
    fn read(self: &Arc<Self>) {
        loop {
            let (seen, next) = match self.reading.load(Ordering::SeqCst) {
                0 => (0, 1),
                1 => (1, 2),
                _ => return,
            };
            if self.reading.compare_exchange(seen, next, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
                if next == 2 {
                    return;
                }
                break;
            }
        }
        loop {
            self.reading.store(1, Ordering::SeqCst);
            if let Err(fail) = self.read_available() {
                return self.refuse(&fail);
            }
            if self.reading.compare_exchange(1, 0, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
                return;
            }
        }
    }

    fn read_available(self: &Arc<Self>) -> Result<(), Fail> {
        let mut receiver = lock(&self.receiver);
        while !self.closed.load(Ordering::SeqCst) && !self.outbox.is_full() {
            let (space, large) = receiver.space();
            let wanted = space.len();
            // SAFETY: `space` is writable for the length that is passed.
            let count = unsafe {
                let flags = libc::MSG_DONTWAIT;
                libc::recv(self.outbox.fd(), space.as_mut_ptr().cast(), wanted, flags)
            };
            if count < 0 {
                match Errno::last().0 {
                    libc::EINTR => continue,
                    libc::EAGAIN => return Ok(()),
                    _ => {
                        self.close();
                        return Ok(());
                    }
                }
            }
            if count == 0 {
                self.close();
                return Ok(());
            }
            receiver.filled(count as usize);
            self.handle_received(&mut receiver)?;
            if (count as usize) < wanted && !large {
                return Ok(());
            }
        }
        Ok(())
    }

    fn handle_received(self: &Arc<Self>, receiver: &mut Receiver) -> Result<(), Fail> {
        if let Some((header, payload, filled)) = receiver.large.take() {
            if filled < payload.len() {
                receiver.large = Some((header, payload, filled));
                return Ok(());
            }
            return self.handle(header, Payload::Owned(payload));
        }
        while let Some(bytes) = receiver.buffer[receiver.start..receiver.end].first_chunk() {
            let header = Header::parse(bytes)?;
            let from = receiver.start + HEADER;
            let available = receiver.end - from;
            if header.length > available {
                receiver.begin_large(header);
                return Ok(());
            }
            receiver.start = from + header.length;
            let payload = &receiver.buffer[from..from + header.length];
            self.handle(header, Payload::Borrowed(payload))?;
        }
        Ok(())
    }

    fn handle(self: &Arc<Self>, header: Header, payload: Payload<'_>) -> Result<(), Fail> {
        match header.kind {
            1..=kind::LAST_REQUEST => self.start(header, payload.bytes()),
            kind::SENT | kind::COMMIT | kind::CREDIT | kind::CANCEL => {
                let call = lock(&self.calls).get(&header.id).cloned();
                // A frame for a call that has just ended crosses its end: it means nothing.
                let Some(call) = call else { return Ok(()) };
                self.continue_call(&call, header, payload)
            }
            _ => Err(Fail::protocol("unknown frame type")),
        }
    }

    fn continue_call(&self, call: &Call, header: Header, payload: Payload<'_>) -> Result<(), Fail> {
        match header.kind {
            kind::SENT => {
                let bytes = payload.into_vec();
                hand_over(|| call.receive(bytes))
            }
            kind::CREDIT => {
                let mut reader = crate::payload::Reader::new(payload.bytes());
                let bytes = reader.u32()?;
                reader.finish()?;
                call.add_credit(u64::from(bytes))
            }
            kind::COMMIT => {
                call.commit();
                Ok(())
            }
            _ => {
                call.cancel();
                Ok(())
            }
        }
    }

    fn start(self: &Arc<Self>, header: Header, payload: &[u8]) -> Result<(), Fail> {
        let id = header.id;
        if id == 0 {
            return Err(Fail::protocol("0 is no request id"));
        }
        let call = {
            let mut calls = lock(&self.calls);
            if calls.contains_key(&id) {
                return Err(Fail::protocol("the request id is in use"));
            }
            if calls.len() >= MAX_CALLS {
                drop(calls);
                let fail = Fail::new(Code::Limit, "too many open calls on this connection");
                self.push(&frames::error(id, &fail));
                return Ok(());
            }
            let call = Call::new(id, self.clone());
            calls.insert(id, call.clone());
            call
        };
        if self.closed.load(Ordering::SeqCst) {
            call.cancel();
        }
        match ops::start(&call, header, payload) {
            Ok(Started::Answered(frames)) => {
                self.forget(id);
                self.push(&frames);
            }
            Ok(Started::Task(weight, work)) => self.run(call, weight, work),
            // Another thread may have closed the connection already and forgotten its calls: one that stayed here would
            // hold the connection for ever.
            Err(fail) if fail.code == Code::Protocol => {
                self.forget(id);
                return Err(fail);
            }
            Err(fail) => self.finish(id, Err(fail)),
        }
        Ok(())
    }

    fn run(self: &Arc<Self>, call: Arc<Call>, weight: Weight, work: ops::Work) {
        self.pool.spawn(weight, async move {
            let result = work.await;
            call.connection.finish(call.id, result);
        });
    }

    fn forget(&self, id: u32) {
        lock(&self.calls).remove(&id);
    }

    /// Ends a call: its id is free before the client learns of the end.
    fn finish(&self, id: u32, result: Result<Vec<u8>, Fail>) {
        self.forget(id);
        match result {
            Ok(payload) => self.push(&frames::frame(kind::END, id, &payload)),
            Err(fail) => self.push(&frames::error(id, &fail)),
        }
    }
}

impl Source for Connection {
    fn ready(self: Arc<Self>, events: u32) {
        if events & OUT != 0 {
            match self.outbox.flush() {
                After::Gone => self.close(),
                After::Waiting => {}
                After::Sent => {
                    self.watch_events(IN);
                    // Something may have been queued since; then the socket has to be watched again.
                    if self.outbox.is_waiting() {
                        self.watch_events(IN | OUT);
                    }
                }
            }
        }
        if events & (libc::EPOLLHUP | libc::EPOLLERR | libc::EPOLLRDHUP) as u32 != 0 {
            // What was sent before the end is read, so that it is known to be whole frames.
            self.read();
            return self.close();
        }
        self.read();
    }
}

impl Drop for Connection {
    /// Runs when the last call has ended too, so that the runner never ends the agent before that.
    fn drop(&mut self) {
        self.control.connection_ended();
    }
}

impl Receiver {
    /// Where to receive next, and whether that is the memory of a large payload.
    fn space(&mut self) -> (&mut [u8], bool) {
        if let Some((_, payload, filled)) = &mut self.large {
            return (&mut payload[*filled..], true);
        }
        if self.buffer.is_empty() {
            self.buffer = vec![0; READ_BUFFER];
        }
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        (&mut self.buffer[self.end..], false)
    }

    fn filled(&mut self, count: usize) {
        match &mut self.large {
            Some((_, _, filled)) => *filled += count,
            None => self.end += count,
        }
    }

    fn begin_large(&mut self, header: Header) {
        let from = self.start + HEADER;
        let mut payload = vec![0; header.length];
        let have = self.end - from;
        payload[..have].copy_from_slice(&self.buffer[from..self.end]);
        self.start = 0;
        self.end = 0;
        self.large = Some((header, payload, have));
    }
}

/// A payload, in the shared buffer or in memory of its own.
enum Payload<'a> {
    Borrowed(&'a [u8]),
    Owned(Vec<u8>),
}

impl Payload<'_> {
    fn bytes(&self) -> &[u8] {
        match self {
            Payload::Borrowed(bytes) => bytes,
            Payload::Owned(bytes) => bytes,
        }
    }

    fn into_vec(self) -> Vec<u8> {
        match self {
            Payload::Borrowed(bytes) => bytes.to_vec(),
            Payload::Owned(bytes) => bytes,
        }
    }
}
