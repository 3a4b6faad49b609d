//! The maker: one child of the runner per root, which lives in that root's mount namespace and clones envelopes.
//!
//! It is apart from the runner so that an envelope's PID 1 starts from a memory that never held a client's frame, and so
//! that the runner never waits for a mount. `CLONE_PARENT` makes what it clones the runner's own children.

use std::collections::VecDeque;
use std::fs;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::path::Path;

use crate::init::{self, Shared};
use crate::programs;
use crate::root::{self, RootSource};
use crate::weakening::Layer;
use boxkite_system::step::{At, Broken};
use boxkite_system::sys::{self, Errno, Fork};
use boxkite_wire::frames::{Code, Failure, Reader, Writer};

/// How long a killed maker may take.
const LAST_MS: i32 = 1000;

/// The step that fails with ESTALE where a listed file was replaced.
const CHANGED: &str = "programs: the root has changed";

/// What a clone becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Role {
    /// PID 1 of an envelope for commands.
    Command = 0,
    /// The file agent on the five roots.
    Agent = 1,
    /// The file agent that fills uploads and skills.
    Filler = 2,
    /// The maker of a list of programs. Its one descriptor is the socket that the runner keeps the other end of.
    Programs = 3,
}

/// One clone to be made. Its descriptors, in order: the control socket, the mounts, the cgroups to join.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    pub id: u64,
    pub role: Role,
    /// The id, in the runner's user namespace, that PID 1 gets; `None` where it shares the command's.
    pub init_id: Option<u32>,
    pub command_id: u32,
    pub mounts: u8,
}

impl Plan {
    fn write(&self) -> Vec<u8> {
        Writer::new(0, 0)
            .u64(self.id)
            .u8(self.role as u8)
            .u32(self.init_id.unwrap_or(u32::MAX))
            .u32(self.command_id)
            .u8(self.mounts)
            .finish()
    }

    fn read(bytes: &[u8]) -> Result<Self, Failure> {
        let mut reader = Reader::new(bytes.get(boxkite_wire::frames::HEADER..).unwrap_or_default());
        let id = reader.u64()?;
        let role = match reader.u8()? {
            0 => Role::Command,
            1 => Role::Agent,
            2 => Role::Filler,
            _ => Role::Programs,
        };
        let init_id = Some(reader.u32()?).filter(|id| *id != u32::MAX);
        Ok(Self { id, role, init_id, command_id: reader.u32()?, mounts: reader.u8()? })
    }
}

/// The runner's side.
pub struct Maker {
    pub socket: OwnedFd,
    process: OwnedFd,
    /// Plans for which the socket has no room yet, with their descriptors.
    waiting: VecDeque<(Plan, Vec<OwnedFd>)>,
}

impl Drop for Maker {
    fn drop(&mut self) {
        end(&self.process);
    }
}

/// Nothing of a maker is left. One that even SIGKILL does not end, since the kernel does not come back, is left to itself.
pub fn end(process: &OwnedFd) {
    // It has ended already: that is what was wanted.
    let _ = sys::pidfd_send_signal(process.as_fd(), libc::SIGKILL);
    if sys::wait_readable(process.as_fd(), LAST_MS) {
        let _ = sys::wait_pidfd(process.as_fd());
    }
}

/// The same of a child that there is no descriptor of: until it is reaped its number is nobody else's.
fn kill_child(pid: i32) {
    // SAFETY: signals and reaps a child of our own.
    unsafe {
        libc::kill(pid, libc::SIGKILL);
        for _ in 0..LAST_MS {
            if libc::waitpid(pid, std::ptr::null_mut(), libc::WNOHANG | libc::__WALL) != 0 {
                return;
            }
            libc::usleep(1000);
        }
    }
}

/// What became of a plan.
pub struct Cloned {
    pub id: u64,
    pub process: Result<OwnedFd, Broken>,
}

impl Maker {
    /// One that another maker has made, whose first message was read.
    pub fn new(socket: OwnedFd, process: OwnedFd) -> Self {
        Self { socket, process, waiting: VecDeque::new() }
    }

