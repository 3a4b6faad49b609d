//! The loop: one thread, one poll. Node is started and started again; the end is orderly or told.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use boxkite_system::inherit;
use boxkite_system::step::{At, Broken};
use boxkite_system::sys;
use boxkite_wire::effective::Status;

use crate::arguments::Arguments;
use crate::listeners::Listener;
use crate::node::{End, Node, Program};
use crate::say;
use crate::store::Store;

/// The other end of the runner's owner socket, of which only the end matters.
pub const LIFE_LINE: i32 = 3;
/// Node's status for a configuration or data that another start would not mend (`EX_CONFIG` of sysexits.h).
const UNUSABLE: i32 = 78;
/// How long Node may take to end when it is asked to.
const PATIENCE: Duration = Duration::from_secs(20);
/// A Node that has served so long has not come to nothing. Saying that it serves is not enough: one that dies of its first
/// request would be started without end and without a pause.
const LONG: Duration = Duration::from_secs(10);
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// The pause before another start, after `failures` starts in a row that came to nothing.
fn pause(failures: u32) -> Duration {
    match failures {
        0 => Duration::ZERO,
        1..=6 => FIRST_PAUSE * (1 << (failures - 1)),
        _ => LONGEST_PAUSE,
    }
}

/// Listens, starts Node, and keeps it running. Gives the exit status; an error, for people, is one before it served.
pub fn serve(arguments: &Arguments) -> Result<u8, String> {
    let broken = |broken: Broken| format!("{}: {}", broken.step, std::io::Error::from_raw_os_error(broken.errno));
    let life_line = harden().map_err(broken)?;
    let signals = inherit::signals(&[libc::SIGTERM, libc::SIGINT]).at("signals").map_err(broken)?;
    std::env::set_current_dir(&arguments.home).map_err(|error| format!("{}: {error}", arguments.home.display()))?;
    let program = Program::new(arguments)?;
    let listeners = arguments.listeners.iter().map(Listener::bind).collect::<Result<Vec<_>, _>>()?;
    let node = Node::start(&program, &listeners)
        .map_err(|failed| format!("{}: {}", arguments.command[0].to_string_lossy(), broken(failed)))?;
    let mut daemon = Daemon {
        program,
        listeners,
        store: Store::default(),
        node: Some(node),
        failures: 0,
        due: None,
        stopping: false,
    };
    Ok(daemon.run(life_line.as_fd(), signals.as_fd()))
}

/// Not dumpable, no core, nothing to gain, nothing open but the life line, and refused where a privilege is left.
fn harden() -> Result<OwnedFd, Broken> {
    // It was executed as `/proc/self/exe`, which lists of processes would show.
    sys::prctl(libc::PR_SET_NAME, c"supervise".as_ptr() as u64, 0).at("name")?;
    sys::prctl(libc::PR_SET_DUMPABLE, 0, 0).at("not dumpable")?;
    sys::lower_limit(libc::RLIMIT_CORE as _, 1, 1).at("core limit")?;
    sys::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0).at("no_new_privs")?;
    // That the parent has ended before is told by the life line.
    sys::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as u64, 0).at("death signal")?;
    sys::close_range(LIFE_LINE as u32 + 1, u32::MAX, false).at("descriptors")?;
    // SAFETY: no effect but on files that are made later.
    unsafe { libc::umask(0o077) };
    let text = std::fs::read("/proc/self/status").at("status")?;
    let status = Status::parse(&text).ok_or(Broken { step: "status", errno: libc::EPROTO })?;
    let [inheritable, permitted, effective, _, ambient] = status.capabilities;
    if status.uid == 0 || inheritable | permitted | effective | ambient != 0 {
        return Err(Broken { step: "must not be root or have a capability", errno: libc::EPERM });
    }
    inherit::socket(LIFE_LINE).at("descriptor 3 is no socket")
}

struct Daemon {
    program: Program,
    listeners: Vec<Listener>,
    store: Store,
    node: Option<Node>,
    /// Starts in a row that came to nothing.
    failures: u32,
    /// When Node is started again or, while it is being stopped, killed.
    due: Option<Instant>,
    stopping: bool,
}

/// What has happened, in the order of the descriptors that are polled.
#[derive(Default)]
struct Happened {
    parent_ended: bool,
    asked: bool,
    node_ended: bool,
    control: bool,
}

impl Daemon {
    /// Until the end; gives the exit status.
    fn run(&mut self, life_line: BorrowedFd<'_>, signals: BorrowedFd<'_>) -> u8 {
        loop {
            let happened = self.wait(life_line, signals);
            if happened.parent_ended && sys::read(life_line, &mut [0; 64]) != Err(libc::EAGAIN) {
                // Node dies with this process.
                say("the runner has ended");
                return 1;
            }
            if happened.control {
                self.control();
            }
            // Before a signal, so that the end of a Node that both have been asked to end is an orderly one.
            if happened.asked && self.is_asked(signals) && self.stop() {
                return 0;
            }
            if happened.node_ended {
                if let Some(status) = self.node_ended() {
                    return status;
                }
            }
            if self.due.is_some_and(|due| due <= Instant::now()) {
                self.due = None;
                self.time_is_over();
            }
        }
    }

