//! The keeper: one child of the runner that has disk workspaces made, mounted and removed, each by a child of its own,
//! so that the loop waits for no disk. What it mounts it sends to the runner as a descriptor.

use std::collections::VecDeque;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use crate::store::{Name, Store};
use crate::work::{self, Opened};
use boxkite_system::step::{At, Broken};
use boxkite_system::sys::{self, Errno, Fork};
use boxkite_wire::frames::{Code, Failure, HEADER, Reader, Writer};

/// Children at one time; more orders wait in the socket.
const MOST_CHILDREN: usize = 32;
/// What is to be done with a workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// A new one, with its roots owned by this id.
    Make {
        bytes: u64,
        inodes: u32,
        owner: u32,
    },
    Open,
    /// The runner has let go of it but for the mount that comes with the order, if it was mounted.
    Close {
        keep: bool,
    },
}

/// What became of an order; of a close there is nothing more to say. `None` for another one: the runner had no descriptor
/// for the mount, which is gone.
pub type Outcome = Result<Option<Opened>, Failure>;

/// A directory of a new workspace and its mode.
pub type Root = (&'static std::ffi::CStr, u32);

/// The runner's side.
pub struct Keeper {
    pub socket: OwnedFd,
    _process: OwnedFd,
    /// Orders for which the socket has no room yet.
    waiting: VecDeque<(Vec<u8>, Option<OwnedFd>)>,
}

impl Keeper {
    /// Forks the keeper, which holds the lock of the state directory too: nobody else has it while one of its children
    /// is at work.
    pub fn start(lock: BorrowedFd<'_>, store: &Store, roots: &[Root]) -> Result<Self, Broken> {
        let (ours, theirs) = sys::packet_pair().at("keeper: socket")?;
        let process = match sys::fork_into(0, libc::SIGCHLD, None).at("keeper: fork")? {
            Fork::Parent { pidfd, .. } => pidfd,
            Fork::Child => {
                drop(ours);
                serve(lock, store, roots, &theirs)
            }
        };
        drop(theirs);
        sys::set_nonblocking(ours.as_fd(), true).at("keeper: socket")?;
        Ok(Self { socket: ours, _process: process, waiting: VecDeque::new() })
    }

    /// Sends an order on its way. After an error it never is.
    pub fn order(&mut self, job: u64, name: Name, order: Order, mount: Option<OwnedFd>) -> Result<(), Errno> {
        self.waiting.push_back((write(job, name, order), mount));
        self.send_waiting().inspect_err(|_| drop(self.waiting.pop_back()))
    }

    fn send_waiting(&mut self) -> Result<(), Errno> {
        while let Some((bytes, mount)) = self.waiting.front() {
            let fds: Vec<RawFd> = mount.iter().map(AsRawFd::as_raw_fd).collect();
            match sys::send(self.socket.as_fd(), bytes, &fds) {
                Err(libc::EAGAIN) => return Ok(()),
                other => drop(other?),
            }
            self.waiting.pop_front();
        }
        Ok(())
    }

    /// The next answer, by its order's number; `Ok(None)` where there is none yet, `Err` where the keeper has ended.
    pub fn answer(&mut self) -> Result<Option<(u64, Outcome)>, Failure> {
        let mut buffer = [0; 512];
        let (count, fds) = match sys::receive(self.socket.as_fd(), &mut buffer) {
            Err(libc::EAGAIN) => return Ok(None),
            Err(libc::EMFILE) => (buffer.len(), Vec::new()),
            Err(errno) => return Err(Failure::with(Code::Internal, "keeper: answer", errno)),
            Ok((0, _)) => return Err(Failure::new(Code::Internal, "keeper: ended")),
            Ok(received) => received,
        };
        self.send_waiting().map_err(|errno| Failure::with(Code::Internal, "keeper: order", errno))?;
        read_answer(&buffer[..count], fds).map(Some)
    }
}

fn write(job: u64, name: Name, order: Order) -> Vec<u8> {
    let (kind, bytes, inodes, owner) = match order {
        Order::Make { bytes, inodes, owner } => (0, bytes, inodes, owner),
        Order::Open => (1, 0, 0, 0),
        Order::Close { keep } => (2 + u8::from(keep), 0, 0, 0),
    };
    let writer = Writer::new(kind, 0).u64(job).raw(&name.id).u32(name.range);
    writer.u64(bytes).u32(inodes).u32(owner).finish()
}

fn read(message: &[u8]) -> Result<(u64, Name, Order), Failure> {
    let mut reader = Reader::new(message.get(HEADER..).unwrap_or_default());
    let (job, name) = (reader.u64()?, Name { id: reader.id()?, range: reader.u32()? });
    let (bytes, inodes, owner) = (reader.u64()?, reader.u32()?, reader.u32()?);
    let order = match message[5] {
        0 => Order::Make { bytes, inodes, owner },
        1 => Order::Open,
        kind => Order::Close { keep: kind == 3 },
    };
    Ok((job, name, order))
}

/// The codes that an answer may carry, by their place.
const CODES: [Code; 4] = [Code::Internal, Code::LimitReached, Code::NoWorkspace, Code::WorkspaceInUse];

fn write_answer(job: u64, outcome: &Outcome) -> Vec<u8> {
    let writer = Writer::new(u8::from(outcome.is_ok()), 0).u64(job);
    let writer = match outcome {
        Ok(opened) => {
            let (bytes, inodes, via) =
                opened.as_ref().map_or((0, 0, 0), |opened| (opened.bytes, opened.inodes, opened.via));
            writer.u64(bytes).u64(inodes).u8(via)
        }
        Err(failure) => {
            let code = CODES.iter().position(|code| *code == failure.code).unwrap_or(0);
            let writer = writer.u8(code as u8).i32(failure.errno).bytes(failure.step.as_bytes());
            writer.bytes(failure.detail.as_bytes())
        }
    };
    writer.finish()
}

fn read_answer(message: &[u8], mut fds: Vec<OwnedFd>) -> Result<(u64, Outcome), Failure> {
    let mut reader = Reader::new(message.get(HEADER..).unwrap_or_default());
    let job = reader.u64()?;
    if message[5] == 1 {
        let (bytes, inodes, via) = (reader.u64()?, reader.u64()?, reader.u8()?);
        return Ok((job, Ok(fds.pop().map(|mount| Opened { mount, bytes, inodes, via }))));
    }
    let code = CODES.get(usize::from(reader.u8()?)).copied().unwrap_or(Code::Internal);
    let errno = reader.i32()?;
    let mut text = || reader.bytes().map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    let (step, detail) = (text()?, text()?);
    Ok((job, Err(Failure { code, errno, step, detail })))
}

/// The keeper's life: one child per order, until the runner ends.
fn serve(lock: BorrowedFd<'_>, store: &Store, roots: &[Root], socket: &OwnedFd) -> ! {
    if prepare(&[socket.as_raw_fd(), lock.as_raw_fd()]).is_err() {
        std::process::exit(1);
    }
    let mut children: Vec<(u64, OwnedFd)> = Vec::new();
    loop {
        let room = children.len() < MOST_CHILDREN;
        let watched = children.iter().map(|(_, process)| process.as_raw_fd());
        let watched = watched.chain(room.then_some(socket.as_raw_fd()));
        let mut watched: Vec<libc::pollfd> =
            watched.map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 }).collect();
        // SAFETY: the array is valid for its length. An interrupted call is as good as one that tells nothing.
        unsafe { libc::poll(watched.as_mut_ptr(), watched.len() as _, -1) };
        children.retain(|(job, process)| lives(*job, process.as_fd(), socket.as_fd()));
        let asked = room && watched.last().is_some_and(|entry| entry.revents != 0);
        if asked {
            let mut buffer = [0; 256];
            match sys::receive(socket.as_fd(), &mut buffer) {
                Ok((count, fds)) if count > 0 => children.extend(fork(store, roots, socket, &buffer[..count], fds)),
                _ => std::process::exit(0),
            }
        }
    }
}

