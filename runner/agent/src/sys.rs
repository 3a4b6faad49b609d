//! Thin, safe faces of the system calls that the agent uses, one error type for all.

use crate::fail::Errno;
use std::ffi::{CStr, CString};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

/// What all opened descriptors have.
const ALWAYS: i32 = libc::O_CLOEXEC | libc::O_NOCTTY;

/// Base for paths that are absolute or start at the working directory.
pub const CWD: RawFd = libc::AT_FDCWD;

/// Turns a system call's answer into a result, repeating it when a signal interrupted it.
pub fn check(mut call: impl FnMut() -> i64) -> Result<i64, Errno> {
    loop {
        let answer = call();
        if answer >= 0 {
            return Ok(answer);
        }
        let errno = Errno::last();
        if errno.0 != libc::EINTR {
            return Err(errno);
        }
    }
}

/// Takes ownership of a descriptor that a system call just returned.
pub fn own(fd: i64) -> OwnedFd {
    // SAFETY: the caller got `fd` from a successful call that created it, and nobody else has it.
    unsafe { OwnedFd::from_raw_fd(fd as RawFd) }
}

pub fn openat(dir: RawFd, path: &CStr, flags: i32, mode: u32) -> Result<OwnedFd, Errno> {
    // SAFETY: `path` is a C string that lives through the call.
    check(|| unsafe { libc::openat(dir, path.as_ptr(), flags | ALWAYS, mode) } as i64).map(own)
}

/// Opens a directory for reading without following a link at its last component.
pub fn open_dir_at(dir: RawFd, name: &CStr) -> Result<OwnedFd, Errno> {
    openat(dir, name, libc::O_RDONLY | libc::O_DIRECTORY | libc::O_NOFOLLOW, 0)
}

/// The type of a file, by its number on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum FileKind {
    Unknown = 0,
    File = 1,
    Directory = 2,
    Link = 3,
    Fifo = 4,
    Socket = 5,
    CharDevice = 6,
    BlockDevice = 7,
}

/// Attributes of a file.
#[derive(Clone, Copy)]
pub struct Stat(libc::stat);

impl Stat {
    pub fn kind(&self) -> FileKind {
        match self.0.st_mode & libc::S_IFMT {
            libc::S_IFREG => FileKind::File,
            libc::S_IFDIR => FileKind::Directory,
            libc::S_IFLNK => FileKind::Link,
            libc::S_IFIFO => FileKind::Fifo,
            libc::S_IFSOCK => FileKind::Socket,
            libc::S_IFCHR => FileKind::CharDevice,
            libc::S_IFBLK => FileKind::BlockDevice,
            _ => FileKind::Unknown,
        }
    }
    pub fn is_file(&self) -> bool {
        self.kind() == FileKind::File
    }
    pub fn is_dir(&self) -> bool {
        self.kind() == FileKind::Directory
    }
    pub fn is_link(&self) -> bool {
        self.kind() == FileKind::Link
    }
    /// The twelve permission bits.
    pub fn permissions(&self) -> u32 {
        self.0.st_mode & 0o7777
    }
    pub fn size(&self) -> u64 {
        self.0.st_size.max(0) as u64
    }
    pub fn mtime_seconds(&self) -> i64 {
        self.0.st_mtime
    }
    pub fn mtime_nanos(&self) -> u32 {
        self.0.st_mtime_nsec as u32
    }
    pub fn links(&self) -> u32 {
        self.0.st_nlink.min(u64::from(u32::MAX)) as u32
    }
    pub fn inode(&self) -> u64 {
        self.0.st_ino
    }
    /// Device and inode: what makes two descriptors the same file.
    pub fn identity(&self) -> (u64, u64) {
        (self.0.st_dev, self.0.st_ino)
    }
}

fn blank_stat() -> libc::stat {
    // SAFETY: all-zero bytes are a valid `stat`, which has only integer fields.
    unsafe { std::mem::zeroed() }
}

pub fn fstat(fd: RawFd) -> Result<Stat, Errno> {
    let mut out = blank_stat();
    // SAFETY: `out` is a live `stat` for the kernel to fill.
    check(|| unsafe { libc::fstat(fd, &mut out) } as i64)?;
    Ok(Stat(out))
}

pub fn fstatat(dir: RawFd, path: &CStr, follow: bool) -> Result<Stat, Errno> {
    let mut out = blank_stat();
    let flags = if follow { 0 } else { libc::AT_SYMLINK_NOFOLLOW };
    // SAFETY: `path` and `out` live through the call.
    check(|| unsafe { libc::fstatat(dir, path.as_ptr(), &mut out, flags) } as i64)?;
    Ok(Stat(out))
}

pub fn mkdirat(dir: RawFd, path: &CStr, mode: u32) -> Result<(), Errno> {
    // SAFETY: `path` is a C string that lives through the call.
    check(|| unsafe { libc::mkdirat(dir, path.as_ptr(), mode) } as i64).map(drop)
}

