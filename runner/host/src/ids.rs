//! Host ids of a sandbox: a range that no other sandbox of the machine (or of the user) has while it lives.
//! A range is held by a lock on a file, so that the death of its holder frees it.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Root's ranges: 16 ids each, above what containers of systemd use and below the foreign ids of systemd.
const ROOT_FIRST: u32 = 0x7000_0000;
pub(crate) const ROOT_END: u32 = 0x7ff0_0000;
const ROOT_WIDTH: u32 = 16;
/// Begins the name of a service id's lock.
pub(crate) const SERVICE: &str = "service-";
/// How many ranges one claim tries.
const PROBES: u32 = 8192;

/// Where ids come from.
#[derive(Clone, Debug)]
pub enum IdSource {
    /// Host ids, machine-wide; `dir` holds the locks.
    Root { dir: PathBuf },
    /// `count` ids of the runner's own user namespace, from `first` on. `start` tells one such range from another of the
    /// same user: it is where the ids begin outside.
    SubRange { first: u32, start: u32, count: u32, dir: PathBuf },
    /// The runner's own id is the only one.
    OneId,
}

/// Ids of one sandbox, as its parent namespace counts them; users and groups have the same numbers.
#[derive(Debug)]
pub struct IdRange {
    /// Of PID 1; none if it shares the command's.
    pub init: Option<u32>,
    pub command: u32,
    pub number: u32,
    /// Holds the range until it is closed; every process that inherits it holds it too.
    pub lock: Option<OwnedFd>,
}

impl IdRange {
    /// Holds nothing.
    pub fn none() -> Self {
        Self { init: None, command: 0, number: 0, lock: None }
    }
}

impl IdSource {
    /// Claims a free range: EAGAIN if none was found, EPERM if the lock directory is not safe to use.
    pub fn claim(&self) -> io::Result<IdRange> {
        let (dir, slots, base, width) = match self {
            IdSource::Root { dir } => (dir, (ROOT_END - ROOT_FIRST) / ROOT_WIDTH, ROOT_FIRST, ROOT_WIDTH),
            IdSource::SubRange { first, count, dir, .. } => (dir, count / 2, *first, 2),
            IdSource::OneId => return Ok(IdRange::none()),
        };
        // An ordinary user's own namespace has no users but these; root's, a container's too, has those of its /etc.
        let taken = if base == 1 { Vec::new() } else { ids_in_use()? };
        let folder = open_folder(dir)?;
        let first = random()? % slots.max(1);
        for number in (0..slots.min(PROBES)).map(|step| (first + step) % slots) {
            let init = base + number * width;
            let (command, last) = (init + 1, init + width - 1);
            if taken.iter().any(|&(from, to)| from <= last && init <= to) {
                continue;
            }
            let lock = lock(folder.as_raw_fd(), &self.lock_name(number))?;
            if let Some(lock) = lock.filter(|lock| !is_kept(lock)) {
                return Ok(IdRange { init: Some(init), command, number, lock: Some(lock) });
            }
        }
        Err(io::Error::from_raw_os_error(libc::EAGAIN))
    }

