//! Listening sockets that outlive whoever accepts from them.

use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use boxkite_system::sys;

use crate::arguments::Address;

/// Connections that wait; the kernel has its own, often lower bound.
const BACKLOG: i32 = 4096;

/// A listening socket that does not wait. The path of a Unix socket is removed with it, unless another has taken it.
pub struct Listener {
    socket: OwnedFd,
    file: Option<(PathBuf, u64, u64)>,
}

impl Listener {
    /// Listens; the error is for people and names the address.
    pub fn bind(address: &Address) -> Result<Self, String> {
        let failed = |name: String| move |error: io::Error| format!("{name}: can't listen there: {error}");
        match address {
            Address::Unix(path) => Self::unix(path).map_err(failed(path.display().to_string())),
            Address::Tcp(address) => Self::tcp(*address).map_err(failed(address.to_string())),
        }
    }

    fn tcp(address: SocketAddr) -> io::Result<Self> {
        Self::with_backlog(TcpListener::bind(address)?.into(), None)
    }

    /// A Unix socket of mode 0600. One that nobody answers on is replaced; EADDRINUSE where somebody does, or where
    /// something else has the name.
    pub fn unix(path: &Path) -> io::Result<Self> {
        let socket = match bind_private(path) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && is_stale(path) => {
                fs::remove_file(path)?;
                bind_private(path)?
            }
            other => other?,
        };
        let entry = fs::symlink_metadata(path)?;
        Self::with_backlog(socket, Some((path.to_owned(), entry.dev(), entry.ino())))
    }

    fn with_backlog(socket: OwnedFd, file: Option<(PathBuf, u64, u64)>) -> io::Result<Self> {
        sys::set_nonblocking(socket.as_fd(), true).map_err(io::Error::from_raw_os_error)?;
        // SAFETY: takes an open descriptor and an integer.
        if unsafe { libc::listen(socket.as_raw_fd(), BACKLOG) } != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { socket, file })
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let Some((path, device, inode)) = &self.file else { return };
        let ours = fs::symlink_metadata(path).is_ok_and(|entry| (entry.dev(), entry.ino()) == (*device, *inode));
        if ours {
            // One that can't be removed is replaced by the next daemon.
            let _ = fs::remove_file(path);
        }
    }
}

/// Nobody else can connect at any moment: the file is made with the mode that it keeps.
fn bind_private(path: &Path) -> io::Result<OwnedFd> {
    // SAFETY: umask has no other effect than on files that this single-threaded process makes until it is set back.
    let before = unsafe { libc::umask(0o177) };
    let bound = UnixListener::bind(path);
    // SAFETY: as above.
    unsafe { libc::umask(before) };
    bound.map(OwnedFd::from)
}

/// Whether the name is a socket's whose holder has ended.
fn is_stale(path: &Path) -> bool {
    let is_socket = fs::symlink_metadata(path).is_ok_and(|entry| entry.file_type().is_socket());
    is_socket && refuses(path).unwrap_or(false)
}

/// Whether a connection is refused. It does not wait for a place in a full queue, which is an answer too.
fn refuses(path: &Path) -> io::Result<bool> {
    // SAFETY: an all-zero sockaddr_un is a valid value of that C structure.
    let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    address.sun_family = libc::AF_UNIX as _;
    let bytes = path.as_os_str().as_bytes();
    // The last byte stays 0.
    if bytes.len() >= address.sun_path.len() {
        return Err(io::Error::from_raw_os_error(libc::ENAMETOOLONG));
    }
    for (to, from) in address.sun_path.iter_mut().zip(bytes) {
        *to = *from as _;
    }
    let kind = libc::SOCK_STREAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: the new descriptor is ours; the address outlives the call and has the length that is passed.
    unsafe {
        let socket = libc::socket(libc::AF_UNIX, kind, 0);
        if socket < 0 {
            return Err(io::Error::last_os_error());
        }
        let socket = OwnedFd::from_raw_fd(socket);
        let length = size_of::<libc::sockaddr_un>() as libc::socklen_t;
        let result = libc::connect(socket.as_raw_fd(), (&raw const address).cast(), length);
        Ok(result != 0 && io::Error::last_os_error().raw_os_error() == Some(libc::ECONNREFUSED))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::net::UnixStream;

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("boxkite-listeners-{name}-{}", std::process::id()));
            fs::create_dir(&path).unwrap();
            Self(path)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).unwrap();
        }
    }

    #[test]
    fn a_socket_is_private_and_its_name_goes_with_it() {
        let folder = Folder::new("private");
        let path = folder.0.join("s");
        let listener = Listener::unix(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o600);
        UnixStream::connect(&path).unwrap();
        drop(listener);
        assert!(!path.exists());
    }

    #[test]
    fn only_a_socket_that_nobody_answers_on_is_replaced() {
        let folder = Folder::new("stale");
        let path = folder.0.join("s");
        drop(UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        let listener = Listener::unix(&path).unwrap();
        let second = Listener::unix(&path).err().unwrap();
        assert_eq!(second.kind(), io::ErrorKind::AddrInUse);
        UnixStream::connect(&path).unwrap();
        drop(listener);

        fs::write(&path, "somebody's file").unwrap();
        assert!(Listener::unix(&path).is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), "somebody's file");
    }

    #[test]
    fn a_full_queue_is_an_answer() {
        let folder = Folder::new("full");
        let path = folder.0.join("s");
        let full = UnixListener::bind(&path).unwrap();
        // SAFETY: takes an open descriptor and an integer.
        unsafe { libc::listen(full.as_raw_fd(), 0) };
        let _waiting = UnixStream::connect(&path).unwrap();
        assert!(!refuses(&path).unwrap());
    }

    #[test]
    fn a_name_that_another_has_taken_stays() {
        let folder = Folder::new("taken");
        let path = folder.0.join("s");
        let first = Listener::unix(&path).unwrap();
        fs::remove_file(&path).unwrap();
        let second = Listener::unix(&path).unwrap();
        drop(first);
        UnixStream::connect(&path).unwrap();
        drop(second);
        assert!(!path.exists());
    }

    #[test]
    fn an_address_that_is_taken_is_named() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap();
        let message = Listener::bind(&Address::Tcp(address)).err().unwrap();
        assert!(message.contains(&address.to_string()) && message.contains("in use"), "{message}");
    }
}
