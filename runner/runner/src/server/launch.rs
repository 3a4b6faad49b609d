//! Hands a command to PID 1 of a ready envelope: limits, pipes, strings.

use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

use super::Server;
use super::envelopes::Phase;
use super::execs::{CPU_INTERVAL, Exec};
use super::timers::Timer;
use boxkite_envelope::init::serve::{INLINE_ORDER, Order};
use boxkite_system::input::Input;
use boxkite_system::sys;
use boxkite_wire::frames::{Code, Failure, stdin};

impl Server {
    /// Gives an exec to a ready envelope.
    pub(super) fn launch(&mut self, id: u64, envelope: u64) {
        if let Err(failure) = self.try_launch(id, envelope) {
            self.not_started(id, &failure);
            // What was written of its limits is unknown, and nothing has run in it: it is not kept.
            self.kill_envelope(envelope);
        }
    }

    fn try_launch(&mut self, id: u64, envelope_id: u64) -> Result<(), Failure> {
        let failed = |step: &'static str| move |errno| Failure::with(Code::StartFailed, step, errno);
        let processes = self.processes_by_limit(id);
        self.mark_overlap(id, envelope_id);
        let (Some(exec), Some(envelope)) = (self.execs.get_mut(&id), self.envelopes.get_mut(&envelope_id)) else {
            return Err(Failure::new(Code::Internal, "launch"));
        };
        exec.envelope = Some(envelope_id);
        envelope.phase = Phase::Busy(id);
        let sandbox = self.sandboxes.get(&exec.sandbox).ok_or(Failure::new(Code::Closing, "sandbox"))?;
        let limits = sandbox.envelope_limits(&self.available, exec.head.memory_bytes, exec.head.pids);
        envelope.limit(limits)?;
        let pending = exec.pending.take().ok_or(Failure::new(Code::Internal, "launch"))?;
        let head = exec.head;
        let order = Order {
            terminal: head.terminal,
            stdin: head.stdin,
            in_file: pending.strings.0.len() > INLINE_ORDER,
            processes,
            columns: head.columns,
            rows: head.rows,
        };
        let mut message = order.write();
        let mut fds = Vec::new();
        if !head.terminal {
            exec.make_pipes(&pending.inline.0, &mut fds).map_err(failed("pipes"))?;
        }
        if order.in_file {
            fds.push(sys::memory_file_of(c"strings", &pending.strings.0).map_err(failed("strings"))?);
        } else {
            message.extend_from_slice(&pending.strings.0);
        }
        exec.cpu_before = envelope.group.cpu_usec().unwrap_or(0);
        exec.begun = Instant::now();
        let raw: Vec<RawFd> = fds.iter().map(AsRawFd::as_raw_fd).collect();
        let sent = sys::send(envelope.control.as_fd(), &message, &raw);
        boxkite_system::wipe::wipe(&mut message);
        sent.map_err(failed("envelope")).map(drop)?;
        self.set_deadlines(id);
        Ok(())
    }

    /// Marks every envelope of the sandbox in which a command runs now that another one begins.
    fn mark_overlap(&mut self, id: u64, envelope: u64) {
        let Some(sandbox) = self.execs.get(&id).and_then(|exec| self.sandboxes.get(&exec.sandbox)) else { return };
        let mut others = false;
        for other in sandbox.envelopes.iter().filter(|other| **other != envelope) {
            if let Some(entry) = self.envelopes.get_mut(other).filter(|entry| matches!(entry.phase, Phase::Busy(_))) {
                entry.overlapped = true;
                others = true;
            }
        }
        if let Some(entry) = self.envelopes.get_mut(&envelope) {
            entry.overlapped = others;
        }
    }

    fn set_deadlines(&mut self, id: u64) {
        let Some(exec) = self.execs.get_mut(&id) else { return };
        let timeout = Duration::from_millis(exec.head.timeout_ms);
        if let Some(at) = exec.begun.checked_add(timeout).filter(|_| !timeout.is_zero()) {
            exec.deadline = Some(at);
            self.timers.add_at(at, Timer::Deadline(id));
        }
        if exec.head.cpu_ms != 0 {
            self.timers.add(CPU_INTERVAL, Timer::Cpu(id));
        }
    }

    /// RLIMIT_NPROC for an exec whose processes no cgroup counts. Where PID 1 has the command's id it counts too.
    fn processes_by_limit(&self, id: u64) -> u32 {
        let Some(exec) = self.execs.get(&id).filter(|_| self.available.pids.is_none()) else { return 0 };
        let Some(sandbox) = self.sandboxes.get(&exec.sandbox) else { return 0 };
        if self.setup.weakening.lacks(boxkite_envelope::weakening::Layer::Pids) {
            return 0;
        }
        let wanted = if exec.head.pids == 0 { sandbox.open.pids } else { exec.head.pids };
        wanted.saturating_add(u32::from(sandbox.ids.init.is_none()))
    }
}

impl Exec {
    /// Pipes for the command; `fds` gets its ends in the order of `serve::Order`.
    fn make_pipes(&mut self, inline: &[u8], fds: &mut Vec<OwnedFd>) -> Result<(), i32> {
        if self.head.stdin == stdin::CHANNEL {
            // PID 1 makes the channel and says so when the command has started.
            return self.streams[1].make_pipe(fds);
        }
        let mut input = None;
        if self.head.stdin != stdin::NULL {
            let (from, to) = sys::command_pipe()?;
            self.input = Some(Input::of(from.as_fd())?);
            fds.push(from);
            sys::set_nonblocking(to.as_fd(), true)?;
            if self.head.stdin == stdin::INLINE {
                // MAX_INLINE is a pipe's size; a user whose pipes are all small gets an error, not a part.
                if sys::write(to.as_fd(), inline)? != inline.len() {
                    return Err(libc::ENOBUFS);
                }
            } else {
                input = Some(to);
            }
        }
        for stream in &mut self.streams {
            stream.make_pipe(fds)?;
        }
        fds.extend(input);
        Ok(())
    }
}
