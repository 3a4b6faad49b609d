//! Writing a file: it appears whole or not at all.
//!
//! The content goes into a file without a name (O_TMPFILE), or, where the kernel or file system has
//! none, under a name nobody can guess; the commit links or renames it into place. A write that asks
//! for what is there to be unchanged exchanges the two and looks at what it took away.

use super::hash::{self, Digest};
use super::read::open_file;
use super::target::Target;
use super::{Flags, Started, plain_mode};
use crate::call::Call;
use crate::executor::Weight;
use crate::fail::{Code, Errno, Fail};
use crate::frames::{self, kind};
use crate::payload::{Reader, put_bytes, put_stat};
use crate::sys;
use sha2::{Digest as _, Sha256};
use std::ffi::{CStr, CString};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex};

const CREATE_PARENTS: u16 = 1;
const EXCLUSIVE: u16 = 2;
const APPEND: u16 = 4;
const INLINE: u16 = 8;
const NOFOLLOW: u16 = 16;
const UNCHANGED: u16 = 32;
const CLOSED: u16 = 64;
const DIGEST: u16 = 128;
const ALL_FLAGS: u16 = CREATE_PARENTS | EXCLUSIVE | APPEND | INLINE | NOFOLLOW | UNCHANGED | CLOSED | DIGEST;

/// A mode field with this value keeps the existing file's mode, or makes a new one 0644.
const KEEP_MODE: u32 = u32::MAX;
const NEW_MODE: u32 = 0o644;
/// The largest file that is compared: others wait for the lock meanwhile.
const MOST_COMPARED: u64 = 64 << 20;

pub fn start(call: &Arc<Call>, flags: Flags, payload: &[u8]) -> Result<Started, Fail> {
    let flags = flags.only(ALL_FLAGS)?;
    let mut reader = Reader::new(payload);
    let path = reader.path()?;
    let mode = reader.u32()?;
    let mode = if mode == KEEP_MODE { None } else { Some(plain_mode(mode)?) };
    if [EXCLUSIVE, APPEND, UNCHANGED].iter().filter(|&&flag| flags.has(flag)).count() > 1 {
        return Err(Fail::invalid("exclusive, append and unchanged exclude each other"));
    }
    let expected = if flags.has(UNCHANGED) { Some(digest(reader.bytes()?)?) } else { None };
    if !flags.has(INLINE) {
        reader.finish()?;
        let call = call.clone();
        let staged = Staged::open(&path, flags, mode)?;
        // What it is compared with may be large, and others wait for that.
        let weight = if expected.is_some() { Weight::Heavy } else { Weight::Light };
        return Ok(Started::Task(weight, Box::pin(receive(call, staged, expected))));
    }
    let mut staged = Staged::open(&path, flags, mode)?;
    staged.write(reader.remainder())?;
    if let Some(expected) = expected {
        // What it is compared with may be large.
        let call = call.clone();
        let work = async move { staged.commit_unchanged(&call, &expected) };
        return Ok(Started::Task(Weight::Heavy, Box::pin(work)));
    }
    let result = staged.commit()?;
    Ok(Started::Answered(frames::frame(kind::END, call.id, &result)))
}

fn digest(bytes: &[u8]) -> Result<Digest, Fail> {
    bytes.try_into().map_err(|_| Fail::invalid("a SHA-256 has 32 bytes"))
}

async fn receive(call: Arc<Call>, mut staged: Staged, expected: Option<Digest>) -> Result<Vec<u8>, Fail> {
    while let Some(chunk) = call.next_chunk().await? {
        staged.write(&chunk)?;
    }
    match expected {
        Some(expected) => staged.commit_unchanged(&call, &expected),
        None => staged.commit(),
    }
}

/// Held from comparing to the end of the exchange: of two writers who have read the same, one is told.
static COMPARING: Mutex<()> = Mutex::new(());

/// Content that has no visible name yet; dropped without a commit it leaves nothing.
struct Staged {
    target: Target,
    file: OwnedFd,
    /// The hidden name, where a file can't be without one.
    name: Option<CString>,
    append: bool,
    exclusive: bool,
    mode: Option<u32>,
    /// Of what was staged, where the answer is to have it.
    digest: Option<Sha256>,
}

