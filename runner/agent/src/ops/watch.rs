//! WATCH: changes below a directory, from inotify, until the call is cancelled.

use super::walker::{Filter, Walker};
use super::{Flags, Started};
use crate::call::Call;
use crate::executor::{Pool, Source, Weight};
use crate::fail::{Code, Errno, Fail};
use crate::frames::{self, kind};
use crate::payload::{Reader, put_bytes};
use crate::sys::{self, CWD, FileKind, check, own};
use std::collections::HashMap;
use std::ffi::CString;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const RECURSIVE: u16 = 1;

const CREATED: u8 = 1;
const MODIFIED: u8 = 2;
const REMOVED: u8 = 3;
const MOVED_FROM: u8 = 4;
const MOVED_TO: u8 = 5;
const ATTRIBUTES: u8 = 6;
/// Events were lost: the client has to look for itself.
const OVERFLOW: u8 = 7;
/// Bytes of events that one event of the kernel may become.
const MAX_REPORT: usize = 1 << 20;

const EVENTS: u32 = libc::IN_CREATE
    | libc::IN_CLOSE_WRITE
    | libc::IN_MODIFY
    | libc::IN_DELETE
    | libc::IN_MOVED_FROM
    | libc::IN_MOVED_TO
    | libc::IN_ATTRIB
    | libc::IN_ONLYDIR
    | libc::IN_DONT_FOLLOW
    | libc::IN_EXCL_UNLINK;

pub fn start(call: &Arc<Call>, flags: Flags, payload: &[u8]) -> Result<Started, Fail> {
    let flags = flags.only(RECURSIVE)?;
    let mut reader = Reader::new(payload);
    let path = reader.path()?;
    reader.finish()?;
    let bytes = path.to_bytes();
    let end = bytes.iter().rposition(|&byte| byte != b'/').map_or(0, |at| at + 1);
    let root = bytes[..end].to_vec();
    let init = libc::IN_NONBLOCK | libc::IN_CLOEXEC;
    // SAFETY: no memory is passed.
    let inotify = check(|| unsafe { libc::inotify_init1(init) } as i64)
        .map_err(|errno| exhausted(errno, libc::EMFILE, "no inotify instance is left"))?;
    let mut watch = Watch { inotify: own(inotify), root, recursive: flags.has(RECURSIVE), directories: HashMap::new() };
    let call = call.clone();
    let work = async move {
        watch.add(Vec::new())?;
        if watch.recursive {
            watch.add_below(&call, Vec::new(), None)?;
        }
        watch.run(&call).await
    };
    Ok(Started::Task(Weight::Heavy, Box::pin(work)))
}

fn exhausted(errno: Errno, limit: i32, message: &'static str) -> Fail {
    if errno.0 == limit { Fail { code: Code::Limit, errno: errno.0, message: message.into() } } else { errno.into() }
}

struct Watch {
    inotify: OwnedFd,
    root: Vec<u8>,
    recursive: bool,
    /// The relative path of each watched directory.
    directories: HashMap<i32, Vec<u8>>,
}

/// Tells the call's task that events are there.
struct Ready {
    call: Arc<Call>,
    flag: Arc<AtomicBool>,
}

impl Source for Ready {
    fn ready(self: Arc<Self>, _events: u32) {
        self.flag.store(true, Ordering::SeqCst);
        self.call.wake();
    }
}

/// Takes the descriptor out of the epoll set however the watch ends.
struct Registration {
    pool: Arc<Pool>,
    fd: i32,
    key: u64,
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.pool.remove(self.fd, self.key);
    }
}

impl Watch {
    async fn run(&mut self, call: &Arc<Call>) -> Result<Vec<u8>, Fail> {
        let flag = Arc::new(AtomicBool::new(false));
        let source = Arc::new(Ready { call: call.clone(), flag: flag.clone() });
        let pool = call.connection.pool().clone();
        let fd = self.inotify.as_raw_fd();
        let key = pool.new_key();
        pool.add(key, fd, libc::EPOLLIN as u32, source)?;
        let _registration = Registration { pool, fd, key };
        let count = (self.directories.len() as u32).to_le_bytes();
        call.send(&frames::frame(kind::META, call.id, &count)).await?;
        let mut buffer = vec![0u8; 32 << 10];
        loop {
            let count = match sys::read(fd, &mut buffer) {
                Ok(count) => count,
                Err(Errno(libc::EAGAIN)) => {
                    call.wait_for(&flag).await?;
                    continue;
                }
                Err(errno) => return Err(errno.into()),
            };
            let mut batch = Vec::new();
            let translated = self.translate(call, &buffer[..count], &mut batch);
            // What happened before the directory went is told before that.
            for piece in split_batch(&batch) {
                call.send_stream(kind::BATCH, piece).await?;
            }
            translated?;
        }
    }

    /// Turns the kernel's events into records, and watches directories that are new.
    fn translate(&mut self, call: &Call, mut bytes: &[u8], out: &mut Vec<u8>) -> Result<(), Fail> {
        const HEAD: usize = 16;
        while let Some((head, rest)) = bytes.split_at_checked(HEAD) {
            let word = |at: usize| u32::from_ne_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
            let (watch, mask, cookie, length) = (word(0) as i32, word(4), word(8), word(12) as usize);
            let name = rest.get(..length).unwrap_or(rest);
            bytes = rest.get(length..).unwrap_or(&[]);
            let end = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
            self.event(call, (watch, mask, cookie), &name[..end], out)?;
        }
        Ok(())
    }

