//! Sandboxes on a disk workspace. The keeper's answers complete what was asked of it.

use std::mem::replace;
use std::os::fd::OwnedFd;
use std::time::Duration;

use super::timers::Timer;
use super::{Server, Setup};
use boxkite_envelope::workspace::Workspace;
use boxkite_host::disk::{Disk, Name, Opened, Order, Outcome};
use boxkite_host::ids::IdRange;
use boxkite_wire::frames::{Code, Failure, Open, WorkspaceId, WorkspaceKind};

/// The pause before the kernel is asked again to let go of an image.
const AGAIN: Duration = Duration::from_secs(1);

/// How far a closing sandbox has let go of its workspace.
#[derive(Debug)]
pub enum LetGo {
    Held,
    Ordered,
    Done,
    /// It is on disk still, or has lost what the host had no room for.
    Failed(Failure),
}

/// What the keeper was asked for.
pub enum Job {
    Open { open: Open, ids: IdRange, client: u64, request: u32 },
    Close(Closing),
}

/// A workspace that is being let go of.
pub struct Closing {
    name: Name,
    keep: bool,
    ids: Option<IdRange>,
    then: Then,
}

/// Who waits for it.
#[derive(Clone, Copy)]
enum Then {
    Nobody,
    Sandbox(u64),
    Client(u64, u32),
}

fn name(id: WorkspaceId, ids: &IdRange) -> Name {
    Name { id, range: ids.number }
}

impl Server {
    fn disk(&mut self) -> Result<&mut Disk, Failure> {
        self.setup.disk.as_mut().map_err(|_| Failure::new(Code::NoWorkspace, "workspace"))
    }

    fn ask(&mut self, job: u64, name: Name, order: Order, mount: Option<OwnedFd>) -> Result<(), Failure> {
        let sent = self.disk()?.order(job, name, order, mount);
        sent.map_err(|errno| Failure::with(Code::Internal, "keeper: order", errno))
    }

    /// Begins to open a sandbox on a new or a kept workspace.
    pub(super) fn open_on_disk(&mut self, open: Open, client: u64, request: u32) -> Result<(), Failure> {
        let (ids, id, order) = match open.workspace {
            WorkspaceKind::Tmpfs => return Err(Failure::new(Code::Internal, "workspace")),
            WorkspaceKind::NewDisk(id) => {
                self.disk()?.begin(id)?;
                let claimed = self.claim_ids();
                if claimed.is_err() {
                    self.disk()?.gone(id);
                }
                let ids = claimed?;
                let order = Order::Make { bytes: open.workspace_bytes, inodes: open.inodes, owner: ids.command };
                (ids, id, order)
            }
            WorkspaceKind::KeptDisk(id) => {
                self.check_place()?;
                let Setup { disk: Ok(disk), ids, .. } = &mut self.setup else {
                    return Err(Failure::new(Code::NoWorkspace, "workspace"));
                };
                (disk.take(id, ids)?, id, Order::Open)
            }
        };
        let job = self.new_id();
        if let Err(failure) = self.ask(job, name(id, &ids), order, None) {
            self.note_workspace(name(id, &ids), matches!(open.workspace, WorkspaceKind::KeptDisk(_)), Some(ids));
            return Err(failure);
        }
        self.jobs.insert(job, Job::Open { open, ids, client, request });
        Ok(())
    }

    /// Removes a kept workspace.
    pub(super) fn remove_workspace(&mut self, id: WorkspaceId, client: u64, request: u32) -> Result<(), Failure> {
        let (range, ids) = self.disk()?.take_to_remove(id)?;
        self.let_go(Closing { name: Name { id, range }, keep: false, ids, then: Then::Client(client, request) }, None);
        Ok(())
    }

    /// Whether nothing holds the workspace of a closing sandbox any more. Otherwise that has been ordered.
    pub(super) fn has_let_go(&mut self, id: u64) -> bool {
        let Some(sandbox) = self.sandboxes.get_mut(&id) else { return true };
        let Some(workspace) = sandbox.open.workspace.id() else { return true };
        if let LetGo::Held = sandbox.let_go {
            sandbox.let_go = LetGo::Ordered;
            let (name, keep) = (name(workspace, &sandbox.ids), sandbox.keep);
            let ids = Some(replace(&mut sandbox.ids, IdRange::none()));
            let mount = sandbox.workspace.take_mount();
            self.let_go(Closing { name, keep, ids, then: Then::Sandbox(id) }, mount);
        }
        self.sandboxes.get(&id).is_some_and(|sandbox| matches!(sandbox.let_go, LetGo::Done | LetGo::Failed(_)))
    }

