//! Advisory locks on directories. They end with the process that holds them, however it ends.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::time::Duration;

/// Anybody who can read a directory can lock it, so nobody is waited for longer than this.
const PATIENCE: u32 = 100;

/// A held lock.
#[derive(Debug)]
pub struct Lock(#[expect(dead_code, reason = "the lock lasts as long as the file is open")] File);

impl Lock {
    /// Locks `dir` if nobody else has.
    pub fn now(dir: &Path) -> Option<Self> {
        let file = File::open(dir).ok()?;
        // SAFETY: takes an open descriptor and a constant.
        let locked = unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } == 0;
        locked.then_some(Self(file))
    }

    /// The same, waiting up to 100 ms.
    pub fn wait(dir: &Path) -> Option<Self> {
        (0..PATIENCE).find_map(|_| {
            let lock = Self::now(dir);
            if lock.is_none() {
                std::thread::sleep(Duration::from_millis(1));
            }
            lock
        })
    }
}
