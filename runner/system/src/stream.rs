//! One output of a command on its way into its spool.

use std::os::fd::{AsFd, OwnedFd};

use crate::poll::{Poll, Token};
use crate::spool::{CAPACITY, Spool};
use crate::sys;

/// More than a pipe or a terminal holds: what comes beyond it was written by somebody else.
const MOST_LATE: u64 = 1 << 20;
/// A pipe that was found this full is made larger: fewer turns for the same bytes.
const BUSY_PIPE: usize = 64 << 10;

/// One output stream of an exec.
#[derive(Default)]
pub struct Stream {
    /// `None` once every writer has ended.
    pub source: Option<OwnedFd>,
    pub spool: Spool,
    /// Offset up to which no consumer needs a repetition.
    pub committed: u64,
    /// Offset up to which the consumer has been sent.
    pub sent: u64,
    /// Whether epoll does not watch it, because the spool is full.
    pub paused: bool,
    enlarged: bool,
    /// Whether the last read failed for want of something.
    short: bool,
    /// Bytes that were read when nothing of the exec was alive any more.
    read_late: u64,
}

impl Stream {
    /// What epoll knows it by.
    pub fn token(exec: u64, index: usize) -> Token {
        if index == 0 { Token::Stdout(exec) } else { Token::Stderr(exec) }
    }

    /// A pipe of which the command gets the write end.
    pub fn make_pipe(&mut self, fds: &mut Vec<OwnedFd>) -> Result<(), i32> {
        let (from, to) = sys::command_pipe()?;
        sys::set_nonblocking(from.as_fd(), true)?;
        self.source = Some(from);
        fds.push(to);
        Ok(())
    }

    /// Nothing more is read. PID 1 has a terminal or a channel by a descriptor of its own: what is closed here alone is
    /// still open for epoll, which would tell its end for ever.
    fn end(&mut self, poll: &Poll) {
        if let Some(source) = self.source.take() {
            // A paused one is not watched.
            let _ = poll.remove(source.as_fd());
        }
    }

    /// Reads once. `false`: nothing more now.
    pub fn read(&mut self, may_drop: bool, poll: &Poll) -> bool {
        if self.spool.is_full() && may_drop {
            self.spool.drop_oldest();
        }
        let Some(source) = self.source.as_ref().filter(|_| !self.spool.is_full()) else { return false };
        self.short = false;
        match self.spool.read(source.as_fd()) {
            Ok(0) => {
                self.end(poll);
                false
            }
            Ok(count) => {
                if count >= BUSY_PIPE && !self.enlarged {
                    self.enlarged = true;
                    // Refused where the user's pipes have too many pages already: it stays as it is.
                    let _ = sys::grow_pipe(source.as_fd(), CAPACITY);
                }
                true
            }
            Err(libc::EINTR) => true,
            // The end of a terminal.
            Err(libc::EIO) => {
                self.end(poll);
                false
            }
            Err(errno) => {
                // What there is no memory for now is still there: the source stays watched.
                self.short = errno != libc::EAGAIN;
                false
            }
        }
    }

    /// The same when nothing of the exec is alive any more: what is there now is all that it wrote. The end of file is
    /// not waited for, since the exec may have passed its end to another command of its sandbox by a Unix socket.
    pub fn read_late(&mut self, may_drop: bool, poll: &Poll) -> bool {
        let before = self.spool.end();
        let more = self.read(may_drop, poll);
        self.read_late += self.spool.end() - before;
        let waits = self.short || self.spool.is_full() && !may_drop;
        if self.read_late >= MOST_LATE || !(more || waits) {
            self.end(poll);
        }
        more && self.source.is_some()
    }
}
