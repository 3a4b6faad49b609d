//! Small, bounded reads of files that may be anything.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// O_NONBLOCK: opening a FIFO must not wait for a writer.
const NONBLOCK: i32 = 0x800;

/// Opens a regular file.
pub fn open(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().read(true).custom_flags(NONBLOCK).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::ErrorKind::InvalidInput.into()) }
}

/// Exactly `length` bytes from `offset`; `None` where the file is shorter or can't be read.
pub fn bytes(file: &File, offset: u64, length: usize) -> Option<Vec<u8>> {
    let mut bytes = vec![0; length];
    file.read_exact_at(&mut bytes, offset).ok()?;
    Some(bytes)
}

/// Up to `length` bytes from the start.
pub fn beginning(file: &File, length: usize) -> Option<Vec<u8>> {
    let mut bytes = vec![0; length];
    let mut filled = 0;
    while filled < length {
        match file.read_at(&mut bytes[filled..], filled as u64).ok()? {
            0 => break,
            count => filled += count,
        }
    }
    bytes.truncate(filled);
    Some(bytes)
}

/// The whole of a file of at most `most` bytes.
pub fn whole(path: &Path, most: u64) -> Option<Vec<u8>> {
    let file = open(path).ok()?;
    let length = file.metadata().ok()?.len();
    if length > most { None } else { bytes(&file, 0, length as usize) }
}

/// Whether it is a regular file that somebody may execute; links are followed.
pub fn is_executable(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}
