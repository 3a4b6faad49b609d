//! Against the kernel of this machine, in forked children, so that the test process stays free.

use super::*;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

fn c(path: &Path) -> CString {
    CString::new(path.as_os_str().as_bytes()).unwrap()
}

/// Runs `body` in a forked child; its answer (0: as expected) is the exit status.
/// `body` makes raw system calls only: other threads of the test process may hold locks.
fn forked(body: impl FnOnce() -> i32) -> i32 {
    // SAFETY: the child runs `body`, which keeps to the rule above, and leaves by _exit.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: plain calls on plain values.
        unsafe {
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
            libc::_exit(body())
        }
    }
    let mut status = 0;
    // SAFETY: waits for the child made above.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert!(libc::WIFEXITED(status), "wait status {status:#x}");
    libc::WEXITSTATUS(status)
}

fn open(path: &CStr, flags: i32) -> i32 {
    // SAFETY: `path` is a NUL-terminated string.
    let fd = unsafe { libc::open(path.as_ptr(), flags, 0o600) };
    if fd < 0 { -errno() } else { fd }
}

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("boxkite-landlock-{name}-{}", std::process::id()));
        std::fs::create_dir_all(path.join("one")).unwrap();
        std::fs::create_dir_all(path.join("two")).unwrap();
        std::fs::create_dir_all(path.join("other")).unwrap();
        std::fs::write(path.join("other/file"), "x").unwrap();
        Folder(path)
    }
    fn at(&self, name: &str) -> CString {
        c(&self.0.join(name))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).unwrap();
    }
}

#[test]
fn files_are_fenced() {
    assert!(abi() >= 1, "this kernel has no Landlock");
    let folder = Folder::new("fence");
    let (one, two, missing) = (folder.at("one"), folder.at("two"), folder.at("missing"));
    let (other, created, inside) = (folder.at("other/file"), folder.at("other/new"), folder.at("one/new"));
    let (moved, moved_out, device) = (folder.at("two/moved"), folder.at("other/moved"), folder.at("one/device"));
    let rules = [
        rule(c"/", Access::ReadExecute),
        Rule { path: &one, access: Access::Full },
        Rule { path: &two, access: Access::Full },
        Rule { path: &missing, access: Access::Full },
        rule(c"/dev", Access::Device),
        rule(c"/dev/null", Access::Device),
        rule(c"/proc", Access::WriteExisting),
    ];
    let version = abi();
    let answer = forked(|| {
        if restrict(&rules).is_err() {
            return 1;
        }
        let denied = -libc::EACCES;
        let checks = [
            open(&other, libc::O_RDONLY) >= 0,
            open(&other, libc::O_WRONLY) == denied,
            open(&created, libc::O_WRONLY | libc::O_CREAT) == denied,
            open(&inside, libc::O_WRONLY | libc::O_CREAT) >= 0,
            open(c"/dev/null", libc::O_WRONLY) >= 0,
            open(c"/proc/self/comm", libc::O_WRONLY | libc::O_TRUNC) >= 0,
            // SAFETY: both are NUL-terminated strings.
            (unsafe { libc::rename(inside.as_ptr(), moved_out.as_ptr()) } == -1),
            version < 2
                // SAFETY: as above.
                || unsafe { libc::rename(inside.as_ptr(), moved.as_ptr()) } == 0,
            // SAFETY: as above.
            (unsafe { libc::unlink(other.as_ptr()) } == -1),
            // SAFETY: as above; device 1:3 is the null device, whose node must not be made.
            (unsafe { libc::mknod(device.as_ptr(), libc::S_IFCHR | 0o666, libc::makedev(1, 3)) } == -1),
            // SAFETY: mounts are refused under any Landlock domain.
            (unsafe { libc::mount(c"x".as_ptr(), one.as_ptr(), c"tmpfs".as_ptr(), 0, std::ptr::null()) } == -1),
            // SAFETY: a signal to the parent, which is outside the domain; 0 sends nothing.
            version < 6 || (unsafe { libc::kill(libc::getppid(), 0) } == -1 && errno() == libc::EPERM),
        ];
        checks.iter().position(|ok| !ok).map_or(0, |index| index as i32 + 10)
    });
    assert_eq!(answer, 0, "1: restrict failed; 10 and above: the check of that index");
}

#[test]
fn a_failing_step_is_named() {
    let loops = Folder::new("loop");
    std::os::unix::fs::symlink(loops.0.join("self"), loops.0.join("self")).unwrap();
    let path = loops.at("self");
    let rules = [rule(c"/", Access::ReadExecute), Rule { path: &path, access: Access::Full }];
    let answer = forked(|| match restrict(&rules) {
        Err((Step::OpenPath(1), libc::ELOOP)) => 0,
        _ => 1,
    });
    assert_eq!(answer, 0);
}

/// Bits 0 to 15 in the order of the kernel's header; a version handles a prefix of them.
#[test]
fn versions_are_prefixes_of_the_rights() {
    assert_eq!(1u64 << (RIGHTS[1] - 1), 1 << 13, "version 2 adds REFER");
    assert_eq!(1u64 << (RIGHTS[2] - 1), TRUNCATE, "version 3 adds TRUNCATE");
    assert_eq!(1u64 << (RIGHTS[4] - 1), IOCTL_DEV, "version 5 adds IOCTL_DEV");
    assert_eq!(Access::Full.bits() & (MAKE_CHAR | MAKE_BLOCK), 0);
    assert_eq!(size_of::<PathBeneathAttr>(), 12);
}
