//! Lists of programs: each has a maker of its own, which its sandboxes share, and a sandbox changes from one to another
//! while nothing runs in it.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use super::Server;
use super::envelopes::Phase;
use super::execs::State;
use super::sandboxes::Sandbox;
use super::timers::Timer;
use boxkite_envelope::maker::{self, Cloned, Plan, Role};
use boxkite_envelope::program_maker::{Heard, ProgramMaker, list_is_lost};
use boxkite_system::poll::Token;
use boxkite_wire::frames::{self, Code, Failure, Programs};

/// Lists of all sandboxes, and those that are kept though no sandbox has them now.
const MOST_LISTS: usize = 1024;
const MOST_UNUSED: usize = 8;
/// A list that has no maker by then never gets one.
const PLANNING: Duration = Duration::from_secs(30);

/// One list of programs for one root.
pub struct ProgramList {
    root: u16,
    /// Encoded as the frame brought it.
    names: Vec<u8>,
    pub maker: ProgramMaker,
    /// Sandboxes that wait for it.
    waiting: Vec<u64>,
    used: Instant,
}

/// A change of a sandbox's list.
pub struct Change {
    client: u64,
    request: u32,
    to: Option<u64>,
    /// In force again where the change fails.
    before: Option<u64>,
    step: Step,
    /// Whether its list was made again, because the root had changed.
    again: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    Planning,
    /// Envelopes of the list before are ending.
    Emptying,
    /// This one, the first of the new list, is being made.
    Making(u64),
}

/// The names of an empty list, encoded.
const NO_NAMES: [u8; 4] = [0; 4];

impl Server {
    /// Begins to change what can be executed in a sandbox. What it had stays in force where that is refused.
    pub(super) fn programs(&mut self, client: u64, request: u32, payload: &[u8]) -> Result<(), Failure> {
        let Programs { sandbox: id, list } = Programs::read(payload)?;
        let sandbox = self.sandboxes.get(&id).filter(|sandbox| !sandbox.blank);
        let sandbox = sandbox.ok_or(Failure::new(Code::UnknownSandbox, "sandbox"))?;
        let lives = |exec: &u64| self.execs.get(exec).is_some_and(|exec| exec.state != State::Ended);
        match () {
            () if sandbox.closing => return Err(Failure::new(Code::Closing, "sandbox")),
            () if sandbox.change.is_some() => return Err(Failure::new(Code::SandboxInUse, "programs")),
            () if sandbox.execs.iter().any(lives) => return Err(Failure::new(Code::SandboxInUse, "exec")),
            () => {}
        }
        let to = list.map(|names| self.list_for(id, names)).transpose()?;
        if let Some(sandbox) = self.sandboxes.get_mut(&id) {
            let before = sandbox.list;
            sandbox.change = Some(Change { client, request, to, before, step: Step::Planning, again: false });
        }
        self.wait_for_list(id, to);
        Ok(())
    }

    fn wait_for_list(&mut self, sandbox: u64, list: Option<u64>) {
        match list.and_then(|list| self.lists.get_mut(&list)) {
            Some(list) if list.maker.is_planning() => list.waiting.push(sandbox),
            _ => self.begin_change(sandbox),
        }
    }

    /// The list of these names, made where there is none yet.
    fn list_for(&mut self, sandbox: u64, names: &[u8]) -> Result<u64, Failure> {
        let sandbox = self.sandboxes.get(&sandbox).ok_or(Failure::new(Code::UnknownSandbox, "sandbox"))?;
        let (root, init_id, command_id) = (sandbox.open.root, sandbox.ids.init, sandbox.ids.command);
        let same = |list: &ProgramList| list.root == root && list.names == names && !list.maker.is_lost();
        if let Some((id, list)) = self.lists.iter_mut().find(|(_, list)| same(list)) {
            list.used = Instant::now();
            return Ok(*id);
        }
        self.end_unused_lists();
        if self.lists.len() >= MOST_LISTS {
            return Err(Failure::new(Code::LimitReached, "lists of programs"));
        }
        let id = self.new_id();
        let plan = Plan { id, role: Role::Programs, init_id, command_id, mounts: 0 };
        let maker = self.setup.makers.get_mut(usize::from(root));
        let maker = maker.ok_or(Failure::new(Code::InvalidArgument, "root"))?;
        let maker = ProgramMaker::order(names, plan, maker)?;
        if let Some(socket) = maker.socket() {
            let watched = self.poll.add(socket, Token::ProgramMaker(id));
            watched.map_err(|errno| Failure::with(Code::Internal, "programs: poll", errno))?;
        }
        let list = ProgramList { root, names: names.to_vec(), maker, waiting: Vec::new(), used: Instant::now() };
        self.lists.insert(id, list);
        self.timers.add(PLANNING, Timer::Planning(id));
        Ok(id)
    }