    /// Claims the range of this number for files that have its ids already: EAGAIN if somebody else has it.
    pub fn claim_number(&self, number: u32) -> io::Result<IdRange> {
        let IdSource::Root { dir } = self else { return Err(io::Error::from_raw_os_error(libc::EPERM)) };
        if number >= (ROOT_END - ROOT_FIRST) / ROOT_WIDTH {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        let lock = lock(open_folder(dir)?.as_raw_fd(), &self.lock_name(number))?;
        let lock = lock.ok_or(io::Error::from_raw_os_error(libc::EAGAIN))?;
        let init = ROOT_FIRST + number * ROOT_WIDTH;
        Ok(IdRange { init: Some(init), command: init + 1, number, lock: Some(lock) })
    }

    /// Writes into the range's lock file which file has its ids: while that exists the range is given to nobody, also
    /// when its holder has ended.
    pub fn mark(&self, range: &IdRange, owner: &Path) -> io::Result<()> {
        let Some(lock) = &range.lock else { return Ok(()) };
        let file = File::from(lock.try_clone()?);
        file.set_len(0)?;
        file.write_all_at(owner.as_os_str().as_bytes(), 0)
    }

    /// Gives a range back: its lock file goes while the lock is still held. Without this call (a killed
    /// runner) the file stays and can be claimed.
    pub fn release(&self, range: IdRange) -> io::Result<()> {
        let (IdSource::Root { dir } | IdSource::SubRange { dir, .. }) = self else { return Ok(()) };
        if range.lock.is_none() {
            return Ok(());
        }
        fs::remove_file(dir.join(self.lock_name(range.number)))
    }

    /// Removes the lock files of runners that were killed: files that nobody has locked. What can't be removed stays,
    /// and can be claimed.
    pub fn sweep(&self) {
        let (IdSource::Root { dir } | IdSource::SubRange { dir, .. }) = self else { return };
        let (Ok(folder), Ok(entries)) = (open_folder(dir), fs::read_dir(dir)) else { return };
        for name in entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()) {
            let number = name.strip_prefix(SERVICE).unwrap_or(&name);
            let ours = number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
            let held = if ours { lock(folder.as_raw_fd(), &name).ok().flatten() } else { None };
            if let Some(held) = held.filter(|held| !is_kept(held)) {
                // Unlinked while it is held, so that nobody can hold it under a name that is gone.
                let _ = fs::remove_file(dir.join(&name));
                drop(held);
            }
        }
    }

    /// Another range of the same user is another set of host ids, so its locks have other names.
    fn lock_name(&self, number: u32) -> String {
        match self {
            IdSource::SubRange { start, .. } => format!("{start}-{number}"),
            _ => number.to_string(),
        }
    }
}

fn check(result: i32) -> io::Result<i32> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

fn stat(fd: RawFd) -> io::Result<libc::stat> {
    // SAFETY: all-zero bytes are a valid `stat`, which the call fills.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: `stat` is writable; a bad descriptor is an error.
    check(unsafe { libc::fstat(fd, &raw mut stat) })?;
    Ok(stat)
}

fn c_string(bytes: &[u8]) -> io::Result<std::ffi::CString> {
    std::ffi::CString::new(bytes).map_err(io::Error::other)
}

/// Opens (makes) the folder of the locks: ours alone to write, or EPERM.
pub(crate) fn open_folder(dir: &Path) -> io::Result<OwnedFd> {
    if let Some(parent) = dir.parent() {
        fs::create_dir_all(parent)?;
    }
    let name = c_string(dir.as_os_str().as_bytes())?;
    let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_NOFOLLOW | libc::O_CLOEXEC;
    // SAFETY: `name` is a NUL-terminated string. That the folder exists already is the usual case.
    unsafe { libc::mkdir(name.as_ptr(), 0o700) };
    // SAFETY: as above; the descriptor is new and owned by nothing else.
    let folder = unsafe { OwnedFd::from_raw_fd(check(libc::open(name.as_ptr(), flags))?) };
    let stat = stat(folder.as_raw_fd())?;
    // SAFETY: takes nothing and cannot fail.
    if stat.st_uid != unsafe { libc::geteuid() } || stat.st_mode & 0o022 != 0 {
        return Err(io::Error::from_raw_os_error(libc::EPERM));
    }
    Ok(folder)
}

