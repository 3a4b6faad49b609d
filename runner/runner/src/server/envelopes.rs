//! Envelopes: made, used by one command at a time, kept while they are untouched, else ended.

use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use super::Server;
use super::timers::Timer;
use boxkite_envelope::init::{report, serve::read_failure};
use boxkite_envelope::maker::{Role, read_broken};
use boxkite_host::cgroup::{EnvelopeGroup, EnvelopeLimits};
use boxkite_system::input::Input;
use boxkite_system::sys;
use boxkite_wire::effective::{Made, Status};
use boxkite_wire::frames::{Cause, Code, End, Failure, Reader};

/// How far an envelope's charge may lie above its start before it is retired.
const CHARGE_SLACK: u64 = 4 << 20;
/// Messages that are read from one envelope before others have their turn.
const MOST_MESSAGES: usize = 16;
/// The pause before something is removed again that the kernel still holds, or a process is looked at again.
pub const AGAIN: Duration = Duration::from_micros(500);

/// Where an envelope is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    Making,
    Idle,
    Busy(u64),
    /// Told to end, or found to be ending.
    Ending,
    /// No process is left; its cgroups are being removed.
    Ended,
}

/// One envelope, for commands or of a file agent.
pub struct Envelope {
    pub sandbox: u64,
    pub role: Role,
    pub control: OwnedFd,
    pub group: EnvelopeGroup,
    pub phase: Phase,
    pub made: Option<Made>,
    /// The list of programs in force in it.
    pub list: Option<u64>,
    /// Whether a command has run in it.
    pub used: bool,
    /// Whether PID 1 has been sent SIGKILL, whatever it says after it.
    killed: bool,
    /// For one command alone.
    pub single: bool,
    /// Whether another command of the sandbox ran at some moment of its command. The two can have passed each other
    /// descriptors of their own /proc, /dev/pts or /dev/shm, which no look at this envelope would show.
    pub overlapped: bool,
    /// Sockets handed to a file agent, and those that wait for it with their request.
    pub handed: u64,
    pub waiting: Vec<(OwnedFd, u32)>,
    pub idle_since: Instant,
    /// Whether a timer will look at it: one at a time.
    pub has_timer: bool,
    pub process: Option<OwnedFd>,
    pub memory_events: Option<OwnedFd>,
    limits: EnvelopeLimits,
    pub charge: u64,
    pub oom_kills: u64,
    /// The exec that waits for it.
    pub wanted_by: Option<u64>,
    pub failure: Option<Failure>,
}

impl Envelope {
    /// One that the maker has been told to make.
    pub fn new(sandbox: u64, role: Role, control: OwnedFd, group: EnvelopeGroup, limits: EnvelopeLimits) -> Self {
        Self {
            sandbox,
            role,
            list: None,
            killed: false,
            control,
            group,
            phase: Phase::Making,
            made: None,
            used: false,
            single: false,
            overlapped: false,
            handed: 0,
            waiting: Vec::new(),
            idle_since: Instant::now(),
            has_timer: false,
            process: None,
            memory_events: None,
            limits,
            charge: 0,
            oom_kills: 0,
            wanted_by: None,
            failure: None,
        }
    }

    /// Writes limits that differ from those in force.
    pub fn limit(&mut self, limits: EnvelopeLimits) -> Result<(), Failure> {
        if (limits.memory_bytes, limits.pids) != (self.limits.memory_bytes, self.limits.pids) {
            self.group.set(&limits).map_err(|error| group_failure(&error))?;
            self.limits = limits;
        }
        Ok(())
    }
}

/// A cgroup's error as the client sees it: the step, not the host's path.
pub fn group_failure(error: &boxkite_host::cgroup::Error) -> Failure {
    Failure::with(Code::IsolationUnavailable, error.step, error.errno)
}