/// Gives up all descriptors of the runner's but these, and dies with it.
fn prepare(keep: &[RawFd]) -> Result<(), Errno> {
    sys::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as u64, 0)?;
    sys::leave_signals_to_parent();
    let mut keep: Vec<u32> = keep.iter().map(|fd| *fd as u32).collect();
    keep.sort_unstable();
    let mut first = 3;
    for fd in keep {
        if fd > first {
            sys::close_range(first, fd - 1, true)?;
        }
        first = fd + 1;
    }
    sys::close_range(first, u32::MAX, true)
}

/// Whether a child goes on. One that died of anything else than its work has answered nothing.
fn lives(job: u64, process: BorrowedFd<'_>, socket: BorrowedFd<'_>) -> bool {
    let status = match sys::wait_pidfd(process) {
        Ok(None) => return true,
        Ok(Some(status)) => status,
        Err(_) => 0,
    };
    if status != 0 {
        let failure = Failure::with(Code::Internal, "workspace: helper ended", libc::ECHILD);
        // The runner has ended, and so does this process.
        let _ = sys::send(socket, &write_answer(job, &Err(failure)), &[]);
    }
    false
}

fn fork(
    store: &Store,
    roots: &[Root],
    socket: &OwnedFd,
    message: &[u8],
    mut fds: Vec<OwnedFd>,
) -> Option<(u64, OwnedFd)> {
    let Ok((job, name, order)) = read(message) else { std::process::exit(1) };
    match sys::fork_into(0, libc::SIGCHLD, None) {
        Ok(Fork::Parent { pidfd, .. }) => Some((job, pidfd)),
        Ok(Fork::Child) => {
            let dies = sys::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as u64, 0);
            let outcome = dies.at("workspace: helper").map_err(|broken| broken.failure(Code::Internal));
            let outcome = outcome.and_then(|_| work::run(store, roots, name, order, fds.pop()));
            let mount: Vec<RawFd> = outcome.iter().flatten().map(|opened| opened.mount.as_raw_fd()).collect();
            let sent = sys::send(socket.as_fd(), &write_answer(job, &outcome), &mount);
            std::process::exit(i32::from(sent.is_err()))
        }
        Err(errno) => {
            let failure = Failure::with(Code::LimitReached, "processes", errno);
            // The runner has ended, and so does this process.
            let _ = sys::send(socket.as_fd(), &write_answer(job, &Err(failure)), &[]);
            None
        }
    }
}
