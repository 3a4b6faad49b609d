//! Sandboxes: made, some ahead and blank, opened once, closed for ever.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use super::Server;
use super::timers::Timer;
use crate::server::envelopes::{Phase, group_failure};
use boxkite_envelope::maker::Role;
use boxkite_envelope::weakening::{Layer, Weakening};
use boxkite_envelope::workspace::Workspace;
use boxkite_host::cgroup::{Availability, EnvelopeLimits, SandboxGroup, SandboxLimits, Via};
use boxkite_host::ids::IdRange;
use boxkite_host::user_namespace::Mode;
use boxkite_wire::effective::{Effective, Limits, Made, via};
use boxkite_wire::frames::{self, Cause, Code, Failure, Open, kind};

/// Sandboxes at one time.
const MOST_SANDBOXES: usize = 4096;
/// Processes of a sandbox beyond its commands' limit: one PID 1 per envelope, and the threads of the file agents.
const RESERVE: u32 = 128;
/// The pause before something is removed again that the kernel still holds.
const AGAIN: Duration = Duration::from_micros(500);

/// What a sandbox is made with before anybody asks for one.
const BLANK: Open = Open {
    memory_bytes: 1 << 30,
    workspace_bytes: 1 << 30,
    pids: 256,
    cpu_millis: 0,
    inodes: 262_144,
    root: 0,
    fresh: false,
    memory_required: false,
    cpu_required: false,
};

/// One sandbox.
pub struct Sandbox {
    pub id: u64,
    pub open: Open,
    /// Made ahead; nothing has ever run in it.
    pub blank: bool,
    pub closing: bool,
    pub envelopes: BTreeSet<u64>,
    pub execs: BTreeSet<u64>,
    /// Ready envelopes, the one used last at the end.
    pub idle: Vec<u64>,
    /// The file agent and the filling one.
    pub agents: [Option<u64>; 2],
    pub group: SandboxGroup,
    pub ids: IdRange,
    pub workspace: Workspace,
    /// Who waits for it to be closed.
    pub closers: Vec<(u64, u32)>,
    /// Who waits for it to be ready.
    opener: Option<(u64, u32)>,
    made: Option<Made>,
}

impl Sandbox {
    /// Limits of an envelope for one command; 0 stands for the sandbox's own.
    pub fn envelope_limits(&self, available: &Availability, memory: u64, pids: u32) -> EnvelopeLimits {
        let own = |asked: u64, own: u64| if asked == 0 { own } else { asked };
        let pids = own(u64::from(pids), u64::from(self.open.pids)) as u32;
        EnvelopeLimits {
            memory_bytes: available.memory.map(|_| own(memory, self.open.memory_bytes)),
            // PID 1 counts too.
            pids: available.pids.map(|_| pids.saturating_add(1)),
        }
    }

    fn limits(&self, available: &Availability) -> SandboxLimits {
        SandboxLimits {
            memory_bytes: available.memory.map(|_| self.open.memory_bytes.saturating_add(self.open.workspace_bytes)),
            pids: available.pids.map(|_| self.open.pids.saturating_add(RESERVE)),
            cpu_millis: Some(self.open.cpu_millis).filter(|rate| *rate != 0),
        }
    }
}

fn number(via: Option<Via>) -> u8 {
    match via {
        None => via::NONE,
        Some(Via::V1) => via::CGROUP_V1,
        Some(Via::V2) => via::CGROUP_V2,
    }
}

/// What the twin leaves out is as if the machine did not have it.
pub fn weakened(available: Availability, weakening: Weakening) -> Availability {
    Availability {
        memory: available.memory.filter(|_| !weakening.lacks(Layer::Memory)),
        pids: available.pids.filter(|_| !weakening.lacks(Layer::Pids)),
        ..available
    }
}

impl Server {
    /// Refuses what this machine can't enforce.
    pub(super) fn enforceable(&self, open: &Open) -> Result<(), Failure> {
        let refuse = |layer: &str| {
            let reason = self.available.reasons.join("; ");
            Err(Failure::new(Code::IsolationUnavailable, layer).detail(reason))
        };
        match () {
            () if open.memory_required && self.available.memory.is_none() => refuse("memory limit"),
            () if (open.cpu_required || open.cpu_millis != 0) && self.available.cpu.is_none() => refuse("CPU limit"),
            () => Ok(()),
        }
    }

