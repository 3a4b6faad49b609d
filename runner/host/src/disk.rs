//! Disk workspaces: they are kept under their id when their sandbox, and even their runner, has ended.
//!
//! Each is in the state directory: a directory with a project quota where the file system has that, else an ext4 image. The
//! runner mounts it where a tmpfs would be; when the last mount of an image goes the kernel writes everything down and
//! frees the loop device, also where everybody was killed.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::os::fd::OwnedFd;

use crate::ids::{IdRange, IdSource};
use crate::state_directory::StateDirectory;
use boxkite_disk::keeper::Keeper;
pub use boxkite_disk::keeper::{Order, Outcome, Root};
pub use boxkite_disk::store::Name;
use boxkite_disk::store::{Form, Store};
use boxkite_disk::work;
pub use boxkite_disk::work::{Opened, directory};
use boxkite_system::step::Broken;
use boxkite_system::sys::Errno;
use boxkite_wire::frames::{Code, Failure, WorkspaceId};

/// All disk workspaces of a state directory.
pub struct Disk {
    store: Store,
    keeper: Keeper,
    /// The range of each that is kept, or `None` while something is done with it or it is open.
    known: HashMap<WorkspaceId, Option<Kept>>,
    /// Whether new ones can be images, or directories with a quota, and why not.
    pub tried: [Result<(), String>; 2],
}

/// A workspace that nobody has open.
struct Kept {
    range: u32,
    /// Held so that nobody else gets the ids that its files have; `None` where somebody had them at the start.
    ids: Option<IdRange>,
}

fn words(broken: Broken) -> String {
    format!("{}: {}", broken.step, std::io::Error::from_raw_os_error(broken.errno))
}

fn refuse<T>(code: Code) -> Result<T, Failure> {
    Err(Failure::new(code, "workspace"))
}

impl Disk {
    /// Takes over what is kept in `state`, and tries what new ones can be. The error says why there can be none.
    pub fn start(state: Option<&StateDirectory>, ids: &IdSource, roots: &[Root]) -> Result<Self, String> {
        if !matches!(ids, IdSource::Root { .. }) {
            return Err("only a runner of the machine's root can mount them".into());
        }
        let state = state.ok_or("the runner was started without --state")?;
        Self::take_over(state, ids, roots).map_err(words)
    }

    fn take_over(state: &StateDirectory, ids: &IdSource, roots: &[Root]) -> Result<Self, Broken> {
        let mut store = Store::open(state.path(), roots)?;
        let tried = work::try_forms(&store).map(|tried| tried.map_err(words));
        if tried[1].is_ok() {
            store.form = Form::Directory;
        }
        let mut keeper = Keeper::start(state.lock(), &store, roots)?;
        for name in store.half_removed() {
            // Nobody waits for it: what is not done now is done at the next start.
            let _ = keeper.order(0, name, Order::Close { keep: false }, None);
        }
        let mut known = HashMap::new();
        for name in store.kept() {
            let held = ids.claim_number(name.range).ok();
            if let Some(held) = &held {
                // Without the mark the range is still held while this runner lives.
                let _ = ids.mark(held, &store.place(name));
            }
            known.insert(name.id, Some(Kept { range: name.range, ids: held }));
        }
        Ok(Self { store, keeper, known, tried })
    }

    /// Where the keeper's answers arrive.
    pub fn socket(&self) -> &OwnedFd {
        &self.keeper.socket
    }

    pub fn answer(&mut self) -> Result<Option<(u64, Outcome)>, Failure> {
        self.keeper.answer()
    }

    /// Every id that exists, open or kept.
    pub fn ids(&self) -> impl Iterator<Item = &WorkspaceId> + Clone {
        self.known.keys()
    }

    /// Marks a new id as taken.
    pub fn begin(&mut self, id: WorkspaceId) -> Result<(), Failure> {
        if let [Err(image), Err(directory)] = &self.tried {
            let why = format!("{image}; {directory}");
            return Err(Failure::new(Code::IsolationUnavailable, "disk workspace").detail(why));
        }
        match self.known.entry(id) {
            Entry::Occupied(_) => refuse(Code::WorkspaceExists),
            Entry::Vacant(entry) => {
                entry.insert(None);
                Ok(())
            }
        }
    }

    /// Takes a kept one, with the ids of its files, to open it.
    pub fn take(&mut self, id: WorkspaceId, source: &IdSource) -> Result<IdRange, Failure> {
        let entry = self.known.get_mut(&id).ok_or(Failure::new(Code::NoWorkspace, "workspace"))?;
        let Some(kept) = entry.take() else { return refuse(Code::WorkspaceInUse) };
        let range = kept.range;
        let claimed = kept.ids.map_or_else(|| source.claim_number(range), Ok);
        claimed.map_err(|error| {
            *entry = Some(Kept { range, ids: None });
            let errno = error.raw_os_error().unwrap_or(libc::EIO);
            Failure::with(Code::LimitReached, "ids", errno)
                .detail("another sandbox has the ids of the workspace's files")
        })
    }

    /// Takes a kept one to remove it; what is held of its ids comes with its range.
    pub fn take_to_remove(&mut self, id: WorkspaceId) -> Result<(u32, Option<IdRange>), Failure> {
        let entry = self.known.get_mut(&id).ok_or(Failure::new(Code::NoWorkspace, "workspace"))?;
        match entry.take() {
            None => refuse(Code::WorkspaceInUse),
            Some(kept) => Ok((kept.range, kept.ids)),
        }
    }

    /// A sandbox has it open, with these ids.
    pub fn opened(&self, name: Name, ids: &IdRange, source: &IdSource) {
        // As at the start.
        let _ = source.mark(ids, &self.store.place(name));
    }

    /// It is on disk and nobody has it open.
    pub fn kept(&mut self, name: Name, ids: Option<IdRange>, source: &IdSource) {
        if let Some(ids) = &ids {
            self.opened(name, ids, source);
        }
        self.known.insert(name.id, Some(Kept { range: name.range, ids }));
    }

    /// Nothing of it is left.
    pub fn gone(&mut self, id: WorkspaceId) {
        self.known.remove(&id);
    }

    pub fn order(&mut self, job: u64, name: Name, order: Order, mount: Option<OwnedFd>) -> Result<(), Errno> {
        self.keeper.order(job, name, order, mount)
    }
}
