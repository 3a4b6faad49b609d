//! What an envelope mounts over the root that it shares with all of its kind: its own proc, devpts, shm and roots.

use std::ffi::CStr;
use std::os::fd::{AsFd, OwnedFd};

use crate::root::PLACE;
use crate::weakening::{Layer, Weakening};
use boxkite_system::step::{At, Broken};
use boxkite_system::sys::{self, mkdirat, mount, move_mount, new_mount, open_tree, set_mount_attributes};

/// Where the five roots go, in the order in which the runner sends them. Places are relative to the sandbox's root,
/// which is the working directory while it is completed.
pub const ROOTS: [&CStr; 5] = [c"workspace", c"tmp", c"mnt/user-data/outputs", c"mnt/user-data/uploads", c"mnt/skills"];
/// Where those of the filling agent go.
const FILLED: [&CStr; 2] = [c"mnt/user-data/uploads", c"mnt/skills"];

const HERE: i32 = libc::AT_FDCWD;
const SAFE: u64 = libc::MS_NOSUID | libc::MS_NODEV;
const CLONE: u32 = libc::OPEN_TREE_CLONE | libc::OPEN_TREE_CLOEXEC;

/// Files of /proc that read as empty, each with its reason.
const HIDDEN: [&CStr; 9] = [
    c"proc/kcore",         // the machine's memory
    c"proc/kmsg",          // the machine's log
    c"proc/kallsyms",      // kernel addresses
    c"proc/keys",          // keyrings of other users
    c"proc/timer_list",    // kernel addresses, others' timers
    c"proc/sched_debug",   // all processes of the machine
    c"proc/sysrq-trigger", // reboots the machine
    c"proc/modules",       // what the kernel has loaded
    c"proc/config.gz",     // how the kernel is built
];

/// Directories of /proc that read as empty.
const EMPTY: [&CStr; 4] = [
    c"proc/acpi", // hardware
    c"proc/scsi", // hardware
    c"proc/irq",  // hardware, writable by root
    c"proc/bus",  // hardware
];

/// A directory of the shared root that is empty until its own file system is mounted there. A file system of its own for
/// each cover would cost every envelope time, and every control group of the machine memory.
const NOTHING: &CStr = c"dev/shm";

/// Directories of /proc that are read-only whatever their modes say.
const READ_ONLY: [&CStr; 2] = [
    c"proc/sys", // sysctls
    c"proc/fs",  // file systems' controls
];

/// Mounts of an envelope for commands; with `data_only` nothing that commands can write to can be code, nor can code that
/// is mapped be written to by a file. Afterwards nothing of the maker's namespace is left but the sandbox's root.
pub fn command(roots: &[OwnedFd], data_only: bool, weakening: Weakening) -> Result<(), Broken> {
    let whole_host = weakening.lacks(Layer::Mounts);
    if whole_host {
        sys::chdir(c"/").at("mount root")?;
    } else {
        // A copy, because the kernel lets nobody move a mount that came from a more privileged namespace.
        let tree = open_tree(HERE, PLACE, CLONE | libc::AT_RECURSIVE as u32).at("mount root")?;
        move_mount(tree.as_fd(), HERE, PLACE).at("mount root")?;
        sys::chdir(PLACE).at("mount root")?;
    }
    if weakening.lacks(Layer::Proc) {
        let tree = open_tree(HERE, c"/proc", CLONE | libc::AT_RECURSIVE as u32).at("mount proc")?;
        move_mount(tree.as_fd(), HERE, c"proc").at("mount proc")?;
    } else {
        // Whoever can write to /proc/PID/mem can write to code that is mapped, with no more than `dd`.
        let read_only = if data_only { libc::MS_RDONLY } else { 0 };
        mount(Some(c"proc"), c"proc", Some(c"proc"), SAFE | libc::MS_NOEXEC | read_only, None).at("mount proc")?;
        masks()?;
    }
    let terminals = c"newinstance,ptmxmode=0666,mode=0620,uid=1001,gid=1001,max=64";
    let weak = weakening.lacks(Layer::User) || whole_host;
    let options = if weak { c"newinstance,ptmxmode=0666,mode=0620" } else { terminals };
    mount(Some(c"devpts"), c"dev/pts", Some(c"devpts"), libc::MS_NOSUID | libc::MS_NOEXEC, Some(options))
        .at("mount devpts")?;
    let flags = if data_only { SAFE | libc::MS_NOEXEC } else { SAFE };
    mount(Some(c"shm"), c"dev/shm", Some(c"tmpfs"), flags, Some(c"mode=1777,size=64m,nr_inodes=4096"))
        .at("mount shm")?;
    attach(roots, &ROOTS, whole_host)?;
    if whole_host { Ok(()) } else { sys::pivot_here().at("pivot") }
}

fn masks() -> Result<(), Broken> {
    for path in HIDDEN {
        absent_is_fine(mount(Some(c"dev/null"), path, None, libc::MS_BIND, None)).at("mask")?;
    }
    for path in EMPTY {
        absent_is_fine(read_only(NOTHING, path)).at("mask")?;
    }
    for path in READ_ONLY {
        absent_is_fine(read_only(path, path)).at("mask")?;
    }
    Ok(())
}

/// Mounts one directory over another, or over itself, so that nothing can be written there.
fn read_only(directory: &CStr, over: &CStr) -> Result<(), i32> {
    let tree = open_tree(HERE, directory, CLONE)?;
    let attributes =
        libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV | libc::MOUNT_ATTR_NOEXEC;
    set_mount_attributes(tree.as_fd(), attributes, true)?;
    move_mount(tree.as_fd(), HERE, over)
}

/// A kernel without a file has nothing there to hide.
fn absent_is_fine(result: Result<(), i32>) -> Result<(), i32> {
    match result {
        Err(libc::ENOENT) => Ok(()),
        other => other,
    }
}

fn attach(mounts: &[OwnedFd], places: &[&CStr], may_lack: bool) -> Result<(), Broken> {
    if mounts.len() != places.len() {
        return Err(Broken { step: "mount roots", errno: libc::EINVAL });
    }
    for (mount, place) in mounts.iter().zip(places) {
        match move_mount(mount.as_fd(), HERE, place) {
            Err(libc::ENOENT) if may_lack => {}
            other => other.at("mount roots")?,
        }
    }
    Ok(())
}

/// The file agent's whole world: an empty root with the roots in it.
pub fn agent(roots: &[OwnedFd], filler: bool, weakening: Weakening) -> Result<(), Broken> {
    let attributes = libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV;
    let base = new_mount(c"tmpfs", &[(c"mode", c"0755"), (c"size", c"64k")], attributes).at("agent: root")?;
    let place = if weakening.lacks(Layer::Mounts) { c"/tmp" } else { PLACE };
    move_mount(base.as_fd(), HERE, place).at("agent: attach")?;
    sys::chdir(place).at("agent: chdir")?;
    for directory in [c"mnt", c"mnt/user-data"] {
        mkdirat(HERE, directory, 0o755).at("agent: mkdir")?;
    }
    let places: &[&CStr] = if filler { &FILLED } else { &ROOTS };
    for place in places {
        mkdirat(HERE, place, 0o755).at("agent: mkdir")?;
    }
    attach(roots, places, false)?;
    sys::pivot_here().at("agent: pivot")?;
    let root = sys::openat(HERE, c"/", libc::O_PATH | libc::O_DIRECTORY, 0).at("agent: open")?;
    set_mount_attributes(root.as_fd(), attributes | libc::MOUNT_ATTR_RDONLY, false).at("agent: read-only")
}
