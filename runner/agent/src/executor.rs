//! The thread pool: a few threads wait on one epoll set, handle what becomes ready and run tasks.
//!
//! A task is a future that is polled when it was woken. Short tasks and *heavy* ones (searches,
//! hashes, removals of trees) have queues of their own, and some threads never take a heavy one,
//! so that a small read is answered while searches run.

use crate::fail::Errno;
use crate::sys::{check, own};
use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::pin::Pin;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Wake, Waker};

/// Takes a lock; a panic ends the process, so no lock is ever poisoned.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Something with a descriptor in the epoll set.
pub trait Source: Send + Sync {
    /// Called by some thread of the pool, possibly by two at once.
    fn ready(self: Arc<Self>, events: u32);
}

/// How much of a thread a task takes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Weight {
    Light,
    Heavy,
}

type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

#[derive(Default)]
struct Queues {
    light: VecDeque<Arc<Task>>,
    heavy: VecDeque<Arc<Task>>,
    heavy_running: usize,
}

/// The threads' shared state.
pub struct Pool {
    epoll: OwnedFd,
    bell: OwnedFd,
    queues: Mutex<Queues>,
    sources: Mutex<HashMap<u64, Arc<dyn Source>>>,
    next_key: AtomicU64,
    heavy_limit: usize,
}

const BELL: u64 = 0;

thread_local! {
    /// While a thread hands something to a task: the light task that this woke.
    static WOKEN_HERE: RefCell<Option<Option<Arc<Task>>>> = const { RefCell::new(None) };
}

/// Keeps a light task for the thread that is handing something over, if that wants it.
fn keep_for_this_thread(task: Arc<Task>) -> Option<Arc<Task>> {
    WOKEN_HERE.with(|slot| match &mut *slot.borrow_mut() {
        Some(empty @ None) if task.weight == Weight::Light => {
            *empty = Some(task);
            None
        }
        _ => Some(task),
    })
}

/// Runs `hand_over`, then the light task that it woke, on this thread: that spares the way through
/// another thread, which costs more than what such a task does with one piece of data.
pub fn hand_over<T>(hand_over: impl FnOnce() -> T) -> T {
    WOKEN_HERE.with(|slot| *slot.borrow_mut() = Some(None));
    let result = hand_over();
    let woken = WOKEN_HERE.with(|slot| slot.borrow_mut().take()).flatten();
    if let Some(task) = woken {
        task.poll();
    }
    result
}

