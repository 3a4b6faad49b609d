//! The directory of what outlives a runner: one runner at a time has it.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::private_directory::is_private;
use boxkite_system::step::{At, Broken};

const LOCK: &str = "lock";
/// How long what a killed runner was doing may take to end.
const PATIENCE: Duration = Duration::from_secs(1);

/// The directory, held by a lock until the runner ends.
#[derive(Debug)]
pub struct StateDirectory {
    path: PathBuf,
    lock: File,
}

impl StateDirectory {
    /// Takes a directory that the caller has made: absolute, of mode 0700, the caller's. EBUSY where another has it.
    pub fn take(path: &Path) -> Result<Self, Broken> {
        if !path.is_absolute() || !is_private(path) {
            return Err(Broken { step: "state: not a private directory", errno: libc::EPERM });
        }
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).mode(0o600).custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC);
        let mut lock = options.open(path.join(LOCK)).at("state: lock")?;
        let begun = Instant::now();
        // SAFETY: takes an open descriptor and a constant.
        while unsafe { libc::flock(lock.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } != 0 {
            let error = std::io::Error::last_os_error();
            match error.raw_os_error() {
                Some(libc::EWOULDBLOCK) if begun.elapsed() < PATIENCE => std::thread::sleep(PATIENCE / 50),
                Some(libc::EWOULDBLOCK) => return Err(Broken { step: IN_USE, errno: libc::EBUSY }),
                _ => return Err(error).at("state: lock"),
            }
        }
        // For people and for the line of who comes second; the lock is what counts.
        lock.set_len(0).and_then(|()| writeln!(lock, "{}", std::process::id())).at("state: lock")?;
        Ok(Self { path: path.to_owned(), lock })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Held by whoever has it open: by a child that works in the directory too.
    pub fn lock(&self) -> BorrowedFd<'_> {
        self.lock.as_fd()
    }
}

/// The step of a directory that another runner holds.
pub const IN_USE: &str = "state: in use by another daemon";

/// The process that holds a directory, as it has written it down.
pub fn holder(path: &Path) -> Option<u32> {
    fs::read_to_string(path.join(LOCK)).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{DirBuilderExt, PermissionsExt};

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("boxkite-state-{name}-{}", std::process::id()));
            fs::DirBuilder::new().mode(0o700).create(&path).unwrap();
            Self(path)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).unwrap();
        }
    }

    #[test]
    fn one_at_a_time_has_it_and_the_end_of_one_frees_it() {
        let folder = Folder::new("one");
        let first = StateDirectory::take(&folder.0).unwrap();
        assert_eq!(first.path(), folder.0);
        let second = StateDirectory::take(&folder.0).unwrap_err();
        assert_eq!((second.step, second.errno), (IN_USE, libc::EBUSY));
        assert_eq!(holder(&folder.0), Some(std::process::id()));
        drop(first);
        StateDirectory::take(&folder.0).unwrap();
    }

    #[test]
    fn a_directory_that_others_can_enter_is_refused() {
        let folder = Folder::new("open");
        fs::set_permissions(&folder.0, fs::Permissions::from_mode(0o750)).unwrap();
        assert_eq!(StateDirectory::take(&folder.0).unwrap_err().errno, libc::EPERM);
        assert_eq!(StateDirectory::take(Path::new("relative")).unwrap_err().errno, libc::EPERM);
        fs::set_permissions(&folder.0, fs::Permissions::from_mode(0o700)).unwrap();
        std::os::unix::fs::symlink("/dev/null", folder.0.join(LOCK)).unwrap();
        assert_eq!(StateDirectory::take(&folder.0).unwrap_err().errno, libc::ELOOP);
    }
}
