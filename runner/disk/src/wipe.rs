//! Removing a tree that an agent has made: by a child that is that agent's user and has no capability. Root removes only
//! the empty directories that are left.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, AsRawFd, IntoRawFd, OwnedFd};

use boxkite_system::step::{At, Broken};
use boxkite_system::sys::{self, Errno, Fork};

/// What this user owns is a sandbox's.
const LEAST_OWNER: u32 = 0x7000_0000;

/// Empties an open directory as the user that owns it.
pub fn empty(directory: OwnedFd) -> Result<(), Broken> {
    let owner = owner_of(&directory).at("workspace: owner")?;
    if owner < LEAST_OWNER {
        return Err(Broken { step: "workspace: owner", errno: libc::EPERM });
    }
    match sys::fork_into(0, libc::SIGCHLD, None).at("workspace: remove")? {
        Fork::Child => {
            let done = become_user(owner).and_then(|()| make_writable(&directory)).and_then(|()| clear(directory));
            // SAFETY: ends this child at once.
            unsafe { libc::_exit(done.err().unwrap_or(0)) }
        }
        Fork::Parent { pid, .. } => {
            let mut status = 0;
            // SAFETY: waits for our own child.
            while unsafe { libc::waitpid(pid, &raw mut status, 0) } < 0 {
                let errno = sys::errno();
                if errno != libc::EINTR {
                    return Err(errno).at("workspace: remove");
                }
            }
            match (libc::WIFEXITED(status), libc::WEXITSTATUS(status)) {
                (true, 0) => Ok(()),
                (true, errno) => Err(errno).at("workspace: remove"),
                (false, _) => Err(libc::ECHILD).at("workspace: remove"),
            }
        }
    }
}

fn owner_of(directory: &OwnedFd) -> Result<u32, Errno> {
    // SAFETY: an all-zero stat is a valid value, filled by the call.
    unsafe {
        let mut stat: libc::stat = std::mem::zeroed();
        if libc::fstat(directory.as_raw_fd(), &raw mut stat) < 0 { Err(sys::errno()) } else { Ok(stat.st_uid) }
    }
}

/// No capability survives this; the death signal has to be asked for anew.
fn become_user(user: u32) -> Result<(), Errno> {
    sys::clear_groups()?;
    sys::set_group(user)?;
    sys::set_user(user)?;
    sys::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0)?;
    sys::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as u64, 0).map(drop)
}

/// Lets its owner, who may have closed it to himself, remove what is in it.
fn make_writable(directory: &OwnedFd) -> Result<(), Errno> {
    // SAFETY: takes an open descriptor and a mode.
    if unsafe { libc::fchmod(directory.as_raw_fd(), 0o700) } < 0 { Err(sys::errno()) } else { Ok(()) }
}

/// Removes everything below a directory, one level open at a time, however deep it is.
fn clear(directory: OwnedFd) -> Result<(), Errno> {
    let mut here = directory;
    let mut names: Vec<CString> = Vec::new();
    loop {
        if let Some(name) = clear_files(&here)? {
            here = enter(&here, &name)?;
            names.push(name);
            continue;
        }
        let Some(name) = names.pop() else { return Ok(()) };
        here = open(&here, c"..")?;
        unlink(&here, &name, libc::AT_REMOVEDIR)?;
    }
}

fn open(directory: &OwnedFd, name: &CStr) -> Result<OwnedFd, Errno> {
    sys::openat(directory.as_raw_fd(), name, libc::O_RDONLY | libc::O_DIRECTORY | libc::O_NOFOLLOW, 0)
}

/// Opens a directory in which names can be removed, whatever its mode was.
fn enter(directory: &OwnedFd, name: &CStr) -> Result<OwnedFd, Errno> {
    // SAFETY: plain call on an open directory and a C string.
    if unsafe { libc::fchmodat(directory.as_raw_fd(), name.as_ptr(), 0o700, 0) } < 0 {
        return Err(sys::errno());
    }
    open(directory, name)
}

