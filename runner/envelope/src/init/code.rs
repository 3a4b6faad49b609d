//! Tries what a list of programs must refuse: an unlisted program, files that a command can make, memory files.

use std::ffi::CStr;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::ptr;

use crate::programs::Fence;
use boxkite_system::sys;

/// Where commands can write, and two places of the root.
const DATA: [&CStr; 8] = [
    c"/workspace",
    c"/tmp",
    c"/mnt/user-data/outputs",
    c"/mnt/user-data/uploads",
    c"/mnt/skills",
    c"/dev/shm",
    c"/",
    c"/etc",
];

/// Everything but an execve that succeeds where the list is not enforced: `unlisted_refused` tries that.
pub fn is_data(fence: &Fence) -> bool {
    let unlisted = fence.unlisted.as_ref();
    let not_mapped = |path| sys::openat(libc::AT_FDCWD, path, libc::O_RDONLY, 0).is_ok_and(|file| !is_mapped(&file));
    DATA.iter().all(|path| is_noexec(path))
        && unlisted.is_none_or(|path| not_mapped(path.as_c_str()))
        && own_file_refused()
        && memory_file_refused()
        && sys::openat(libc::AT_FDCWD, c"/proc/self/mem", libc::O_WRONLY, 0).err() == Some(libc::EROFS)
}

fn is_noexec(path: &CStr) -> bool {
    // SAFETY: an all-zero statvfs is a valid value, filled by the call.
    unsafe {
        let mut stat: libc::statvfs = std::mem::zeroed();
        libc::statvfs(path.as_ptr(), &raw mut stat) == 0 && stat.f_flag & libc::ST_NOEXEC != 0
    }
}

/// Whether the file can be code, whatever refuses it: the mount answers EPERM.
fn is_mapped(file: &OwnedFd) -> bool {
    // SAFETY: a private mapping at an address of the kernel's choice; nothing is read through it.
    unsafe {
        let code = libc::PROT_READ | libc::PROT_EXEC;
        let at = libc::mmap(ptr::null_mut(), 1, code, libc::MAP_PRIVATE, file.as_raw_fd(), 0);
        at != libc::MAP_FAILED || sys::errno() != libc::EPERM
    }
}

/// The errno of executing what a descriptor is. It is held open for writing or empty, so that it runs nowhere.
fn execute(file: RawFd) -> i32 {
    let none = [ptr::null::<libc::c_char>()];
    // SAFETY: both lists end with a null pointer.
    unsafe {
        libc::syscall(libc::SYS_execveat, file, c"".as_ptr(), none.as_ptr(), none.as_ptr(), libc::AT_EMPTY_PATH);
    }
    sys::errno()
}

/// A file that a command makes, without a name, so that nothing stays.
fn own_file_refused() -> bool {
    let made = sys::openat(libc::AT_FDCWD, c"/dev/shm", libc::O_TMPFILE | libc::O_RDWR, 0o700);
    made.is_ok_and(|file| execute(file.as_raw_fd()) == libc::EACCES && !is_mapped(&file))
}

/// A plain memory file could be executed; one that is sealed against it is allowed, and can't be unsealed.
fn memory_file_refused() -> bool {
    const MFD_NOEXEC_SEAL: u32 = 8;
    const MFD_EXEC: u32 = 16;
    let make = |flags: u32| {
        // SAFETY: takes a name and flags.
        let file = unsafe { libc::syscall(libc::SYS_memfd_create, c"trial".as_ptr(), flags) };
        if file < 0 { Err(sys::errno()) } else { Ok(file as RawFd) }
    };
    // SAFETY: a descriptor of this short-lived child.
    let stays_sealed = |file: RawFd| unsafe { libc::fchmod(file, 0o700) } < 0 && sys::errno() == libc::EPERM;
    let sealed = make(MFD_NOEXEC_SEAL);
    // A kernel before 6.3 does not know the flag and refuses it.
    make(0) == Err(libc::EACCES) && make(MFD_EXEC) == Err(libc::EACCES) && sealed.is_ok_and(stays_sealed)
        || make(0) == Err(libc::EACCES) && sealed == Err(libc::EINVAL)
}

/// Executes an unlisted program. Returns only where that was refused, or there is none; whether as it has to be.
pub fn unlisted_refused(fence: &Fence) -> bool {
    let Some(path) = &fence.unlisted else { return true };
    let (argv, envp) = ([path.as_ptr(), ptr::null()], [ptr::null::<libc::c_char>()]);
    // SAFETY: both lists end with a null pointer.
    unsafe { libc::execve(path.as_ptr(), argv.as_ptr(), envp.as_ptr()) };
    sys::errno() == libc::EACCES
}
