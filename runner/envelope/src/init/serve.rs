//! PID 1's loop: one command at a time, its standard input, its orphans, and its end.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use super::command::{self, Arguments, Streams, Terms, told};
use super::look::{Look, look};
use super::pump::Pump;
use super::{order, report};
use crate::weakening::Weakening;
use boxkite_system::inherit;
use boxkite_system::step::{At, Broken};
use boxkite_system::sys::{self, Errno};
use boxkite_system::wipe::wipe;
use boxkite_wire::frames::{Code, Failure, MAX_PAYLOAD, Reader, Strings, stdin};

/// How often PID 1 looks, 1 ms apart, before it takes what it sees for left.
const LOOKS: u32 = 4;
/// The longest order that travels in a message; longer strings come in a memory file.
pub const INLINE_ORDER: usize = 32 << 10;

/// The fixed part of an exec order. Descriptors follow in this order: on pipes the read end of standard input (where it
/// is inline or attached), the write ends of output (where there is no channel) and error, the write end of standard input
/// (where it is attached); the memory file (where `in_file`).
#[derive(Clone, Copy, Debug)]
pub struct Order {
    pub terminal: bool,
    pub stdin: u8,
    pub in_file: bool,
    pub processes: u32,
    pub columns: u16,
    pub rows: u16,
}

impl Order {
    const LENGTH: usize = 12;

    /// The message up to the strings.
    pub fn write(&self) -> Vec<u8> {
        let mut bytes = vec![order::EXEC, u8::from(self.terminal), self.stdin, u8::from(self.in_file)];
        bytes.extend_from_slice(&self.processes.to_le_bytes());
        bytes.extend_from_slice(&self.columns.to_le_bytes());
        bytes.extend_from_slice(&self.rows.to_le_bytes());
        bytes
    }

    fn read(bytes: &[u8]) -> Result<Self, Failure> {
        let mut reader = Reader::new(&bytes[1.min(bytes.len())..]);
        Ok(Self {
            terminal: reader.u8()? != 0,
            stdin: reader.u8()?,
            in_file: reader.u8()? != 0,
            processes: reader.u32()?,
            columns: reader.u16()?,
            rows: reader.u16()?,
        })
    }
}

struct Running {
    pid: i32,
    pump: Pump,
    cpu_before: u64,
}

struct Init {
    control: OwnedFd,
    signals: OwnedFd,
    own_init: bool,
    weakening: Weakening,
    untouched: Option<Look>,
    running: Option<Running>,
}

/// Serves orders from `control` until it ends.
pub fn run(control: RawFd, own_init: bool, weakening: Weakening) -> ! {
    // SAFETY: the caller gives this descriptor away.
    let control = unsafe { OwnedFd::from_raw_fd(control) };
    // Readable when a child has ended.
    let Ok(signals) = inherit::signals(&[libc::SIGCHLD]) else { std::process::exit(1) };
    let mut init = Init { control, signals, own_init, weakening, untouched: look(), running: None };
    loop {
        if let Err(broken) = init.turn() {
            // The runner has ended, or this envelope can't go on: its end is the end of all in it.
            std::process::exit(i32::from(broken.errno != 0));
        }
    }
}

