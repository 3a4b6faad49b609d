//! epoll with typed tokens.

use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

use crate::sys::{self, Errno};

/// What a descriptor belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Token {
    /// One of the listening sockets, by its place.
    Listener(u64),
    Signals,
    Maker(u64),
    Connection(u64),
    /// An envelope's control socket.
    Control(u64),
    /// An envelope's process: readable when it has ended.
    Process(u64),
    /// An envelope's memory events.
    Memory(u64),
    Stdout(u64),
    Stderr(u64),
    /// Of disk workspaces.
    Keeper,
    /// The maker of a list of programs.
    ProgramMaker(u64),
}

impl Token {
    fn pack(self) -> u64 {
        let (kind, id) = match self {
            Self::Listener(place) => (0, place),
            Self::Signals => (1, 0),
            Self::Maker(id) => (2, id),
            Self::Connection(id) => (3, id),
            Self::Control(id) => (4, id),
            Self::Process(id) => (5, id),
            Self::Memory(id) => (6, id),
            Self::Stdout(id) => (7, id),
            Self::Stderr(id) => (8, id),
            Self::Keeper => (9, 0),
            Self::ProgramMaker(id) => (10, id),
        };
        (kind << 56) | id
    }

    fn unpack(word: u64) -> Self {
        let id = word & ((1 << 56) - 1);
        match word >> 56 {
            0 => Self::Listener(id),
            1 => Self::Signals,
            2 => Self::Maker(id),
            3 => Self::Connection(id),
            4 => Self::Control(id),
            5 => Self::Process(id),
            6 => Self::Memory(id),
            7 => Self::Stdout(id),
            8 => Self::Stderr(id),
            9 => Self::Keeper,
            _ => Self::ProgramMaker(id),
        }
    }
}

/// What has happened on a descriptor.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    pub token: Token,
    pub writable: bool,
    pub readable: bool,
}

/// An epoll instance.
pub struct Poll(OwnedFd);

impl Poll {
    pub fn new() -> Result<Self, Errno> {
        // SAFETY: the new descriptor is ours.
        unsafe {
            let fd = libc::epoll_create1(libc::EPOLL_CLOEXEC);
            if fd < 0 { Err(sys::errno()) } else { Ok(Self(OwnedFd::from_raw_fd(fd))) }
        }
    }

    fn control(
        &self,
        operation: i32,
        fd: BorrowedFd<'_>,
        token: Token,
        (read, write): (bool, bool),
    ) -> Result<(), Errno> {
        let bit = |on: bool, bit: i32| if on { bit as u32 } else { 0 };
        let events = bit(read, libc::EPOLLIN) | bit(write, libc::EPOLLOUT);
        let mut event = libc::epoll_event { events, u64: token.pack() };
        // SAFETY: the event outlives the call.
        let result = unsafe { libc::epoll_ctl(self.0.as_raw_fd(), operation, fd.as_raw_fd(), &raw mut event) };
        if result < 0 { Err(sys::errno()) } else { Ok(()) }
    }

    pub fn add(&self, fd: BorrowedFd<'_>, token: Token) -> Result<(), Errno> {
        self.control(libc::EPOLL_CTL_ADD, fd, token, (true, false))
    }

    /// Changes what is told: something to read, room for writing. The end of a socket is always told.
    pub fn watch(&self, fd: BorrowedFd<'_>, token: Token, interest: (bool, bool)) -> Result<(), Errno> {
        self.control(libc::EPOLL_CTL_MOD, fd, token, interest)
    }

    pub fn remove(&self, fd: BorrowedFd<'_>) -> Result<(), Errno> {
        self.control(libc::EPOLL_CTL_DEL, fd, Token::Signals, (false, false))
    }

    /// Waits for events, at most `most` long.
    pub fn wait(&self, most: Option<Duration>, into: &mut Vec<Event>) -> Result<(), Errno> {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; 64];
        // Rounded up, so that a timer is due when the wait is over.
        let timeout = most.map_or(-1, |most| most.as_micros().div_ceil(1000).min(60_000) as i32);
        // SAFETY: `events` is valid for its length.
        let count = unsafe { libc::epoll_wait(self.0.as_raw_fd(), events.as_mut_ptr(), events.len() as i32, timeout) };
        into.clear();
        if count < 0 {
            let errno = sys::errno();
            return if errno == libc::EINTR { Ok(()) } else { Err(errno) };
        }
        into.extend(events[..count as usize].iter().map(|event| Event {
            token: Token::unpack(event.u64),
            writable: event.events & libc::EPOLLOUT as u32 != 0,
            readable: event.events & !(libc::EPOLLOUT as u32) != 0,
        }));
        Ok(())
    }
}
