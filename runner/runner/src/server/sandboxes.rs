//! Sandboxes: made, some ahead and blank, opened once, closed for ever.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use super::Server;
use super::disk::LetGo;
use super::programs::Change;
use super::timers::Timer;
use crate::server::envelopes::{AGAIN, Phase, group_failure};
use boxkite_envelope::maker::Role;
use boxkite_envelope::weakening::Layer;
use boxkite_envelope::workspace::Workspace;
use boxkite_host::cgroup::{Availability, EnvelopeLimits, SandboxGroup, SandboxLimits, Via};
use boxkite_host::ids::IdRange;
use boxkite_host::user_namespace::Mode;
use boxkite_system::step::Broken;
use boxkite_wire::effective::{Effective, Limits, Made, via};
use boxkite_wire::frames::{self, Cause, Code, Failure, Open, WorkspaceKind, kind};

/// Sandboxes at one time.
const MOST_SANDBOXES: usize = 4096;
/// Processes of a sandbox beyond its commands' limit: one PID 1 per envelope, and the threads of the file agents.
const RESERVE: u32 = 128;

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
    /// Whether its disk workspace stays when it is closed.
    pub keep: bool,
    pub let_go: LetGo,
    /// Who waits for it to be closed.
    pub closers: Vec<(u64, u32)>,
    /// Who waits for it to be ready.
    pub opener: Option<(u64, u32)>,
    pub made: Option<Made>,
    /// The list of programs in force.
    pub list: Option<u64>,
    /// A change of it that is under way.
    pub change: Option<Change>,
}

impl Sandbox {
    /// Limits of an envelope for one command; 0 stands for the sandbox's own.
    pub fn envelope_limits(&self, available: &Availability, memory: u64, pids: u32) -> EnvelopeLimits {
        let memory = if memory == 0 { self.open.memory_bytes } else { memory };
        let pids = if pids == 0 { self.open.pids } else { pids };
        // PID 1 counts too.
        available.envelope(memory, pids.saturating_add(1))
    }

    fn limits(&self, available: &Availability) -> SandboxLimits {
        let open = &self.open;
        let memory = open.memory_bytes.saturating_add(open.workspace_bytes);
        available.sandbox(memory, open.pids.saturating_add(RESERVE), open.cpu_millis)
    }
}

impl Server {
    /// Refuses what this machine can't enforce.
    pub(super) fn enforceable(&self, open: &Open) -> Result<(), Failure> {
        let because = |layer, reason| Err(Failure::new(Code::IsolationUnavailable, layer).detail(reason));
        let refuse = |layer| because(layer, self.available.reasons.join("; "));
        match () {
            () if open.workspace != WorkspaceKind::Tmpfs && self.setup.disk.is_err() => {
                because("disk workspace", self.setup.disk.as_ref().err().cloned().unwrap_or_default())
            }
            () if open.memory_required && self.available.memory.is_none() => refuse("memory limit"),
            () if (open.cpu_required || open.cpu_millis != 0) && self.available.cpu.is_none() => refuse("CPU limit"),
            () => Ok(()),
        }
    }

    /// Opens a sandbox for a client: a blank one where there is one, else a new one.
    pub(super) fn open_sandbox(&mut self, open: Open, client: u64, request: u32) -> Result<(), Failure> {
        if open.workspace != WorkspaceKind::Tmpfs {
            return self.open_on_disk(open, client, request);
        }
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
        self.bind(id, open).inspect_err(|_| self.close_sandbox(id)).map(|()| id)
    }

    fn bind(&mut self, id: u64, open: Open) -> Result<(), Failure> {
        let sandbox = self.sandboxes.get_mut(&id).ok_or(Failure::new(Code::Internal, "blank"))?;
        sandbox.blank = false;
        let same = Open { fresh: sandbox.open.fresh, memory_required: false, cpu_required: false, ..open };
        let differs = same != sandbox.open;
        sandbox.open = open;
        if differs {
            sandbox.workspace.resize(open.workspace_bytes, open.inodes).map_err(|it| it.failure(Code::Internal))?;
            sandbox.group.set(&sandbox.limits(&self.available)).map_err(|error| group_failure(&error))?;
        }
        for id in sandbox.idle.clone() {
            self.begin_idle(id);
        }
        Ok(())
    }

    /// Makes a sandbox on a tmpfs.
    fn make_sandbox(&mut self, open: Open, blank: bool) -> Result<u64, Failure> {
        let ids = self.claim_ids()?;
        let owner = ids.command;
        let make = |place| Workspace::new(place, owner, open.workspace_bytes, open.inodes);
        self.add_sandbox(open, blank, ids, make).map_err(|(failure, ids)| {
            if let Some(ids) = ids {
                self.release(ids);
            }
            failure
        })
    }

