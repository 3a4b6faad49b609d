//! What an archive may contain: the rules that do not need a file system.

use super::target::c_string;
use crate::fail::{Code, Fail};
use std::ffi::CString;

/// The most entries that a client may allow.
pub const MOST_ENTRIES: u64 = 1_000_000;
/// The deepest path that a client may allow, in names.
pub const MOST_DEPTH: u32 = 256;
const DEFAULT_ENTRIES: u64 = 200_000;
const DEFAULT_DEPTH: u32 = 100;
const MAX_NAME: usize = 255;

/// Limits of one archive; 0 in a request means the default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    pub entries: u64,
    pub bytes: u64,
    pub depth: u32,
}

impl Limits {
    /// Checks what a client asks for; without a limit on bytes the file system's own holds.
    pub fn new(entries: u64, bytes: u64, depth: u32) -> Result<Limits, Fail> {
        if entries > MOST_ENTRIES || depth > MOST_DEPTH {
            return Err(Fail::invalid("the limits of an archive can't be lifted that far"));
        }
        Ok(Limits {
            entries: if entries == 0 { DEFAULT_ENTRIES } else { entries },
            bytes: if bytes == 0 { u64::MAX } else { bytes },
            depth: if depth == 0 { DEFAULT_DEPTH } else { depth },
        })
    }
}

/// What was taken from an archive so far.
#[derive(Default)]
pub struct Used {
    pub entries: u64,
    pub bytes: u64,
}

impl Used {
    /// Counts one more member of `size` bytes against the limits.
    pub fn add(&mut self, size: u64, limits: &Limits) -> Result<(), Fail> {
        self.entries += 1;
        self.bytes = self.bytes.saturating_add(size);
        let over = |message| Err(Fail::new(Code::TooLarge, message));
        if self.entries > limits.entries {
            return over("the archive has more entries than allowed");
        }
        if self.bytes > limits.bytes {
            return over("the archive has more bytes than allowed");
        }
        Ok(())
    }
}

/// The names of a member's path below the destination; none for the destination itself.
pub fn names(path: &[u8], limits: &Limits) -> Result<Vec<CString>, Fail> {
    let refused = |message: &'static str| Err(Fail::new(Code::Refused, message).at(path));
    if path.first() == Some(&b'/') {
        return refused("an absolute path");
    }
    if path.contains(&0) {
        return refused("a NUL in a path");
    }
    let mut names = Vec::new();
    for name in path.split(|&byte| byte == b'/') {
        match name {
            b"" | b"." => {}
            b".." => return refused("a path with .."),
            name if name.len() > MAX_NAME => return refused("a name that is too long"),
            name => names.push(c_string(name)?),
        }
    }
    if names.len() > limits.depth as usize {
        return refused("a path that is too deep");
    }
    Ok(names)
}

/// The mode a member gets: setuid, setgid and sticky are never kept.
pub fn file_mode(mode: u32) -> u32 {
    mode & 0o777
}

/// As for files; the owner keeps all rights, so that a tree can be filled, merged and removed.
pub fn directory_mode(mode: u32) -> u32 {
    (mode & 0o777) | 0o700
}
