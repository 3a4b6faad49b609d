//! The five roots of one sandbox: one file system of bounded size and number of inodes, a tmpfs or a disk workspace, in the
//! runner's mount namespace.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::maker::Role;
use boxkite_host::disk::{self, Opened};
use boxkite_system::step::{At, Broken};
use boxkite_system::sys;
use boxkite_wire::effective::workspace_via;

/// Directories of it in the order of `init::mounts::ROOTS`: name, mode, whether commands may write.
const ROOTS: [(&CStr, u32, bool); 5] = [
    (c"workspace", 0o755, true),
    (c"tmp", 0o1777, true),
    (c"outputs", 0o755, true),
    (c"uploads", 0o755, false),
    (c"skills", 0o755, false),
];

/// Names and modes of the directories that a new workspace gets.
pub fn roots() -> [disk::Root; 5] {
    ROOTS.map(|(name, mode, _)| (name, mode))
}

const ATTRIBUTES: u64 = libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV;

/// A sandbox's files. Dropping it lets go of them; what still has them mounted keeps them until it ends.
pub struct Workspace {
    /// `None` once the keeper has it.
    mount: Option<OwnedFd>,
    place: PathBuf,
    pub bytes: u64,
    pub inodes: u64,
    pub via: u8,
}

fn text(path: &Path) -> Result<CString, Broken> {
    CString::new(path.as_os_str().as_bytes()).map_err(|_| libc::EINVAL).at("workspace: path")
}

fn number(value: u64) -> CString {
    CString::new(value.to_string()).unwrap_or_default()
}

impl Workspace {
    /// A new, empty one at `place`, which must not exist, with everything owned by `owner`.
    pub fn new(place: PathBuf, owner: u32, bytes: u64, inodes: u32) -> Result<Self, Broken> {
        let options =
            [(c"size", number(bytes)), (c"nr_inodes", number(u64::from(inodes))), (c"mode", c"0755".to_owned())];
        let options = options.each_ref().map(|(name, value)| (*name, value.as_c_str()));
        let mount = sys::new_mount(c"tmpfs", &options, ATTRIBUTES).at("workspace: tmpfs")?;
        for (name, mode) in roots() {
            disk::directory(mount.as_fd(), name, mode, owner).at("workspace: roots")?;
        }
        Self::attach(place, mount, bytes, u64::from(inodes), workspace_via::TMPFS)
    }

    /// One on disk, which has its roots.
    pub fn on_disk(place: PathBuf, opened: Opened) -> Result<Self, Broken> {
        Self::attach(place, opened.mount, opened.bytes, opened.inodes, opened.via)
    }

    fn attach(place: PathBuf, mount: OwnedFd, bytes: u64, inodes: u64, via: u8) -> Result<Self, Broken> {
        std::fs::create_dir(&place).at("workspace: place")?;
        sys::move_mount(mount.as_fd(), libc::AT_FDCWD, &text(&place)?).at("workspace: attach")?;
        Ok(Self { mount: Some(mount), place, bytes, inodes, via })
    }

    /// Changes both bounds, while nothing has run in it.
    pub fn resize(&mut self, bytes: u64, inodes: u32) -> Result<(), Broken> {
        if (bytes, u64::from(inodes)) != (self.bytes, self.inodes) {
            let options = CString::new(format!("size={bytes},nr_inodes={inodes}")).unwrap_or_default();
            let flags = libc::MS_REMOUNT | libc::MS_NOSUID | libc::MS_NODEV;
            sys::mount(None, &text(&self.place)?, None, flags, Some(&options)).at("workspace: resize")?;
            (self.bytes, self.inodes) = (bytes, u64::from(inodes));
        }
        Ok(())
    }

    /// Unattached mounts for a child of `role`; with `data_only` nothing in them can be executed or mapped as code.
    pub fn mounts(&self, role: Role, data_only: bool) -> Result<Vec<OwnedFd>, Broken> {
        let filler = role == Role::Filler;
        let mount = self.mount.as_ref().ok_or(libc::EBADF).at("workspace: mounts")?;
        ROOTS
            .iter()
            .filter(|(_, _, writable)| !(filler && *writable))
            .map(|(name, _, writable)| {
                let flags = libc::OPEN_TREE_CLONE | libc::OPEN_TREE_CLOEXEC;
                let tree = sys::open_tree(mount.as_raw_fd(), name, flags)?;
                let read_only = if !writable && !filler { libc::MOUNT_ATTR_RDONLY } else { 0 };
                let no_code = if data_only { libc::MOUNT_ATTR_NOEXEC } else { 0 };
                if read_only | no_code != 0 {
                    sys::set_mount_attributes(tree.as_fd(), ATTRIBUTES | read_only | no_code, false)?;
                }
                Ok(tree)
            })
            .collect::<Result<Vec<_>, i32>>()
            .at("workspace: mounts")
    }

    /// The last that holds it, once `remove` has succeeded and nothing else has it mounted.
    pub fn take_mount(&mut self) -> Option<OwnedFd> {
        self.mount.take()
    }

    /// Takes it out of the runner's mount namespace. The kernel frees it with its last mount.
    pub fn remove(&self) -> Result<(), Broken> {
        match sys::umount(&text(&self.place)?, libc::MNT_DETACH) {
            Ok(()) | Err(libc::EINVAL | libc::ENOENT) => {}
            Err(errno) => return Err(errno).at("workspace: umount"),
        }
        match std::fs::remove_dir(&self.place) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error).at("workspace: remove"),
            _ => Ok(()),
        }
    }
}