/// Removes a name; `directory` removes an empty directory.
pub fn unlinkat(dir: RawFd, path: &CStr, directory: bool) -> Result<(), Errno> {
    let flags = if directory { libc::AT_REMOVEDIR } else { 0 };
    // SAFETY: `path` is a C string that lives through the call.
    check(|| unsafe { libc::unlinkat(dir, path.as_ptr(), flags) } as i64).map(drop)
}

/// `flags` are those of renameat2: 0, RENAME_NOREPLACE or RENAME_EXCHANGE.
pub fn rename(from: (RawFd, &CStr), to: (RawFd, &CStr), flags: u32) -> Result<(), Errno> {
    // SAFETY: both names are C strings that live through the call.
    check(|| unsafe { libc::syscall(libc::SYS_renameat2, from.0, from.1.as_ptr(), to.0, to.1.as_ptr(), flags) })
        .map(drop)
}

pub fn linkat(from: (RawFd, &CStr), to: (RawFd, &CStr), flags: i32) -> Result<(), Errno> {
    // SAFETY: both names are C strings that live through the call.
    check(|| unsafe { libc::linkat(from.0, from.1.as_ptr(), to.0, to.1.as_ptr(), flags) } as i64).map(drop)
}

pub fn symlinkat(target: &CStr, dir: RawFd, path: &CStr) -> Result<(), Errno> {
    // SAFETY: both strings are C strings that live through the call.
    check(|| unsafe { libc::symlinkat(target.as_ptr(), dir, path.as_ptr()) } as i64).map(drop)
}

pub fn readlinkat(dir: RawFd, path: &CStr) -> Result<CString, Errno> {
    let mut buffer = vec![0u8; libc::PATH_MAX as usize];
    // SAFETY: `buffer` is writable for the length that is passed.
    let length = check(|| {
        // SAFETY: `buffer` is writable for the length that is passed, `path` a C string.
        unsafe { libc::readlinkat(dir, path.as_ptr(), buffer.as_mut_ptr().cast(), buffer.len()) as i64 }
    })?;
    buffer.truncate(length as usize);
    CString::new(buffer).map_err(|_| Errno(libc::EINVAL))
}

pub fn fchmod(fd: RawFd, mode: u32) -> Result<(), Errno> {
    // SAFETY: no memory is passed.
    check(|| unsafe { libc::fchmod(fd, mode) } as i64).map(drop)
}

/// Sets the mode of the very file that an O_PATH descriptor names; ENOSYS before Linux 6.6.
pub fn chmod_opath(fd: RawFd, mode: u32) -> Result<(), Errno> {
    const FCHMODAT2: libc::c_long = 452;
    // SAFETY: the path is a static C string.
    check(|| unsafe { libc::syscall(FCHMODAT2, fd, c"".as_ptr(), mode, libc::AT_EMPTY_PATH) }).map(drop)
}

/// Follows a link at the last component, as chmod(2) does.
pub fn chmodat(dir: RawFd, path: &CStr, mode: u32) -> Result<(), Errno> {
    // SAFETY: `path` is a C string that lives through the call.
    check(|| unsafe { libc::fchmodat(dir, path.as_ptr(), mode, 0) } as i64).map(drop)
}

/// Names of the extended attributes; none where the file system has no such thing.
pub fn attributes(fd: RawFd) -> Result<Vec<CString>, Errno> {
    // No system call answers with more.
    let mut names = vec![0u8; 64 << 10];
    // SAFETY: `names` is writable for the length that is passed.
    let length = match check(|| unsafe { libc::flistxattr(fd, names.as_mut_ptr().cast(), names.len()) } as i64) {
        Err(Errno(libc::ENOTSUP)) => 0,
        other => other? as usize,
    };
    let found = names[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty());
    Ok(found.filter_map(|name| CString::new(name).ok()).collect())
}

pub fn remove_attribute(fd: RawFd, name: &CStr) -> Result<(), Errno> {
    // SAFETY: `name` is a C string that lives through the call.
    check(|| unsafe { libc::fremovexattr(fd, name.as_ptr()) } as i64).map(drop)
}

/// Whether the path may be written by this process.
pub fn writable(dir: RawFd, path: &CStr) -> Result<(), Errno> {
    // SAFETY: `path` is a C string that lives through the call.
    check(|| unsafe { libc::faccessat(dir, path.as_ptr(), libc::W_OK, 0) } as i64).map(drop)
}

pub fn pread(fd: RawFd, buffer: &mut [u8], offset: u64) -> Result<usize, Errno> {
    // SAFETY: `buffer` is writable for the length that is passed.
    check(|| unsafe { libc::pread(fd, buffer.as_mut_ptr().cast(), buffer.len(), offset as i64) } as i64)
        .map(|count| count as usize)
}