impl Server {
    /// A message of PID 1, or the end of its socket, which the end of its process follows.
    pub(super) fn report(&mut self, id: u64) {
        for _ in 0..MOST_MESSAGES {
            let Some(envelope) = self.envelopes.get_mut(&id) else { return };
            let mut buffer = [0; 1024];
            match sys::receive(envelope.control.as_fd(), &mut buffer) {
                Err(libc::EAGAIN) => return,
                Ok((count, fds)) if count > 0 => self.reported(id, &buffer[..count], fds),
                ended => {
                    // Not watched any more: the end of file would be told for ever.
                    let _ = self.poll.remove(envelope.control.as_fd());
                    let lost = ended.is_err_and(|errno| errno == libc::EMFILE);
                    if lost || envelope.phase == Phase::Idle && envelope.role != Role::Command {
                        // A command's output was lost. An agent that is ending gets no connection any more.
                        self.kill_envelope(id);
                    }
                    return;
                }
            }
        }
    }

    fn reported(&mut self, id: u64, message: &[u8], mut fds: Vec<OwnedFd>) {
        let Some(envelope) = self.envelopes.get_mut(&id) else { return };
        let busy = if let Phase::Busy(exec) = envelope.phase { Some(exec) } else { None };
        let rest = &message[1..];
        match (message[0], envelope.role, busy) {
            (report::READY, Role::Command, _) => match Made::read(&mut Reader::new(rest)) {
                Ok(made) => match made.broken_layer().filter(|_| self.setup.weakening.is_none()) {
                    Some(layer) => {
                        envelope.failure = Some(Failure::new(Code::IsolationUnavailable, layer));
                        self.kill_envelope(id);
                    }
                    None => {
                        envelope.made = Some(made);
                        self.check_ready(id);
                    }
                },
                Err(_) => self.kill_envelope(id),
            },
            (report::FAILED, _, _) => envelope.failure = Some(read_broken(rest)),
            (report::STARTED, Role::Command, Some(exec)) => match Status::read(&mut Reader::new(rest)) {
                Ok(status) => self.started(exec, status, fds.pop()),
                Err(_) => self.kill_envelope(id),
            },
            (report::NOT_STARTED, Role::Command, Some(exec)) => {
                let failure = read_failure(rest);
                // A program that is not there says nothing of the envelope; any other failure may be the envelope's.
                let keep = !matches!(failure.code, Code::StartFailed | Code::LimitReached);
                self.not_started(exec, &failure);
                self.after_command(id, keep);
            }
            (report::EXITED, Role::Command, Some(exec)) => self.command_ended(id, exec, rest),
            (_, Role::Agent | Role::Filler | Role::Programs, _) => self.agent_report(id, message),
            _ => {}
        }
    }

    pub(super) fn make_idle(&mut self, id: u64) {
        let Some(envelope) = self.envelopes.get_mut(&id) else { return };
        let Some(sandbox) = self.sandboxes.get_mut(&envelope.sandbox) else { return };
        envelope.phase = Phase::Idle;
        let id_of_sandbox = envelope.sandbox;
        sandbox.idle.push(id);
        if sandbox.closing || sandbox.idle.len() > self.most_idle {
            return self.kill_envelope(id);
        }
        if !sandbox.blank {
            self.begin_idle(id);
        }
        self.sandbox_ready(id_of_sandbox);
    }

    /// From now on it is idle, and a timer will look whether it still is.
    pub(super) fn begin_idle(&mut self, id: u64) {
        let Some(envelope) = self.envelopes.get_mut(&id) else { return };
        envelope.idle_since = Instant::now();
        if !envelope.has_timer {
            envelope.has_timer = true;
            self.timers.add(self.setup.idle, Timer::Idle(id));
        }
    }

    /// Ends an envelope that has been idle for long, or looks again later.
    pub(super) fn check_idle(&mut self, id: u64) {
        let Some(envelope) = self.envelopes.get_mut(&id) else { return };
        envelope.has_timer = false;
        let left = self.setup.idle.saturating_sub(envelope.idle_since.elapsed());
        match envelope.phase {
            Phase::Idle if left.is_zero() && envelope.waiting.is_empty() => self.kill_envelope(id),
            Phase::Idle => {
                envelope.has_timer = true;
                self.timers.add(left.max(Duration::from_millis(10)), Timer::Idle(id));
            }
            _ => {} // A busy one gets its timer when it is idle again.
        }
    }