    /// Opens a sandbox for a client: a blank one where there is one, else a new one.
    pub(super) fn open_sandbox(&mut self, open: Open, client: u64, request: u32) -> Result<(), Failure> {
        self.opened += 1;
        let blank = self
            .sandboxes
            .values()
            .filter(|sandbox| sandbox.blank && !sandbox.closing && sandbox.open.root == open.root);
        // One that is ready goes first.
        let blank = blank.max_by_key(|sandbox| sandbox.made.is_some()).map(|sandbox| sandbox.id);
        let id = match blank {
            Some(id) => self.take_blank(id, open)?,
            None => self.make_sandbox(open, false)?,
        };
        if let Some(sandbox) = self.sandboxes.get_mut(&id) {
            sandbox.opener = Some((client, request));
        }
        self.sandbox_ready(id);
        if self.opened > 1 {
            self.timers.add(Duration::ZERO, Timer::Refill);
        }
        Ok(())
    }

    /// Binds a blank sandbox. One that can't be bound is closed, never offered again.
    fn take_blank(&mut self, id: u64, open: Open) -> Result<u64, Failure> {
        let bound = self.bind(id, open);
        if bound.is_err() {
            self.close_sandbox(id);
        }
        bound.map(|()| id)
    }

    fn bind(&mut self, id: u64, open: Open) -> Result<(), Failure> {
        let idle = self.setup.idle;
        let sandbox = self.sandboxes.get_mut(&id).ok_or(Failure::new(Code::Internal, "blank"))?;
        sandbox.blank = false;
        let same = Open { fresh: sandbox.open.fresh, memory_required: false, cpu_required: false, ..open };
        let differs = same != sandbox.open;
        sandbox.open = open;
        if differs {
            sandbox.workspace.resize(open.workspace_bytes, open.inodes).map_err(|it| it.failure(Code::Internal))?;
            sandbox.group.set(&sandbox.limits(&self.available)).map_err(|error| group_failure(&error))?;
        }
        for id in &sandbox.idle {
            if let Some(envelope) = self.envelopes.get_mut(id) {
                envelope.idle_since = Instant::now();
                envelope.has_timer = true;
                self.timers.add(idle, Timer::Idle(*id));
            }
        }
        Ok(())
    }

    /// Makes a sandbox and its first envelope. What fails half-way is removed again.
    fn make_sandbox(&mut self, open: Open, blank: bool) -> Result<u64, Failure> {
        if self.sandboxes.len() >= MOST_SANDBOXES {
            return Err(Failure::new(Code::LimitReached, "sandboxes"));
        }
        let id = self.new_id();
        let unsafe_ids = |error: std::io::Error| {
            Failure::with(Code::IsolationUnavailable, "ids", error.raw_os_error().unwrap_or(libc::EIO))
        };
        let ids = self.setup.ids.claim().map_err(unsafe_ids)?;
        let place = self.setup.directory.join("w").join(id.to_string());
        let parts = self.setup.cgroups.sandbox(id).map_err(|error| group_failure(&error)).and_then(|group| {
            let workspace = Workspace::new(place, ids.command, open.workspace_bytes, open.inodes);
            workspace.map(|workspace| (group, workspace)).map_err(|broken| broken.failure(Code::Internal))
        });
        let (group, workspace) = match parts {
            Ok(parts) => parts,
            Err(failure) => {
                self.release(ids);
                return Err(failure);
            }
        };
        let sandbox = Sandbox {
            id,
            open,
            blank,
            closing: false,
            envelopes: BTreeSet::new(),
            execs: BTreeSet::new(),
            idle: Vec::new(),
            agents: [None; 2],
            group,
            ids,
            workspace,
            closers: Vec::new(),
            opener: None,
            made: None,
        };
        let limited = sandbox.group.set(&sandbox.limits(&self.available)).map_err(|error| group_failure(&error));
        self.sandboxes.insert(id, sandbox);
        match limited.and_then(|()| self.make_envelope(id, Role::Command)) {
            Ok(_) => Ok(id),
            Err(failure) => {
                self.close_sandbox(id);
                Err(failure)
            }
        }
    }

    fn release(&self, ids: IdRange) {
        // A lock file that can't be unlinked stays; the lock itself is gone, so the range can be claimed again.
        let _ = self.setup.ids.release(ids);
    }

    /// Makes blank sandboxes up to their number, which grows with use.
    pub(super) fn refill(&mut self) {
        let blanks = self.sandboxes.values().filter(|sandbox| sandbox.blank && !sandbox.closing).count();
        if self.ending || blanks >= self.setup.blanks.min(self.opened.max(1)) {
            return;
        }
        // One that can't be made is made when somebody asks, who then gets the reason.
        if self.make_sandbox(BLANK, true).is_ok() {
            self.timers.add(Duration::from_millis(1), Timer::Refill);
        }
    }

