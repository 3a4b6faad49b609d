//! Files of a tree that other threads search before it is their turn.
//!
//! The walk opens files in groups. What a thread finds in one ahead of its turn counts only if no limit ends within it:
//! otherwise the group is searched again in its turn, so that an answer does not depend on who was faster.

use super::Query;
use super::scan::{Candidate, PAUSE_AT, Place, Stop, Totals, searcher, step};
use crate::call::Call;
use crate::executor::{Weight, lock};
use crate::fail::{Code, Fail};
use crate::ops::read::open_file;
use crate::ops::walker::Walker;
use crate::sys::FileKind;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};

/// Files of a group, and bytes after which it is full.
pub const GROUP_FILES: usize = 64;
pub const GROUP_BYTES: u64 = 4 << 20;
/// Groups that are open at one time.
const GROUPS: usize = 4;
/// A larger group waits for its turn: a search may keep one thread from others for long, not all of them.
const AHEAD_BYTES: u64 = 64 << 20;

/// Whether a search has files open ahead. One at a time: the descriptors of this process are bounded, and a second search
/// has a thread of its own already.
static IS_TAKEN: AtomicBool = AtomicBool::new(false);

/// Files that follow each other in the walk; `None`: one that is passed over.
pub struct Group {
    candidates: Vec<Option<Candidate>>,
    bytes: u64,
}

impl Group {
    pub fn of_one(candidate: Candidate, query: &Query) -> Group {
        let bytes = candidate.stat.size();
        Group { candidates: vec![Some(candidate).filter(|candidate| is_searched(candidate, query))], bytes }
    }

    pub fn candidates(&self) -> impl Iterator<Item = Option<&Candidate>> {
        self.candidates.iter().map(Option::as_ref)
    }
}

fn is_searched(candidate: &Candidate, query: &Query) -> bool {
    query.max_file_bytes == 0 || candidate.stat.size() <= query.max_file_bytes
}

/// Records and numbers of a group that was searched whole.
pub type Found = (Vec<u8>, Totals);

enum State {
    Waiting(Group),
    Running,
    /// `None`: a limit, or the bound on memory, ended it.
    Done(Group, Option<Found>),
}

impl State {
    fn may_begin(&self) -> bool {
        matches!(self, State::Waiting(group) if group.bytes <= AHEAD_BYTES)
    }
}

#[derive(Default)]
struct Queue {
    /// Number of the first group, which goes up by one with each that leaves.
    first: u64,
    states: VecDeque<State>,
    waker: Option<Waker>,
}

/// What the threads share.
struct Shared {
    call: Arc<Call>,
    query: Arc<Query>,
    /// Nobody waits for what is still searched.
    left: AtomicBool,
    queue: Mutex<Queue>,
}

/// Groups of a walk, in its order.
pub struct Ahead {
    shared: Arc<Shared>,
    walker: Walker,
    /// Why the walk can not go on, once its groups are through.
    broken: Option<Fail>,
    is_walked: bool,
    has_taken: bool,
}

impl Ahead {
    pub fn new(call: &Arc<Call>, query: &Arc<Query>, walker: Walker) -> Ahead {
        let queue = Mutex::default();
        let shared = Shared { call: call.clone(), query: query.clone(), left: AtomicBool::new(false), queue };
        Ahead { shared: Arc::new(shared), walker, broken: None, is_walked: false, has_taken: false }
    }

    /// Directories and ignore files that the walk could not read.
    pub fn directories_skipped(&self) -> u64 {
        self.walker.skipped
    }

    /// The next group, with what was found in it if another thread has searched it whole.
    pub async fn next(&mut self) -> Result<Option<(Group, Option<Found>)>, Fail> {
        self.fill()?;
        loop {
            let taken = std::future::poll_fn(|context| self.shared.first(context.waker())).await;
            match taken {
                First::Group(group, found) => return Ok(Some((group, found))),
                First::Running => self.shared.search_one(),
                First::None => return self.broken.take().map_or(Ok(None), Err),
            }
        }
    }