impl Pool {
    /// A pool for `threads` threads, each of which then calls [`Pool::work`].
    pub fn new(threads: usize) -> Result<Arc<Pool>, Errno> {
        // SAFETY: no memory is passed.
        let epoll = own(check(|| unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) } as i64)?);
        let flags = libc::EFD_CLOEXEC | libc::EFD_NONBLOCK | libc::EFD_SEMAPHORE;
        // SAFETY: no memory is passed.
        let bell = own(check(|| unsafe { libc::eventfd(0, flags) } as i64)?);
        control(&epoll, libc::EPOLL_CTL_ADD, bell.as_raw_fd(), libc::EPOLLIN as u32, BELL)?;
        Ok(Arc::new(Pool {
            epoll,
            bell,
            queues: Mutex::default(),
            sources: Mutex::default(),
            next_key: AtomicU64::new(1),
            heavy_limit: threads.saturating_sub(2).max(1),
        }))
    }

    /// A key that no other source has. A source knows its own before it is added: its first events may close it.
    pub fn new_key(&self) -> u64 {
        self.next_key.fetch_add(1, Ordering::Relaxed)
    }

    /// Adds a source under its key, edge-triggered.
    pub fn add(&self, key: u64, fd: RawFd, events: u32, source: Arc<dyn Source>) -> Result<(), Errno> {
        lock(&self.sources).insert(key, source);
        control(&self.epoll, libc::EPOLL_CTL_ADD, fd, events | libc::EPOLLET as u32, key)
            .inspect_err(|_| drop(lock(&self.sources).remove(&key)))
    }

    /// Changes the events of a source; what is ready already is reported again.
    pub fn modify(&self, fd: RawFd, events: u32, key: u64) -> Result<(), Errno> {
        control(&self.epoll, libc::EPOLL_CTL_MOD, fd, events | libc::EPOLLET as u32, key)
    }

    /// Forgets a source. Its descriptor must still be open.
    pub fn remove(&self, fd: RawFd, key: u64) {
        // A descriptor that is in no set any more is what this asks for.
        let _ = control(&self.epoll, libc::EPOLL_CTL_DEL, fd, 0, key);
        let gone = lock(&self.sources).remove(&key);
        drop(gone);
    }

    /// Starts a task; its first poll is on some thread of the pool.
    pub fn spawn(self: &Arc<Pool>, weight: Weight, work: impl Future<Output = ()> + Send + 'static) {
        let task = Arc::new(Task {
            pool: self.clone(),
            weight,
            state: AtomicU8::new(QUEUED),
            work: Mutex::new(Some(Box::pin(work))),
        });
        self.push(task);
    }

    fn push(&self, task: Arc<Task>) {
        let Some(task) = keep_for_this_thread(task) else { return };
        {
            let mut queues = lock(&self.queues);
            match task.weight {
                Weight::Light => queues.light.push_back(task),
                Weight::Heavy => queues.heavy.push_back(task),
            }
        }
        self.ring();
    }

    fn ring(&self) {
        let one = 1u64;
        // SAFETY: the eight bytes of `one` live through the call. A full counter wakes threads too.
        unsafe { libc::write(self.bell.as_raw_fd(), (&raw const one).cast(), 8) };
    }

    fn take(&self) -> Option<Arc<Task>> {
        let mut queues = lock(&self.queues);
        if let Some(task) = queues.light.pop_front() {
            return Some(task);
        }
        if queues.heavy_running >= self.heavy_limit {
            return None;
        }
        let task = queues.heavy.pop_front()?;
        queues.heavy_running += 1;
        Some(task)
    }

    /// Runs tasks and sources for ever.
    pub fn work(&self) -> ! {
        loop {
            let ran = self.take().map(|task| self.run(task)).is_some();
            self.wait(if ran { 0 } else { -1 });
        }
    }

    fn run(&self, task: Arc<Task>) {
        let weight = task.weight;
        task.poll();
        if weight == Weight::Heavy {
            lock(&self.queues).heavy_running -= 1;
        }
    }

    fn wait(&self, timeout: i32) {
        let mut event = libc::epoll_event { events: 0, u64: 0 };
        // SAFETY: room for one event is passed.
        let count = unsafe { libc::epoll_wait(self.epoll.as_raw_fd(), &mut event, 1, timeout) };
        if count != 1 {
            return;
        }
        let (key, events) = (event.u64, event.events);
        if key == BELL {
            let mut value = 0u64;
            // SAFETY: the eight bytes of `value` are writable. Another thread may have been faster.
            unsafe { libc::read(self.bell.as_raw_fd(), (&raw mut value).cast(), 8) };
            return;
        }
        let source = lock(&self.sources).get(&key).cloned();
        if let Some(source) = source {
            source.ready(events);
        }
    }
}

fn control(epoll: &OwnedFd, operation: i32, fd: RawFd, events: u32, key: u64) -> Result<(), Errno> {
    let mut event = libc::epoll_event { events, u64: key };
    // SAFETY: `event` lives through the call.
    check(|| unsafe { libc::epoll_ctl(epoll.as_raw_fd(), operation, fd, &mut event) } as i64).map(drop)
}

const IDLE: u8 = 0;
const QUEUED: u8 = 1;
const RUNNING: u8 = 2;
const WOKEN: u8 = 3;

/// A future and where it is: waiting, queued, being polled, or woken while being polled.
struct Task {
    pool: Arc<Pool>,
    weight: Weight,
    state: AtomicU8,
    work: Mutex<Option<Work>>,
}

impl Task {
    fn poll(self: Arc<Task>) {
        self.state.store(RUNNING, Ordering::SeqCst);
        let waker = Waker::from(self.clone());
        let mut slot = lock(&self.work);
        let Some(work) = slot.as_mut() else { return };
        if work.as_mut().poll(&mut Context::from_waker(&waker)).is_ready() {
            *slot = None;
            return;
        }
        drop(slot);
        let parked = self.state.compare_exchange(RUNNING, IDLE, Ordering::SeqCst, Ordering::SeqCst);
        if parked.is_err() {
            self.state.store(QUEUED, Ordering::SeqCst);
            self.pool.clone().push(self);
        }
    }
}

impl Wake for Task {
    fn wake(self: Arc<Task>) {
        loop {
            let (seen, next) = match self.state.load(Ordering::SeqCst) {
                IDLE => (IDLE, QUEUED),
                RUNNING => (RUNNING, WOKEN),
                _ => return,
            };
            if self.state.compare_exchange(seen, next, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
                if next == QUEUED {
                    self.pool.clone().push(self);
                }
                return;
            }
        }
    }
}

/// Lets other tasks run; ready at the second poll.
pub async fn yield_now() {
    let mut yielded = false;
    std::future::poll_fn(|context| {
        if yielded {
            return std::task::Poll::Ready(());
        }
        yielded = true;
        context.waker().wake_by_ref();
        std::task::Poll::Pending
    })
    .await;
}
