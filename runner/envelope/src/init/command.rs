//! The child that becomes the command: gives everything up, proves it, and executes.

use std::convert::Infallible;
use std::ffi::{CString, c_char};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr;

use super::COMMAND_ID;
use crate::weakening::{Layer, Weakening};
use boxkite_system::step::{At, Broken};
use boxkite_system::sys::{self, Errno};
use boxkite_system::wipe::wipe;
use boxkite_wire::effective::Status;
use boxkite_wire::frames::{Code, Strings, Writer};

/// What one command is given besides its strings.
pub struct Terms {
    /// RLIMIT_NPROC; 0 leaves it alone (a cgroup counts).
    pub processes: u32,
    pub own_init: bool,
    pub weakening: Weakening,
}

/// A channel's descriptor. What the child still needs once it is in place has a higher number.
pub const CHANNEL: i32 = 3;

/// The descriptors of a command.
pub enum Streams {
    /// Those from 0 on; of four the last is a channel.
    Pipes(Vec<OwnedFd>),
    /// The terminal's other side, opened by the child.
    Terminal { master: OwnedFd },
}

/// argv and envp as execve wants them.
pub struct Arguments {
    owners: Vec<CString>,
    argv: Vec<*const c_char>,
    envp: Vec<*const c_char>,
    program: Vec<u8>,
    path: Vec<u8>,
    cwd: CString,
}

impl Arguments {
    pub fn new(strings: &Strings<'_>) -> Result<Self, Errno> {
        let owned = |text: &&[u8]| CString::new(*text).map_err(|_| libc::EINVAL);
        let mut owners = strings.arguments.iter().map(owned).collect::<Result<Vec<_>, _>>()?;
        let count = owners.len();
        for text in &strings.environment {
            owners.push(owned(text)?);
        }
        let pointers = |range: &[CString]| range.iter().map(|text| text.as_ptr()).chain([ptr::null()]).collect();
        let path = strings.environment.iter().find_map(|text| text.strip_prefix(b"PATH="));
        Ok(Self {
            argv: pointers(&owners[..count]),
            envp: pointers(&owners[count..]),
            program: strings.arguments[0].to_vec(),
            path: path.unwrap_or(b"/usr/bin:/bin").to_vec(),
            cwd: CString::new(strings.cwd).map_err(|_| libc::EINVAL)?,
            owners,
        })
    }

    /// execvp(3): tries every directory of PATH, and gives a script without a first line to the shell. Returns only the
    /// reason why nothing could be executed.
    fn execute(&self) -> Errno {
        if self.program.contains(&b'/') {
            return self.execute_at(&self.program);
        }
        let mut worst = libc::ENOENT;
        for directory in self.path.split(|byte| *byte == b':') {
            let directory: &[u8] = if directory.is_empty() { b"." } else { directory };
            match self.execute_at(&[directory, b"/", &self.program].concat()) {
                libc::ENOENT | libc::ENOTDIR => {}
                libc::EACCES => worst = libc::EACCES,
                other => return other,
            }
        }
        worst
    }

    fn execute_at(&self, path: &[u8]) -> Errno {
        let Ok(path) = CString::new(path) else { return libc::EINVAL };
        // SAFETY: argv and envp end with a null pointer, and what they point to lives in `owners`.
        unsafe { libc::execve(path.as_ptr(), self.argv.as_ptr(), self.envp.as_ptr()) };
        let errno = sys::errno();
        if errno != libc::ENOEXEC {
            return errno;
        }
        // The script takes the place of its own name, as the shell's first argument.
        let own = self.argv.iter().skip(1).copied();
        let argv: Vec<*const c_char> = [c"sh".as_ptr(), path.as_ptr()].into_iter().chain(own).collect();
        // SAFETY: as above; `path` outlives the call.
        unsafe { libc::execve(c"/bin/sh".as_ptr(), argv.as_ptr(), self.envp.as_ptr()) };
        sys::errno()
    }
}

impl Drop for Arguments {
    /// The environment may hold secrets.
    fn drop(&mut self) {
        for text in self.owners.drain(..) {
            wipe(&mut text.into_bytes());
        }
    }
}