    fn wait(&self, life_line: BorrowedFd<'_>, signals: BorrowedFd<'_>) -> Happened {
        let control = self.node.as_ref().and_then(|node| node.control.as_ref());
        let for_control =
            if control.is_some_and(|control| control.is_sending()) { libc::POLLOUT } else { libc::POLLIN };
        // A negative descriptor is passed over.
        let fd = |fd: Option<BorrowedFd<'_>>| fd.map_or(-1, |fd| fd.as_raw_fd());
        let mut polled = [
            (fd(Some(life_line)), libc::POLLIN),
            (fd(Some(signals)), libc::POLLIN),
            (fd(self.node.as_ref().map(|node| node.process.as_fd())), libc::POLLIN),
            (fd(control.map(|control| control.fd())), for_control),
        ]
        .map(|(fd, events)| libc::pollfd { fd, events, revents: 0 });
        let left = self.due.map(|due| due.saturating_duration_since(Instant::now()));
        // Rounded up, so that the time is over when the wait is.
        let timeout = left.map_or(-1, |left| left.as_micros().div_ceil(1000).min(60_000) as i32);
        // SAFETY: `polled` is valid for its length.
        let count = unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, timeout) };
        if count <= 0 {
            return Happened::default();
        }
        let [parent_ended, asked, node_ended, control] = polled.map(|entry| entry.revents != 0);
        Happened { parent_ended, asked, node_ended, control }
    }

    fn control(&mut self) {
        let Some(node) = &mut self.node else { return };
        let Some(control) = &mut node.control else { return };
        let closed = control.serve(&mut self.store).is_err();
        if control.ready {
            node.serves_since.get_or_insert_with(Instant::now);
        }
        if closed {
            if let Some(control) = node.control.take() {
                control.drain(&mut self.store);
            }
        }
    }

    fn is_asked(&self, signals: BorrowedFd<'_>) -> bool {
        sys::read(signals, &mut [0; size_of::<libc::signalfd_siginfo>()]).is_ok()
    }

    /// Asks Node to end. True where there is none. Asked again it goes on: a service manager asks every process of a
    /// service, and so does the runner. Who can't wait kills.
    fn stop(&mut self) -> bool {
        // The names are free for the next daemon; who connects by an address is refused once Node has closed its copies.
        self.listeners.clear();
        let Some(node) = &self.node else { return true };
        if !self.stopping {
            self.stopping = true;
            node.signal(libc::SIGTERM);
            self.due = Instant::now().checked_add(PATIENCE);
        }
        false
    }

    /// Looks whether Node has ended, and decides what follows: an exit status, or another start.
    fn node_ended(&mut self) -> Option<u8> {
        let end = self.node.as_ref()?.ended()?;
        let node = self.node.take()?;
        if let Some(control) = node.control {
            control.drain(&mut self.store);
        }
        if end == End::Exited(UNUSABLE) {
            say("node ended with status 78: its configuration or data can't be used");
            return Some(UNUSABLE as u8);
        }
        if self.stopping {
            let well = matches!(end, End::Exited(0) | End::Killed(libc::SIGTERM));
            if !well {
                say(&format!("node {}, though it was asked to end in order", words(end)));
            }
            return Some(u8::from(!well));
        }
        if node.serves_since.is_some_and(|since| since.elapsed() >= LONG) {
            self.failures = 0;
        }
        self.start_again(&format!("node {}", words(end)));
        None
    }

    fn start_again(&mut self, reason: &str) {
        let pause = pause(self.failures);
        self.failures = self.failures.saturating_add(1);
        let when = if pause.is_zero() { "now".to_owned() } else { format!("in {} s", pause.as_secs_f64()) };
        say(&format!("{reason}; it is started again {when}"));
        self.due = Instant::now().checked_add(pause);
    }

    fn time_is_over(&mut self) {
        match &self.node {
            Some(node) => {
                say(&format!("node has not ended {} s after it was asked to; it is killed", PATIENCE.as_secs()));
                node.signal(libc::SIGKILL);
            }
            None => match Node::start(&self.program, &self.listeners) {
                Ok(node) => self.node = Some(node),
                Err(broken) => {
                    let error = std::io::Error::from_raw_os_error(broken.errno);
                    self.start_again(&format!("node did not start ({}: {error})", broken.step));
                }
            },
        }
    }
}

fn words(end: End) -> String {
    match end {
        End::Exited(status) => format!("ended with status {status}"),
        End::Killed(signal) => format!("was killed by signal {signal}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_five_seconds() {
        let pauses: Vec<u64> = (0..10).map(|failures| pause(failures).as_millis() as u64).collect();
        assert_eq!(pauses, [0, 100, 200, 400, 800, 1600, 3200, 5000, 5000, 5000]);
        assert_eq!(pause(u32::MAX), LONGEST_PAUSE);
    }
}
