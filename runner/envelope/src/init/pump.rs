//! Standard input on its way from a client's socket to the command.

use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};

use boxkite_system::sys;
use boxkite_system::wipe::wipe;

const PUMP: usize = 64 << 10;

/// Carries bytes from a client's socket to the command's standard input.
#[derive(Default)]
pub struct Pump {
    pub from: Option<OwnedFd>,
    pub to: Option<OwnedFd>,
    pub waiting: Vec<u8>,
    /// A terminal stays open at the end of its input.
    pub terminal: bool,
}

impl Pump {
    /// What to poll: its source while it holds nothing, its target while it holds something.
    pub fn interest(&self) -> [libc::pollfd; 2] {
        let entry = |fd: Option<RawFd>, events| libc::pollfd { fd: fd.unwrap_or(-1), events, revents: 0 };
        let read = self.from.as_ref().filter(|_| self.waiting.is_empty()).map(AsRawFd::as_raw_fd);
        let write = self.to.as_ref().filter(|_| !self.waiting.is_empty()).map(AsRawFd::as_raw_fd);
        [entry(read, libc::POLLIN), entry(write, libc::POLLOUT)]
    }

    /// Moves what can be moved without waiting.
    pub fn step(&mut self) {
        if self.waiting.is_empty() {
            if let Some(from) = &self.from {
                let mut buffer = vec![0; PUMP];
                match sys::read(from.as_fd(), &mut buffer) {
                    Ok(0) => self.input_ended(),
                    Ok(count) => self.waiting.extend_from_slice(&buffer[..count]),
                    Err(libc::EAGAIN | libc::EINTR) => {}
                    Err(_) => self.input_ended(),
                }
            }
        }
        if let Some(to) = self.to.as_ref().filter(|_| !self.waiting.is_empty()) {
            match sys::write(to.as_fd(), &self.waiting) {
                Ok(count) => drop(self.waiting.drain(..count)),
                Err(libc::EAGAIN | libc::EINTR) => {}
                // Nobody reads any more. Closing the socket tells the client.
                Err(_) => *self = Self::default(),
            }
        }
    }

    fn input_ended(&mut self) {
        self.from = None;
        if !self.terminal {
            self.to = None;
        }
    }
}

impl Drop for Pump {
    /// Standard input may be a secret.
    fn drop(&mut self) {
        wipe(&mut self.waiting);
    }
}
