//! Clients come and go. An exec outlives the connection that started it.

use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

use super::Server;
use super::timers::Timer;
use boxkite_system::connection::Connection;
use boxkite_system::poll::{Event, Token};
use boxkite_system::sys::{self, Errno};
use boxkite_system::wipe::wipe;
use boxkite_wire::frames::{self, Failure, kind};

/// Connections at one time; more wait in the kernel's queue until one ends.
const MOST_CONNECTIONS: usize = 4096;
/// How long nobody is accepted when there is no place.
const PAUSE: Duration = Duration::from_millis(50);

impl Server {
    pub(super) fn accept(&mut self, place: u64) {
        let Some(listener) = self.listeners.get(place as usize) else { return };
        let listener_fd = listener.as_raw_fd();
        while self.connections.len() < MOST_CONNECTIONS {
            // SAFETY: the new descriptor is ours.
            let socket = unsafe {
                let flags = libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
                let fd = libc::accept4(listener_fd, std::ptr::null_mut(), std::ptr::null_mut(), flags);
                if fd < 0 {
                    let errno = sys::errno();
                    if errno == libc::EAGAIN {
                        return;
                    }
                    break;
                }
                OwnedFd::from_raw_fd(fd)
            };
            // A failure closes the socket, which tells the client.
            let _ = self.accept_connection(socket);
        }
        // No place or no descriptor: the listener would be told as ready for ever, so it is left alone for a while.
        if self.listeners.get(place as usize).is_some_and(|listener| self.poll.remove(listener.as_fd()).is_ok()) {
            self.timers.add(PAUSE, Timer::Listen(place));
        }
    }

    pub(super) fn listen_again(&mut self, place: u64) {
        let Some(listener) = self.listeners.get(place as usize) else { return };
        if self.poll.add(listener.as_fd(), Token::Listener(place)).is_err() {
            self.timers.add(PAUSE, Timer::Listen(place));
        }
    }

    pub(super) fn accept_connection(&mut self, socket: OwnedFd) -> Result<u64, Errno> {
        sys::set_nonblocking(socket.as_fd(), true)?;
        let id = self.new_id();
        self.poll.add(socket.as_fd(), Token::Connection(id))?;
        self.connections.insert(id, Connection::new(socket));
        Ok(id)
    }

    pub(super) fn connection_event(&mut self, id: u64, event: Event) {
        if event.writable {
            self.flush(id);
            // Frames may be waiting that a client sent without reading its answers.
            self.serve_input(id);
        }
        let Some(connection) = self.connections.get_mut(&id) else { return };
        if !event.readable {
            return;
        }
        if connection.closing {
            // The client was refused and nothing more is read; its end ends the connection.
            self.drop_connection(id);
            return;
        }
        match connection.read() {
            Err(libc::EAGAIN | libc::EINTR) => {}
            Ok(0) | Err(_) => self.drop_connection(id),
            Ok(_) => self.serve_input(id),
        }
    }

    /// Serves every whole frame that has arrived.
    fn serve_input(&mut self, id: u64) {
        loop {
            if self.connections.get(&id).is_some_and(|connection| !connection.has_room()) {
                self.flush(id);
            }
            let Some(connection) = self.connections.get_mut(&id) else { return };
            if connection.closing {
                break;
            }
            if !connection.has_room() {
                return;
            }
            match connection.next_frame() {
                Ok(None) => break,
                Ok(Some((header, mut payload))) => {
                    self.operation(id, header, &payload);
                    wipe(&mut payload);
                }
                Err(failure) => {
                    self.answer(id, &frames::error(0, &failure));
                    if let Some(connection) = self.connections.get_mut(&id) {
                        connection.closing = true;
                    }
                    break;
                }
            }
        }
        self.flush(id);
    }