impl Staged {
    fn open(path: &CStr, flags: Flags, mode: Option<u32>) -> Result<Staged, Fail> {
        let follow = !flags.has(EXCLUSIVE) && !flags.has(NOFOLLOW);
        let target = Target::resolve(path, follow, flags.has(CREATE_PARENTS))?;
        if let Some(stat) = target.existing {
            if flags.has(EXCLUSIVE) {
                return Err(Errno(libc::EEXIST).into());
            }
            if stat.is_dir() {
                return Err(Errno(libc::EISDIR).into());
            }
            if !stat.is_file() && !stat.is_link() {
                return Err(Fail::new(Code::NotAFile, "what is there is not a regular file"));
            }
            if stat.is_file() && !flags.has(CLOSED) {
                // Replacing by rename would pass over the file's own write permission.
                sys::writable(target.dir.as_raw_fd(), &target.name)?;
            }
        }
        let kept = target.existing.filter(|stat| stat.is_file()).map(|stat| stat.permissions() & 0o777);
        let first_mode = mode.or(kept).unwrap_or(NEW_MODE);
        let (file, name) = open_hidden(target.dir.as_raw_fd(), first_mode)?;
        let (append, exclusive) = (flags.has(APPEND), flags.has(EXCLUSIVE));
        let digest = flags.has(DIGEST).then(Sha256::new);
        Ok(Staged { target, file, name, append, exclusive, mode, digest })
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), Fail> {
        if let Some(digest) = &mut self.digest {
            digest.update(bytes);
        }
        Ok(sys::write_all(self.file.as_raw_fd(), bytes)?)
    }

    /// What END says of the file that was written.
    fn written(&mut self, stat: &sys::Stat) -> Vec<u8> {
        let mut out = Vec::new();
        put_stat(&mut out, stat);
        if let Some(digest) = self.digest.take() {
            put_bytes(&mut out, &digest.finalize());
        }
        out
    }

    fn commit(mut self) -> Result<Vec<u8>, Fail> {
        let stat = if self.append && self.target.existing.is_some() {
            self.append_to_existing()?
        } else {
            self.put_in_place()?;
            sys::fstat(self.file.as_raw_fd())?
        };
        Ok(self.written(&stat))
    }

    /// Replaces a file whose content has this digest; anything else stays as it is, whoever wrote it.
    fn commit_unchanged(mut self, call: &Call, expected: &Digest) -> Result<Vec<u8>, Fail> {
        let changed = || Fail::new(Code::Changed, "the file is not what it was");
        let _alone = COMPARING.lock().map_err(|_| Fail::new(Code::Io, "an earlier comparison failed"))?;
        let dir = self.target.dir.as_raw_fd();
        if self.target.existing.is_none() || !same_content(call, dir, &self.target.name, expected)? {
            return Err(changed());
        }
        self.give_name()?;
        let Some(name) = self.name.clone() else { return Err(changed()) };
        let exchange = || sys::rename((dir, &name), (dir, &self.target.name), libc::RENAME_EXCHANGE);
        match exchange() {
            Err(Errno(libc::ENOENT)) => return Err(changed()),
            other => other?,
        }
        // What a command wrote since is now under the hidden name.
        if !same_content(call, dir, &name, expected).unwrap_or(false) {
            exchange()?;
            let ours = sys::fstat(self.file.as_raw_fd())?.identity();
            if !sys::fstatat(dir, &name, false).is_ok_and(|stat| stat.identity() == ours) {
                // Ours was replaced meanwhile: what replaced it is the newest.
                exchange()?;
            }
            return Err(changed());
        }
        let stat = sys::fstat(self.file.as_raw_fd())?;
        Ok(self.written(&stat))
    }

    fn give_name(&mut self) -> Result<(), Fail> {
        if self.name.is_none() {
            let name = hidden_name()?;
            link_unnamed(&self.file, self.target.dir.as_raw_fd(), &name)?;
            self.name = Some(name);
        }
        Ok(())
    }

    fn put_in_place(&mut self) -> Result<(), Fail> {
        let dir = self.target.dir.as_raw_fd();
        if self.name.is_none() && (self.exclusive || self.target.existing.is_none()) {
            match link_unnamed(&self.file, dir, &self.target.name) {
                Err(Errno(libc::EEXIST)) if !self.exclusive => {}
                other => return Ok(other?),
            }
        }
        self.give_name()?;
        let Some(name) = &self.name else { return Ok(()) };
        let how = if self.exclusive { libc::RENAME_NOREPLACE } else { 0 };
        sys::rename((dir, name), (dir, &self.target.name), how)?;
        self.name = None;
        Ok(())
    }

