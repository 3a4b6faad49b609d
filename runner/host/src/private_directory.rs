//! The runner's own directory: its lock, its socket, and a place for mounts. What dead runners left beside it goes.

use std::ffi::{CString, OsStr};
use std::fs::{self, File, OpenOptions};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::cgroup::remove_left;
use boxkite_system::step::{At, Broken};
use boxkite_system::sys;

const LOCK: &str = "lock";
const NEW_LOCK: &str = "lock.new";
const SOCKET: &str = "runner.sock";
/// Where the runner mounts the sandboxes' files, in its own mount namespace.
const WORKSPACES: &str = "w";
/// The control groups that the runner has made, one path a line.
const GROUPS: &str = "groups";
/// A directory without a lock that is younger may belong to a runner that is just starting.
const YOUNG: Duration = Duration::from_secs(10);

/// The directory, held by a lock until the runner ends.
pub struct PrivateDirectory {
    path: PathBuf,
    _lock: File,
}

fn refuse<T>(step: &'static str, errno: i32) -> Result<T, Broken> {
    Err(Broken { step, errno })
}

/// Whether `path` is a directory of the calling user that nobody else can enter.
pub(crate) fn is_private(path: &Path) -> bool {
    // SAFETY: no effect but its result.
    let own = unsafe { libc::geteuid() };
    fs::symlink_metadata(path).is_ok_and(|entry| entry.is_dir() && entry.uid() == own && entry.mode() & 0o077 == 0)
}

fn lock(path: &Path, create: bool) -> Option<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(create).mode(0o600).custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC);
    let file = options.open(path).ok()?;
    // SAFETY: takes an open descriptor and a constant.
    (unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } == 0).then_some(file)
}

/// The lock file, which is locked before it has its name: a sweeping runner never finds it free.
fn new_lock(path: &Path) -> Result<File, Broken> {
    let (unnamed, name) = (path.join(NEW_LOCK), path.join(LOCK));
    let held = lock(&unnamed, true);
    let named = fs::hard_link(&unnamed, &name);
    // Left where it could not be made; what counts is the name below.
    let _ = fs::remove_file(&unnamed);
    match (held, named) {
        (Some(held), Ok(())) => Ok(held),
        // A directory that a dead runner left, or a living one holds.
        _ => lock(&name, false).map_or_else(|| refuse("directory: in use", libc::EBUSY), Ok),
    }
}

impl PrivateDirectory {
    /// Takes a directory that the caller has made, and removes what a dead runner left in it. One of many removes what
    /// dead runners left beside it too.
    pub fn take(path: &Path, one_of_many: bool) -> Result<Self, Broken> {
        if !path.is_absolute() || !is_private(path) {
            return refuse("directory: not private", libc::EPERM);
        }
        let lock = new_lock(path)?;
        remove_groups(path);
        remove_content(path);
        fs::create_dir(path.join(WORKSPACES)).at("directory: workspaces")?;
        if let Some(parent) = path.parent().filter(|_| one_of_many) {
            sweep(parent, path);
        }
        Ok(Self { path: path.to_owned(), _lock: lock })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn workspaces(&self) -> PathBuf {
        self.path.join(WORKSPACES)
    }

    /// Writes down where the runner's control groups are, so that a later runner finds them if this one is killed.
    pub fn record_groups<'a>(&self, groups: impl Iterator<Item = &'a Path>) -> Result<(), Broken> {
        let lines: Vec<u8> = groups.flat_map(|path| [path.as_os_str().as_bytes(), b"\n"].concat()).collect();
        fs::write(self.path.join(GROUPS), lines).at("directory: groups")
    }

    /// The listening socket, non-blocking. Only the caller's user can enter the directory that it is in.
    pub fn listen(&self) -> Result<OwnedFd, Broken> {
        let listener = UnixListener::bind(self.path.join(SOCKET)).at("directory: socket")?;
        listener.set_nonblocking(true).at("directory: socket")?;
        Ok(listener.into())
    }
}

impl Drop for PrivateDirectory {
    /// What can't be removed now is removed by the next runner's sweep.
    fn drop(&mut self) {
        if let Ok(place) = CString::new(self.workspaces().into_os_string().into_encoded_bytes()) {
            // Not mounted where the start failed before; a mount that stays goes with this process's namespace.
            let _ = sys::umount(&place, libc::MNT_DETACH);
        }
        remove(&self.path);
    }
}

/// Removes what a runner makes beside its lock.
fn remove_content(path: &Path) {
    let content = [SOCKET, GROUPS].map(|name| fs::remove_file(path.join(name)));
    for result in content.into_iter().chain([fs::remove_dir(path.join(WORKSPACES))]) {
        // Absent, or not ours to remove.
        drop(result);
    }
}

/// Removes the names that a runner makes, and the directory if nothing else is in it.
fn remove(path: &Path) {
    remove_content(path);
    let locks = [NEW_LOCK, LOCK].map(|name| fs::remove_file(path.join(name)));
    for result in locks.into_iter().chain([fs::remove_dir(path)]) {
        // Absent, or not ours to remove.
        drop(result);
    }
}

fn sweep(parent: &Path, own: &Path) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
        if path == own || !is_private(&path) {
            continue;
        }
        let file = path.join(LOCK);
        if file.exists() {
            if let Some(held) = lock(&file, false) {
                remove_groups(&path);
                remove(&path);
                drop(held);
            }
        } else if is_old(&path) {
            remove(&path);
        }
    }
}

fn remove_groups(path: &Path) {
    let Ok(lines) = fs::read(path.join(GROUPS)) else { return };
    let paths = lines.split(|byte| *byte == b'\n').map(|line| PathBuf::from(OsStr::from_bytes(line)));
    remove_left(&paths.filter(|path| path.is_absolute()).collect::<Vec<_>>());
}

fn is_old(path: &Path) -> bool {
    let modified = fs::symlink_metadata(path).and_then(|entry| entry.modified());
    modified.is_ok_and(|time| time.elapsed().is_ok_and(|age| age > YOUNG))
}
