//! Entry point: harden, start the threads, lock down, serve what the runner passes on descriptor 3.

use boxkite_agent::control::{CONTROL_FD, Control};
use boxkite_agent::executor::Pool;
use boxkite_agent::fail::Errno;
use boxkite_agent::{harden, sys};
use std::process::ExitCode;
use std::sync::{Arc, Barrier};
use std::thread;

const MIN_THREADS: usize = 4;
/// Threads count against the sandbox's processes.
const MAX_THREADS: usize = 8;
const STACK_BYTES: usize = 512 << 10;

/// Each failing step has an exit status of its own, because there is nowhere to write to.
fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(step) => ExitCode::from(step),
    }
}

fn run() -> Result<(), u8> {
    harden::prepare().map_err(|_| 10)?;
    let channel = sys::fstat(CONTROL_FD).map_err(|_| 11)?;
    if channel.kind() != sys::FileKind::Socket {
        return Err(11);
    }
    let threads = thread_count();
    let pool = Pool::new(threads).map_err(|_: Errno| 12)?;
    // A thread needs system calls to begin that none may make afterwards.
    let begun = Arc::new(Barrier::new(threads));
    for _ in 1..threads {
        let (pool, begun) = (pool.clone(), begun.clone());
        let work = move || {
            begun.wait();
            pool.work()
        };
        thread::Builder::new().stack_size(STACK_BYTES).spawn(work).map_err(|_| 13)?;
    }
    begun.wait();
    harden::lock_down().map_err(|_| 14)?;
    Control::start(&pool, sys::own(i64::from(CONTROL_FD))).map_err(|_| 15)?;
    pool.work()
}

fn thread_count() -> usize {
    // SAFETY: all-zero bytes are a valid, empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: `set` is writable for its size.
    let known = unsafe { libc::sched_getaffinity(0, size_of_val(&set), &mut set) } == 0;
    // SAFETY: `set` is a valid set.
    let cores = if known { unsafe { libc::CPU_COUNT(&set) } } else { 0 };
    (usize::try_from(cores).unwrap_or(0) + 2).clamp(MIN_THREADS, MAX_THREADS)
}
