//! Listing one directory in byte order, in pages whose memory is bounded.

use super::{Flags, Started};
use crate::call::Call;
use crate::executor::{Weight, yield_now};
use crate::fail::{Errno, Fail};
use crate::frames::kind;
use crate::payload::{Reader, put_bytes, put_entry};
use crate::sys::{self, CWD, Entries, FileKind};
use std::collections::BinaryHeap;
use std::ffi::{CStr, CString};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;

/// A batch is sent when it has this many bytes.
pub const BATCH_BYTES: usize = 48 << 10;
/// Memory that the names of one page may take; beyond it the directory is read again.
const PAGE_BYTES: usize = 16 << 20;
const ENTRY_OVERHEAD: usize = 48;

/// The smallest names of a directory.
pub struct Page {
    pub names: Vec<(CString, FileKind)>,
    /// Whether greater names were left out.
    pub more: bool,
}

/// The up to `most` smallest names after `cursor`, in byte order, taking about `bytes` of memory.
pub fn smallest_after(fd: RawFd, cursor: &[u8], most: usize, bytes: usize) -> Result<Page, Errno> {
    sys::seek(fd, 0)?;
    let mut heap: BinaryHeap<(CString, u8)> = BinaryHeap::new();
    let (mut used, mut more) = (0, false);
    let mut entries = Entries::default();
    while let Some(entry) = entries.next(fd)? {
        let name = entry.name.to_bytes();
        if !cursor.is_empty() && name <= cursor {
            continue;
        }
        if more && heap.peek().is_some_and(|(last, _)| name >= last.to_bytes()) {
            continue;
        }
        used += name.len() + ENTRY_OVERHEAD;
        heap.push((entry.name.to_owned(), entry.kind as u8));
        while heap.len() > most || (used > bytes && heap.len() > 1) {
            if let Some((gone, _)) = heap.pop() {
                used -= gone.to_bytes().len() + ENTRY_OVERHEAD;
                more = true;
            }
        }
    }
    let names = heap.into_sorted_vec();
    Ok(Page { names: names.into_iter().map(|(name, kind)| (name, file_kind(kind))).collect(), more })
}

fn file_kind(number: u8) -> FileKind {
    const ALL: [FileKind; 8] = [
        FileKind::Unknown,
        FileKind::File,
        FileKind::Directory,
        FileKind::Link,
        FileKind::Fifo,
        FileKind::Socket,
        FileKind::CharDevice,
        FileKind::BlockDevice,
    ];
    ALL.get(usize::from(number)).copied().unwrap_or(FileKind::Unknown)
}

pub fn start(call: &Arc<Call>, flags: Flags, payload: &[u8]) -> Result<Started, Fail> {
    flags.only(0)?;
    let mut reader = Reader::new(payload);
    let path = reader.path()?;
    let cursor = reader.bytes()?.to_vec();
    let limit = reader.u32()? as usize;
    reader.finish()?;
    let dir = sys::openat(CWD, &path, libc::O_RDONLY | libc::O_DIRECTORY, 0)?;
    let call = call.clone();
    let work = async move { list(&call, &dir, cursor, limit).await };
    Ok(Started::Task(Weight::Light, Box::pin(work)))
}

async fn list(call: &Call, dir: &OwnedFd, mut cursor: Vec<u8>, limit: usize) -> Result<Vec<u8>, Fail> {
    let mut left = if limit == 0 { usize::MAX } else { limit };
    let mut batch = Vec::new();
    let mut more = true;
    while more && left > 0 {
        call.check()?;
        let page = smallest_after(dir.as_raw_fd(), &cursor, left, PAGE_BYTES)?;
        more = page.more;
        left -= page.names.len();
        for (name, _) in &page.names {
            put_listed(&mut batch, dir.as_raw_fd(), name)?;
            if batch.len() >= BATCH_BYTES {
                call.send_stream(kind::BATCH, &batch).await?;
                batch.clear();
                yield_now().await;
            }
        }
        if let Some((last, _)) = page.names.last() {
            cursor = last.to_bytes().to_vec();
        }
    }
    if !batch.is_empty() {
        call.send_stream(kind::BATCH, &batch).await?;
    }
    let mut end = vec![u8::from(more)];
    put_bytes(&mut end, if more { &cursor } else { b"" });
    Ok(end)
}

/// Appends an entry with its attributes; one that has gone meanwhile is left out.
fn put_listed(batch: &mut Vec<u8>, dir: RawFd, name: &CStr) -> Result<(), Fail> {
    let stat = match sys::fstatat(dir, name, false) {
        Err(Errno(libc::ENOENT)) => return Ok(()),
        other => other?,
    };
    let target = match stat.is_link().then(|| sys::readlinkat(dir, name)) {
        None => CString::default(),
        Some(Err(Errno(libc::ENOENT | libc::EINVAL))) => return Ok(()),
        Some(other) => other?,
    };
    put_entry(batch, name.to_bytes(), &stat, target.as_bytes());
    Ok(())
}
