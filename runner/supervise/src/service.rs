//! The runner's side of the boundary: the child that gives up every privilege and becomes `supervise`.
//!
//! It is forked before the runner enters its user namespace, so that it stays outside, and executed when the runner
//! serves. In between it waits with no privilege left.

use std::ffi::{CString, OsString, c_char};
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;

use boxkite_system::step::{At, Broken};
use boxkite_system::sys::{self, Errno, Fork};
use boxkite_wire::effective::Status;

use crate::daemon::LIFE_LINE;
use crate::node::reset_signals;
use crate::{NEVER_SERVED, WORD, say};

/// Where the word to go comes in; closed at execve.
const GO: RawFd = 4;
/// How long an end may take that has begun.
const PATIENCE_MS: i32 = 5_000;

/// The supervise process, a child of the runner.
pub struct Service {
    process: OwnedFd,
    go: Option<UnixStream>,
}

/// How it has ended, as an exit status of the runner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Status(u8),
    Signal(i32),
}

impl Service {
    /// Forks it; `identity` is the user and group that it becomes, none for the caller's own. Gives the socket whose
    /// other end it holds for its life. Only a process of one thread may call this.
    pub fn fork(identity: Option<u32>, arguments: &[OsString]) -> Result<(Self, OwnedFd), Broken> {
        let (ours, theirs) = UnixStream::pair().at("service: socket")?;
        let (go, wait) = UnixStream::pair().at("service: socket")?;
        let arguments = std::iter::once(Ok(c"boxkite-runner".into()))
            .chain(std::iter::once(CString::new(WORD)))
            .chain(arguments.iter().map(|word| CString::new(word.as_bytes())))
            .collect::<Result<Vec<CString>, _>>()
            .map_err(|_| libc::EINVAL)
            .at("service: arguments")?;
        // SAFETY: no effect but its result.
        let parent = unsafe { libc::getpid() };
        let process = match sys::fork_into(0, libc::SIGCHLD, None).at("service: fork")? {
            Fork::Parent { pidfd, .. } => pidfd,
            Fork::Child => {
                let fds = [theirs.as_raw_fd(), wait.as_raw_fd()];
                let broken = become_service(identity, &arguments, fds, parent);
                say(&format!("{}: {}", broken.step, std::io::Error::from_raw_os_error(broken.errno)));
                // SAFETY: ends this child at once, without the parent's exit handlers.
                unsafe { libc::_exit(i32::from(NEVER_SERVED)) }
            }
        };
        Ok((Self { process, go: Some(go) }, ours.into()))
    }

    /// Lets it go: the runner serves. Where it has ended already, the end of its socket tells.
    pub fn release(&mut self) {
        if let Some(go) = self.go.take() {
            let _ = sys::send(go.as_fd(), b"g", &[]);
        }
    }

    /// Sends a signal; to one that has ended is as good as sent.
    pub fn signal(&self, signal: i32) {
        let _ = sys::pidfd_send_signal(self.process.as_fd(), signal);
    }

    /// Waits for its end, which has begun; one that does not come is made.
    pub fn end(&self) -> End {
        if !sys::wait_readable(self.process.as_fd(), PATIENCE_MS) {
            self.signal(libc::SIGKILL);
            sys::wait_readable(self.process.as_fd(), -1);
        }
        match sys::wait_pidfd(self.process.as_fd()) {
            Ok(Some(status)) if libc::WIFEXITED(status) => End::Status(libc::WEXITSTATUS(status) as u8),
            Ok(Some(status)) => End::Signal(libc::WTERMSIG(status)),
            Ok(None) | Err(_) => End::Signal(libc::SIGKILL),
        }
    }
}

/// The child's life up to execve; returns only what went wrong.
fn become_service(identity: Option<u32>, arguments: &[CString], fds: [RawFd; 2], parent: i32) -> Broken {
    match prepare(identity, fds, parent) {
        Ok(()) => Broken { step: "execute", errno: execute(arguments) },
        Err(broken) => broken,
    }
}

