//! The five roots of one sandbox: one tmpfs of bounded size and number of inodes, in the runner's mount namespace.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::maker::Role;
use boxkite_system::step::{At, Broken};
use boxkite_system::sys;

/// Directories of the tmpfs in the order of `init::mounts::ROOTS`: name, mode, whether commands may write.
const ROOTS: [(&CStr, u32, bool); 5] = [
    (c"workspace", 0o755, true),
    (c"tmp", 0o1777, true),
    (c"outputs", 0o755, true),
    (c"uploads", 0o755, false),
    (c"skills", 0o755, false),
];

const ATTRIBUTES: u64 = libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV;

/// A sandbox's files. Dropping it lets go of them; what still has them mounted keeps them until it ends.
pub struct Workspace {
    mount: OwnedFd,
    place: PathBuf,
    pub bytes: u64,
    pub inodes: u32,
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
        std::fs::create_dir(&place).at("workspace: place")?;
        let workspace = Self { mount, place, bytes, inodes };
        sys::move_mount(workspace.mount.as_fd(), libc::AT_FDCWD, &text(&workspace.place)?).at("workspace: attach")?;
        for (name, mode, _) in ROOTS {
            workspace.directory(name, mode, owner).at("workspace: roots")?;
        }
        Ok(workspace)
    }

    /// Nothing but the runner reaches the tmpfs yet, so there is nobody to race.
    fn directory(&self, name: &CStr, mode: u32, owner: u32) -> Result<(), i32> {
        let dir = self.mount.as_raw_fd();
        sys::mkdirat(dir, name, mode)?;
        // SAFETY: plain calls on an open directory and a C string.
        let result = unsafe {
            libc::fchmodat(dir, name.as_ptr(), mode, 0) | libc::fchownat(dir, name.as_ptr(), owner, owner, 0)
        };
        if result < 0 { Err(sys::errno()) } else { Ok(()) }
    }

    /// Changes both bounds, while nothing has run in it.
    pub fn resize(&mut self, bytes: u64, inodes: u32) -> Result<(), Broken> {
        if (bytes, inodes) != (self.bytes, self.inodes) {
            let options = CString::new(format!("size={bytes},nr_inodes={inodes}")).unwrap_or_default();
            let flags = libc::MS_REMOUNT | libc::MS_NOSUID | libc::MS_NODEV;
            sys::mount(None, &text(&self.place)?, None, flags, Some(&options)).at("workspace: resize")?;
            (self.bytes, self.inodes) = (bytes, inodes);
        }
        Ok(())
    }

    /// Unattached mounts for a child of `role`.
    pub fn mounts(&self, role: Role) -> Result<Vec<OwnedFd>, Broken> {
        let filler = role == Role::Filler;
        ROOTS
            .iter()
            .filter(|(_, _, writable)| !(filler && *writable))
            .map(|(name, _, writable)| {
                let flags = libc::OPEN_TREE_CLONE | libc::OPEN_TREE_CLOEXEC;
                let tree = sys::open_tree(self.mount.as_raw_fd(), name, flags)?;
                if !writable && !filler {
                    sys::set_mount_attributes(tree.as_fd(), ATTRIBUTES | libc::MOUNT_ATTR_RDONLY, false)?;
                }
                Ok(tree)
            })
            .collect::<Result<Vec<_>, i32>>()
            .at("workspace: mounts")
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
