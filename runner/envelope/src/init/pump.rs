//! Standard input, or a channel's, on its way from a client's socket to the command.

use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};

use boxkite_system::sys;
use boxkite_system::wipe::wipe;

/// The most bytes that are taken before the command has read them.
const PUMP: usize = 64 << 10;

/// What is known of the other end of a client's socket.
#[derive(Clone, Copy, Default, PartialEq)]
enum Client {
    #[default]
    Writes,
    /// It has shut down its side: that is the end of the input.
    Finished,
    /// Its process has ended or lost the connection: another one may go on.
    Gone,
}

/// Carries bytes from a client's socket to the command.
#[derive(Default)]
pub struct Pump {
    from: Option<OwnedFd>,
    client: Client,
    pub to: Option<OwnedFd>,
    /// Empty until there is input; its bytes are in no other place of this process.
    buffer: Vec<u8>,
    /// Which of them the command has not read yet.
    waiting: Range<usize>,
    /// A terminal and a channel stay open at the end of an input.
    stays_open: bool,
}

impl Pump {
    /// To a command, which closes nothing of it yet.
    pub fn new(to: Option<OwnedFd>, stays_open: bool) -> Self {
        Self { from: None, client: Client::Writes, to, buffer: Vec::new(), waiting: 0..0, stays_open }
    }

    /// Input comes from this socket from now on.
    pub fn take(&mut self, from: OwnedFd) {
        self.from = Some(from);
        self.client = Client::Writes;
    }

    /// What to poll: its source while it holds nothing, its target while it holds something. How a source ends is seen
    /// when it happens, not behind bytes that the command does not read.
    pub fn interest(&self) -> [libc::pollfd; 2] {
        let entry = |fd: Option<RawFd>, events| libc::pollfd { fd: fd.unwrap_or(-1), events, revents: 0 };
        let room = if self.waiting.is_empty() { libc::POLLIN } else { 0 };
        let end = if self.client == Client::Writes { libc::POLLRDHUP } else { 0 };
        let read = self.from.as_ref().filter(|_| room | end != 0).map(AsRawFd::as_raw_fd);
        let write = self.to.as_ref().filter(|_| !self.waiting.is_empty()).map(AsRawFd::as_raw_fd);
        [entry(read, room | end), entry(write, libc::POLLOUT)]
    }

    /// Moves what can be moved without waiting.
    pub fn step(&mut self) {
        self.look();
        if let Some(from) = self.from.as_ref().filter(|_| self.waiting.is_empty()) {
            self.buffer.resize(PUMP, 0);
            match sys::read(from.as_fd(), &mut self.buffer) {
                Ok(0) => self.input_ended(),
                Ok(count) => self.waiting = 0..count,
                Err(libc::EAGAIN | libc::EINTR) => {}
                Err(_) => self.input_ended(),
            }
        }
        if let Some(to) = self.to.as_ref().filter(|_| !self.waiting.is_empty()) {
            match sys::write(to.as_fd(), &self.buffer[self.waiting.clone()]) {
                Ok(count) => self.waiting.start += count,
                Err(libc::EAGAIN | libc::EINTR) => {}
                // Nobody reads any more. Closing the socket tells the client.
                Err(_) => *self = Self::default(),
            }
        }
    }

    /// Whether the client has shut down its side, or is gone: of a closed socket both are told at once.
    fn look(&mut self) {
        let Some(from) = self.from.as_ref().filter(|_| self.client == Client::Writes) else { return };
        let mut entry = libc::pollfd { fd: from.as_raw_fd(), events: libc::POLLRDHUP, revents: 0 };
        // SAFETY: `entry` is one valid entry.
        unsafe { libc::poll(&raw mut entry, 1, 0) };
        if entry.revents & (libc::POLLHUP | libc::POLLERR) != 0 {
            self.client = Client::Gone;
        } else if entry.revents & libc::POLLRDHUP != 0 {
            self.client = Client::Finished;
            // Whoever closed it is told that a loss of the connection changes nothing any more.
            let _ = sys::write(from.as_fd(), &[0]);
        }
    }

    fn input_ended(&mut self) {
        self.look();
        self.from = None;
        if self.client == Client::Finished && !self.stays_open {
            self.to = None;
        }
    }
}

impl Drop for Pump {
    /// Standard input may be a secret.
    fn drop(&mut self) {
        wipe(&mut self.buffer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pump between two socket pairs: it, the client's end, and the command's.
    fn pump(stays_open: bool) -> (Pump, OwnedFd, OwnedFd) {
        let (client, from) = sys::stream_pair().unwrap();
        let (to, command) = sys::stream_pair().unwrap();
        for fd in [&from, &to, &command] {
            sys::set_nonblocking(fd.as_fd(), true).unwrap();
        }
        let mut pump = Pump::new(Some(to), stays_open);
        pump.take(from);
        (pump, client, command)
    }

    #[test]
    fn what_a_slow_command_reads_is_what_was_written_in_its_order() {
        let (mut pump, client, command) = pump(false);
        let all: Vec<u8> = (0..1 << 20).map(|at: u32| (at / 7) as u8).collect();
        let expected = all.clone();
        let writer = std::thread::spawn(move || {
            let mut left = &all[..];
            while !left.is_empty() {
                left = &left[sys::write(client.as_fd(), left).unwrap()..];
            }
            // SAFETY: shuts down one side of our own socket.
            unsafe { libc::shutdown(client.as_raw_fd(), libc::SHUT_WR) };
            // The answer says that the end has been seen.
            assert_eq!(sys::read(client.as_fd(), &mut [0]), Ok(1));
        });
        let (mut read, mut piece) = (Vec::new(), [0; 3001]);
        loop {
            pump.step();
            match sys::read(command.as_fd(), &mut piece) {
                Ok(0) => break,
                Ok(count) => read.extend_from_slice(&piece[..count]),
                Err(errno) => assert_eq!(errno, libc::EAGAIN),
            }
        }
        writer.join().unwrap();
        assert!(read == expected);
    }

    #[test]
    fn a_client_that_is_lost_ends_nothing() {
        let (mut pump, client, command) = pump(false);
        sys::write(client.as_fd(), b"half").unwrap();
        drop(client);
        for _ in 0..3 {
            pump.step();
        }
        let mut piece = [0; 8];
        assert_eq!(sys::read(command.as_fd(), &mut piece), Ok(4));
        assert_eq!(sys::read(command.as_fd(), &mut piece), Err(libc::EAGAIN));
        assert!(pump.from.is_none() && pump.to.is_some());
    }

    #[test]
    fn a_command_that_reads_no_more_ends_the_pump() {
        let (mut pump, client, command) = pump(true);
        sys::write(client.as_fd(), b"text").unwrap();
        drop(command);
        pump.step();
        assert!(pump.from.is_none() && pump.to.is_none());
        assert_eq!(sys::read(client.as_fd(), &mut [0]), Ok(0));
    }
}
