//! From a command's pipes into its spools, and from there to its consumer.

use std::os::fd::AsFd;

use super::Server;
use super::execs::{Exec, State};
use boxkite_system::connection::{Body, Connection};
use boxkite_system::stream::Stream;
use boxkite_system::sys;
use boxkite_wire::frames::{Writer, kind, stdin};

/// The most bytes of one output frame.
const FRAME: usize = 256 << 10;
/// From this many bytes on it is cheaper to send them straight from their file.
const DIRECT: usize = 16 << 10;

impl Exec {
    /// Bytes may be dropped only while nobody reads and nobody asked to be waited for.
    fn may_drop(&self) -> bool {
        !self.block && self.consumer.is_none()
    }

    fn has_channel(&self) -> bool {
        self.head.stdin == stdin::CHANNEL
    }

    /// The channel was read: the output that was there by then is to be sent before it.
    fn hold_channel(&mut self) {
        let output = &self.streams[1];
        let waiting = output.source.as_ref().and_then(|source| sys::readable(source.as_fd()).ok());
        self.output_first = output.spool.end() + waiting.unwrap_or(0) as u64;
    }

    /// Whether output that comes first is still to be read or sent.
    fn is_held(&self) -> bool {
        let output = &self.streams[1];
        let until = if output.source.is_some() { u64::MAX } else { output.spool.end() };
        self.has_channel() && output.sent < self.output_first.min(until)
    }

    /// Puts the next frame of each stream, and the end if it is time, into connection `id`. `true`: there is more.
    pub fn next_frames(&mut self, id: u64, connection: &mut Connection) -> bool {
        if self.state == State::Starting {
            return false;
        }
        // What is on a channel comes after the output before it.
        for index in if self.has_channel() { [1, 0] } else { [0, 1] } {
            if index == 1 || !self.is_held() {
                self.next_output(index, id, connection);
            }
        }
        let has_more = |stream: &Stream| stream.sent < stream.spool.end();
        if has_more(&self.streams[1]) || has_more(&self.streams[0]) && !self.is_held() {
            return true;
        }
        if let Some(ended) = self.end_frame() {
            connection.push(&ended);
        }
        false
    }

    fn next_output(&mut self, index: usize, id: u64, connection: &mut Connection) {
        let stream = &mut self.streams[index];
        let start = stream.spool.start();
        let head = |kind| Writer::new(kind, 0).u64(self.id).u64(index as u64 + 1);
        if stream.sent < start {
            connection.push(&head(kind::GAP).u64(stream.sent).u64(start).finish());
            stream.sent = start;
        }
        // A second body waits for the next turn.
        let count = stream.spool.piece(stream.sent, FRAME);
        if count == 0 || connection.body().is_some() {
            return;
        }
        let mut frame = head(kind::OUTPUT).u64(stream.sent);
        if stream.spool.is_file() && count >= DIRECT {
            connection.push(&frame.finish_with(count));
            connection.push_body(Body { exec: self.id, stream: index, offset: stream.sent, left: count });
            self.sending_to = Some(id);
        } else {
            stream.spool.copy_to(stream.sent, count, frame.buffer());
            connection.push(&frame.finish());
        }
        stream.sent += count as u64;
    }

    /// Begins again from what is committed, for a new consumer. The answer is where each stream begins.
    pub fn rewind(&mut self) -> [u64; 2] {
        self.end_sent = false;
        for stream in &mut self.streams {
            stream.sent = stream.committed;
        }
        [self.streams[0].sent, self.streams[1].sent]
    }

    /// Committed and produced offset of each stream.
    pub fn spans(&self) -> [(u64, u64); 2] {
        [0, 1].map(|index| (self.streams[index].committed, self.streams[index].spool.end()))
    }

    /// Whether everything is in the spools.
    pub fn is_drained(&self) -> bool {
        self.streams.iter().all(|stream| stream.source.is_none())
    }
}

impl Server {
    /// Watches the sources of a command that has started.
    pub(super) fn watch_streams(&mut self, id: u64) {
        let Some(exec) = self.execs.get_mut(&id) else { return };
        for (index, stream) in exec.streams.iter_mut().enumerate() {
            if let Some(source) = &stream.source {
                stream.paused = self.poll.add(source.as_fd(), Stream::token(id, index)).is_err();
            }
        }
    }

