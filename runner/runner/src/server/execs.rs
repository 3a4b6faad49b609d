//! The life of an exec: `Starting → Running → Draining → Ended`, with exactly one end.

use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use super::Server;
use super::timers::Timer;
use boxkite_system::input::Input;
use boxkite_system::stream::Stream;
use boxkite_system::sys;
use boxkite_system::wipe::Wiped;
use boxkite_wire::effective::{Effective, Status};
pub use boxkite_wire::frames::State;
use boxkite_wire::frames::{self, Cause, Code, End, Ended, ExecHead, Failure, NONE, kind, stdin};

/// Ended records of one sandbox that wait for their commit.
const MOST_RECORDS: usize = 4096;
/// Uncommitted output of one sandbox's execs above which it starts no more.
const MOST_KEPT: usize = 256 << 20;
/// How often CPU time is read.
pub const CPU_INTERVAL: Duration = Duration::from_millis(25);

/// The exec's frame, kept until its envelope is ready.
pub struct Pending {
    pub strings: Wiped,
    pub inline: Wiped,
}

/// One command and its record.
pub struct Exec {
    pub id: u64,
    pub sandbox: u64,
    pub envelope: Option<u64>,
    pub consumer: Option<u64>,
    pub state: State,
    pub block: bool,
    pub streams: [Stream; 2],
    /// Offset of the output up to which it goes before what is on the channel.
    pub output_first: u64,
    pub end_sent: bool,
    /// The connection that an unfinished output frame is being sent to.
    pub sending_to: Option<u64>,
    pub head: ExecHead,
    /// Of a command with a pipe for its input.
    pub input: Option<Input>,
    /// Whom to answer when it has started.
    starter: Option<(u64, u32)>,
    /// Who wants to be its consumer then.
    pub attachers: Vec<(u64, u32)>,
    effective: Effective,
    pub pending: Option<Pending>,
    pub begun: Instant,
    pub deadline: Option<Instant>,
    pub cpu_before: u64,
    verdict: Option<(End, Cause)>,
    wait_status: Option<i32>,
    duration: Duration,
    cpu_us: u64,
    memory_peak: u64,
    retired: bool,
}

impl Exec {
    /// Bytes of memory that its spools take.
    fn kept(&self) -> usize {
        self.streams.iter().map(|stream| stream.spool.kept()).sum()
    }

    /// The terminal, where there is one.
    pub fn terminal(&self) -> Option<&OwnedFd> {
        self.streams[0].source.as_ref().filter(|_| self.head.terminal)
    }

    /// The end, once, when everything before it is sent.
    pub fn end_frame(&mut self) -> Option<Vec<u8>> {
        if self.state != State::Ended || self.end_sent {
            return None;
        }
        self.end_sent = true;
        let (end, cause, exit_code, signal) = frames::outcome(self.wait_status.unwrap_or(0), self.verdict);
        let ended = Ended {
            exec: self.id,
            end,
            cause,
            retired: self.retired,
            exit_code,
            signal,
            stdout_bytes: self.streams[0].spool.end(),
            stderr_bytes: self.streams[1].spool.end(),
            duration_us: self.duration.as_micros() as u64,
            cpu_us: self.cpu_us,
            memory_peak: self.memory_peak,
        };
        Some(ended.frame())
    }
}

impl Server {
    /// Refuses an exec that can't or may not begin.
    fn may_begin(&self, head: &ExecHead) -> Result<(), Failure> {
        let sandbox = self.sandboxes.get(&head.sandbox).filter(|sandbox| !sandbox.blank);
        let sandbox = sandbox.ok_or(Failure::new(Code::UnknownSandbox, "sandbox"))?;
        let records = sandbox.execs.iter().filter_map(|id| self.execs.get(id));
        let ended = records.clone().filter(|exec| exec.state == State::Ended).count();
        let kept: usize = records.map(Exec::kept).sum();
        let refuse = |code, step| Err(Failure::new(code, step));
        let own_memory = head.memory_bytes != 0;
        match () {
            () if sandbox.closing => refuse(Code::Closing, "sandbox"),
            () if sandbox.change.is_some() => refuse(Code::SandboxInUse, "programs"),
            () if ended >= MOST_RECORDS => refuse(Code::LimitReached, "ended records"),
            () if kept >= MOST_KEPT => refuse(Code::LimitReached, "uncommitted output"),
            () if own_memory && self.available.memory.is_none() => refuse(Code::IsolationUnavailable, "memory limit"),
            () if head.cpu_ms != 0 && self.available.cpu_time.is_none() => {
                refuse(Code::IsolationUnavailable, "CPU time limit")
            }
            () if own_memory && !(4 << 20..=sandbox.open.memory_bytes).contains(&head.memory_bytes) => {
                refuse(Code::InvalidArgument, "memory beyond the sandbox's")
            }
            () if head.pids > sandbox.open.pids => refuse(Code::InvalidArgument, "processes beyond the sandbox's"),
            () => Ok(()),
        }
    }

