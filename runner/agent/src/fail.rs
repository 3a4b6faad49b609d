//! The error registry of the protocol and its mapping from the kernel's numbers.

use std::borrow::Cow;

/// Error codes on the wire; the numbers never change their meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Code {
    Invalid = 1,
    NotFound = 2,
    Exists = 3,
    NotAFile = 4,
    IsDirectory = 5,
    NotADirectory = 6,
    ReadOnly = 7,
    NoSpace = 8,
    Permission = 9,
    TooLarge = 10,
    Cancelled = 11,
    Limit = 12,
    Io = 13,
    NotEmpty = 14,
    Busy = 15,
    Loop = 16,
    NameTooLong = 17,
    CrossDevice = 18,
    Unsupported = 19,
    Protocol = 20,
    Refused = 21,
    Pattern = 22,
    Changed = 23,
}

/// Why a call failed: a code of the registry, the kernel's number (0 when there is none) and words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fail {
    pub code: Code,
    pub errno: i32,
    pub message: Cow<'static, str>,
}

impl Fail {
    /// A failure that no system call reported.
    pub fn new(code: Code, message: impl Into<Cow<'static, str>>) -> Fail {
        Fail { code, errno: 0, message: message.into() }
    }

    /// A request the protocol allows to be sent but that makes no sense.
    pub fn invalid(message: impl Into<Cow<'static, str>>) -> Fail {
        Fail::new(Code::Invalid, message)
    }

    /// A peer that broke the protocol; its connection ends.
    pub fn protocol(message: impl Into<Cow<'static, str>>) -> Fail {
        Fail::new(Code::Protocol, message)
    }

    /// The call was cancelled or its connection has gone.
    pub fn cancelled() -> Fail {
        Fail::new(Code::Cancelled, "cancelled")
    }

    /// The same failure with the place where it happened in front of its words.
    pub fn at(mut self, place: &[u8]) -> Fail {
        self.message = format!("{}: {}", String::from_utf8_lossy(place), self.message).into();
        self
    }
}

impl From<Errno> for Fail {
    fn from(errno: Errno) -> Fail {
        let (code, message) = describe(errno.0);
        Fail { code, errno: errno.0, message: message.into() }
    }
}

/// A number that a system call reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Errno(pub i32);

impl Errno {
    /// The number of the calling thread's last failed system call.
    pub fn last() -> Errno {
        Errno(std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO))
    }
}

fn describe(errno: i32) -> (Code, &'static str) {
    match errno {
        libc::ENOENT => (Code::NotFound, "no such file or directory"),
        libc::EEXIST => (Code::Exists, "it exists already"),
        libc::EISDIR => (Code::IsDirectory, "it is a directory"),
        libc::ENOTDIR => (Code::NotADirectory, "not a directory"),
        libc::ENXIO => (Code::NotAFile, "not a regular file"),
        libc::EROFS => (Code::ReadOnly, "this file system is read-only"),
        libc::ENOSPC => (Code::NoSpace, "no space or no inode is left"),
        libc::EDQUOT => (Code::NoSpace, "the quota is used up"),
        libc::EFBIG => (Code::TooLarge, "the file is too large"),
        libc::EACCES | libc::EPERM => (Code::Permission, "permission denied"),
        libc::EMFILE | libc::ENFILE => (Code::Limit, "no file descriptor is left"),
        libc::ENOMEM => (Code::Limit, "no memory is left"),
        libc::ENOTEMPTY => (Code::NotEmpty, "the directory is not empty"),
        libc::EBUSY | libc::ETXTBSY => (Code::Busy, "it is in use"),
        libc::ELOOP => (Code::Loop, "too many symbolic links"),
        libc::ENAMETOOLONG => (Code::NameTooLong, "the name is too long"),
        libc::EXDEV => (Code::CrossDevice, "the two paths are on different file systems"),
        libc::EOPNOTSUPP | libc::ENOSYS => (Code::Unsupported, "not supported here"),
        libc::EINVAL => (Code::Invalid, "invalid argument"),
        libc::EMLINK => (Code::Limit, "too many links"),
        _ => (Code::Io, "input or output error"),
    }
}