fn prepare(identity: Option<u32>, fds: [RawFd; 2], parent: i32) -> Result<(), Broken> {
    // A terminal's Ctrl-C is the runner's to handle, and a new session has no terminal.
    // SAFETY: no effect but on this process.
    unsafe { libc::setsid() };
    reset_signals();
    connect(fds)?;
    if let Some(id) = identity {
        sys::clear_groups().at("setgroups")?;
        empty_bounding_set().at("bounding set")?;
        sys::set_group(id).at("setresgid")?;
        sys::set_user(id).at("setresuid")?;
    }
    sys::prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_CLEAR_ALL as u64, 0).at("ambient set")?;
    sys::set_capabilities(0).at("capset")?;
    sys::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0).at("no_new_privs")?;
    // After the change of ids, which clears it.
    sys::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as u64, 0).at("death signal")?;
    // SAFETY: no effect but its result.
    if unsafe { libc::getppid() } != parent {
        return Err(Broken { step: "the runner has ended", errno: libc::ESRCH });
    }
    let text = std::fs::read("/proc/self/status").at("status")?;
    let status = Status::parse(&text).ok_or(Broken { step: "status", errno: libc::EPROTO })?;
    if !is_unprivileged(&status, identity) {
        return Err(Broken { step: "a privilege is left", errno: libc::EPERM });
    }
    let mut word = [0; 1];
    // SAFETY: borrowed for this call from a number that `connect` has filled.
    let go = unsafe { std::os::fd::BorrowedFd::borrow_raw(GO) };
    match sys::read(go, &mut word) {
        Ok(1) => Ok(()),
        // The runner did not come to serve, and has said why.
        // SAFETY: ends this child at once, without the parent's exit handlers.
        _ => unsafe { libc::_exit(i32::from(NEVER_SERVED)) },
    }
}

/// What the kernel says of the process decides, not what was called.
fn is_unprivileged(status: &Status, identity: Option<u32>) -> bool {
    let [inheritable, permitted, effective, bounding, ambient] = status.capabilities;
    let none = inheritable | permitted | effective | ambient == 0 && status.no_new_privs == 1 && status.uid != 0;
    let ids = identity.is_none_or(|id| (status.uid, status.gid, status.groups, bounding) == (id, id, 0, 0));
    none && ids
}

/// Standard input from nowhere, the life line and the word to go at their numbers, nothing else open.
fn connect(fds: [RawFd; 2]) -> Result<(), Broken> {
    let null = sys::openat(libc::AT_FDCWD, c"/dev/null", libc::O_RDONLY, 0).at("null")?;
    let high = |fd: RawFd| {
        // SAFETY: takes an open descriptor and integers.
        let raised = unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, GO + 1) };
        if raised < 0 { Err(sys::errno()).at("descriptors") } else { Ok(raised) }
    };
    let raised = [high(null.as_raw_fd())?, high(fds[0])?, high(fds[1])?];
    // If `null` had one of the numbers below it is gone, and must not be closed under another's number.
    std::mem::forget(null);
    for (from, to) in raised.into_iter().zip([0, LIFE_LINE, GO]) {
        // SAFETY: dup2 onto a number that nobody in this child uses again.
        if unsafe { libc::dup2(from, to) } < 0 {
            return Err(sys::errno()).at("descriptors");
        }
    }
    sys::close_range(GO as u32 + 1, u32::MAX, false).at("descriptors")?;
    // SAFETY: takes an open descriptor and constants.
    unsafe { libc::fcntl(GO, libc::F_SETFD, libc::FD_CLOEXEC) };
    Ok(())
}

fn empty_bounding_set() -> Result<(), Errno> {
    for capability in 0..64 {
        match sys::prctl(libc::PR_CAPBSET_DROP, capability, 0) {
            // Beyond the kernel's last one.
            Err(libc::EINVAL) => return Ok(()),
            other => drop(other?),
        }
    }
    Ok(())
}

/// Executes the program that this process runs already, wherever it is now.
fn execute(arguments: &[CString]) -> Errno {
    let argv: Vec<*const c_char> = arguments.iter().map(|word| word.as_ptr()).chain([std::ptr::null()]).collect();
    let envp = [std::ptr::null::<c_char>()];
    // SAFETY: both lists end with a null pointer and hold strings that outlive the call.
    unsafe { libc::execve(c"/proc/self/exe".as_ptr(), argv.as_ptr(), envp.as_ptr()) };
    sys::errno()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_privilege_that_is_left_is_seen() {
        let clean = Status { uid: 7, gid: 7, no_new_privs: 1, ..Status::default() };
        assert!(is_unprivileged(&clean, Some(7)) && is_unprivileged(&clean, None));
        for set in 0..5 {
            let mut one = clean;
            one.capabilities[set] = 1;
            assert!(!is_unprivileged(&one, Some(7)), "set {set}");
            // An ordinary user can't empty the bounding set, which gives nothing under no_new_privs.
            assert_eq!(is_unprivileged(&one, None), set == 3, "set {set}");
        }
        for (wrong, own) in [
            (Status { uid: 8, ..clean }, true),
            (Status { gid: 8, ..clean }, true),
            (Status { groups: 1, ..clean }, true),
            (Status { uid: 0, ..clean }, false),
            (Status { no_new_privs: 0, ..clean }, false),
        ] {
            assert!(!is_unprivileged(&wrong, Some(7)));
            assert_eq!(is_unprivileged(&wrong, None), own);
        }
    }
}