impl Init {
    fn turn(&mut self) -> Result<(), Broken> {
        let entry = |fd: RawFd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        let idle = Pump::default();
        let pump = self.running.as_ref().map_or(&idle, |running| &running.pump).interest();
        let mut polled = [entry(self.control.as_raw_fd()), entry(self.signals.as_raw_fd()), pump[0], pump[1]];
        // SAFETY: `polled` is valid for its length.
        let ready = unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, -1) };
        if ready < 0 && sys::errno() != libc::EINTR {
            return Err(sys::errno()).at("poll");
        }
        if polled[1].revents != 0 {
            self.children()?;
        }
        if polled[2].revents | polled[3].revents != 0 {
            if let Some(running) = &mut self.running {
                running.pump.step();
            }
        }
        if polled[0].revents != 0 {
            self.order()?;
        }
        Ok(())
    }

    fn send(&self, bytes: &[u8], fds: &[RawFd]) -> Result<(), Broken> {
        sys::send(self.control.as_fd(), bytes, fds).map(drop).at("control")
    }

    fn order(&mut self) -> Result<(), Broken> {
        let mut buffer = vec![0; INLINE_ORDER + 64];
        let (count, fds) = sys::receive(self.control.as_fd(), &mut buffer).at("control")?;
        let result = match buffer[..count].first() {
            Some(&order::EXEC) if self.running.is_none() => self.start(&mut buffer[..count], fds),
            Some(&order::STDIN) => {
                self.take_input(fds);
                Ok(())
            }
            Some(&order::SIGNAL) => {
                self.signal(buffer.get(1).copied().unwrap_or(0));
                Ok(())
            }
            _ => Err(Broken { step: "control", errno: 0 }),
        };
        // Orders may carry secrets.
        wipe(&mut buffer[..count]);
        result
    }

    fn take_input(&mut self, mut fds: Vec<OwnedFd>) {
        if let (Some(running), Some(socket)) = (&mut self.running, fds.pop()) {
            if sys::set_nonblocking(socket.as_fd(), true).is_ok() && running.pump.to.is_some() {
                running.pump.take(socket);
            }
        }
    }

    /// To the command's process group; on a terminal to the one in its foreground.
    fn signal(&self, signal: u8) {
        let Some(running) = &self.running else { return };
        // SAFETY: asks our own terminal, or something that is none; signals processes of this namespace only.
        unsafe {
            let foreground = running.pump.to.as_ref().map_or(-1, |to| libc::tcgetpgrp(to.as_raw_fd()));
            let group = if foreground > 1 { foreground } else { running.pid };
            if libc::kill(-group, i32::from(signal)) < 0 {
                libc::kill(running.pid, i32::from(signal));
            }
        }
    }

    fn start(&mut self, message: &mut [u8], fds: Vec<OwnedFd>) -> Result<(), Broken> {
        match self.try_start(message, fds) {
            Ok((running, status, output)) => {
                self.running = Some(running);
                let fds: Vec<RawFd> = output.iter().map(AsRawFd::as_raw_fd).collect();
                self.send(&[&[report::STARTED], &status[..]].concat(), &fds)
            }
            Err(failure) => {
                let code = (failure.code as u16).to_le_bytes();
                let errno = failure.errno.to_le_bytes();
                self.send(&[&[report::NOT_STARTED][..], &code, &errno, failure.step.as_bytes()].concat(), &[])
            }
        }
    }

    fn try_start(
        &self,
        message: &mut [u8],
        mut fds: Vec<OwnedFd>,
    ) -> Result<(Running, Vec<u8>, Option<OwnedFd>), Failure> {
        let failed = |step, errno| Failure::with(Code::StartFailed, step, errno);
        let order = Order::read(message)?;
        let mut file = Vec::new();
        if order.in_file {
            let memory = fds.pop().ok_or_else(|| failed("strings", libc::EBADF))?;
            file = read_all(memory.as_fd(), MAX_PAYLOAD).map_err(|errno| failed("strings", errno))?;
        }
        let bytes = if order.in_file { &file[..] } else { &message[Order::LENGTH..] };
        let arguments =
            Arguments::new(&Strings::read(&mut Reader::new(bytes))?).map_err(|errno| failed("strings", errno))?;
        let (streams, to, channel) = streams(&order, fds).map_err(|broken| broken.failure(Code::StartFailed))?;
        let terms = Terms { processes: order.processes, own_init: self.own_init, weakening: self.weakening };
        let cpu_before = children_cpu_us();
        let started = launch(&streams, &arguments, &terms);
        drop(arguments);
        wipe(&mut file);
        wipe(message);
        let (pid, status) = started?;
        let output = match streams {
            Streams::Terminal { master } => Some(master),
            Streams::Pipes(_) => channel,
        };
        let stays_open = order.terminal || order.stdin == stdin::CHANNEL;
        let pump = Pump::new(to, stays_open);
        Ok((Running { pid, pump, cpu_before }, status, output))
    }

    /// Reaps whatever has ended. Once the command itself has, everything else is killed, and its end reported.
    fn children(&mut self) -> Result<(), Broken> {
        let mut drained = [0; 128];
        // Which signals came does not matter: every ended child is asked for below.
        let _ = sys::read(self.signals.as_fd(), &mut drained);
        while let Some((pid, status)) = reap(libc::WNOHANG) {
            if self.running.as_ref().is_some_and(|running| running.pid == pid) {
                return self.ended(status);
            }
        }
        Ok(())
    }

    /// The kernel lets go of some sockets (netlink's) a moment after their process, so a look may have to be repeated.
    fn is_untouched(&self, earlier: u32) -> bool {
        if earlier > 0 {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        look() == self.untouched
    }

    fn ended(&mut self, status: i32) -> Result<(), Broken> {
        // SAFETY: reaches all of this pid namespace but PID 1 itself. A fork under way ends too: the kernel lets no
        // process with a fatal signal finish one.
        unsafe { libc::kill(-1, libc::SIGKILL) };
        while reap(0).is_some() {}
        let before = self.running.take().map_or(0, |running| running.cpu_before);
        let clean = self.untouched.is_some() && (0..LOOKS).any(|earlier| self.is_untouched(earlier));
        let cpu = children_cpu_us().saturating_sub(before).to_le_bytes();
        self.send(&[&[report::EXITED][..], &status.to_le_bytes(), &cpu, &[u8::from(clean)]].concat(), &[])
    }
}