    fn event(
        &mut self,
        call: &Call,
        (watch, mask, cookie): (i32, u32, u32),
        name: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), Fail> {
        if mask & libc::IN_Q_OVERFLOW != 0 {
            put_event(out, OVERFLOW, false, 0, b"");
            return Ok(());
        }
        if mask & libc::IN_IGNORED != 0 {
            let gone = self.directories.remove(&watch);
            if gone.is_some_and(|path| path.is_empty()) {
                return Err(Fail::new(Code::NotFound, "the watched directory is gone"));
            }
            return Ok(());
        }
        let Some(parent) = self.directories.get(&watch) else { return Ok(()) };
        let mut path = parent.clone();
        if !path.is_empty() && !name.is_empty() {
            path.push(b'/');
        }
        path.extend_from_slice(name);
        let directory = mask & libc::IN_ISDIR != 0;
        let event = match mask & EVENTS {
            bits if bits & libc::IN_CREATE != 0 => CREATED,
            bits if bits & libc::IN_DELETE != 0 => REMOVED,
            bits if bits & libc::IN_MOVED_FROM != 0 => MOVED_FROM,
            bits if bits & libc::IN_MOVED_TO != 0 => MOVED_TO,
            bits if bits & (libc::IN_MODIFY | libc::IN_CLOSE_WRITE) != 0 => MODIFIED,
            bits if bits & libc::IN_ATTRIB != 0 => ATTRIBUTES,
            _ => return Ok(()),
        };
        put_event(out, event, directory, cookie, &path);
        if !directory || !self.recursive {
            return Ok(());
        }
        match event {
            CREATED | MOVED_TO => self.add_below(call, path, Some(out)),
            MOVED_FROM => {
                self.forget(&path);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// A directory that was moved is watched under its new name, or no longer.
    fn forget(&mut self, path: &[u8]) {
        let below =
            |candidate: &[u8]| candidate.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest[0] == b'/');
        let gone: Vec<i32> = self.directories.iter().filter(|(_, known)| below(known)).map(|(&id, _)| id).collect();
        for id in gone {
            self.directories.remove(&id);
            // SAFETY: no memory is passed. A watch that is gone already is what this asks for.
            unsafe { libc::inotify_rm_watch(self.inotify.as_raw_fd(), id) };
        }
    }

    /// Watches one directory; one that has gone or became something else is not watched.
    fn add(&mut self, path: Vec<u8>) -> Result<bool, Fail> {
        let full = super::target::c_string(&self.absolute(&path))?;
        let fd = self.inotify.as_raw_fd();
        // SAFETY: `full` is a C string that lives through the call.
        let watch = check(|| unsafe { libc::inotify_add_watch(fd, full.as_ptr(), EVENTS) } as i64);
        match watch {
            Ok(id) => {
                self.directories.insert(id as i32, path);
                Ok(true)
            }
            Err(Errno(libc::ENOENT | libc::ENOTDIR | libc::EACCES)) if !path.is_empty() => Ok(false),
            Err(errno) => Err(exhausted(errno, libc::ENOSPC, "no inotify watch is left")),
        }
    }

    fn absolute(&self, path: &[u8]) -> Vec<u8> {
        if path.is_empty() && self.root.is_empty() {
            return b"/".to_vec();
        }
        let parts: &[&[u8]] = if path.is_empty() { &[&self.root] } else { &[&self.root, b"/", path] };
        parts.concat()
    }

    /// Watches all directories below one, and reports what they hold when it is new: it came before
    /// the watch did.
    fn add_below(&mut self, call: &Call, top: Vec<u8>, mut report: Option<&mut Vec<u8>>) -> Result<(), Fail> {
        if !top.is_empty() && !self.add(top.clone())? {
            return Ok(());
        }
        let full: CString = super::target::c_string(&self.absolute(&top))?;
        let dir = match sys::open_dir_at(CWD, &full) {
            Err(Errno(libc::ENOENT | libc::ENOTDIR | libc::ELOOP | libc::EACCES)) => return Ok(()),
            other => other?,
        };
        let filter = Filter { hidden: true, ..Filter::default() };
        let mut walker = Walker::new(dir, filter, b"")?;
        while let Some(item) = walker.next()? {
            call.check()?;
            let mut path = top.clone();
            if !path.is_empty() {
                path.push(b'/');
            }
            path.extend_from_slice(walker.path());
            let is_directory = item.kind == FileKind::Directory;
            if let Some(out) = report.as_deref_mut() {
                put_event(out, CREATED, is_directory, 0, &path);
                if out.len() > MAX_REPORT {
                    // A whole tree came at once: the client has to look for itself, as when events are lost.
                    put_event(out, OVERFLOW, false, 0, b"");
                    report = None;
                }
            }
            if is_directory {
                self.add(path)?;
            }
        }
        Ok(())
    }
}

/// Bytes before the path's own in a record: event, directory, cookie, length of the path.
const EVENT_HEAD: usize = 10;

fn put_event(out: &mut Vec<u8>, event: u8, directory: bool, cookie: u32, path: &[u8]) {
    out.extend_from_slice(&[event, u8::from(directory)]);
    out.extend_from_slice(&cookie.to_le_bytes());
    put_bytes(out, path);
}

/// Cuts records into payloads below the frame limit, at record borders.
fn split_batch(batch: &[u8]) -> Vec<&[u8]> {
    const MOST: usize = 512 << 10;
    let mut pieces = Vec::new();
    let (mut from, mut at) = (0, 0);
    while at < batch.len() {
        let mut length = [0u8; 4];
        length.copy_from_slice(&batch[at + 6..at + EVENT_HEAD]);
        at += EVENT_HEAD + u32::from_le_bytes(length) as usize;
        if at - from >= MOST || at >= batch.len() {
            pieces.push(&batch[from..at]);
            from = at;
        }
    }
    pieces
}