/// Locks the file of a range, or answers none if another has it. A file that its holder unlinked between our
/// open and our lock is tried again under its name.
pub(crate) fn lock(folder: RawFd, name: &str) -> io::Result<Option<OwnedFd>> {
    let name = c_string(name.as_bytes())?;
    let flags = libc::O_RDWR | libc::O_CREAT | libc::O_NOFOLLOW | libc::O_CLOEXEC | libc::O_NONBLOCK;
    loop {
        // SAFETY: `name` is a NUL-terminated string; the descriptor is new and owned by nothing else.
        let file = unsafe { OwnedFd::from_raw_fd(check(libc::openat(folder, name.as_ptr(), flags, 0o600))?) };
        // SAFETY: takes two integers.
        if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } != 0 {
            let error = io::Error::last_os_error();
            return if error.raw_os_error() == Some(libc::EWOULDBLOCK) { Ok(None) } else { Err(error) };
        }
        let ours = stat(file.as_raw_fd())?;
        if ours.st_mode & libc::S_IFMT != libc::S_IFREG {
            return Err(io::Error::from_raw_os_error(libc::EPERM));
        }
        // The lock is on the file that has the name now, for only its holder unlinks it.
        if ours.st_nlink == 1 {
            return Ok(Some(file));
        }
        if ours.st_nlink > 1 {
            return Err(io::Error::from_raw_os_error(libc::EPERM));
        }
    }
}

/// Whether a file that is still there has the ids of this locked range.
fn is_kept(lock: &OwnedFd) -> bool {
    let mut path = vec![0; libc::PATH_MAX as usize];
    let length = lock.try_clone().and_then(|lock| File::from(lock).read_at(&mut path, 0)).unwrap_or(0);
    path.truncate(length);
    length > 0 && fs::symlink_metadata(OsStr::from_bytes(&path)).is_ok()
}

pub(crate) fn random() -> io::Result<u32> {
    let mut bytes = [0u8; 4];
    // SAFETY: `bytes` is writable for the length passed; four bytes come at once.
    check(unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) } as i32)?;
    Ok(u32::from_ne_bytes(bytes))
}

/// Every id that an entry of the machine covers, as ranges (first, last). A file that is missing has none.
pub(crate) fn ids_in_use() -> io::Result<Vec<(u32, u32)>> {
    let mut out = Vec::new();
    for (path, width_at) in
        [("/etc/subuid", Some(2)), ("/etc/subgid", Some(2)), ("/etc/passwd", None), ("/etc/group", None)]
    {
        match fs::read(path) {
            Ok(bytes) => out.extend(ranges(&String::from_utf8_lossy(&bytes), width_at)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(out)
}

/// The ranges that lines of `:`-separated fields cover. With a width (subuid): field 1 and the width's field;
/// without (passwd, group): the single ids in fields 2 and 3. Garbage is skipped.
fn ranges(text: &str, width_at: Option<usize>) -> Vec<(u32, u32)> {
    let mut out = Vec::new();
    for line in text.lines() {
        let fields: Vec<&str> = line.split(':').collect();
        let id = |at: usize| fields.get(at).and_then(|field| field.trim().parse::<u32>().ok());
        match width_at {
            Some(width_at) => {
                if let (Some(first), Some(width @ 1..)) = (id(1), id(width_at)) {
                    out.push((first, first.saturating_add(width - 1)));
                }
            }
            None => out.extend([id(2), id(3)].into_iter().flatten().map(|id| (id, id))),
        }
    }
    out
}

/// A user's range of subordinate ids; users and groups may start at different host ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubIds {
    pub uid_start: u32,
    pub gid_start: u32,
    pub count: u32,
}

/// The user's first ranges of at least two ids in the texts of /etc/subuid and /etc/subgid, where entries
/// name a user by name or number; none unless both files have one. Garbage lines are skipped.
pub fn sub_range_for(user: &str, uid: u32, subuid: &str, subgid: &str) -> Option<SubIds> {
    let first = |text: &str| {
        text.lines().find_map(|line| {
            let mut fields = line.trim().split(':');
            let (owner, start, count) = (fields.next()?, fields.next()?, fields.next()?);
            let (start, count) = (start.parse::<u32>().ok()?, count.parse::<u32>().ok()?);
            let ours = (owner == user && !user.is_empty()) || owner.parse() == Ok(uid);
            let whole = fields.next().is_none() && start > 0 && start.checked_add(count).is_some();
            (ours && whole && count >= 2).then_some((start, count))
        })
    };
    let ((uid_start, uids), (gid_start, gids)) = (first(subuid)?, first(subgid)?);
    Some(SubIds { uid_start, gid_start, count: uids.min(gids) })
}

#[cfg(test)]
mod tests;