/// The streams of a command, where its attached input goes, and the other side of its channel.
fn streams(order: &Order, fds: Vec<OwnedFd>) -> Result<(Streams, Option<OwnedFd>, Option<OwnedFd>), Broken> {
    if order.terminal {
        let master = sys::openat(libc::AT_FDCWD, c"/dev/ptmx", libc::O_RDWR | libc::O_NOCTTY, 0).at("terminal")?;
        let size = libc::winsize { ws_row: order.rows, ws_col: order.columns, ws_xpixel: 0, ws_ypixel: 0 };
        let unlock = 0i32;
        // SAFETY: both ioctls read a local value of the right type.
        let result = unsafe {
            libc::ioctl(master.as_raw_fd(), libc::TIOCSPTLCK as _, &raw const unlock)
                | libc::ioctl(master.as_raw_fd(), libc::TIOCSWINSZ as _, &raw const size)
        };
        if result < 0 {
            return Err(sys::errno()).at("terminal");
        }
        erase_characters(master.as_fd()).at("terminal")?;
        let to = master.try_clone().at("terminal")?;
        sys::set_nonblocking(to.as_fd(), true).at("terminal")?;
        return Ok((Streams::Terminal { master }, Some(to), None));
    }
    let mut fds = fds.into_iter();
    let mut next = || fds.next().ok_or(Broken { step: "streams", errno: libc::EBADF });
    let has_input = matches!(order.stdin, stdin::INLINE | stdin::ATTACH);
    let input =
        if !has_input { sys::openat(libc::AT_FDCWD, c"/dev/null", libc::O_RDONLY, 0).at("stdin")? } else { next()? };
    if order.stdin == stdin::CHANNEL {
        let error = next()?;
        let both = error.try_clone().at("stderr")?;
        // Made here: a socket of the host's network namespace would show the host's network to whoever has it.
        let (ours, theirs) = sys::stream_pair().at("channel")?;
        sys::set_nonblocking(ours.as_fd(), true).at("channel")?;
        let to = ours.try_clone().at("channel")?;
        let theirs = sys::raise(theirs, command::CHANNEL + 1).at("channel")?;
        return Ok((Streams::Pipes(vec![input, both, error, theirs]), Some(to), Some(ours)));
    }
    let (output, error) = (next()?, next()?);
    let to = if order.stdin == stdin::ATTACH { Some(next()?) } else { None };
    Ok((Streams::Pipes(vec![input, output, error]), to, None))
}

/// Makes a terminal take UTF-8 for text, as its locale does: a key that erases takes a whole character.
fn erase_characters(terminal: BorrowedFd<'_>) -> Result<(), Errno> {
    let mut modes = std::mem::MaybeUninit::<libc::termios>::zeroed();
    // SAFETY: both calls take a descriptor and a local value of the right type, which zeros are one of.
    let result = unsafe {
        let read = libc::tcgetattr(terminal.as_raw_fd(), modes.as_mut_ptr());
        (*modes.as_mut_ptr()).c_iflag |= libc::IUTF8;
        read | libc::tcsetattr(terminal.as_raw_fd(), libc::TCSANOW, modes.as_ptr())
    };
    if result < 0 { Err(sys::errno()) } else { Ok(()) }
}