pub fn read(fd: RawFd, buffer: &mut [u8]) -> Result<usize, Errno> {
    // SAFETY: `buffer` is writable for the length that is passed.
    check(|| unsafe { libc::read(fd, buffer.as_mut_ptr().cast(), buffer.len()) } as i64).map(|count| count as usize)
}

/// Writes all of `bytes` at the descriptor's own position.
pub fn write_all(fd: RawFd, mut bytes: &[u8]) -> Result<(), Errno> {
    while !bytes.is_empty() {
        // SAFETY: `bytes` is readable for the length that is passed.
        let count = check(|| unsafe { libc::write(fd, bytes.as_ptr().cast(), bytes.len()) } as i64)?;
        if count == 0 {
            return Err(Errno(libc::EIO));
        }
        bytes = &bytes[count as usize..];
    }
    Ok(())
}

pub fn ftruncate(fd: RawFd, size: u64) -> Result<(), Errno> {
    // SAFETY: no memory is passed.
    check(|| unsafe { libc::ftruncate(fd, size as i64) } as i64).map(drop)
}

/// Moves the descriptor's position to `offset` from the start.
pub fn seek(fd: RawFd, offset: u64) -> Result<(), Errno> {
    // SAFETY: no memory is passed.
    check(|| unsafe { libc::lseek(fd, offset as i64, libc::SEEK_SET) }).map(drop)
}

/// Sets the time of the last change of an open file, in seconds.
pub fn set_mtime(fd: RawFd, seconds: i64) -> Result<(), Errno> {
    let omit = libc::timespec { tv_sec: 0, tv_nsec: libc::UTIME_OMIT };
    let times = [omit, libc::timespec { tv_sec: seconds, tv_nsec: 0 }];
    // SAFETY: `times` has the two entries that the call reads.
    check(|| unsafe { libc::futimens(fd, times.as_ptr()) } as i64).map(drop)
}

/// 16 random hexadecimal digits, for names that nobody can guess.
pub fn random_name() -> Result<String, Errno> {
    let mut bytes = [0u8; 8];
    // SAFETY: `bytes` is writable for the length that is passed.
    check(|| unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) } as i64)?;
    Ok(format!("{:016x}", u64::from_le_bytes(bytes)))
}

/// A descriptor of its own for the same open file.
pub fn duplicate(fd: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    // SAFETY: no memory is passed.
    check(|| unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_DUPFD_CLOEXEC, 3) } as i64).map(own)
}

/// Reads a directory's entries in the kernel's order, `.` and `..` left out.
pub struct Entries {
    buffer: Vec<u8>,
    at: usize,
    end: usize,
}

/// One entry as the directory names it; the type may be unknown.
pub struct RawEntry<'a> {
    pub name: &'a CStr,
    pub kind: FileKind,
}

impl Default for Entries {
    fn default() -> Entries {
        Entries { buffer: vec![0; 32 << 10], at: 0, end: 0 }
    }
}

impl Entries {
    /// The next entry of the directory behind `fd`; `None` at its end.
    pub fn next(&mut self, fd: RawFd) -> Result<Option<RawEntry<'_>>, Errno> {
        const NAME: usize = 19;
        loop {
            if self.at >= self.end {
                let buffer = &mut self.buffer;
                let count = match check(|| {
                    // SAFETY: `buffer` is writable for the length that is passed.
                    unsafe { libc::syscall(libc::SYS_getdents64, fd, buffer.as_mut_ptr(), buffer.len()) }
                }) {
                    // A directory that was removed after it was opened is empty, as POSIX has it.
                    Err(Errno(libc::ENOENT)) => 0,
                    other => other?,
                };
                if count == 0 {
                    return Ok(None);
                }
                (self.at, self.end) = (0, count as usize);
            }
            let start = self.at;
            let record = &self.buffer[start..self.end];
            let size = usize::from(u16::from_le_bytes([record[16], record[17]]));
            self.at += size.max(NAME + 1);
            let name = CStr::from_bytes_until_nul(&record[NAME..]).map_err(|_| Errno(libc::EIO))?;
            if name != c"." && name != c".." {
                break self.entry(start).map(Some);
            }
        }
    }

    fn entry(&self, start: usize) -> Result<RawEntry<'_>, Errno> {
        let record = &self.buffer[start..self.end];
        let name = CStr::from_bytes_until_nul(&record[19..]).map_err(|_| Errno(libc::EIO))?;
        let kind = match record[18] {
            libc::DT_REG => FileKind::File,
            libc::DT_DIR => FileKind::Directory,
            libc::DT_LNK => FileKind::Link,
            libc::DT_FIFO => FileKind::Fifo,
            libc::DT_SOCK => FileKind::Socket,
            libc::DT_CHR => FileKind::CharDevice,
            libc::DT_BLK => FileKind::BlockDevice,
            _ => FileKind::Unknown,
        };
        Ok(RawEntry { name, kind })
    }
}