    /// Queues a frame; `flush` sends it.
    pub(super) fn answer(&mut self, id: u64, frame: &[u8]) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.push(frame);
        }
    }

    pub(super) fn refuse(&mut self, id: u64, request: u32, failure: &Failure) {
        self.answer(id, &frames::error(request, failure));
    }

    /// Says that an exec has something to send to its consumer.
    pub(super) fn mark_ready(&mut self, exec: u64) {
        let Some(connection) = self.execs.get(&exec).and_then(|exec| exec.consumer) else { return };
        if let Some(connection) = self.connections.get_mut(&connection) {
            if !connection.ready.contains(&exec) {
                connection.ready.push_back(exec);
            }
        }
    }

    /// Sends what is queued and what the execs have, as far as the socket takes it.
    pub(super) fn flush(&mut self, id: u64) {
        loop {
            self.take_frames(id);
            let Some(connection) = self.connections.get_mut(&id) else { return };
            let written = connection.write().and_then(|all| if all { self.send_body(id) } else { Ok(false) });
            let Some(connection) = self.connections.get_mut(&id) else { return };
            match written {
                Ok(true) if connection.is_empty() && connection.ready.is_empty() => {
                    let closing = connection.closing;
                    return if closing { self.drop_connection(id) } else { self.watch(id) };
                }
                Ok(true) => {}
                Ok(false) => return self.watch(id),
                Err(_) => return self.drop_connection(id),
            }
        }
    }

    /// Puts frames of ready execs into the queue, up to the first that has a body.
    fn take_frames(&mut self, id: u64) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        while connection.body().is_none() && connection.has_room() {
            let Some(exec) = connection.ready.pop_front() else { return };
            // Another connection may have become its consumer since.
            let record = self.execs.get_mut(&exec).filter(|record| record.consumer == Some(id));
            if record.is_some_and(|record| record.next_frames(id, connection)) {
                connection.ready.push_back(exec);
            }
        }
    }

    /// Sends the body from its spool. `Ok(true)`: nothing of it is left.
    fn send_body(&mut self, id: u64) -> Result<bool, Errno> {
        let Some(connection) = self.connections.get_mut(&id) else { return Ok(false) };
        while let Some(body) = connection.body() {
            let Some(exec) = self.execs.get_mut(&body.exec) else { return Err(libc::EIO) };
            let spool = &exec.streams[body.stream].spool;
            let count = spool.piece(body.offset, body.left);
            match spool.send(connection.socket.as_fd(), body.offset, count) {
                Err(libc::EAGAIN) => return Ok(false),
                Err(libc::EINTR) => {}
                // The range was committed before it was received.
                Ok(0) => return Err(libc::EIO),
                other => connection.body_sent(other?),
            }
            if connection.body().is_none() {
                exec.sending_to = None;
            }
        }
        Ok(true)
    }

    /// Tells epoll what the connection is waiting for.
    fn watch(&mut self, id: u64) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let interest = connection.interest();
        if connection.watched != interest {
            connection.watched = interest;
            if self.poll.watch(connection.socket.as_fd(), Token::Connection(id), interest).is_err() {
                self.drop_connection(id);
            }
        }
    }

    pub(super) fn drop_connection(&mut self, id: u64) {
        let Some(connection) = self.connections.remove(&id) else { return };
        drop(connection);
        let execs: Vec<u64> =
            self.execs.values().filter(|exec| exec.consumer == Some(id)).map(|exec| exec.id).collect();
        for exec in execs {
            self.consumer_left(exec);
        }
        if id == self.owner {
            self.end();
        }
    }

    /// Takes a connection out of the loop, to hand its socket on. `None` where bytes beyond this frame were sent
    /// already, which would be lost, or where it is the owner's.
    pub(super) fn take_socket(&mut self, id: u64) -> Option<OwnedFd> {
        // What was asked before it is answered before it.
        self.flush(id);
        let connection = self.connections.get(&id)?;
        let consumes = self.execs.values().any(|exec| exec.consumer == Some(id));
        if id == self.owner || consumes || connection.has_input() || !connection.is_empty() || connection.closing {
            return None;
        }
        let connection = self.connections.remove(&id)?;
        self.poll.remove(connection.socket.as_fd()).ok()?;
        connection.socket.try_clone().ok()
    }

    /// Tells the client that the socket is handed on. It is new enough for these bytes to fit.
    pub(super) fn confirm(socket: &OwnedFd, request: u32) -> bool {
        let frame = frames::done(request);
        sys::write(socket.as_fd(), &frame) == Ok(frame.len())
    }

    /// Refuses on a socket that is out of the loop already; it closes afterwards.
    pub(super) fn refuse_socket(socket: &OwnedFd, request: u32, failure: &Failure) {
        // A client that is gone does not hear it.
        let _ = sys::write(socket.as_fd(), &frames::error(request, failure));
    }

    /// The answer to operations that need no more than an id.
    pub(super) fn done(&mut self, id: u64, request: u32) {
        self.answer(id, &frames::Writer::new(kind::DONE, request).finish());
    }
}
