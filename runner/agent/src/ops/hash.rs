//! HASH: the digest of a regular file.

use super::read::open_file;
use super::{Flags, Started};
use crate::call::Call;
use crate::executor::{Weight, yield_now};
use crate::fail::{Code, Fail};
use crate::payload::{Reader, put_bytes};
use crate::sys::{self, CWD};
use sha2::{Digest as _, Sha256};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

const SHA256: u8 = 1;
const PIECE: usize = 256 << 10;

/// A SHA-256.
pub type Digest = [u8; 32];

/// The digest of a file at once; `None` where it has grown beyond `most` bytes.
pub fn whole(call: &Call, file: &OwnedFd, most: u64) -> Result<Option<Digest>, Fail> {
    let mut digest = Sha256::new();
    let mut buffer = vec![0u8; PIECE];
    let mut size = 0u64;
    loop {
        let count = sys::pread(file.as_raw_fd(), &mut buffer, size)?;
        if count == 0 {
            return Ok(Some(digest.finalize().into()));
        }
        size += count as u64;
        if size > most {
            return Ok(None);
        }
        digest.update(&buffer[..count]);
        call.check()?;
    }
}

pub fn start(call: &Arc<Call>, flags: Flags, payload: &[u8]) -> Result<Started, Fail> {
    flags.only(0)?;
    let mut reader = Reader::new(payload);
    let path = reader.path()?;
    let algorithm = reader.u8()?;
    reader.finish()?;
    if algorithm != SHA256 {
        return Err(Fail::new(Code::Unsupported, "unknown hash algorithm"));
    }
    let (file, _) = open_file(CWD, &path, 0)?;
    let call = call.clone();
    let work = async move {
        let mut digest = Sha256::new();
        let mut buffer = vec![0u8; PIECE];
        let mut size = 0u64;
        loop {
            let count = sys::pread(file.as_raw_fd(), &mut buffer, size)?;
            if count == 0 {
                break;
            }
            digest.update(&buffer[..count]);
            size += count as u64;
            call.check()?;
            yield_now().await;
        }
        let mut end = size.to_le_bytes().to_vec();
        put_bytes(&mut end, &digest.finalize());
        Ok(end)
    };
    Ok(Started::Task(Weight::Heavy, Box::pin(work)))
}
