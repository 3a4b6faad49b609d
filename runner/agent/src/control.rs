//! The runner's channel, descriptor 3: sockets come in, idleness goes out.

use crate::connection::Connection;
use crate::executor::{Pool, Source, lock};
use crate::fail::Errno;
use crate::sys::{check, own};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::{Arc, Mutex};

/// The descriptor of the runner's channel.
pub const CONTROL_FD: RawFd = 3;

#[derive(Default)]
struct Count {
    received: u64,
    open: u64,
}

/// The agent's side of the runner's channel.
pub struct Control {
    channel: OwnedFd,
    pool: Arc<Pool>,
    count: Mutex<Count>,
    receiving: Mutex<()>,
}

enum Message {
    Socket(OwnedFd),
    /// One that this process has no descriptor for; the kernel has closed it.
    Lost,
    Nothing,
    End,
}

impl Control {
    /// Takes the channel into the pool and tells the runner that the agent serves.
    pub fn start(pool: &Arc<Pool>, channel: OwnedFd) -> Result<(), Errno> {
        let fd = channel.as_raw_fd();
        let control =
            Arc::new(Control { channel, pool: pool.clone(), count: Mutex::default(), receiving: Mutex::default() });
        control.send(b"R")?;
        pool.add(pool.new_key(), fd, libc::EPOLLIN as u32, control)?;
        Ok(())
    }

    /// A connection and all its calls have ended.
    pub fn connection_ended(&self) {
        let mut count = lock(&self.count);
        count.open -= 1;
        if count.open > 0 {
            return;
        }
        let mut message = [b'I', 0, 0, 0, 0, 0, 0, 0, 0];
        message[1..].copy_from_slice(&count.received.to_le_bytes());
        if self.send(&message).is_err() {
            exit();
        }
    }

    fn send(&self, message: &[u8]) -> Result<(), Errno> {
        let fd = self.channel.as_raw_fd();
        // SAFETY: `message` is readable for the length that is passed.
        check(|| unsafe { libc::send(fd, message.as_ptr().cast(), message.len(), libc::MSG_NOSIGNAL) } as i64).map(drop)
    }

    fn receive_all(self: &Arc<Self>) {
        let _one_at_a_time = lock(&self.receiving);
        loop {
            match receive(self.channel.as_raw_fd()) {
                Ok(Message::Socket(socket)) => self.accept(socket),
                Ok(Message::Lost) => {
                    self.connection_began();
                    self.connection_ended();
                }
                Err(Errno(libc::EAGAIN)) => return,
                // The runner has gone or speaks something else: there is nobody to serve.
                Ok(Message::Nothing | Message::End) | Err(_) => exit(),
            }
        }
    }

    fn connection_began(&self) {
        let mut count = lock(&self.count);
        count.received += 1;
        count.open += 1;
    }

    fn accept(self: &Arc<Self>, socket: OwnedFd) {
        self.connection_began();
        // A connection that can't be served is dropped, which closes it and counts it as ended.
        let _ = Connection::serve(&self.pool, self.clone(), socket);
    }
}

impl Source for Control {
    fn ready(self: Arc<Self>, _events: u32) {
        self.receive_all();
    }
}

/// Ends the agent at once: open files of calls are temporary and unnamed, or named and abandoned.
fn exit() -> ! {
    // SAFETY: ends the process without running anything else.
    unsafe { libc::_exit(0) }
}

#[repr(align(8))]
struct ControlBuffer([u8; 64]);

fn receive(fd: RawFd) -> Result<Message, Errno> {
    let mut byte = [0u8; 8];
    let mut ancillary = ControlBuffer([0; 64]);
    let mut vector = libc::iovec { iov_base: byte.as_mut_ptr().cast(), iov_len: byte.len() };
    // SAFETY: all-zero bytes are a valid `msghdr`.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &mut vector;
    message.msg_iovlen = 1;
    message.msg_control = ancillary.0.as_mut_ptr().cast();
    message.msg_controllen = ancillary.0.len();
    let flags = libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC;
    // SAFETY: `message` points to live, writable memory of the stated lengths.
    let count = check(|| unsafe { libc::recvmsg(fd, &mut message, flags) } as i64)?;
    let mut sockets = descriptors(&message);
    match (count, byte[0], sockets.pop()) {
        (0, _, _) => Ok(Message::End),
        (1, b'C', Some(socket)) if sockets.is_empty() => Ok(Message::Socket(socket)),
        (1, b'C', None) if message.msg_flags & libc::MSG_CTRUNC != 0 => Ok(Message::Lost),
        _ => Ok(Message::Nothing),
    }
}

/// All descriptors of a received message; each is owned, so that none stays open by accident.
fn descriptors(message: &libc::msghdr) -> Vec<OwnedFd> {
    let mut found = Vec::new();
    // SAFETY: `message` was filled by a successful recvmsg and its buffer is alive.
    let mut header = unsafe { libc::CMSG_FIRSTHDR(message) };
    while !header.is_null() {
        // SAFETY: CMSG_FIRSTHDR and CMSG_NXTHDR return null or a whole header in the buffer.
        let (level, kind, length) = unsafe { ((*header).cmsg_level, (*header).cmsg_type, (*header).cmsg_len) };
        if level == libc::SOL_SOCKET && kind == libc::SCM_RIGHTS {
            // SAFETY: CMSG_LEN only computes.
            let overhead = unsafe { libc::CMSG_LEN(0) } as usize;
            for index in 0..length.saturating_sub(overhead) / size_of::<RawFd>() {
                // SAFETY: the kernel wrote that many descriptors behind the header.
                let fd = unsafe { libc::CMSG_DATA(header).cast::<RawFd>().add(index).read_unaligned() };
                found.push(own(i64::from(fd)));
            }
        }
        // SAFETY: as for CMSG_FIRSTHDR.
        header = unsafe { libc::CMSG_NXTHDR(message, header) };
    }
    found
}