    pub(super) fn begin_exec(&mut self, client: u64, request: u32, exec: &frames::Exec<'_>) -> Result<(), Failure> {
        let head = exec.head;
        self.may_begin(&head)?;
        let id = self.new_id();
        let record = Exec {
            id,
            sandbox: head.sandbox,
            envelope: None,
            consumer: Some(client),
            state: State::Starting,
            block: head.block,
            streams: Default::default(),
            output_first: 0,
            end_sent: false,
            sending_to: None,
            head,
            input: None,
            starter: Some((client, request)),
            attachers: Vec::new(),
            effective: Effective::default(),
            pending: Some(Pending { strings: Wiped(exec.strings.to_vec()), inline: Wiped(exec.inline.to_vec()) }),
            begun: Instant::now(),
            deadline: None,
            cpu_before: 0,
            verdict: None,
            wait_status: None,
            duration: Duration::ZERO,
            cpu_us: NONE,
            memory_peak: NONE,
            retired: false,
        };
        self.execs.insert(id, record);
        if let Some(sandbox) = self.sandboxes.get_mut(&head.sandbox) {
            sandbox.execs.insert(id);
        }
        match self.envelope_for(head.sandbox, id, head.fresh) {
            Ok(Some(envelope)) => self.launch(id, envelope),
            Ok(None) => {}
            Err(failure) => self.not_started(id, &failure),
        }
        Ok(())
    }

    /// PID 1 says that the command runs, and gives its side of the terminal or the channel.
    pub(super) fn started(&mut self, id: u64, status: Status, output: Option<OwnedFd>) {
        let Some(effective) = self.effective_of(id, status) else { return };
        let Some(exec) = self.execs.get_mut(&id) else { return };
        exec.state = State::Running;
        if let Some(output) = output {
            // One that can't be made non-blocking would stop everybody: without it the command has no output.
            exec.streams[0].source = sys::set_nonblocking(output.as_fd(), true).ok().map(|()| output);
        }
        exec.effective = effective;
        let (starter, attachers) = (exec.starter.take(), std::mem::take(&mut exec.attachers));
        if let Some((client, request)) = starter {
            self.answer(client, &frames::measured(kind::STARTED, request, id, &effective));
        }
        for (client, request) in attachers {
            self.attach_output(id, client, request);
            self.flush(client);
        }
        self.watch_streams(id);
        self.send_on(id);
    }

    /// The time, or the CPU time, was over before the command ran: that is an end like any other, so the starter gets a
    /// record. What was measured is its envelope's.
    fn started_late(&mut self, id: u64) -> bool {
        let envelope = self.execs.get(&id).and_then(|exec| self.envelopes.get(&exec.envelope?));
        let Some(made) = envelope.and_then(|envelope| envelope.made) else { return false };
        self.started(id, made.status, None);
        true
    }

    /// Makes a connection the exec's consumer, from what is committed on.
    pub(super) fn attach_output(&mut self, id: u64, client: u64, request: u32) {
        self.copy_body(id);
        let Some(exec) = self.execs.get_mut(&id).filter(|_| self.connections.contains_key(&client)) else { return };
        exec.consumer = Some(client);
        let frame = frames::attached(request, id, exec.rewind(), &exec.effective);
        self.answer(client, &frame);
        self.mark_ready(id);
    }

    fn effective_of(&self, id: u64, status: Status) -> Option<Effective> {
        let exec = self.execs.get(&id)?;
        let sandbox = self.sandboxes.get(&exec.sandbox)?;
        let envelope = self.envelopes.get(&exec.envelope?)?;
        let mut effective = self.effective(sandbox, envelope.made?);
        effective.status = status;
        effective.descriptors += u8::from(exec.head.stdin == stdin::CHANNEL);
        if effective.limits.memory_via != 0 && exec.head.memory_bytes != 0 {
            effective.limits.memory_bytes = exec.head.memory_bytes;
        }
        if exec.head.pids != 0 {
            effective.limits.pids = exec.head.pids;
        }
        Some(effective)
    }