    /// The root's maker has cloned a list's, or could not.
    pub(super) fn program_maker_cloned(&mut self, cloned: Cloned) {
        match (self.lists.get_mut(&cloned.id), cloned.process) {
            (Some(list), Ok(process)) => {
                list.maker.made(process);
                self.program_maker_answered(cloned.id);
            }
            (Some(_), Err(broken)) => self.list_failed(cloned.id, &broken.failure(Code::IsolationUnavailable)),
            // Nobody waits for it any more.
            (None, Ok(process)) => maker::end(&process),
            (None, Err(_)) => {}
        }
    }

    /// A list's maker has something to say: what became of the list, then what it has cloned.
    pub(super) fn program_maker_answered(&mut self, id: u64) {
        let Some(list) = self.lists.get_mut(&id) else { return };
        match list.maker.hear() {
            Heard::Nothing => {}
            Heard::Ready => {
                for sandbox in std::mem::take(&mut list.waiting) {
                    self.begin_change(sandbox);
                }
            }
            Heard::Failed(failure) => self.list_failed(id, &failure),
            Heard::Cloned(cloned) => self.plan_answered(cloned),
            Heard::Lost => self.list_lost(id),
        }
    }

    /// There will be no maker: who waits for it gets the reason.
    fn list_failed(&mut self, id: u64, failure: &Failure) {
        let waiting = self.lists.get_mut(&id).map(|list| std::mem::take(&mut list.waiting)).unwrap_or_default();
        for sandbox in waiting {
            self.programs_failed(sandbox, failure);
        }
        self.end_list(id);
    }

    /// A maker has ended: its sandboxes keep what they have, and get no new envelope.
    fn list_lost(&mut self, id: u64) {
        self.unwatch(id);
        let Some(list) = self.lists.get_mut(&id) else { return };
        list.maker.lose();
        self.end_ordered(id);
    }

    /// A list's maker answers no more: what was ordered from it and is not there never will be.
    fn end_ordered(&mut self, list: u64) {
        let ordered = self.envelopes.iter().filter(|(_, envelope)| {
            envelope.list == Some(list) && envelope.process.is_none() && envelope.phase != Phase::Ended
        });
        for id in ordered.map(|(id, _)| *id).collect::<Vec<_>>() {
            if let Some(envelope) = self.envelopes.get_mut(&id) {
                envelope.failure.get_or_insert_with(list_is_lost);
            }
            self.envelope_ended(id);
        }
    }

    pub(super) fn check_planning(&mut self, id: u64) {
        if self.lists.get(&id).is_some_and(|list| list.maker.is_planning()) {
            self.list_failed(id, &Failure::with(Code::StartFailed, "programs", libc::ETIMEDOUT));
        }
    }

    fn unwatch(&mut self, id: u64) {
        if let Some(socket) = self.lists.get(&id).and_then(|list| list.maker.socket()) {
            // It is closed right after.
            let _ = self.poll.remove(socket);
        }
    }

    /// Lets go of a list; its maker ends with it.
    pub(super) fn end_list(&mut self, id: u64) {
        self.unwatch(id);
        self.lists.remove(&id);
        self.end_ordered(id);
    }

    /// A sandbox has a list no more.
    pub(super) fn let_go_of_list(&mut self, list: Option<u64>) {
        if let Some(list) = list.and_then(|list| self.lists.get_mut(&list)) {
            list.used = Instant::now();
            self.end_unused_lists();
        }
    }

    /// Ends lists that no sandbox has had for some time, and all but those used last.
    pub(super) fn end_unused_lists(&mut self) {
        let of_change = |it: &Change| [it.to, it.before];
        let of_sandbox = |it: &Sandbox| it.change.iter().flat_map(of_change).chain([it.list]).collect::<Vec<_>>();
        let used: HashSet<u64> = self.sandboxes.values().flat_map(of_sandbox).flatten().collect();
        let unused = self.lists.iter().filter(|(id, _)| !used.contains(id));
        let mut unused: Vec<(Instant, u64)> = unused.map(|(id, list)| (list.used, *id)).collect();
        unused.sort_unstable();
        let beyond = unused.len().saturating_sub(MOST_UNUSED);
        let idle = self.setup.idle;
        let old = unused.iter().filter(|(used, _)| used.elapsed() >= idle).count();
        for (_, id) in unused.drain(..beyond.max(old)) {
            self.end_list(id);
        }
        if let Some((used, _)) = unused.first() {
            self.timers.add_at(*used + idle, Timer::UnusedLists);
        }
    }