    /// The command has ended, and PID 1 has killed and reaped all that it left.
    fn command_ended(&mut self, id: u64, exec: u64, rest: &[u8]) {
        let mut reader = Reader::new(rest);
        let (Ok(status), Ok(cpu), Ok(clean)) = (reader.i32(), reader.u64(), reader.u8()) else {
            return self.kill_envelope(id);
        };
        self.check_memory(id);
        let keep = clean == 1 && self.is_untouched(id);
        if let Some(envelope) = self.envelopes.get_mut(&id).filter(|_| !keep) {
            envelope.phase = Phase::Ending;
        }
        self.exec_dead(exec, Some(status), Some(cpu), !keep);
        self.after_command(id, keep);
    }

    /// Whether the memory that the command took has been given back.
    fn is_untouched(&self, id: u64) -> bool {
        self.envelopes.get(&id).is_some_and(|envelope| {
            let charge = envelope.group.memory_current().unwrap_or(0);
            !envelope.killed && charge <= envelope.charge + CHARGE_SLACK && !envelope.single && !envelope.overlapped
        })
    }

    /// Keeps an envelope for the next command, or ends it.
    fn after_command(&mut self, id: u64, keep: bool) {
        let Some(envelope) = self.envelopes.get_mut(&id) else { return };
        envelope.used = true;
        if keep && !envelope.single && !envelope.killed && matches!(envelope.phase, Phase::Busy(_)) {
            envelope.group.reset_memory_peak();
            self.make_idle(id);
        } else {
            let (sandbox, ahead) = (envelope.sandbox, envelope.overlapped && !envelope.single);
            self.kill_envelope(id);
            if ahead {
                self.make_ahead(sandbox);
            }
        }
    }

    /// Beside a command that runs for long every other one retires its envelope: the next is made before it is wanted.
    fn make_ahead(&mut self, id: u64) {
        let wanted = self.sandboxes.get(&id).is_some_and(|sandbox| sandbox.idle.is_empty() && !sandbox.closing);
        if wanted {
            // If it can't be made now, the next exec makes one, and gets the reason if that fails too.
            let _ = self.make_envelope(id, Role::Command);
        }
    }

    pub(super) fn memory_event(&mut self, id: u64) {
        let Some(envelope) = self.envelopes.get(&id) else { return };
        if let Some(events) = &envelope.memory_events {
            Self::drain(events);
        }
        if self.check_memory(id) {
            self.kill_envelope(id);
        }
    }

    /// Whether the kernel has killed for lack of memory since the last look: then that is how the command ends.
    fn check_memory(&mut self, id: u64) -> bool {
        let Some(envelope) = self.envelopes.get_mut(&id) else { return false };
        let kills = envelope.group.oom_kills().unwrap_or(0);
        let more = kills > envelope.oom_kills;
        envelope.oom_kills = kills;
        if let (true, Phase::Busy(exec)) = (more, envelope.phase) {
            self.out_of_memory(exec);
        }
        more
    }

    /// Kills PID 1, and with it everything in the envelope.
    pub(super) fn kill_envelope(&mut self, id: u64) {
        let Some(envelope) = self.envelopes.get_mut(&id) else { return };
        if let Some(sandbox) = self.sandboxes.get_mut(&envelope.sandbox) {
            sandbox.idle.retain(|idle| *idle != id);
        }
        if envelope.phase != Phase::Ended {
            envelope.killed = true;
            match envelope.phase {
                Phase::Busy(exec) => {
                    self.execs.get_mut(&exec).and_then(|exec| exec.input.as_mut()).map_or((), Input::hold)
                }
                _ => envelope.phase = Phase::Ending,
            }
            if let Some(process) = &envelope.process {
                // It has ended already: its descriptor tells.
                let _ = sys::pidfd_send_signal(process.as_fd(), libc::SIGKILL);
            }
        }
    }

