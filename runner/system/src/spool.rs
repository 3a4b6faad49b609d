//! One stream of one exec: the bytes between what the client has committed and what the command has written.
//!
//! Few bytes are kept in this process. A command that writes more than that gets a ring in a file in
//! memory, into which the kernel moves a pipe's pages and from which it sends them, without a copy through here.
//! While no such file can be made, which takes a descriptor, all of them are kept here.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::sys::{self, Errno};

/// The most bytes that are kept.
pub const CAPACITY: usize = 1 << 20;
const SMALL: usize = 64 << 10;

/// The kept bytes of a stream, addressed by its offsets.
#[derive(Default)]
pub struct Spool {
    /// The kept bytes, from `start` on, as long as there are few or no file.
    small: Vec<u8>,
    file: Option<OwnedFd>,
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
        if self.file.is_some() { CAPACITY } else { self.small.capacity() }
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

    /// The bytes from `offset` on, at most `most`, that lie in one piece: how many.
    pub fn piece(&self, offset: u64, most: usize) -> usize {
        if offset >= self.end || offset < self.start {
            return 0;
        }
        let here = (self.end - offset) as usize;
        let to_border = if self.file.is_some() { CAPACITY - place(offset) } else { here };
        here.min(to_border).min(most)
    }

    /// Reads once from `fd` into the free space; `Ok(0)` is the end of the stream. Must not be full.
    pub fn read(&mut self, fd: BorrowedFd<'_>) -> Result<usize, Errno> {
        let mut most = SMALL;
        if self.file.is_none() && self.used() >= SMALL && self.move_to_file().is_err() {
            // The next read tries it again.
            most = CAPACITY;
            self.small.reserve_exact(CAPACITY - self.small.len());
        }
        let at = place(self.end);
        let count = match &self.file {
            None => {
                let mut buffer = [0; SMALL];
                let count = sys::read(fd, &mut buffer[..SMALL.min(most - self.used())])?;
                self.small.extend_from_slice(&buffer[..count]);
                count
            }
            Some(file) => {
                let count = (CAPACITY - self.used()).min(CAPACITY - at);
                match sys::splice_from_pipe(fd, file.as_fd(), at as u64, count) {
                    // Not every terminal can be spliced from.
                    Err(libc::EINVAL) => copy(fd, file.as_fd(), at, count)?,
                    other => other?,
                }
            }
        };
        self.end += count as u64;
        Ok(count)
    }

    fn move_to_file(&mut self) -> Result<(), Errno> {
        let file = sys::memory_file(c"spool")?;
        sys::truncate(file.as_fd(), CAPACITY)?;
        let mut written = 0;
        while written < self.small.len() {
            let to = place(self.start + written as u64);
            let most = (CAPACITY - to).min(self.small.len() - written);
            written += sys::write_at(file.as_fd(), &self.small[written..written + most], to as u64)?;
        }
        self.file = Some(file);
        self.small = Vec::new();
        Ok(())
    }

    /// Copies the `count` bytes from `offset` on, which lie in one piece, behind `out`.
    pub fn copy_to(&self, offset: u64, count: usize, out: &mut Vec<u8>) {
        let Some(file) = &self.file else {
            let from = (offset - self.start) as usize;
            return out.extend_from_slice(&self.small[from..from + count]);
        };
        let (length, at) = (out.len(), place(offset));
        out.resize(length + count, 0);
        let mut read = 0;
        while read < count {
            // A file in memory of our own that is long enough: a failure leaves zeros, as a hole would.
            match sys::read_at(file.as_fd(), &mut out[length + read..], (at + read) as u64) {
                Ok(more) if more > 0 => read += more,
                _ => break,
            }
        }
    }

    /// Whether `send` works: only for bytes in a file.
    pub fn is_file(&self) -> bool {
        self.file.is_some()
    }

    /// Sends bytes from `offset` on, at most `count` in one piece, to a socket.
    pub fn send(&self, socket: BorrowedFd<'_>, offset: u64, count: usize) -> Result<usize, Errno> {
        let file = self.file.as_ref().ok_or(libc::EBADF)?;
        sys::send_file(socket, file.as_fd(), place(offset) as u64, count)
    }

    /// Lets go of everything before `offset`.
    pub fn commit(&mut self, offset: u64) {
        let start = offset.clamp(self.start, self.end);
        if self.file.is_none() {
            self.small.drain(..(start - self.start) as usize);
        }
        self.start = start;
    }

    /// Lets go of the older half.
    pub fn drop_oldest(&mut self) {
        self.commit(self.start + (CAPACITY / 2).min(self.used()) as u64);
    }
}

fn place(offset: u64) -> usize {
    offset as usize % CAPACITY
}

fn copy(from: BorrowedFd<'_>, to: BorrowedFd<'_>, at: usize, count: usize) -> Result<usize, Errno> {
    let mut buffer = vec![0; count.min(SMALL)];
    let count = sys::read(from, &mut buffer)?;
    sys::write_at(to, &buffer[..count], at as u64)
}

#[cfg(test)]
mod tests;
