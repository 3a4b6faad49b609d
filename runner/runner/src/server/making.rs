//! Envelopes on their way from a plan to "ready".

use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use super::Server;
use super::envelopes::{AGAIN, Envelope, Phase, group_failure};
use super::timers::Timer;
use boxkite_envelope::maker::{Cloned, Plan, Role};
use boxkite_envelope::program_maker::list_is_lost;
use boxkite_envelope::weakening::Layer;
use boxkite_host::cgroup::{EnvelopeGroup, EnvelopeLimits};
use boxkite_system::poll::Token;
use boxkite_system::step::At;
use boxkite_system::sys;
use boxkite_wire::frames::{Code, Failure};

/// An envelope that is not ready by then never will be.
const MAKING: Duration = Duration::from_secs(30);
/// Envelopes of the whole runner.
const MOST_ENVELOPES: usize = 8192;

impl Server {
    /// An idle envelope for an exec, or `None` where one is being made for it.
    pub(super) fn envelope_for(&mut self, sandbox: u64, exec: u64, fresh: bool) -> Result<Option<u64>, Failure> {
        let Some(entry) = self.sandboxes.get_mut(&sandbox) else {
            return Err(Failure::new(Code::UnknownSandbox, "sandbox"));
        };
        let single = fresh || entry.open.fresh;
        let envelopes = &self.envelopes;
        let fits = |id: &u64| envelopes.get(id).is_some_and(|envelope| !single || !envelope.used);
        if let Some(position) = entry.idle.iter().rposition(fits) {
            let id = entry.idle.remove(position);
            if let Some(envelope) = self.envelopes.get_mut(&id) {
                envelope.single = single;
            }
            return Ok(Some(id));
        }
        let id = self.make_envelope(sandbox, Role::Command)?;
        if let (Some(envelope), Some(exec)) = (self.envelopes.get_mut(&id), self.execs.get_mut(&exec)) {
            envelope.single = single;
            envelope.wanted_by = Some(exec.id);
            exec.envelope = Some(id);
        }
        Ok(None)
    }

    /// Has an envelope made; it reports when it is ready.
    pub(super) fn make_envelope(&mut self, sandbox: u64, role: Role) -> Result<u64, Failure> {
        if self.envelopes.len() >= MOST_ENVELOPES {
            return Err(Failure::new(Code::LimitReached, "envelopes"));
        }
        let id = self.new_id();
        let entry = self.sandboxes.get_mut(&sandbox).ok_or(Failure::new(Code::UnknownSandbox, "sandbox"))?;
        let own = role == Role::Command;
        let group = if own { entry.group.envelope(id) } else { entry.group.agent(id) };
        let group = group.map_err(|error| group_failure(&error))?;
        entry.envelopes.insert(id);
        let list = entry.list.filter(|_| own);
        let ordered = self.order_envelope(id, sandbox, role, &group);
        match ordered {
            Ok((control, limits)) => {
                let envelope = Envelope::new(sandbox, role, control, group, limits);
                self.envelopes.entry(id).or_insert(envelope).list = list;
                self.timers.add(MAKING, Timer::Making(id));
                Ok(id)
            }
            Err(failure) => {
                // The first failure is the one to report; the sandbox's end removes what stays.
                let _ = group.remove();
                if let Some(entry) = self.sandboxes.get_mut(&sandbox) {
                    entry.envelopes.remove(&id);
                }
                Err(failure)
            }
        }
    }

