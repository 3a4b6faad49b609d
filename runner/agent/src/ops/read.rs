//! Reading a file or a part of it: small ones in one answer, others as a stream with credit.

use super::{Flags, Started};
use crate::call::Call;
use crate::executor::Weight;
use crate::fail::{Code, Errno, Fail};
use crate::frames::{self, DATA_CHUNK, HEADER, Header, kind};
use crate::payload::{Reader, STAT_BYTES, put_stat};
use crate::sys::{self, CWD, Stat};
use std::ffi::CStr;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;

/// Up to this many bytes are answered at once, in one piece with META and END.
const AT_ONCE: u64 = 128 << 10;

/// Opens a regular file for reading; anything else is refused without waiting for a peer or device.
pub fn open_file(dir: RawFd, path: &CStr, flags: i32) -> Result<(OwnedFd, Stat), Fail> {
    let file = sys::openat(dir, path, libc::O_RDONLY | libc::O_NONBLOCK | flags, 0)?;
    let stat = sys::fstat(file.as_raw_fd())?;
    if stat.is_dir() {
        return Err(Errno(libc::EISDIR).into());
    }
    if !stat.is_file() {
        return Err(Fail::new(Code::NotAFile, "not a regular file"));
    }
    Ok((file, stat))
}

pub fn start(call: &Arc<Call>, flags: Flags, payload: &[u8]) -> Result<Started, Fail> {
    flags.only(0)?;
    let mut reader = Reader::new(payload);
    let path = reader.path()?;
    let offset = reader.u64()?;
    let length = reader.u64()?;
    reader.finish()?;
    if offset > i64::MAX as u64 {
        return Err(Fail::invalid("the offset is too large"));
    }
    let (file, stat) = open_file(CWD, &path, 0)?;
    let expected = stat.size().saturating_sub(offset).min(length);
    if expected <= AT_ONCE {
        return at_once(call.id, &file, &stat, offset, expected as usize).map(Started::Answered);
    }
    let call = call.clone();
    let work = async move { stream(&call, &file, &stat, offset, length).await };
    Ok(Started::Task(Weight::Light, Box::pin(work)))
}

/// META, DATA and END in one buffer, the file read straight into its place.
fn at_once(id: u32, file: &OwnedFd, stat: &Stat, offset: u64, size: usize) -> Result<Vec<u8>, Fail> {
    let mut out = Vec::with_capacity(3 * HEADER + STAT_BYTES + size + 8);
    push_meta(&mut out, id, stat);
    let data = out.len();
    out.resize(data + HEADER + size, 0);
    let mut filled = 0;
    while filled < size {
        let into = &mut out[data + HEADER + filled..];
        let count = sys::pread(file.as_raw_fd(), into, offset + filled as u64)?;
        if count == 0 {
            break;
        }
        filled += count;
    }
    out.truncate(data + if filled == 0 { 0 } else { HEADER + filled });
    if filled > 0 {
        put_header(&mut out[data..], kind::DATA, id, filled);
    }
    frames::append(&mut out, kind::END, id, &(filled as u64).to_le_bytes());
    Ok(out)
}

fn push_meta(out: &mut Vec<u8>, id: u32, stat: &Stat) {
    let mut meta = Vec::with_capacity(STAT_BYTES);
    put_stat(&mut meta, stat);
    frames::append(out, kind::META, id, &meta);
}

/// Writes a frame header over the first bytes of `place`.
pub fn put_header(place: &mut [u8], frame_kind: u8, id: u32, length: usize) {
    let header = Header { length, kind: frame_kind, flags: 0, id };
    place[..HEADER].copy_from_slice(&header.encode());
}

async fn stream(call: &Call, file: &OwnedFd, stat: &Stat, offset: u64, length: u64) -> Result<Vec<u8>, Fail> {
    let mut meta = Vec::new();
    push_meta(&mut meta, call.id, stat);
    call.send(&meta).await?;
    let mut buffer = vec![0u8; HEADER + DATA_CHUNK];
    let mut sent = 0u64;
    while sent < length {
        let want = (length - sent).min(DATA_CHUNK as u64) as usize;
        let want = call.take_credit(want).await?;
        let into = &mut buffer[HEADER..HEADER + want];
        let count = sys::pread(file.as_raw_fd(), into, offset.saturating_add(sent))?;
        call.return_credit(want - count);
        if count == 0 {
            break;
        }
        put_header(&mut buffer, kind::DATA, call.id, count);
        call.send(&buffer[..HEADER + count]).await?;
        sent += count as u64;
    }
    Ok(sent.to_le_bytes().to_vec())
}