    fn let_go(&mut self, closing: Closing, mount: Option<OwnedFd>) {
        let job = self.new_id();
        match self.ask(job, closing.name, Order::Close { keep: closing.keep }, mount) {
            Ok(()) => drop(self.jobs.insert(job, Job::Close(closing))),
            Err(failure) => self.closed(closing, Err(failure)),
        }
    }

    /// Orders again what the kernel was not ready for.
    pub(super) fn let_go_again(&mut self, job: u64) {
        if let Some(Job::Close(closing)) = self.jobs.remove(&job) {
            self.let_go(closing, None);
        }
    }

    /// Completes what the keeper has answered. `Err` where it has ended.
    pub(super) fn keeper_answered(&mut self) -> Result<(), Failure> {
        while let Some((job, outcome)) = self.disk()?.answer()? {
            match self.jobs.remove(&job) {
                Some(Job::Open { open, ids, client, request }) => {
                    if let Err(failure) = self.opened_on_disk(open, ids, (client, request), outcome) {
                        self.refuse(client, request, &failure);
                        self.flush(client);
                    }
                }
                Some(Job::Close(closing)) => match outcome {
                    Err(failure) if failure.code == Code::WorkspaceInUse => {
                        self.jobs.insert(job, Job::Close(closing));
                        self.timers.add(AGAIN, Timer::LetGo(job));
                    }
                    outcome => self.closed(closing, outcome),
                },
                None => {}
            }
        }
        Ok(())
    }

    /// Makes the sandbox of an opened workspace. What fails leaves no new workspace, and keeps a kept one.
    fn opened_on_disk(
        &mut self,
        open: Open,
        ids: IdRange,
        opener: (u64, u32),
        outcome: Outcome,
    ) -> Result<(), Failure> {
        let Some(id) = open.workspace.id() else { return Err(Failure::new(Code::Internal, "workspace")) };
        let (name, keep) = (name(id, &ids), matches!(open.workspace, WorkspaceKind::KeptDisk(_)));
        let closing = |ids| Closing { name, keep, ids, then: Then::Nobody };
        let opened: Opened = match outcome {
            Ok(Some(opened)) => opened,
            Ok(None) => {
                self.let_go(closing(Some(ids)), None);
                return Err(Failure::with(Code::LimitReached, "descriptors", libc::EMFILE));
            }
            Err(failure) => {
                self.note_workspace(name, keep && failure.code != Code::NoWorkspace, Some(ids));
                return Err(failure);
            }
        };
        if self.ending || !self.connections.contains_key(&opener.0) {
            self.let_go(closing(Some(ids)), Some(opened.mount));
            return Err(Failure::new(Code::Closing, "runner"));
        }
        if let Setup { disk: Ok(disk), ids: source, .. } = &self.setup {
            disk.opened(name, &ids, source);
        }
        let sandbox = match self.add_sandbox(open, false, ids, |place| Workspace::on_disk(place, opened)) {
            Ok(sandbox) => sandbox,
            Err((failure, ids)) => {
                if ids.is_some() {
                    self.let_go(closing(ids), None);
                }
                return Err(failure);
            }
        };
        if let Some(sandbox) = self.sandboxes.get_mut(&sandbox) {
            sandbox.opener = Some(opener);
        }
        self.sandbox_ready(sandbox);
        Ok(())
    }

    /// The keeper has let go of a workspace, or has failed to.
    fn closed(&mut self, closing: Closing, outcome: Outcome) {
        let Closing { name, keep, ids, then } = closing;
        let failure = outcome.err();
        if let Then::Sandbox(id) = then {
            let Some(sandbox) = self.sandboxes.get_mut(&id) else { return };
            if keep && !sandbox.keep && failure.is_none() {
                // Somebody who wants it gone came later than somebody who wants it kept.
                return self.let_go(Closing { name, keep: false, ids, then }, None);
            }
            sandbox.let_go = failure.clone().map_or(LetGo::Done, LetGo::Failed);
        }
        self.note_workspace(name, keep || failure.is_some(), ids);
        match (then, failure) {
            (Then::Sandbox(id), _) => return self.finish_closing(id),
            (Then::Client(client, request), Some(failure)) => self.refuse(client, request, &failure),
            (Then::Client(client, request), None) => self.done(client, request),
            (Then::Nobody, _) => {}
        }
        if let Then::Client(client, _) = then {
            self.flush(client);
        }
    }

    /// Writes down whether a workspace is there. The ids of one that is not are given back.
    fn note_workspace(&mut self, name: Name, is_there: bool, ids: Option<IdRange>) {
        let Setup { disk: Ok(disk), ids: source, .. } = &mut self.setup else { return };
        if is_there {
            return disk.kept(name, ids, source);
        }
        disk.gone(name.id);
        if let Some(ids) = ids {
            self.release(ids);
        }
    }
}