/// Forks the command and waits until it is executed. The answer is its pid and encoded `Status`.
fn launch(streams: &Streams, arguments: &Arguments, terms: &Terms) -> Result<(i32, Vec<u8>), Failure> {
    let failed = |step: &'static str| move |errno| Failure::with(Code::StartFailed, step, errno);
    let (from, to) = sys::pipe(0).map_err(failed("pipe"))?;
    let to = sys::raise(to, command::CHANNEL + 1).map_err(failed("pipe"))?;
    let pid = sys::fork_plain().map_err(|errno| Failure::with(Code::LimitReached, "processes", errno))?;
    if pid == 0 {
        command::run(streams, arguments, terms, to.as_fd());
    }
    drop(to);
    let told = read_all(from.as_fd(), MOST_TOLD).map_err(failed("report"))?;
    let (status, broken) = split_told(&told);
    if let (Some(status), None) = (status, broken) {
        return Ok((pid, status.to_vec()));
    }
    // SAFETY: waits for our own child, which is ending.
    unsafe { libc::waitpid(pid, std::ptr::null_mut(), 0) };
    Err(broken.map_or_else(|| Failure::new(Code::StartFailed, "child ended"), read_failure))
}

/// More than a command's child tells: a `Status`, and the step that failed behind it.
const MOST_TOLD: usize = 512;
/// The length of an encoded `Status`.
const STATUS: usize = 4 + 4 + 4 + 1 + 1 + 4 + 5 * 8;

fn split_told(told: &[u8]) -> (Option<&[u8]>, Option<&[u8]>) {
    let (status, rest) = match told.split_first() {
        Some((&told::STATUS, rest)) if rest.len() >= STATUS => (Some(&rest[..STATUS]), &rest[STATUS..]),
        _ => (None, told),
    };
    (status, rest.strip_prefix(&[told::BROKEN]))
}

/// Reads protocol code u16, errno i32 and step, as `NOT_STARTED` and `told::BROKEN` carry them.
pub fn read_failure(bytes: &[u8]) -> Failure {
    let mut reader = Reader::new(bytes);
    let code = match reader.u16() {
        Ok(5) => Code::IsolationUnavailable,
        Ok(6) => Code::LimitReached,
        Ok(7) => Code::InvalidArgument,
        Ok(9) => Code::CommandNotFound,
        Ok(10) => Code::NotExecutable,
        Ok(11) => Code::ArgumentListTooLong,
        Ok(15) => Code::BadDirectory,
        _ => Code::StartFailed,
    };
    let errno = reader.i32().unwrap_or(0);
    Failure::with(code, &String::from_utf8_lossy(bytes.get(6..).unwrap_or_default()), errno)
}

/// Reads to the end, at most `most` bytes, straight into the answer: no copy of a part stays behind elsewhere.
fn read_all(fd: BorrowedFd<'_>, most: usize) -> Result<Vec<u8>, Errno> {
    let mut bytes = vec![0; most + 1];
    let mut count = 0;
    loop {
        match sys::read(fd, &mut bytes[count..]) {
            Ok(0) => break,
            Ok(more) => count += more,
            Err(libc::EINTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    if count > most {
        return Err(libc::E2BIG);
    }
    bytes.truncate(count);
    Ok(bytes)
}

/// One ended child: its pid and status.
fn reap(flags: i32) -> Option<(i32, i32)> {
    let mut status = 0;
    // SAFETY: waits for any child of ours.
    let pid = unsafe { libc::waitpid(-1, &raw mut status, flags | libc::__WALL) };
    (pid > 0).then_some((pid, status))
}

/// CPU time of every reaped descendant so far.
fn children_cpu_us() -> u64 {
    // SAFETY: an all-zero rusage is a valid value, filled by the call.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage);
        usage
    };
    let us = |time: libc::timeval| time.tv_sec as u64 * 1_000_000 + time.tv_usec as u64;
    us(usage.ru_utime) + us(usage.ru_stime)
}