    /// Forks the maker of `source` and waits until its root stands.
    pub fn start(source: &RootSource, scratch: &Path, shared: &Shared) -> Result<Self, Failure> {
        let internal = |step: &'static str| move |errno| Failure::with(Code::Internal, step, errno);
        let (ours, theirs) = sys::packet_pair().map_err(internal("maker: socket"))?;
        let process = match sys::fork_into(0, libc::SIGCHLD, None).map_err(internal("maker: fork"))? {
            Fork::Parent { pidfd, .. } => pidfd,
            Fork::Child => {
                drop(ours);
                serve(source, scratch, shared, &theirs)
            }
        };
        drop(theirs);
        let mut buffer = [0; 256];
        let (count, _) = sys::receive(ours.as_fd(), &mut buffer).map_err(internal("maker: start"))?;
        match buffer[..count].split_first() {
            Some((b'R', _)) => {
                sys::set_nonblocking(ours.as_fd(), true).map_err(internal("maker: socket"))?;
                Ok(Self::new(ours, process))
            }
            Some((_, rest)) => Err(read_broken(rest)),
            None => Err(Failure::new(Code::Internal, "maker: ended")),
        }
    }

    /// Kills it, whatever it is waiting for; nothing is to be made any more.
    pub fn kill(&self) {
        // It has ended already: that is what was wanted.
        let _ = sys::pidfd_send_signal(self.process.as_fd(), libc::SIGKILL);
    }

    /// Sends a plan on its way, at the latest when the maker has answered earlier ones. After an error it never is.
    pub fn request(&mut self, plan: Plan, fds: Vec<OwnedFd>) -> Result<(), Errno> {
        self.waiting.push_back((plan, fds));
        self.send_waiting().inspect_err(|_| drop(self.waiting.pop_back()))
    }

    /// Sends plans that wait, as far as there is room.
    pub fn send_waiting(&mut self) -> Result<(), Errno> {
        while let Some((plan, fds)) = self.waiting.front() {
            let raw: Vec<RawFd> = fds.iter().map(AsRawFd::as_raw_fd).collect();
            match sys::send(self.socket.as_fd(), &plan.write(), &raw) {
                Err(libc::EAGAIN) => return Ok(()),
                other => drop(other?),
            }
            self.waiting.pop_front();
        }
        Ok(())
    }

    /// The next answer; `Ok(None)` where there is none yet, `Err` where the maker has ended.
    pub fn answer(&self) -> Result<Option<Cloned>, Failure> {
        let mut buffer = [0; 256];
        let (lost, mut fds) = match sys::receive(self.socket.as_fd(), &mut buffer) {
            Err(libc::EAGAIN) => return Ok(None),
            Err(libc::EMFILE) => (libc::EMFILE, Vec::new()),
            Err(errno) => return Err(Failure::with(Code::Internal, "maker: answer", errno)),
            Ok((0, _)) => return Err(Failure::new(Code::Internal, "maker: ended")),
            Ok((_, fds)) => (0, fds),
        };
        let mut reader = Reader::new(&buffer);
        let (id, errno, pid) = (reader.u64()?, reader.i32()?, reader.i32()?);
        let process = fds.pop().ok_or_else(|| {
            // It can't be kept without a descriptor.
            if pid > 0 {
                kill_child(pid);
            }
            Broken { step: if errno == libc::ESTALE { CHANGED } else { "clone" }, errno: errno | lost }
        });
        Ok(Some(Cloned { id, process }))
    }
}

/// The encoding of a failed step between our processes.
pub fn write_broken(kind: u8, broken: Broken) -> Vec<u8> {
    let mut bytes = vec![kind];
    bytes.extend_from_slice(&broken.errno.to_le_bytes());
    bytes.extend_from_slice(broken.step.as_bytes());
    bytes
}

/// Its reading. What no process or memory was left for is a limit; anything else a layer that this machine lacks.
pub fn read_broken(rest: &[u8]) -> Failure {
    let (errno, step) = rest.split_at_checked(4).unwrap_or((&[0; 4], b"unknown"));
    let errno = i32::from_le_bytes([errno[0], errno[1], errno[2], errno[3]]);
    let step = String::from_utf8_lossy(step);
    match errno {
        libc::EAGAIN | libc::ENOMEM | libc::ENOSPC | libc::EMFILE | libc::ENFILE => {
            Failure::with(Code::LimitReached, "processes", errno).detail(step)
        }
        _ => Failure::with(Code::IsolationUnavailable, &step, errno),
    }
}

