//! WALK: all entries of a tree that the filter lets through, streamed and paged.

use super::list::BATCH_BYTES;
use super::walker::{Filter, Walker};
use super::{Flags, Started};
use crate::call::Call;
use crate::executor::{Weight, yield_now};
use crate::fail::{Errno, Fail};
use crate::frames::kind;
use crate::payload::{Reader, put_bytes, put_entry};
use crate::sys::{self, CWD, FileKind};
use std::ffi::CString;
use std::sync::Arc;

const HIDDEN: u16 = 1;
const RESPECT_IGNORE: u16 = 2;
const FILES_ONLY: u16 = 4;
const DIRECTORIES_ONLY: u16 = 8;

/// Entries between two looks at other work.
const SLICE: u64 = 1024;

pub fn start(call: &Arc<Call>, flags: Flags, payload: &[u8]) -> Result<Started, Fail> {
    let flags = flags.only(HIDDEN | RESPECT_IGNORE | FILES_ONLY | DIRECTORIES_ONLY)?;
    let mut reader = Reader::new(payload);
    let path = reader.path()?;
    let cursor = reader.bytes()?.to_vec();
    let limit = u64::from(reader.u32()?);
    let filter = Filter::read(&mut reader, flags.has(HIDDEN), flags.has(RESPECT_IGNORE), None)?;
    reader.finish()?;
    let dir = sys::openat(CWD, &path, libc::O_RDONLY | libc::O_DIRECTORY, 0)?;
    let walker = Walker::new(dir, filter, &cursor)?;
    let call = call.clone();
    let work = async move { walk(&call, walker, flags, limit).await };
    Ok(Started::Task(Weight::Heavy, Box::pin(work)))
}

async fn walk(call: &Call, mut walker: Walker, flags: Flags, limit: u64) -> Result<Vec<u8>, Fail> {
    let mut batch = Vec::new();
    let (mut sent, mut steps) = (0u64, 0u64);
    let mut last = Vec::new();
    let mut more = false;
    while let Some(item) = walker.next()? {
        steps += 1;
        if steps % SLICE == 0 {
            call.check()?;
            yield_now().await;
        }
        let directory = item.kind == FileKind::Directory;
        let wanted = (!flags.has(FILES_ONLY) || !directory)
            && (!flags.has(DIRECTORIES_ONLY) || directory)
            && walker.filter().includes(walker.path());
        if !wanted {
            continue;
        }
        if limit > 0 && sent == limit {
            more = true;
            break;
        }
        let Some(stat) = item.stat()? else { continue };
        let target = match stat.is_link().then(|| sys::readlinkat(item.dir, &item.name)) {
            None => CString::default(),
            Some(Err(Errno(libc::ENOENT | libc::EINVAL))) => continue,
            Some(other) => other?,
        };
        put_entry(&mut batch, walker.path(), &stat, target.as_bytes());
        sent += 1;
        if limit > 0 {
            last = walker.path().to_vec();
        }
        if batch.len() >= BATCH_BYTES {
            call.send_stream(kind::BATCH, &batch).await?;
            batch.clear();
        }
    }
    if !batch.is_empty() {
        call.send_stream(kind::BATCH, &batch).await?;
    }
    let mut end = vec![u8::from(more)];
    put_bytes(&mut end, if more { &last } else { b"" });
    end.extend_from_slice(&walker.skipped.to_le_bytes());
    Ok(end)
}