/// Resource limits of every command, each with its reason.
const LIMITS: [(i32, u64, u64); 5] = [
    // 1, not 0: a piped core_pattern runs its handler as root on the host even for a limit of 0.
    (libc::RLIMIT_CORE as i32, 1, 1),
    // POSIX queues would outlive the command.
    (libc::RLIMIT_MSGQUEUE as i32, 0, 0),
    (libc::RLIMIT_NICE as i32, 0, 0),
    (libc::RLIMIT_RTPRIO as i32, 0, 0),
    // The soft limit that programs expect, and a hard one that they may raise it to.
    (libc::RLIMIT_NOFILE as i32, 1024, 16_384),
];

/// Makes the calling child unprivileged for ever: ids, capabilities, limits. Returns the step that failed.
pub fn give_up(own_init: bool, weakening: Weakening) -> Result<(), Broken> {
    for (resource, soft, hard) in LIMITS {
        sys::lower_limit(resource as _, soft, hard).at("rlimit")?;
    }
    if own_init && !weakening.lacks(Layer::User) {
        sys::set_group(COMMAND_ID).at("setresgid")?;
        sys::set_user(COMMAND_ID).at("setresuid")?;
    }
    if weakening.lacks(Layer::Caps) { Ok(()) } else { sys::set_capabilities(0).at("capset") }
}

/// What the child tells PID 1 on the pipe that execve closes.
pub mod told {
    /// `Status`, just before execve.
    pub const STATUS: u8 = b'S';
    /// Protocol code u16, errno i32, step: it ends without a command.
    pub const BROKEN: u8 = b'B';
}

/// The child's life up to execve. Never returns.
pub fn run(streams: &Streams, arguments: &Arguments, terms: &Terms, tell: BorrowedFd<'_>) -> ! {
    let (code, broken) = match become_command(streams, arguments, terms, tell) {
        Ok(never) => match never {},
        Err(failed) => failed,
    };
    let message =
        [&[told::BROKEN][..], &(code as u16).to_le_bytes(), &broken.errno.to_le_bytes(), broken.step.as_bytes()]
            .concat();
    let status = i32::from(sys::write(tell, &message).is_err()) + 126;
    // SAFETY: ends this child at once, without the parent's exit handlers.
    unsafe { libc::_exit(status) }
}

fn become_command(
    streams: &Streams,
    arguments: &Arguments,
    terms: &Terms,
    tell: BorrowedFd<'_>,
) -> Result<Infallible, (Code, Broken)> {
    let failed = |broken| (Code::StartFailed, broken);
    reset_signals().map_err(failed)?;
    connect(streams).map_err(failed)?;
    if terms.processes > 0 {
        let limit = u64::from(terms.processes);
        sys::set_limit(libc::RLIMIT_NPROC as _, limit, limit).at("rlimit nproc").map_err(failed)?;
    }
    give_up(terms.own_init, terms.weakening).map_err(failed)?;
    highest_oom_score().map_err(failed)?;
    sys::chdir(&arguments.cwd).at("chdir").map_err(|broken| (Code::BadDirectory, broken))?;
    let status = measure().map_err(failed)?;
    if !as_promised(&status, terms) {
        return Err(failed(Broken { step: "posture", errno: libc::EPERM }));
    }
    let message = status.write(Writer::new(0, 0)).finish();
    let message = [&[told::STATUS], &message[boxkite_wire::frames::HEADER..]].concat();
    sys::write(tell, &message).at("report").map_err(failed)?;
    let errno = arguments.execute();
    Err((exec_code(errno), Broken { step: "execve", errno }))
}

fn exec_code(errno: Errno) -> Code {
    match errno {
        libc::ENOENT | libc::ENOTDIR => Code::CommandNotFound,
        libc::E2BIG => Code::ArgumentListTooLong,
        libc::EAGAIN | libc::ENOMEM => Code::StartFailed,
        _ => Code::NotExecutable,
    }
}

/// A session of its own, no blocked signal, and the actions that programs expect.
fn reset_signals() -> Result<(), Broken> {
    // SAFETY: plain calls on local values in a single-threaded child.
    unsafe {
        if libc::setsid() < 0 {
            return Err(sys::errno()).at("setsid");
        }
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, ptr::null_mut());
        // What the caller of the runner ignored would be ignored by every command. SIGKILL and SIGSTOP refuse.
        for signal in 1..=libc::SIGRTMAX() {
            libc::signal(signal, libc::SIG_DFL);
        }
    }
    Ok(())
}