    /// As `process_ended`, for one whose end nothing tells.
    pub(super) fn look_at_process(&mut self, id: u64) {
        self.process_ended(id);
        if self.envelopes.get(&id).is_some_and(|envelope| envelope.process.is_some()) {
            self.timers.add(AGAIN, Timer::Unwatched(id));
        }
    }

    /// PID 1 has ended: nothing of the envelope is alive.
    pub(super) fn process_ended(&mut self, id: u64) {
        let Some(envelope) = self.envelopes.get(&id) else { return };
        let Some(process) = &envelope.process else { return };
        match sys::wait_pidfd(process.as_fd()) {
            Ok(None) => {}
            Ok(Some(_)) | Err(_) => {
                // What it said before it died comes first.
                self.report(id);
                self.check_memory(id);
                self.envelope_ended(id);
            }
        }
    }

    pub(super) fn envelope_ended(&mut self, id: u64) {
        let Some(envelope) = self.envelopes.get_mut(&id) else { return };
        let phase = std::mem::replace(&mut envelope.phase, Phase::Ended);
        envelope.process = None;
        envelope.memory_events = None;
        // A process that its maker has not told of ends by this.
        let _ = sys::shutdown(envelope.control.as_fd());
        if let Some(sandbox) = self.sandboxes.get_mut(&envelope.sandbox) {
            sandbox.idle.retain(|idle| *idle != id);
        }
        if let Phase::Busy(exec) = phase {
            self.exec_dead(exec, None, None, true);
        }
        self.disappoint(id);
        self.remove_envelope(id);
    }

    /// Tells whoever waits for an envelope that there will be none.
    pub(super) fn disappoint(&mut self, id: u64) {
        let Some(envelope) = self.envelopes.get_mut(&id) else { return };
        let (sandbox, made, wanted_by) = (envelope.sandbox, envelope.made.is_some(), envelope.wanted_by.take());
        let failure = envelope.failure.clone().unwrap_or(Failure::new(Code::StartFailed, "envelope ended"));
        for (socket, request) in std::mem::take(&mut envelope.waiting) {
            Self::refuse_socket(&socket, request, &failure);
        }
        if let Some(exec) = wanted_by {
            self.not_started(exec, &failure);
        }
        if !made {
            self.envelope_failed(sandbox, id, &failure);
        }
    }

    /// Removes an ended envelope's cgroups, as often as it takes, then the envelope.
    pub(super) fn remove_envelope(&mut self, id: u64) {
        let Some(envelope) = self.envelopes.get(&id).filter(|envelope| envelope.phase == Phase::Ended) else { return };
        let sandbox_id = envelope.sandbox;
        if envelope.group.remove().is_err_and(|error| error.errno == libc::EBUSY) {
            return self.timers.add(AGAIN, Timer::RemoveEnvelope(id));
        }
        self.envelopes.remove(&id);
        if let Some(sandbox) = self.sandboxes.get_mut(&sandbox_id) {
            sandbox.envelopes.remove(&id);
        }
        self.programs_emptied(sandbox_id);
        self.finish_closing(sandbox_id);
    }

    /// Ends every envelope of a sandbox; what runs in them ends as `cause`.
    pub(super) fn kill_envelopes(&mut self, sandbox: u64, cause: Cause) {
        let Some(entry) = self.sandboxes.get(&sandbox) else { return };
        for id in entry.envelopes.clone() {
            let phase = self.envelopes.get(&id).map(|envelope| (envelope.phase, envelope.wanted_by));
            match phase {
                Some((Phase::Busy(exec), _) | (_, Some(exec))) => self.kill_exec(exec, End::Killed, cause),
                _ => self.kill_envelope(id),
            }
        }
    }
}