    /// Opens what comes next in the walk. Beyond the first group only where no other search is ahead.
    fn fill(&mut self) -> Result<(), Fail> {
        while !self.is_walked {
            let open = lock(&self.shared.queue).states.len();
            self.has_taken = self.has_taken || !IS_TAKEN.swap(true, Ordering::SeqCst);
            if open >= if self.has_taken { GROUPS } else { 1 } {
                break;
            }
            let group = self.group(if self.has_taken { GROUP_FILES } else { 1 });
            if group.candidates.is_empty() {
                break;
            }
            lock(&self.shared.queue).states.push_back(State::Waiting(group));
            if open > 0 {
                let shared = self.shared.clone();
                let pool = self.shared.call.connection.pool();
                pool.spawn(Weight::Heavy, async move { shared.search_one() });
            }
        }
        Ok(())
    }

    fn group(&mut self, most: usize) -> Group {
        let mut candidates = Vec::new();
        let mut bytes = 0;
        while candidates.len() < most && bytes < GROUP_BYTES {
            let item = match self.shared.call.check().and_then(|()| self.walker.next()) {
                Ok(Some(item)) => item,
                other => {
                    self.is_walked = true;
                    self.broken = other.err();
                    break;
                }
            };
            if item.kind != FileKind::File || !self.walker.filter().includes(self.walker.path()) {
                continue;
            }
            let opened = match open_file(item.dir, &item.name, libc::O_NOFOLLOW) {
                Err(fail) if fail.code == Code::Limit => {
                    self.is_walked = true;
                    self.broken = Some(fail);
                    break;
                }
                other => other.ok(),
            };
            let candidate = opened.map(|(file, stat)| Candidate { file, stat, path: self.walker.path().to_vec() });
            let candidate = candidate.filter(|candidate| is_searched(candidate, &self.shared.query));
            bytes += candidate.as_ref().map_or(0, |candidate| candidate.stat.size());
            candidates.push(candidate);
        }
        Group { candidates, bytes }
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        self.shared.left.store(true, Ordering::Relaxed);
        lock(&self.shared.queue).states.clear();
        if self.has_taken {
            IS_TAKEN.store(false, Ordering::SeqCst);
        }
    }
}

/// What is to be done about the group whose turn it is.
enum First {
    Group(Group, Option<Found>),
    /// Another thread is at it, and one behind it can be begun.
    Running,
    None,
}

impl Shared {
    fn first(&self, waker: &Waker) -> Poll<First> {
        let queue = &mut *lock(&self.queue);
        let taken = match queue.states.pop_front() {
            None => return Poll::Ready(First::None),
            Some(State::Running) => {
                queue.states.push_front(State::Running);
                if queue.states.iter().any(State::may_begin) {
                    return Poll::Ready(First::Running);
                }
                queue.waker = Some(waker.clone());
                return Poll::Pending;
            }
            Some(State::Waiting(group)) => First::Group(group, None),
            Some(State::Done(group, found)) => First::Group(group, found),
        };
        queue.first += 1;
        Poll::Ready(taken)
    }

    /// Searches the first group that nobody has begun and that need not wait, if there is one.
    fn search_one(&self) {
        let Some((number, group)) = self.begin() else { return };
        let found = self.search(&group);
        let mut queue = lock(&self.queue);
        let place = number.checked_sub(queue.first).and_then(|at| usize::try_from(at).ok());
        // Where nobody waits any more the queue is empty.
        if let Some(state) = place.and_then(|at| queue.states.get_mut(at)) {
            *state = State::Done(group, found);
        }
        let waker = queue.waker.take();
        drop(queue);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn begin(&self) -> Option<(u64, Group)> {
        let queue = &mut *lock(&self.queue);
        let at = queue.states.iter().position(State::may_begin)?;
        match std::mem::replace(&mut queue.states[at], State::Running) {
            State::Waiting(group) => Some((queue.first + at as u64, group)),
            _ => None,
        }
    }

    fn search(&self, group: &Group) -> Option<Found> {
        let stop = Stop { call: &self.call, left: &self.left };
        let mut searcher = searcher(&self.query);
        let (mut out, mut totals) = (Vec::new(), Totals::default());
        for candidate in group.candidates() {
            let Some(candidate) = candidate else {
                totals.skipped += 1;
                continue;
            };
            totals.files += 1;
            let into = (&mut out, &mut totals);
            let rest = step((&self.query, &mut searcher, stop), candidate, Place::BEGINNING, &mut 0, into);
            if rest.is_some() || totals.truncated || out.len() >= PAUSE_AT {
                return None;
            }
        }
        Some((out, totals))
    }
}