/// The maker's life: build the root, then clone until the runner ends.
fn serve(source: &RootSource, scratch: &Path, shared: &Shared, socket: &OwnedFd) -> ! {
    let first = match prepare(source, scratch, shared, socket) {
        Ok(()) => vec![b'R'],
        Err(broken) => write_broken(b'F', broken),
    };
    let ready = first[0] == b'R';
    if sys::send(socket.as_fd(), &first, &[]).is_err() || !ready {
        std::process::exit(1);
    }
    serve_plans(shared, socket)
}

/// Clones what is planned until the runner ends.
pub fn serve_plans(shared: &Shared, socket: &OwnedFd) -> ! {
    loop {
        let mut buffer = [0; 256];
        match sys::receive(socket.as_fd(), &mut buffer) {
            Ok((count, fds)) if count > 0 => one(&buffer[..count], fds, shared, socket.as_fd()),
            // What is cloned without its descriptors ends at once.
            Err(libc::EMFILE) => one(&buffer, Vec::new(), shared, socket.as_fd()),
            _ => std::process::exit(0),
        }
    }
}

fn prepare(source: &RootSource, scratch: &Path, shared: &Shared, socket: &OwnedFd) -> Result<(), Broken> {
    sys::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as u64, 0).at("maker: death signal")?;
    sys::leave_signals_to_parent();
    keep_only(&[socket.as_raw_fd(), shared.agent.as_raw_fd()]).at("maker: descriptors")?;
    no_standard_streams()?;
    hide_arguments()?;
    // The file agents stay in these: their own filter lets them make no socket and no System V object.
    let net = if shared.weakening.lacks(Layer::Net) { 0 } else { libc::CLONE_NEWNET };
    sys::unshare(libc::CLONE_NEWNS | libc::CLONE_NEWIPC | libc::CLONE_NEWUTS | net).at("maker: namespaces")?;
    root::build(source, scratch, shared.weakening)
}

/// Descriptors 0, 1 and 2 of all that is cloned: a file or pipe of the host must not get inside with them.
fn no_standard_streams() -> Result<(), Broken> {
    let null = sys::openat(libc::AT_FDCWD, c"/dev/null", libc::O_RDWR, 0).at("maker: null")?;
    for stream in 0..3 {
        // SAFETY: dup2 onto a standard stream, which nobody in this process owns as an OwnedFd.
        if unsafe { libc::dup2(null.as_raw_fd(), stream) } < 0 {
            return Err(sys::errno()).at("maker: null");
        }
    }
    Ok(())
}

/// Every envelope's PID 1 is a copy of this process, and its command line can be read inside: the host's paths go, and
/// so does the caller's environment.
fn hide_arguments() -> Result<(), Broken> {
    let stat = fs::read_to_string("/proc/self/stat").at("maker: stat")?;
    let fields = stat.rsplit_once(')').map(|(_, rest)| rest.split_whitespace());
    // Counted from the state, which is field 3: arg_start is 48, arg_end 49, env_start 50, env_end 51.
    let bounds = fields.into_iter().flatten().skip(45).take(4).map(str::parse::<usize>);
    let bounds: Vec<usize> = bounds.collect::<Result<_, _>>().map_err(|_| libc::EPROTO).at("maker: stat")?;
    let &[arguments, arguments_end, environment, environment_end] = &bounds[..] else {
        return Err(Broken { step: "maker: stat", errno: libc::EPROTO });
    };
    overwrite(arguments, arguments_end, b"boxkite-init");
    overwrite(environment, environment_end, b"");
    sys::prctl(libc::PR_SET_NAME, c"boxkite-init".as_ptr() as u64, 0).map(drop).at("maker: name")
}

