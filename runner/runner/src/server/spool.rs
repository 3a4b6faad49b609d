//! One stream of one exec: the bytes between what the client has committed and what the command has written.

use std::os::fd::BorrowedFd;

use boxkite_system::sys::{self, Errno};

/// The most bytes that are kept.
pub const CAPACITY: usize = 1 << 20;
const FIRST: usize = 64 << 10;

/// A ring that is addressed by stream offset. It begins small and grows to `CAPACITY` for a command that writes much.
#[derive(Default)]
pub struct Spool {
    ring: Vec<u8>,
    /// Offset of the oldest byte that is kept.
    start: u64,
    /// Offset after the newest.
    end: u64,
}

impl Spool {
    pub fn start(&self) -> u64 {
        self.start
    }

    pub fn end(&self) -> u64 {
        self.end
    }

    /// Bytes of memory that it takes.
    pub fn kept(&self) -> usize {
        self.ring.len()
    }

    fn used(&self) -> usize {
        (self.end - self.start) as usize
    }

    /// Whether nothing more can be read before something is committed or dropped.
    pub fn is_full(&self) -> bool {
        self.used() == CAPACITY
    }

    /// Whether a pause may end: resuming for every few bytes would cost more than it brings.
    pub fn has_room(&self) -> bool {
        self.used() <= CAPACITY / 2
    }

    /// Makes the ring larger while it is full and may grow.
    fn grow(&mut self) {
        if self.used() < self.ring.len() || self.ring.len() == CAPACITY {
            return;
        }
        let mut larger = vec![0; (self.ring.len() * 4).clamp(FIRST, CAPACITY)];
        let mut offset = self.start;
        while offset < self.end {
            let piece = self.piece(offset, usize::MAX);
            let at = offset as usize % larger.len();
            let count = piece.len().min(larger.len() - at);
            larger[at..at + count].copy_from_slice(&piece[..count]);
            offset += count as u64;
        }
        self.ring = larger;
    }

    /// Reads once from `fd` into the free space; `Ok(0)` is the end of the stream. Must not be full.
    pub fn read(&mut self, fd: BorrowedFd<'_>) -> Result<usize, Errno> {
        self.grow();
        let at = self.end as usize % self.ring.len();
        let free = self.ring.len() - self.used();
        let count = free.min(self.ring.len() - at);
        let count = sys::read(fd, &mut self.ring[at..at + count])?;
        self.end += count as u64;
        Ok(count)
    }

    /// The kept bytes from `offset` on that lie in one piece, at most `most`.
    pub fn piece(&self, offset: u64, most: usize) -> &[u8] {
        if offset >= self.end || offset < self.start {
            return &[];
        }
        let at = offset as usize % self.ring.len();
        let count = ((self.end - offset) as usize).min(self.ring.len() - at).min(most);
        &self.ring[at..at + count]
    }

    /// Lets go of everything before `offset`.
    pub fn commit(&mut self, offset: u64) {
        self.start = offset.clamp(self.start, self.end);
    }

    /// Lets go of the older half.
    pub fn drop_oldest(&mut self) {
        self.start += (CAPACITY / 2).min(self.used()) as u64;
    }
}