    pub(super) fn stream_event(&mut self, id: u64, index: usize) {
        let Some(exec) = self.execs.get_mut(&id) else { return };
        let may_drop = exec.may_drop();
        let draining = exec.state == State::Draining;
        let stream = &mut exec.streams[index];
        let read = if draining { Stream::read_late } else { Stream::read };
        read(stream, may_drop, &self.poll);
        if index == 0 && exec.has_channel() {
            exec.hold_channel();
        }
        let stream = &mut exec.streams[index];
        if let Some(source) = stream.source.as_ref().filter(|_| stream.spool.is_full() && !may_drop) {
            stream.paused = self.poll.remove(source.as_fd()).is_ok();
        }
        self.send_on(id);
        if draining {
            self.settle(id);
        }
    }

    /// Reads what is left after the exec's last process has ended.
    pub(super) fn drain_streams(&mut self, id: u64) {
        let Some(exec) = self.execs.get_mut(&id) else { return };
        let may_drop = exec.may_drop();
        for stream in &mut exec.streams {
            while stream.read_late(may_drop, &self.poll) {}
        }
        if exec.has_channel() {
            exec.hold_channel();
        }
    }

    /// Sends an exec's news to its consumer, if it has one.
    pub(super) fn send_on(&mut self, id: u64) {
        self.mark_ready(id);
        if let Some(connection) = self.execs.get(&id).and_then(|exec| exec.consumer) {
            self.flush(connection);
        }
    }

    /// Completes an output frame that is half sent before its spool changes hands or goes.
    pub(super) fn copy_body(&mut self, id: u64) {
        let Some(exec) = self.execs.get_mut(&id) else { return };
        let Some(connection) = exec.sending_to.take().and_then(|to| self.connections.get_mut(&to)) else { return };
        if let Some(body) = connection.body().filter(|body| body.exec == id) {
            connection.copy_body(&exec.streams[body.stream].spool);
        }
    }

    /// Queues all that an exec still has for its consumer, its end included: it is about to be forgotten. A command whose
    /// reader has stalled may have more in its pipes; that is lost with the sandbox.
    pub(super) fn send_the_rest(&mut self, id: u64) {
        let Some(exec) = self.execs.get_mut(&id) else { return };
        for stream in &mut exec.streams {
            stream.source = None;
        }
        exec.state = State::Ended;
        let Some(client) = exec.consumer else { return };
        // An unfinished frame, of whatever exec, goes first.
        if let Some(body) = self.connections.get(&client).and_then(Connection::body) {
            self.copy_body(body.exec);
        }
        loop {
            let (Some(exec), Some(connection)) = (self.execs.get_mut(&id), self.connections.get_mut(&client)) else {
                return;
            };
            let more = exec.next_frames(client, connection);
            self.copy_body(id);
            if !more {
                return self.flush(client);
            }
        }
    }

    /// The consumer needs nothing before these offsets; with `end`, nothing of the exec at all.
    pub(super) fn committed(&mut self, id: u64, offsets: [u64; 2], end: bool) {
        let Some(exec) = self.execs.get_mut(&id) else { return };
        for (stream, offset) in exec.streams.iter_mut().zip(offsets) {
            stream.committed = offset.min(stream.sent).max(stream.committed);
            stream.spool.commit(stream.committed);
        }
        if end && exec.state == State::Ended && exec.end_sent {
            drop(self.forget_exec(id));
        } else {
            self.resume(id);
        }
    }

    /// A consumer has gone: what it was sent but did not commit goes to the next one.
    pub(super) fn consumer_left(&mut self, id: u64) {
        let Some(exec) = self.execs.get_mut(&id) else { return };
        exec.consumer = None;
        exec.rewind();
        self.resume(id);
    }

    /// Goes on reading paused streams that have room, or that may drop.
    fn resume(&mut self, id: u64) {
        let Some(exec) = self.execs.get_mut(&id) else { return };
        let (may_drop, ended) = (exec.may_drop(), exec.state == State::Draining);
        for (index, stream) in exec.streams.iter_mut().enumerate() {
            let wanted = stream.paused && (stream.spool.has_room() || may_drop);
            if let Some(source) = stream.source.as_ref().filter(|_| wanted) {
                stream.paused = self.poll.add(source.as_fd(), Stream::token(id, index)).is_err();
            }
        }
        if ended {
            self.drain_streams(id);
            self.settle(id);
        }
    }
}