    /// Answers the opener once there is a ready envelope.
    pub(super) fn sandbox_ready(&mut self, id: u64) {
        let Some(sandbox) = self.sandboxes.get_mut(&id) else { return };
        if sandbox.made.is_none() {
            let first = sandbox.idle.first().and_then(|envelope| self.envelopes.get(envelope));
            sandbox.made = first.and_then(|envelope| envelope.made);
        }
        let (Some(made), Some((client, request))) = (sandbox.made, sandbox.opener) else { return };
        sandbox.opener = None;
        let Some(sandbox) = self.sandboxes.get(&id) else { return };
        let effective = self.effective(sandbox, made);
        if self.connections.contains_key(&client) {
            self.answer(client, &frames::measured(kind::OPENED, request, id, &effective));
            self.flush(client);
        } else {
            // Nobody knows of it, so nobody would ever close it.
            self.close_sandbox(id);
        }
    }

    /// The first envelope of a sandbox could not be made.
    pub(super) fn sandbox_failed(&mut self, id: u64, failure: &Failure) {
        let Some(sandbox) = self.sandboxes.get_mut(&id).filter(|sandbox| sandbox.made.is_none()) else { return };
        if let Some((client, request)) = sandbox.opener.take() {
            self.refuse(client, request, failure);
            self.flush(client);
        }
        self.close_sandbox(id);
    }

    /// What is in force in a sandbox, beside what PID 1 has measured.
    pub(super) fn effective(&self, sandbox: &Sandbox, made: Made) -> Effective {
        let weak = |layer| self.setup.weakening.lacks(layer);
        let by_limit = if weak(Layer::User) || weak(Layer::Pids) { via::NONE } else { via::RLIMIT };
        let pids_via = self.available.pids.map_or(by_limit, |via| number(Some(via)));
        let unless_none = |via: u8, value: u64| if via == via::NONE { 0 } else { value };
        let memory_via = number(self.available.memory);
        let cpu_via = if sandbox.open.cpu_millis == 0 { via::NONE } else { number(self.available.cpu) };
        Effective {
            same_user: self.setup.mode == Mode::OneId || weak(Layer::User),
            own_user_namespace: !weak(Layer::User),
            host_uid: if weak(Layer::User) { 0 } else { self.setup.host_ids.host(sandbox.ids.command) },
            status: made.status,
            made,
            limits: Limits {
                memory_via,
                pids_via,
                cpu_via,
                memory_bytes: unless_none(memory_via, sandbox.open.memory_bytes),
                workspace_bytes: sandbox.workspace.bytes,
                workspace_inodes: u64::from(sandbox.workspace.inodes),
                cpu_millis: unless_none(cpu_via, u64::from(sandbox.open.cpu_millis)) as u32,
                pids: unless_none(pids_via, u64::from(sandbox.open.pids)) as u32,
            },
        }
    }

    /// Begins to close a sandbox; `finish_closing` ends it. Repeatable.
    pub(super) fn close_sandbox(&mut self, id: u64) {
        let Some(sandbox) = self.sandboxes.get_mut(&id) else { return };
        if !sandbox.closing {
            sandbox.closing = true;
            let opener = sandbox.opener.take();
            self.kill_envelopes(id, Cause::SandboxClosed);
            if let Some((client, request)) = opener {
                self.refuse(client, request, &Failure::new(Code::Closing, "sandbox"));
                self.flush(client);
            }
        }
        self.finish_closing(id);
    }

    /// Removes a closing sandbox once nothing in it is left, and tells who asked.
    pub(super) fn finish_closing(&mut self, id: u64) {
        let Some(sandbox) = self.sandboxes.get_mut(&id).filter(|sandbox| sandbox.closing) else { return };
        if !sandbox.envelopes.is_empty() {
            return;
        }
        let busy = sandbox.group.remove().is_err_and(|error| error.errno == libc::EBUSY);
        if busy || sandbox.workspace.remove().is_err() {
            return self.timers.add(AGAIN, Timer::RemoveSandbox(id));
        }
        let Some(sandbox) = self.sandboxes.remove(&id) else { return };
        self.release(sandbox.ids);
        for exec in sandbox.execs {
            self.send_the_rest(exec);
            drop(self.forget_exec(exec));
        }
        for (client, request) in sandbox.closers {
            self.done(client, request);
            self.flush(client);
        }
    }

    /// Whether this envelope is the sandbox's agent number `instance` and not ending.
    pub(super) fn live_agent(&self, sandbox: u64, instance: usize) -> Option<u64> {
        let id = self.sandboxes.get(&sandbox)?.agents[instance]?;
        let phase = self.envelopes.get(&id)?.phase;
        (phase != Phase::Ending && phase != Phase::Ended).then_some(id)
    }
}