    /// Limits the group and sends the plan to the maker.
    fn order_envelope(
        &mut self,
        id: u64,
        sandbox: u64,
        role: Role,
        group: &EnvelopeGroup,
    ) -> Result<(OwnedFd, EnvelopeLimits), Failure> {
        let internal = |step: &'static str| move |errno| Failure::with(Code::Internal, step, errno);
        let sandbox = self.sandboxes.get(&sandbox).ok_or(Failure::new(Code::UnknownSandbox, "sandbox"))?;
        // A file agent is bound by the sandbox's limits alone.
        let own = role == Role::Command;
        let limits = if own { sandbox.envelope_limits(&self.available, 0, 0) } else { EnvelopeLimits::default() };
        group.set(&limits).map_err(|error| group_failure(&error))?;
        let data_only = sandbox.list.is_some() && !self.setup.weakening.lacks(Layer::Programs);
        let mounts = sandbox.workspace.mounts(role, data_only).map_err(|broken| broken.failure(Code::Internal))?;
        let (control, theirs) = sys::packet_pair().map_err(internal("envelope: socket"))?;
        sys::set_nonblocking(control.as_fd(), true).map_err(internal("envelope: socket"))?;
        let (ids, count) = (&sandbox.ids, mounts.len() as u8);
        let plan = Plan { id, role, init_id: ids.init, command_id: ids.command, mounts: count };
        let groups = group.procs().iter().map(OwnedFd::try_clone).collect::<Result<Vec<_>, _>>();
        let groups = groups.at("envelope: groups").map_err(|broken| broken.failure(Code::Internal))?;
        let fds = [theirs].into_iter().chain(mounts).chain(groups).collect();
        let list = sandbox.list.filter(|_| own);
        let maker = match list {
            Some(list) => self.lists.get_mut(&list).and_then(|list| list.maker.maker()),
            None => self.setup.makers.get_mut(usize::from(sandbox.open.root)),
        };
        let maker = maker.ok_or_else(list_is_lost)?;
        maker.request(plan, fds).map_err(internal("envelope: maker"))?;
        self.poll.add(control.as_fd(), Token::Control(id)).map_err(internal("envelope: poll"))?;
        Ok((control, limits))
    }

    /// The maker has answered a plan.
    pub(super) fn cloned(&mut self, maker: usize) -> Result<(), Failure> {
        let internal = |errno| Failure::with(Code::Internal, "maker", errno);
        while let Some(cloned) = self.setup.makers[maker].answer()? {
            self.setup.makers[maker].send_waiting().map_err(internal)?;
            self.plan_answered(cloned);
        }
        Ok(())
    }

    /// A maker has cloned what was planned, or could not.
    pub(super) fn plan_answered(&mut self, cloned: Cloned) {
        let Some(envelope) = self.envelopes.get_mut(&cloned.id) else { return self.program_maker_cloned(cloned) };
        match cloned.process {
            Ok(process) => {
                let watched = self.poll.add(process.as_fd(), Token::Process(cloned.id));
                envelope.process = Some(process);
                if watched.is_err() {
                    self.timers.add(AGAIN, Timer::Unwatched(cloned.id));
                }
                if envelope.phase == Phase::Ending || watched.is_err() {
                    self.kill_envelope(cloned.id);
                } else {
                    self.check_ready(cloned.id);
                }
            }
            Err(broken) => {
                let is_short = matches!(broken.errno, libc::EMFILE | libc::ENFILE);
                let code = if is_short { Code::LimitReached } else { Code::IsolationUnavailable };
                envelope.failure = Some(broken.failure(code));
                self.envelope_ended(cloned.id);
            }
        }
    }

    /// An envelope is ready when PID 1 says so and its process is known.
    pub(super) fn check_ready(&mut self, id: u64) {
        let Some(envelope) = self.envelopes.get_mut(&id) else { return };
        let known = envelope.process.is_some() && envelope.made.is_some();
        if envelope.phase != Phase::Making || envelope.role != Role::Command || !known {
            return;
        }
        envelope.group.release_procs();
        envelope.charge = envelope.group.memory_current().unwrap_or(0);
        envelope.oom_kills = envelope.group.oom_kills().unwrap_or(0);
        envelope.group.reset_memory_peak();
        envelope.memory_events = envelope.group.oom_event_fd();
        if let Some(events) = &envelope.memory_events {
            if self.poll.add(events.as_fd(), Token::Memory(id)).is_err() {
                envelope.memory_events = None;
            }
        }
        match envelope.wanted_by.take().filter(|exec| self.execs.contains_key(exec)) {
            Some(exec) => self.launch(exec, id),
            None => self.make_idle(id),
        }
    }

    pub(super) fn check_making(&mut self, id: u64) {
        if let Some(envelope) = self.envelopes.get_mut(&id).filter(|envelope| envelope.phase == Phase::Making) {
            envelope.failure.get_or_insert(Failure::with(Code::StartFailed, "envelope", libc::ETIMEDOUT));
            self.kill_envelope(id);
            // Its maker may never say what became of it.
            self.disappoint(id);
        }
    }
}