    /// The command never ran: the starter gets the reason, and there is no record.
    pub(super) fn not_started(&mut self, id: u64, failure: &Failure) {
        let Some(exec) = self.forget_exec(id) else { return };
        if let Some(at) = exec.deadline {
            self.timers.cancel(Timer::Deadline(id), at);
        }
        let failure = match exec.verdict {
            Some((_, Cause::SandboxClosed)) => Failure::new(Code::Closing, "sandbox"),
            _ => failure.clone(),
        };
        for (client, request) in exec.starter.into_iter().chain(exec.attachers) {
            self.refuse(client, request, &failure);
            self.flush(client);
        }
    }

    /// Ends an exec by ending its envelope; the first verdict stands.
    pub(super) fn kill_exec(&mut self, id: u64, end: End, cause: Cause) {
        let Some(exec) = self.execs.get_mut(&id) else { return };
        if matches!(exec.state, State::Ended | State::Draining) {
            return;
        }
        exec.verdict.get_or_insert((end, cause));
        match exec.envelope {
            Some(envelope) => self.kill_envelope(envelope),
            None => self.not_started(id, &Failure::new(Code::StartFailed, "killed")),
        }
    }

    pub(super) fn check_cpu(&mut self, id: u64) {
        let Some(exec) = self.execs.get(&id).filter(|exec| exec.state != State::Ended) else { return };
        let Some(envelope) = exec.envelope.and_then(|envelope| self.envelopes.get(&envelope)) else { return };
        let used = envelope.group.cpu_usec().unwrap_or(0).saturating_sub(exec.cpu_before);
        if used >= exec.head.cpu_ms.saturating_mul(1000) {
            self.kill_exec(id, End::Killed, Cause::CpuLimit);
        } else {
            self.timers.add(CPU_INTERVAL, Timer::Cpu(id));
        }
    }

    /// Nothing of the exec is alive any more. `wait_status` is the command's own, where PID 1 could tell it.
    pub(super) fn exec_dead(&mut self, id: u64, wait_status: Option<i32>, cpu_us: Option<u64>, retired: bool) {
        let Some(exec) = self.execs.get_mut(&id) else { return };
        if matches!(exec.state, State::Draining | State::Ended) {
            return;
        }
        if exec.state == State::Starting {
            let over = matches!(exec.verdict, Some((End::TimedOut, _) | (_, Cause::CpuLimit)));
            let late = over && self.started_late(id);
            if !late {
                return self.not_started(id, &Failure::new(Code::StartFailed, "PID 1 ended"));
            }
        }
        let Some(exec) = self.execs.get_mut(&id) else { return };
        if let Some(at) = exec.deadline {
            self.timers.cancel(Timer::Deadline(id), at);
        }
        if wait_status.is_none() {
            exec.verdict.get_or_insert((End::Killed, Cause::InitDied));
        }
        let group = exec.envelope.and_then(|envelope| self.envelopes.get(&envelope)).map(|envelope| &envelope.group);
        let counted = group.and_then(|group| group.cpu_usec()).map(|now| now.saturating_sub(exec.cpu_before));
        exec.wait_status = wait_status;
        exec.cpu_us = counted.or(cpu_us).unwrap_or(NONE);
        exec.memory_peak = group.and_then(|group| group.memory_peak()).unwrap_or(NONE);
        exec.retired = retired;
        exec.duration = exec.begun.elapsed();
        exec.envelope = None;
        exec.input = None;
        exec.state = State::Draining;
        self.drain_streams(id);
        self.settle(id);
    }

    /// Says that memory ran out, if nothing else has ended the exec before.
    pub(super) fn out_of_memory(&mut self, id: u64) {
        if let Some(exec) = self.execs.get_mut(&id) {
            exec.verdict.get_or_insert((End::OutOfMemory, Cause::None));
        }
    }

    /// Ends the record once its output is complete.
    pub(super) fn settle(&mut self, id: u64) {
        let Some(exec) = self.execs.get_mut(&id) else { return };
        if exec.state == State::Draining && exec.is_drained() {
            exec.state = State::Ended;
        }
        let sandbox = exec.sandbox;
        self.send_on(id);
        self.finish_closing(sandbox);
    }

    pub(super) fn forget_exec(&mut self, id: u64) -> Option<Exec> {
        self.copy_body(id);
        let exec = self.execs.remove(&id)?;
        if let Some(sandbox) = self.sandboxes.get_mut(&exec.sandbox) {
            sandbox.execs.remove(&id);
        }
        Some(exec)
    }
}