    /// The new list can be enforced: from here on the old one is not in force any more.
    fn begin_change(&mut self, id: u64) {
        let Some(sandbox) = self.sandboxes.get_mut(&id) else { return };
        let Some(change) = &mut sandbox.change else { return };
        change.step = Step::Emptying;
        sandbox.list = change.to;
        for envelope in sandbox.envelopes.clone() {
            if self.envelopes.get(&envelope).is_some_and(|envelope| envelope.role == Role::Command) {
                self.kill_envelope(envelope);
            }
        }
        self.programs_emptied(id);
    }

    /// Goes on with a change once no envelope of the old list is left.
    pub(super) fn programs_emptied(&mut self, id: u64) {
        let Some(sandbox) = self.sandboxes.get(&id).filter(|sandbox| !sandbox.closing) else { return };
        let is_command = |id: &u64| self.envelopes.get(id).is_some_and(|envelope| envelope.role == Role::Command);
        let left = sandbox.envelopes.iter().any(is_command);
        if left || sandbox.change.as_ref().is_none_or(|change| change.step != Step::Emptying) {
            return;
        }
        match self.make_envelope(id, Role::Command) {
            Ok(first) => {
                if let Some(change) = self.sandboxes.get_mut(&id).and_then(|sandbox| sandbox.change.as_mut()) {
                    change.step = Step::Making(first);
                }
            }
            Err(failure) => self.programs_failed(id, &failure),
        }
    }

    /// Answers a change once an envelope of the new list is ready.
    pub(super) fn programs_ready(&mut self, id: u64) {
        let Some(sandbox) = self.sandboxes.get_mut(&id) else { return };
        let first = sandbox.idle.first().and_then(|envelope| self.envelopes.get(envelope));
        let Some(made) = first.and_then(|envelope| envelope.made) else { return };
        let Some(change) = sandbox.change.take_if(|change| matches!(change.step, Step::Making(_))) else { return };
        sandbox.made = Some(made);
        let Some(sandbox) = self.sandboxes.get(&id) else { return };
        let missing = change.to.and_then(|list| self.lists.get(&list)).map_or(&NO_NAMES[..], |it| it.maker.missing());
        let answer = frames::programs_set(change.request, &self.effective(sandbox, made), missing);
        self.answer(change.client, &answer);
        self.flush(change.client);
        self.let_go_of_list(change.before);
    }

    /// An envelope could not be made. Where it was the first of a new list, that is the answer; but a list whose root has
    /// changed, or whose maker has ended, is made again once.
    pub(super) fn programs_not_ready(&mut self, id: u64, envelope: u64, failure: &Failure) {
        let Some(sandbox) = self.sandboxes.get(&id) else { return };
        let list = self.envelopes.get(&envelope).and_then(|envelope| envelope.list);
        let change = sandbox.change.as_ref();
        let is_first = change.is_some_and(|change| change.step == Step::Making(envelope));
        if change.is_some_and(|change| change.step != Step::Planning) && !is_first {
            // It was made for the list before.
            return;
        }
        let is_stale = failure.errno == libc::ESTALE;
        let is_again = change.is_some_and(|change| change.again);
        let entry = list.and_then(|list| self.lists.get(&list));
        let (names, is_lost) = (entry.map(|it| it.names.clone()), entry.is_some_and(|it| it.maker.is_lost()));
        if let (true, Some(list)) = (is_stale && !is_lost, list) {
            self.list_lost(list);
        }
        if !is_first {
            return;
        }
        let again = names.filter(|_| is_stale && !is_again).map(|names| self.list_for(id, &names));
        match (again, self.sandboxes.get_mut(&id).and_then(|sandbox| sandbox.change.as_mut())) {
            (Some(Ok(list)), Some(change)) => {
                (change.to, change.step, change.again) = (Some(list), Step::Planning, true);
                self.wait_for_list(id, Some(list));
            }
            (Some(Err(failure)), _) => self.programs_failed(id, &failure),
            _ => self.programs_failed(id, failure),
        }
    }

    /// A change ends without the answer that was wanted: what was in force before is so again.
    pub(super) fn programs_failed(&mut self, id: u64, failure: &Failure) {
        let Some(sandbox) = self.sandboxes.get_mut(&id) else { return };
        let Some(change) = sandbox.change.take() else { return };
        sandbox.list = change.before;
        self.let_go_of_list(change.to);
        self.refuse(change.client, change.request, failure);
        self.flush(change.client);
    }
}