    /// Whether there may be one more sandbox.
    pub(super) fn check_place(&self) -> Result<(), Failure> {
        if self.sandboxes.len() + self.jobs.len() >= MOST_SANDBOXES {
            return Err(Failure::new(Code::LimitReached, "sandboxes"));
        }
        Ok(())
    }

    pub(super) fn claim_ids(&self) -> Result<IdRange, Failure> {
        self.check_place()?;
        self.setup.ids.claim().map_err(|error| {
            Failure::with(Code::IsolationUnavailable, "ids", error.raw_os_error().unwrap_or(libc::EIO))
        })
    }

    /// Makes a sandbox and its first envelope. What fails half-way is removed again; the ids come back where there is no
    /// sandbox yet that would remove them.
    pub(super) fn add_sandbox(
        &mut self,
        open: Open,
        blank: bool,
        ids: IdRange,
        workspace: impl FnOnce(PathBuf) -> Result<Workspace, Broken>,
    ) -> Result<u64, (Failure, Option<IdRange>)> {
        let id = self.new_id();
        let place = self.setup.directory.join("w").join(id.to_string());
        let parts = self.setup.cgroups.sandbox(id).map_err(|error| group_failure(&error)).and_then(|group| {
            workspace(place).map(|workspace| (group, workspace)).map_err(|broken| broken.failure(Code::Internal))
        });
        let (group, workspace) = match parts {
            Ok(parts) => parts,
            Err(failure) => return Err((failure, Some(ids))),
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
            keep: matches!(open.workspace, WorkspaceKind::KeptDisk(_)),
            let_go: LetGo::Held,
            closers: Vec::new(),
            opener: None,
            made: None,
            list: None,
            change: None,
        };
        let limited = sandbox.group.set(&sandbox.limits(&self.available)).map_err(|error| group_failure(&error));
        self.sandboxes.insert(id, sandbox);
        match limited.and_then(|()| self.make_envelope(id, Role::Command)) {
            Ok(_) => Ok(id),
            Err(failure) => {
                self.close_sandbox(id);
                Err((failure, None))
            }
        }
    }

    pub(super) fn release(&self, ids: IdRange) {
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
        if self.make_sandbox(Open::USUAL, true).is_ok() {
            self.timers.add(Duration::from_millis(1), Timer::Refill);
        }
    }

    /// Answers who waits for it, once there is a ready envelope.
    pub(super) fn sandbox_ready(&mut self, id: u64) {
        self.programs_ready(id);
        let Some(sandbox) = self.sandboxes.get_mut(&id) else { return };
        if sandbox.made.is_none() {
            let first = sandbox.idle.first().and_then(|envelope| self.envelopes.get(envelope));
            sandbox.made = first.and_then(|envelope| envelope.made);
        }
        let (Some(made), Some((client, request))) = (sandbox.made, sandbox.opener) else { return };
        sandbox.opener = None;
        // Known to its client from here on, who says when its files go.
        sandbox.keep |= self.connections.contains_key(&client);
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

    /// An envelope could not be made: where it was the first of a sandbox, or of its list, who waits gets the reason.
    pub(super) fn envelope_failed(&mut self, id: u64, envelope: u64, failure: &Failure) {
        self.programs_not_ready(id, envelope, failure);
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
        let pids_via = self.available.pids.map_or(by_limit, |via| Via::number(Some(via)));
        let unless_none = |via: u8, value: u64| if via == via::NONE { 0 } else { value };
        let memory_via = Via::number(self.available.memory);
        let cpu_via = if sandbox.open.cpu_millis == 0 { via::NONE } else { Via::number(self.available.cpu) };
        Effective {
            descriptors: 3,
            same_user: self.setup.mode == Mode::OneId || weak(Layer::User),
            own_user_namespace: !weak(Layer::User),
            host_uid: if weak(Layer::User) { 0 } else { self.setup.host_ids.host(sandbox.ids.command) },
            status: made.status,
            programs: sandbox.list.and_then(|list| self.lists.get(&list)).map_or(0, |list| list.maker.programs()),
            made,
            limits: Limits {
                memory_via,
                pids_via,
                cpu_via,
                memory_bytes: unless_none(memory_via, sandbox.open.memory_bytes),
                workspace_bytes: sandbox.workspace.bytes,
                workspace_inodes: sandbox.workspace.inodes,
                workspace_via: sandbox.workspace.via,
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
            self.programs_failed(id, &Failure::new(Code::Closing, "sandbox"));
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
        if !self.has_let_go(id) {
            return;
        }
        let Some(sandbox) = self.sandboxes.remove(&id) else { return };
        self.release(sandbox.ids);
        self.let_go_of_list(sandbox.list);
        for exec in sandbox.execs {
            self.send_the_rest(exec);
            drop(self.forget_exec(exec));
        }
        for (client, request) in sandbox.closers {
            match &sandbox.let_go {
                LetGo::Failed(failure) => self.refuse(client, request, failure),
                _ => self.done(client, request),
            }
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
