//! The control socket of one Node process: `docs/reference/supervise-protocol.md`.
//!
//! Nothing is read while an answer waits for room, so that a Node that does not read costs one frame of memory at most,
//! and the store does not change while it is listed.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use boxkite_system::sys::{self, Errno};
use boxkite_system::wipe::wipe;

use crate::store::{Key, MOST_BLOB, Secret, Store};

const HEADER: usize = 8;
const KEY: usize = 16;
/// Frames that are served before others have their turn.
const MOST_FRAMES: usize = 64;

mod kind {
    pub const PUT: u8 = 1;
    pub const DELETE: u8 = 2;
    pub const LIST: u8 = 3;
    pub const READY: u8 = 4;
    pub const DONE: u8 = 0x80;
    pub const BLOB: u8 = 0x81;
    pub const REFUSED: u8 = 0xff;
}

/// What a frame still lacks. Its kind is in the header.
enum Part {
    Header,
    Key,
    Blob(Secret),
    /// The rest of a payload that is refused.
    Skip(u64, &'static str),
}

/// The supervise side of the socket.
pub struct Control {
    socket: OwnedFd,
    part: Part,
    header: [u8; HEADER],
    key: Key,
    /// Bytes of the part that have come.
    have: usize,
    /// An answer on its way, and how much of it has gone.
    out: Vec<u8>,
    sent: usize,
    /// A list is being sent; the last key that was.
    listing: Option<Option<Key>>,
    /// Whether Node has said that it serves.
    pub ready: bool,
}

impl Control {
    /// Serves on a socket that does not wait.
    pub fn new(socket: OwnedFd) -> Self {
        Self {
            socket,
            part: Part::Header,
            header: [0; HEADER],
            key: [0; KEY],
            have: 0,
            out: Vec::new(),
            sent: 0,
            listing: None,
            ready: false,
        }
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Whether it waits for room rather than for frames.
    pub fn is_sending(&self) -> bool {
        !self.out.is_empty() || self.listing.is_some()
    }

    /// Goes on as far as the socket lets it. An error: Node's side is closed.
    pub fn serve(&mut self, store: &mut Store) -> Result<(), Errno> {
        for _ in 0..MOST_FRAMES {
            match self.send(store).and_then(|()| self.frame(store)) {
                Err(libc::EAGAIN) => return Ok(()),
                other => other?,
            }
        }
        Ok(())
    }

    /// Serves what a Node that has ended has sent, and answers nothing.
    pub fn drain(mut self, store: &mut Store) {
        loop {
            self.listing = None;
            self.clear();
            if self.frame(store).is_err() {
                return;
            }
        }
    }

    fn clear(&mut self) {
        wipe(&mut self.out);
        self.out.clear();
        self.sent = 0;
    }

    /// Sends what waits; EAGAIN where there is no room.
    fn send(&mut self, store: &Store) -> Result<(), Errno> {
        loop {
            while self.sent < self.out.len() {
                self.sent += again(|| sys::send(self.socket.as_fd(), &self.out[self.sent..], &[]))?;
            }
            self.clear();
            let Some(last) = self.listing else { return Ok(()) };
            match store.next(last.as_ref()) {
                Some((key, blob)) => {
                    self.listing = Some(Some(*key));
                    self.answer(kind::BLOB, &[key, blob]);
                }
                None => {
                    self.listing = None;
                    self.answer(kind::DONE, &[]);
                }
            }
        }
    }

    fn answer(&mut self, kind: u8, payload: &[&[u8]]) {
        let length: usize = payload.iter().map(|part| part.len()).sum();
        // At once as large as it gets: what a growing one leaves behind would not be wiped.
        self.out = Vec::with_capacity(HEADER + length);
        self.out.extend_from_slice(&(length as u32).to_le_bytes());
        self.out.extend_from_slice(&[kind, 0, 0, 0]);
        for part in payload {
            self.out.extend_from_slice(part);
        }
    }

    /// Reads one whole frame and does what it says; EAGAIN where it has not come whole.
    fn frame(&mut self, store: &mut Store) -> Result<(), Errno> {
        loop {
            let socket = self.socket.as_fd();
            match &mut self.part {
                Part::Header => {
                    fill(socket, &mut self.header, &mut self.have)?;
                    self.part = self.begin();
                }
                Part::Key => {
                    fill(socket, &mut self.key, &mut self.have)?;
                    self.part = Part::Blob(Secret(vec![0; self.length() - KEY]));
                }
                Part::Blob(blob) => {
                    fill(socket, &mut blob.0, &mut self.have)?;
                    break;
                }
                Part::Skip(left, _) => {
                    skip(socket, left)?;
                    break;
                }
            }
            self.have = 0;
        }
        self.have = 0;
        let done = match std::mem::replace(&mut self.part, Part::Header) {
            Part::Blob(blob) => self.act(blob, store),
            Part::Skip(_, reason) => Err(reason),
            Part::Header | Part::Key => Ok(()),
        };
        match done {
            Ok(()) if self.listing.is_none() => self.answer(kind::DONE, &[]),
            Ok(()) => {}
            Err(reason) => self.answer(kind::REFUSED, &[reason.as_bytes()]),
        }
        Ok(())
    }

    fn length(&self) -> usize {
        let [a, b, c, d, ..] = self.header;
        u32::from_le_bytes([a, b, c, d]) as usize
    }

    /// What follows this header.
    fn begin(&self) -> Part {
        let length = self.length();
        let skip = |reason| Part::Skip(length as u64, reason);
        if self.header[5..] != [0; 3] {
            return skip("bytes 5 to 7 of the header are not 0");
        }
        match self.header[4] {
            kind::PUT if length < KEY => skip("PUT: the key is cut"),
            kind::PUT if length > KEY + MOST_BLOB => skip("PUT: the blob is larger than 1 MiB"),
            kind::DELETE if length != KEY => skip("DELETE: the payload is a key"),
            kind::LIST | kind::READY if length != 0 => skip("LIST and READY have no payload"),
            kind::PUT | kind::DELETE => Part::Key,
            kind::LIST | kind::READY => Part::Blob(Secret(Vec::new())),
            _ => skip("unknown type"),
        }
    }

    fn act(&mut self, blob: Secret, store: &mut Store) -> Result<(), &'static str> {
        match self.header[4] {
            kind::PUT => store.put(self.key, blob)?,
            kind::DELETE => store.delete(&self.key),
            kind::LIST => self.listing = Some(None),
            _ => self.ready = true,
        }
        Ok(())
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.clear();
    }
}

fn again(mut call: impl FnMut() -> Result<usize, Errno>) -> Result<usize, Errno> {
    loop {
        match call() {
            Err(libc::EINTR) => {}
            other => return other,
        }
    }
}

/// Reads until `into` is full; ECONNRESET at the end of the stream.
fn fill(socket: BorrowedFd<'_>, into: &mut [u8], have: &mut usize) -> Result<(), Errno> {
    while *have < into.len() {
        match again(|| sys::read(socket, &mut into[*have..]))? {
            0 => return Err(libc::ECONNRESET),
            count => *have += count,
        }
    }
    Ok(())
}

fn skip(socket: BorrowedFd<'_>, left: &mut u64) -> Result<(), Errno> {
    let mut buffer = [0; 16384];
    let mut result = Ok(());
    while *left > 0 && result.is_ok() {
        let most = buffer.len().min(usize::try_from(*left).unwrap_or(buffer.len()));
        result = match again(|| sys::read(socket, &mut buffer[..most])) {
            Ok(0) => Err(libc::ECONNRESET),
            Ok(count) => {
                *left -= count as u64;
                Ok(())
            }
            Err(errno) => Err(errno),
        };
    }
    // A blob that was too large is as secret as one that was not.
    wipe(&mut buffer);
    result
}

#[cfg(test)]
mod tests;
