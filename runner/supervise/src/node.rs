//! One Node process: its descriptors, its environment, its end.

use std::ffi::{CString, OsStr, c_char};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::time::Instant;

use boxkite_system::step::{At, Broken};
use boxkite_system::sys::{self, Errno, Fork};

use crate::arguments::Arguments;
use crate::control::Control;
use crate::listeners::Listener;

/// The control socket.
const CONTROL: RawFd = 3;

/// What is executed, prepared once.
pub struct Program {
    arguments: Vec<CString>,
    environment: Vec<CString>,
}

impl Program {
    /// The error is for people: a string with a NUL byte.
    pub fn new(arguments: &Arguments) -> Result<Self, String> {
        let c_string = |text: &OsStr| CString::new(text.as_bytes()).map_err(|_| "arguments: a NUL byte".to_owned());
        let home = arguments.home.as_os_str();
        let listeners = arguments.listeners.len().to_string();
        let environment = [
            ("PATH", OsStr::new("/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")),
            ("LANG", OsStr::new("C.UTF-8")),
            ("HOME", home),
            ("NODE_ENV", OsStr::new("production")),
            ("BOXKITE_SUPERVISED", OsStr::new("1")),
            ("BOXKITE_INSTANCE", OsStr::new(&arguments.instance)),
            ("BOXKITE_LISTENERS", OsStr::new(&listeners)),
        ];
        let environment = environment.map(|(name, value)| c_string(&[OsStr::new(name), value].join(OsStr::new("="))));
        Ok(Self {
            arguments: arguments.command.iter().map(|word| c_string(word)).collect::<Result<_, _>>()?,
            environment: environment.into_iter().collect::<Result<_, _>>()?,
        })
    }

    fn execute(&self) -> Errno {
        let pointers = |words: &[CString]| -> Vec<*const c_char> {
            words.iter().map(|word| word.as_ptr()).chain([std::ptr::null()]).collect()
        };
        let (argv, envp) = (pointers(&self.arguments), pointers(&self.environment));
        // SAFETY: both lists end with a null pointer and hold strings that outlive the call.
        unsafe { libc::execve(argv[0], argv.as_ptr(), envp.as_ptr()) };
        sys::errno()
    }
}

/// How a process has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Exited(i32),
    Killed(i32),
}

/// A running Node.
pub struct Node {
    pub process: OwnedFd,
    /// Absent once Node has closed it.
    pub control: Option<Control>,
    /// When it has said so.
    pub serves_since: Option<Instant>,
}

impl Node {
    /// Starts Node and waits until it is executed.
    pub fn start(program: &Program, listeners: &[Listener]) -> Result<Self, Broken> {
        let (ours, theirs) = UnixStream::pair().at("control socket")?;
        ours.set_nonblocking(true).at("control socket")?;
        let (failure, tell) = sys::pipe(0).at("pipe")?;
        // SAFETY: no effect but its result.
        let parent = unsafe { libc::getpid() };
        let process = match sys::fork_into(0, libc::SIGCHLD, None).at("fork")? {
            Fork::Parent { pidfd, .. } => pidfd,
            Fork::Child => {
                let fds: Vec<RawFd> = std::iter::once(theirs.as_raw_fd())
                    .chain(listeners.iter().map(|listener| listener.as_fd().as_raw_fd()))
                    .collect();
                become_node(program, &fds, tell, parent)
            }
        };
        drop((theirs, tell));
        let mut told = [0; 4];
        // Execution closes the pipe; what did not get so far says why.
        if sys::read(failure.as_fd(), &mut told) == Ok(told.len()) {
            sys::wait_readable(process.as_fd(), -1);
            let _ = sys::wait_pidfd(process.as_fd());
            return Err(Broken { step: "execute", errno: i32::from_le_bytes(told) });
        }
        Ok(Self { process, control: Some(Control::new(ours.into())), serves_since: None })
    }

    /// Sends a signal; to one that has ended is as good as sent.
    pub fn signal(&self, signal: i32) {
        let _ = sys::pidfd_send_signal(self.process.as_fd(), signal);
    }

    /// How it has ended; `None` while it lives.
    pub fn ended(&self) -> Option<End> {
        let status = sys::wait_pidfd(self.process.as_fd()).unwrap_or(Some(libc::SIGKILL))?;
        Some(if libc::WIFEXITED(status) {
            End::Exited(libc::WEXITSTATUS(status))
        } else {
            End::Killed(libc::WTERMSIG(status))
        })
    }
}

/// The child's life up to execve.
fn become_node(program: &Program, fds: &[RawFd], tell: OwnedFd, parent: i32) -> ! {
    let errno = match prepare(fds, tell, parent) {
        Ok(tell) => {
            let errno = program.execute();
            // Nobody to tell: supervise has ended, and with it this process.
            let _ = sys::write(tell.as_fd(), &errno.to_le_bytes());
            errno
        }
        Err(errno) => errno,
    };
    // SAFETY: ends this child at once, without the parent's exit handlers.
    unsafe { libc::_exit(errno.clamp(1, 125)) }
}

/// Death signal, signals, descriptors. Gives the pipe at its new number; its failure is told on it.
fn prepare(fds: &[RawFd], tell: OwnedFd, parent: i32) -> Result<OwnedFd, Errno> {
    let failed = |errno: Errno| {
        let _ = sys::write(tell.as_fd(), &errno.to_le_bytes());
        errno
    };
    sys::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as u64, 0).map_err(failed)?;
    // SAFETY: no effect but its result.
    if unsafe { libc::getppid() } != parent {
        // It ended before the death signal was set.
        return Err(failed(libc::ESRCH));
    }
    reset_signals();
    let tell_at = place(fds, &tell).map_err(failed)?;
    sys::close_range(CONTROL as u32 + fds.len() as u32, tell_at as u32 - 1, false).map_err(failed)?;
    sys::close_range(tell_at as u32 + 1, u32::MAX, false).map_err(failed)?;
    // SAFETY: the new descriptor is ours. The old number is closed, so its owner must not close it again.
    let placed = unsafe { OwnedFd::from_raw_fd(tell_at) };
    std::mem::forget(tell);
    Ok(placed)
}

/// Puts `fds` at 3, 4 and so on; gives the number of `tell` above them.
fn place(fds: &[RawFd], tell: &OwnedFd) -> Result<RawFd, Errno> {
    let above = CONTROL + fds.len() as RawFd + 1;
    let raise = |fd: RawFd| {
        // SAFETY: takes an open descriptor and integers; the new one is closed before or at execve.
        let raised = unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, above) };
        if raised < 0 { Err(sys::errno()) } else { Ok(raised) }
    };
    // First all above the places, so that none is overwritten before it is placed.
    let raised = fds.iter().map(|fd| raise(*fd)).collect::<Result<Vec<_>, _>>()?;
    let tell_at = raise(tell.as_raw_fd())?;
    for (fd, to) in raised.into_iter().zip(CONTROL..) {
        // SAFETY: dup2 onto a number that nobody in this child uses again.
        if unsafe { libc::dup2(fd, to) } < 0 {
            return Err(sys::errno());
        }
    }
    Ok(tell_at)
}

/// No blocked signal, and the actions that programs expect.
pub fn reset_signals() {
    // SAFETY: plain calls on local values in a single-threaded child. SIGKILL and SIGSTOP refuse.
    unsafe {
        for signal in 1..=libc::SIGRTMAX() {
            libc::signal(signal, libc::SIG_DFL);
        }
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
    }
}