fn unlink(directory: &OwnedFd, name: &CStr, flags: i32) -> Result<(), Errno> {
    // SAFETY: plain call on an open directory and a C string.
    let result = unsafe { libc::unlinkat(directory.as_raw_fd(), name.as_ptr(), flags) };
    if result < 0 { Err(sys::errno()) } else { Ok(()) }
}

/// Removes what is no directory, and empty directories; the first that is not empty is the answer.
fn clear_files(directory: &OwnedFd) -> Result<Option<CString>, Errno> {
    let listed = open(directory, c".")?;
    // SAFETY: the stream takes the descriptor over, and is closed below; its entries are read before the next call.
    unsafe {
        let stream = libc::fdopendir(listed.as_fd().try_clone_to_owned().map_err(|_| libc::EMFILE)?.into_raw_fd());
        if stream.is_null() {
            return Err(sys::errno());
        }
        let found = loop {
            let entry = libc::readdir(stream);
            if entry.is_null() {
                break Ok(None);
            }
            let name = CStr::from_ptr((*entry).d_name.as_ptr());
            if name == c"." || name == c".." {
                continue;
            }
            match unlink(directory, name, 0) {
                Ok(()) => {}
                Err(libc::EISDIR | libc::EPERM) => match unlink(directory, name, libc::AT_REMOVEDIR) {
                    Ok(()) => {}
                    Err(libc::ENOTEMPTY) => break Ok(Some(name.to_owned())),
                    Err(errno) => break Err(errno),
                },
                Err(errno) => break Err(errno),
            }
        };
        libc::closedir(stream);
        found
    }
}

#[cfg(test)]
mod tests {
    use super::{LEAST_OWNER, clear, empty};
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    #[test]
    fn a_root_that_its_owner_has_closed_is_emptied() {
        // SAFETY: no effect but its result.
        if unsafe { libc::geteuid() } != 0 {
            // Only root can become the owner.
            return;
        }
        let base = std::env::temp_dir().join(format!("boxkite-wipe-closed-{}", std::process::id()));
        fs::create_dir_all(base.join("d")).unwrap();
        for path in [base.join("d"), base.clone()] {
            chown(&path, Some(LEAST_OWNER), Some(LEAST_OWNER)).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o0)).unwrap();
        }
        empty(fs::File::open(&base).unwrap().into()).unwrap();
        assert_eq!(fs::read_dir(&base).unwrap().count(), 0);
        fs::remove_dir(&base).unwrap();
    }

    #[test]
    fn a_hostile_tree_is_emptied_and_nothing_beside_it() {
        let base = std::env::temp_dir().join(format!("boxkite-wipe-{}", std::process::id()));
        let (tree, beside) = (base.join("tree"), base.join("beside"));
        fs::create_dir_all(&tree).unwrap();
        fs::create_dir_all(&beside).unwrap();
        fs::write(beside.join("kept"), "kept").unwrap();
        symlink(&beside, tree.join("link")).unwrap();
        fs::hard_link(beside.join("kept"), tree.join("hard")).unwrap();
        for number in 0..500 {
            fs::write(tree.join(format!("file {number}\n")), "").unwrap();
            fs::create_dir_all(tree.join(format!("d{number}/x"))).unwrap();
        }
        fs::set_permissions(tree.join("d7"), fs::Permissions::from_mode(0o0)).unwrap();
        let mut deep = fs::File::open(&tree).unwrap();
        for _ in 0..1000 {
            use std::os::fd::AsRawFd;
            boxkite_system::sys::mkdirat(deep.as_raw_fd(), c"d", 0o700).unwrap();
            deep = boxkite_system::sys::openat(deep.as_raw_fd(), c"d", libc::O_DIRECTORY, 0).unwrap().into();
        }
        clear(fs::File::open(&tree).unwrap().into()).unwrap();
        assert_eq!(fs::read_dir(&tree).unwrap().count(), 0);
        assert_eq!(fs::read_to_string(beside.join("kept")).unwrap(), "kept");
        fs::remove_dir_all(&base).unwrap();
    }
}