/// Fills the bytes from `start` to `end` with `text` and zeros.
fn overwrite(start: usize, end: usize, text: &[u8]) {
    for (index, at) in (start..end).enumerate() {
        // SAFETY: the kernel says that this process's argument or environment strings lie here. They are ours to write;
        // nobody reads them any more, since Rust's own copy of the arguments was made before.
        unsafe { std::ptr::with_exposed_provenance_mut::<u8>(at).write(*text.get(index).unwrap_or(&0)) };
    }
}

/// Closes every descriptor but 0, 1, 2 and `keep`.
pub fn keep_only(keep: &[RawFd]) -> Result<(), Errno> {
    let mut keep: Vec<u32> = keep.iter().filter(|fd| **fd > 2).map(|fd| *fd as u32).collect();
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

fn one(bytes: &[u8], fds: Vec<OwnedFd>, shared: &Shared, socket: BorrowedFd<'_>) {
    let Ok(plan) = Plan::read(bytes) else { std::process::exit(1) };
    // Set once there is a child, whatever comes of it.
    let mut pid = 0;
    let cloned = match &shared.fence {
        Some(fence) if !fence.is_whole() => Err(Broken { step: CHANGED, errno: libc::ESTALE }),
        _ if plan.role == Role::Programs => clone_maker(&plan, fds, shared, &mut pid),
        _ => clone(&plan, fds, shared, &mut pid),
    };
    let errno = cloned.as_ref().err().map_or(0, |broken| broken.errno);
    let answer = [&plan.id.to_le_bytes()[..], &errno.to_le_bytes()[..], &pid.to_le_bytes()[..]].concat();
    let fds: Vec<RawFd> = cloned.iter().map(AsRawFd::as_raw_fd).collect();
    if sys::send(socket, &answer, &fds).is_err() {
        std::process::exit(1);
    }
}

/// Clones one child into namespaces of its own, maps its ids and lets it go.
fn clone(plan: &Plan, fds: Vec<OwnedFd>, shared: &Shared, child: &mut i32) -> Result<OwnedFd, Broken> {
    let weak = |layer| shared.weakening.lacks(layer);
    let mut flags = libc::CLONE_NEWPID | libc::CLONE_NEWNS;
    if !weak(Layer::User) {
        flags |= libc::CLONE_NEWUSER;
    }
    if plan.role == Role::Command {
        flags |= libc::CLONE_NEWIPC | libc::CLONE_NEWUTS | if weak(Layer::Net) { 0 } else { libc::CLONE_NEWNET };
    }
    let (go, wait) = sys::packet_pair().at("clone: socket")?;
    match sys::fork_into((flags | libc::CLONE_PARENT) as u64, 0, None).at("clone")? {
        Fork::Child => {
            drop(go);
            init::enter(plan, fds, shared, &wait)
        }
        Fork::Parent { pid, pidfd } => {
            drop(wait);
            *child = pid;
            if !weak(Layer::User) {
                // An unmapped child can do nothing; its waiting ends by the end of file on `go`.
                map_ids(pid, plan)?;
            }
            sys::send(go.as_fd(), b"g", &[]).at("clone: go")?;
            Ok(pidfd)
        }
    }
}

/// Clones a maker for a list of programs. It keeps this one's privileges, in mounts of its own.
fn clone_maker(plan: &Plan, mut fds: Vec<OwnedFd>, shared: &Shared, child: &mut i32) -> Result<OwnedFd, Broken> {
    let socket = fds.pop().ok_or(libc::EBADF).at("clone: socket")?;
    match sys::fork_into((libc::CLONE_NEWNS | libc::CLONE_PARENT) as u64, 0, None).at("clone")? {
        Fork::Child => programs::serve(plan, &socket, shared),
        Fork::Parent { pid, pidfd } => {
            *child = pid;
            Ok(pidfd)
        }
    }
}

pub fn map_ids(pid: i32, plan: &Plan) -> Result<(), Broken> {
    let map = match plan.init_id {
        Some(init) => format!("0 {init} 1\n1001 {} 1\n", plan.command_id),
        None => format!("1001 {} 1\n", plan.command_id),
    };
    fs::write(format!("/proc/{pid}/uid_map"), &map).at("uid_map")?;
    fs::write(format!("/proc/{pid}/gid_map"), &map).at("gid_map")
}

#[cfg(test)]
mod tests;
