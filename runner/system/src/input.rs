//! Standard input of a command that is killed. PID 1, which dies first, holds the write end: without another one the
//! command would read the end of its input in the moment before its own death, and take a part for the whole.

use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use crate::sys::{self, Errno};

/// The pipe of a running command's standard input, of which this holds neither end yet.
pub struct Input {
    /// Opened with `O_PATH`: neither a reader, which would keep writers from `EPIPE`, nor a writer.
    pipe: OwnedFd,
    held: Option<OwnedFd>,
}

impl Input {
    pub fn of(read_end: BorrowedFd<'_>) -> Result<Self, Errno> {
        Ok(Self { pipe: sys::open_again(read_end.as_raw_fd(), libc::O_PATH)?, held: None })
    }

    /// From here on there is a writer, until this is dropped.
    pub fn hold(&mut self) {
        if self.held.is_none() {
            // Without a reader there is nobody who could see the end.
            self.held = sys::open_again(self.pipe.as_raw_fd(), libc::O_WRONLY | libc::O_NONBLOCK).ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Input;
    use crate::sys;
    use std::os::fd::AsFd;

    #[test]
    fn there_is_a_writer_only_while_it_is_held() {
        let (from, to) = sys::command_pipe().unwrap();
        sys::set_nonblocking(from.as_fd(), true).unwrap();
        let mut input = Input::of(from.as_fd()).unwrap();
        assert_eq!(sys::read(from.as_fd(), &mut [0]), Err(libc::EAGAIN));
        input.hold();
        drop(to);
        assert_eq!(sys::read(from.as_fd(), &mut [0]), Err(libc::EAGAIN));
        drop(input);
        assert_eq!(sys::read(from.as_fd(), &mut [0]), Ok(0));
    }

    #[test]
    fn it_is_no_reader_and_no_writer() {
        let (from, to) = sys::command_pipe().unwrap();
        let mut input = Input::of(from.as_fd()).unwrap();
        drop(from);
        assert_eq!(sys::write(to.as_fd(), b"x"), Err(libc::EPIPE));
        input.hold();
        assert_eq!(sys::write(to.as_fd(), b"x"), Err(libc::EPIPE));
    }
}