    /// Copies what was staged to the end of the file; a copy that fails half way is taken back.
    fn append_to_existing(&mut self) -> Result<sys::Stat, Fail> {
        let flags = libc::O_WRONLY | libc::O_APPEND | libc::O_NONBLOCK | libc::O_NOFOLLOW;
        let end = sys::openat(self.target.dir.as_raw_fd(), &self.target.name, flags, 0)?;
        let before = sys::fstat(end.as_raw_fd())?;
        if !before.is_file() {
            return Err(Fail::new(Code::NotAFile, "what is there is not a regular file"));
        }
        let mut buffer = vec![0u8; 128 << 10];
        let mut copied = 0u64;
        loop {
            let count = sys::pread(self.file.as_raw_fd(), &mut buffer, copied)?;
            if count == 0 {
                break;
            }
            if let Err(errno) = sys::write_all(end.as_raw_fd(), &buffer[..count]) {
                sys::ftruncate(end.as_raw_fd(), before.size())?;
                return Err(errno.into());
            }
            copied += count as u64;
        }
        if let Some(mode) = self.mode {
            sys::fchmod(end.as_raw_fd(), mode)?;
        }
        Ok(sys::fstat(end.as_raw_fd())?)
    }
}

fn same_content(call: &Call, dir: RawFd, name: &CStr, expected: &Digest) -> Result<bool, Fail> {
    let (file, stat) = match open_file(dir, name, libc::O_NOFOLLOW) {
        Err(fail) if matches!(fail.code, Code::NotFound | Code::IsDirectory | Code::NotAFile | Code::Loop) => {
            return Ok(false);
        }
        other => other?,
    };
    if stat.size() > MOST_COMPARED {
        return Err(Fail::new(Code::TooLarge, "the file that is there is too large to be compared"));
    }
    Ok(hash::whole(call, &file, MOST_COMPARED)?.is_some_and(|found| found == *expected))
}

impl Drop for Staged {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            // The name is ours alone; if it is gone already, nothing is left, which is the aim.
            let _ = sys::unlinkat(self.target.dir.as_raw_fd(), name, false);
        }
    }
}

const UNKNOWN: u8 = 0;
const WORKS: u8 = 1;
const MISSING: u8 = 2;
/// Whether this kernel lets an unprivileged process give a nameless file a name (Linux 6.10).
static UNNAMED: AtomicU8 = AtomicU8::new(UNKNOWN);

fn open_hidden(dir: RawFd, mode: u32) -> Result<(OwnedFd, Option<CString>), Fail> {
    if UNNAMED.load(Ordering::Relaxed) != MISSING {
        match sys::openat(dir, c".", libc::O_TMPFILE | libc::O_RDWR, mode) {
            Ok(file) if unnamed_works(&file, dir)? => return Ok((file, None)),
            Ok(_) | Err(Errno(libc::EOPNOTSUPP | libc::EISDIR | libc::EINVAL | libc::ENOENT)) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    let name = hidden_name()?;
    let flags = libc::O_CREAT | libc::O_EXCL | libc::O_RDWR | libc::O_NOFOLLOW;
    let file = sys::openat(dir, &name, flags, mode)?;
    Ok((file, Some(name)))
}

/// Tries once per process; an unrelated failure leaves the question open.
fn unnamed_works(file: &OwnedFd, dir: RawFd) -> Result<bool, Fail> {
    if UNNAMED.load(Ordering::Relaxed) == WORKS {
        return Ok(true);
    }
    let name = hidden_name()?;
    match link_unnamed(file, dir, &name) {
        Ok(()) => {
            sys::unlinkat(dir, &name, false)?;
            UNNAMED.store(WORKS, Ordering::Relaxed);
            // Linking used up the file's one chance: a file whose last name is gone stays nameless.
            Ok(false)
        }
        Err(Errno(libc::ENOENT | libc::EPERM | libc::EINVAL)) => {
            UNNAMED.store(MISSING, Ordering::Relaxed);
            Ok(false)
        }
        Err(errno) => Err(errno.into()),
    }
}

fn link_unnamed(file: &OwnedFd, dir: RawFd, name: &CStr) -> Result<(), Errno> {
    sys::linkat((file.as_raw_fd(), c""), (dir, name), libc::AT_EMPTY_PATH)
}

/// A name that nobody can guess, hidden from plain listings of a shell.
pub fn hidden_name() -> Result<CString, Fail> {
    let name = format!(".boxkite-{}", sys::random_name()?);
    CString::new(name).map_err(|_| Fail::invalid("the name contains a NUL"))
}