/// The command's descriptors; all others close at execve.
fn connect(streams: &Streams) -> Result<(), Broken> {
    let place = |from: i32, to: i32| {
        // SAFETY: dup2 onto 0, 1, 2 or the channel's number. What this child still needs has a higher one: sources are
        // placed in their order and lie above the number that they go to, and `tell` lies above them all.
        if unsafe { libc::dup2(from, to) } < 0 { Err(sys::errno()).at("dup2") } else { Ok(()) }
    };
    let count = match streams {
        Streams::Pipes(fds) => {
            for (to, from) in fds.iter().enumerate() {
                place(from.as_raw_fd(), to as i32)?;
            }
            fds.len()
        }
        Streams::Terminal { master } => {
            const TIOCGPTPEER: u64 = 0x5441;
            // SAFETY: opens the other side of our own terminal; makes it the controlling one.
            let peer = unsafe { libc::ioctl(master.as_raw_fd(), TIOCGPTPEER as _, libc::O_RDWR | libc::O_NOCTTY) };
            // SAFETY: as above.
            if peer < 0 || unsafe { libc::ioctl(peer, libc::TIOCSCTTY as _, 0) } < 0 {
                return Err(sys::errno()).at("terminal");
            }
            for to in 0..3 {
                place(peer, to)?;
            }
            3
        }
    };
    sys::close_range(count as u32, u32::MAX, false).at("descriptors")
}

const OOM_SCORE: &str = "/proc/self/oom_score_adj";

/// The first to go when memory runs out. Between the two calls nobody but this child and PID 1 is alive here, so being
/// dumpable shows nothing to anybody. Beside a list of programs nothing can be written there, and PID 1 has passed it on.
pub fn highest_oom_score() -> Result<(), Broken> {
    if std::fs::read(OOM_SCORE).is_ok_and(|score| score == b"1000\n") {
        return Ok(());
    }
    sys::prctl(libc::PR_SET_DUMPABLE, 1, 0).at("dumpable")?;
    let written = std::fs::write(OOM_SCORE, "1000").at("oom score");
    sys::prctl(libc::PR_SET_DUMPABLE, 0, 0).at("dumpable")?;
    written
}

/// What the kernel says of the calling process.
pub fn measure() -> Result<Status, Broken> {
    let file = sys::openat(libc::AT_FDCWD, c"/proc/self/status", libc::O_RDONLY, 0).at("status")?;
    let mut text = [0; 4096];
    let count = sys::read(file.as_fd(), &mut text).at("status")?;
    Status::parse(&text[..count]).ok_or(Broken { step: "status", errno: libc::EPROTO })
}

/// The command is released only if every privilege is measured to be gone. The twin leaves out what it leaves out.
fn as_promised(status: &Status, terms: &Terms) -> bool {
    let weak = |layer| terms.weakening.lacks(layer);
    let ids = status.uid == COMMAND_ID && status.gid == COMMAND_ID && (status.groups == 0 || !terms.own_init);
    (weak(Layer::User) || ids)
        && (weak(Layer::Caps) || status.capabilities == [0; 5])
        && (weak(Layer::NoNewPrivs) || status.no_new_privs == 1)
        && (weak(Layer::Seccomp) || status.seccomp == 2)
}

/// Executes the file agent with `control` as descriptor 3 and nothing else beyond 2.
pub fn execute_agent(program: &OwnedFd, control: &OwnedFd) -> Result<Infallible, Errno> {
    // SAFETY: dup2 onto 3: if an OwnedFd has that number, this process never uses or closes it again.
    let program = unsafe {
        let program = libc::fcntl(program.as_raw_fd(), libc::F_DUPFD_CLOEXEC, 4);
        if program < 0 || libc::dup2(control.as_raw_fd(), 3) < 0 {
            return Err(sys::errno());
        }
        program
    };
    sys::close_range(4, u32::MAX, false)?;
    let argv = [c"boxkite-agent".as_ptr(), ptr::null()];
    let envp = [ptr::null::<c_char>()];
    // SAFETY: both lists end with a null pointer.
    unsafe {
        libc::fcntl(3, libc::F_SETFD, 0);
        libc::syscall(libc::SYS_execveat, program, c"".as_ptr(), argv.as_ptr(), envp.as_ptr(), libc::AT_EMPTY_PATH);
    }
    Err(sys::errno())
}
