//! Payloads: reading requests and writing results, little-endian with fixed layouts.

use crate::fail::{Code, Fail};
use crate::sys::Stat;
use std::ffi::CString;

/// The longest path the kernel takes, in bytes, without its NUL.
pub const MAX_PATH: usize = libc::PATH_MAX as usize - 1;

/// Reads the fields of one payload in order.
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { rest: bytes }
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], Fail> {
        if self.rest.len() < count {
            return Err(Fail::protocol("the payload is too short"));
        }
        let (head, tail) = self.rest.split_at(count);
        self.rest = tail;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Fail> {
        let mut out = [0u8; N];
        out.copy_from_slice(self.take(N)?);
        Ok(out)
    }

    pub fn u8(&mut self) -> Result<u8, Fail> {
        Ok(u8::from_le_bytes(self.array()?))
    }

    pub fn u32(&mut self) -> Result<u32, Fail> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub fn u64(&mut self) -> Result<u64, Fail> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// A string: its length, then raw bytes.
    pub fn bytes(&mut self) -> Result<&'a [u8], Fail> {
        let length = self.u32()? as usize;
        self.take(length)
    }

    /// A list of strings: their number, then each.
    pub fn list(&mut self, most: usize) -> Result<Vec<&'a [u8]>, Fail> {
        let count = self.u32()? as usize;
        if count > most {
            return Err(Fail::invalid("the list is too long"));
        }
        (0..count).map(|_| self.bytes()).collect()
    }

    /// An absolute path without NUL. What is not one is a bad request, not a broken protocol.
    pub fn path(&mut self) -> Result<CString, Fail> {
        let bytes = self.bytes()?;
        if bytes.first() != Some(&b'/') {
            return Err(Fail::invalid("the path is not absolute"));
        }
        if bytes.len() > MAX_PATH {
            return Err(Fail::new(Code::NameTooLong, "the path is too long"));
        }
        CString::new(bytes).map_err(|_| Fail::invalid("the path contains a NUL"))
    }

    /// Everything that is left.
    pub fn remainder(self) -> &'a [u8] {
        self.rest
    }

    /// The payload must end here.
    pub fn finish(self) -> Result<(), Fail> {
        if self.rest.is_empty() { Ok(()) } else { Err(Fail::protocol("the payload is too long")) }
    }
}

/// Appends a string: its length, then its bytes.
pub fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    out.extend_from_slice(bytes);
}

/// Bytes of an encoded [`Stat`].
pub const STAT_BYTES: usize = 40;

/// Appends the fixed layout of a file's attributes.
pub fn put_stat(out: &mut Vec<u8>, stat: &Stat) {
    out.extend_from_slice(&[stat.kind() as u8, 0, 0, 0]);
    out.extend_from_slice(&stat.permissions().to_le_bytes());
    out.extend_from_slice(&stat.size().to_le_bytes());
    out.extend_from_slice(&stat.mtime_seconds().to_le_bytes());
    out.extend_from_slice(&stat.mtime_nanos().to_le_bytes());
    out.extend_from_slice(&stat.links().to_le_bytes());
    out.extend_from_slice(&stat.inode().to_le_bytes());
}

/// Appends a directory entry: name, attributes, link target (empty for all but links).
pub fn put_entry(out: &mut Vec<u8>, name: &[u8], stat: &Stat, target: &[u8]) {
    put_bytes(out, name);
    put_stat(out, stat);
    put_bytes(out, target);
}
