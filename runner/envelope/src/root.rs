//! Builds the root file system that every envelope of one root starts from, once, in the maker's mount namespace.
//!
//! The result is a small read-only tmpfs with read-only binds: what is not listed here does not exist in it.

use std::ffi::{CStr, CString};
use std::fs;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::weakening::{Layer, Weakening};
use boxkite_system::step::{At, Broken};
use boxkite_system::sys::{self, mkdirat, mount, move_mount, new_mount, open_tree, set_mount_attributes, symlinkat};

/// Where a root's files come from; an index into the runner's `--root` list names it on the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RootSource {
    Host,
    Directory(PathBuf),
}

const HERE: i32 = libc::AT_FDCWD;
const TREE: u32 = libc::OPEN_TREE_CLONE | libc::OPEN_TREE_CLOEXEC | libc::AT_RECURSIVE as u32;
const SAFE: u64 = libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV;
const READ_ONLY: u64 = libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV;
const DEVICE: u64 = libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NOEXEC;

/// Directories that exist in every root. The five roots, `/proc`, `/dev/pts` and `/dev/shm` are mount points.
const DIRECTORIES: [&CStr; 15] = [
    c"workspace",
    c"tmp",
    c"mnt",
    c"mnt/user-data",
    c"mnt/user-data/uploads",
    c"mnt/user-data/outputs",
    c"mnt/skills",
    c"proc",
    c"dev",
    c"dev/pts",
    c"dev/shm",
    c"run",
    c"var",
    c"home",
    c"root",
];

const LINKS: [(&CStr, &CStr); 7] = [
    (c"/tmp", c"var/tmp"),
    (c"/run", c"var/run"),
    (c"pts/ptmx", c"dev/ptmx"),
    (c"/proc/self/fd", c"dev/fd"),
    (c"/proc/self/fd/0", c"dev/stdin"),
    (c"/proc/self/fd/1", c"dev/stdout"),
    (c"/proc/self/fd/2", c"dev/stderr"),
];

/// The device nodes besides `ptmx`, which belongs to the envelope's own devpts.
const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];

/// Top-level names that a root never brings itself.
const OURS: [&[u8]; 11] =
    [b"workspace", b"tmp", b"mnt", b"proc", b"sys", b"dev", b"run", b"var", b"home", b"root", b"lost+found"];

/// Parts of the host's `/usr` that hold the operator's own software, not the system's.
const COVERED: [&CStr; 2] = [c"usr/local", c"usr/src"];

/// Files of `/etc` that we write.
const WRITTEN: [(&str, &str); 10] = [
    (
        "passwd",
        concat!(
            "root:x:0:0:root:/root:/usr/sbin/nologin\n",
            "sandbox:x:1001:1001:sandbox:/workspace:/bin/sh\n",
            "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
        ),
    ),
    ("group", "root:x:0:\ntty:x:5:\nsandbox:x:1001:\nnogroup:x:65534:\n"),
    ("hosts", "127.0.0.1 localhost sandbox\n::1 localhost ip6-localhost ip6-loopback\n"),
    ("hostname", "sandbox\n"),
    ("resolv.conf", "# A command has no network.\n"),
    ("nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\nservices: files\nprotocols: files\n"),
    ("shells", "/bin/sh\n/bin/bash\n"),
    ("host.conf", "multi on\n"),
    ("profile", "# The environment is fixed.\n"),
    ("machine-id", "00000000000000000000000000000000\n"),
];

/// Files and directories of the host's `/etc` that programs of `/usr` need, each with its reason.
const HOST_ETC: [&str; 22] = [
    "ld.so.cache",     // the loader finds libraries by it
    "ld.so.conf",      // ldconfig -p and build tools read it
    "ld.so.conf.d",    // the same
    "alternatives",    // /usr/bin links point into it
    "ssl/certs",       // certificate authorities
    "ssl/openssl.cnf", // openssl refuses some commands without it
    "ca-certificates", // certificate authorities
    "ca-certificates.conf",
    "localtime", // the time zone
    "timezone",
    "mime.types",      // Python's mimetypes and others
    "services",        // getservbyname
    "protocols",       // getprotobyname
    "magic",           // file(1)
    "inputrc",         // readline
    "fonts",           // fontconfig
    "terminfo",        // curses
    "python3",         // Debian's helpers of python3
    "python3.11",      // sitecustomize is a link into it
    "python3.13",      // the same on Debian 13
    "java-17-openjdk", // the JDK's configuration is a link into it
    "java-21-openjdk",
];

fn c(path: &Path) -> Result<CString, Broken> {
    CString::new(path.as_os_str().as_bytes()).map_err(|_| Broken { step: "root: path", errno: libc::EINVAL })
}

/// Where the sandbox's root is in the maker's own.
pub const PLACE: &CStr = c"/r";

/// Makes the calling process's root a directory with two mounts: the sandbox's root at `PLACE`, and the host's proc
/// beside it, because a fresh proc may be mounted in a user namespace only where a whole one is visible. An envelope
/// keeps the first and lets go of the second. `scratch` is an existing directory that nothing needs in this mount
/// namespace.
pub fn build(source: &RootSource, scratch: &Path, weakening: Weakening) -> Result<(), Broken> {
    mount(None, c"/", None, libc::MS_REC | libc::MS_PRIVATE, None).at("root: private")?;
    if weakening.lacks(Layer::Mounts) {
        return Ok(());
    }
    let outer = new_mount(c"tmpfs", &[(c"mode", c"0755"), (c"size", c"64k")], SAFE).at("root: tmpfs")?;
    move_mount(outer.as_fd(), HERE, &c(scratch)?).at("root: attach")?;
    sys::chdir(&c(scratch)?).at("root: chdir")?;
    for directory in [c"proc", c"r"] {
        mkdirat(HERE, directory, 0o755).at("root: mkdir")?;
    }
    bind(Path::new("/proc"), "proc", 0).at("root: proc")?;
    let inner = new_mount(c"tmpfs", &[(c"mode", c"0755"), (c"size", c"16m")], SAFE).at("root: tmpfs")?;
    move_mount(inner.as_fd(), HERE, c"r").at("root: attach")?;
    sys::chdir(c"r").at("root: chdir")?;
    fill(source)?;
    sys::chdir(c"..").at("root: chdir")?;
    sys::pivot_here().at("root: pivot")?;
    for place in [c"/", PLACE] {
        let root = sys::openat(HERE, place, libc::O_PATH | libc::O_DIRECTORY, 0).at("root: open")?;
        set_mount_attributes(root.as_fd(), READ_ONLY, false).at("root: read-only")?;
    }
    Ok(())
}

/// Everything in the sandbox's root, which is the working directory.
fn fill(source: &RootSource) -> Result<(), Broken> {
    for directory in DIRECTORIES {
        mkdirat(HERE, directory, 0o755).at("root: mkdir")?;
    }
    for (target, path) in LINKS {
        symlinkat(target, HERE, path).at("root: symlink")?;
    }
    match source {
        RootSource::Host => host()?,
        RootSource::Directory(directory) => from_directory(directory)?,
    }
    for name in DEVICES {
        let target = format!("dev/{name}");
        fs::write(&target, b"").at("root: device")?;
        bind(Path::new(&format!("/dev/{name}")), &target, DEVICE).at("root: device")?;
    }
    Ok(())
}

/// Binds `from` and what is mounted below it onto `to`, with `attributes`.
fn bind(from: &Path, to: impl AsRef<Path>, attributes: u64) -> Result<(), i32> {
    let text = |bytes: &[u8]| CString::new(bytes).map_err(|_| libc::EINVAL);
    let from = text(from.as_os_str().as_bytes())?;
    let tree = open_tree(HERE, &from, TREE | libc::AT_SYMLINK_NOFOLLOW as u32)?;
    if attributes != 0 {
        set_mount_attributes(tree.as_fd(), attributes, true)?;
    }
    move_mount(tree.as_fd(), HERE, &text(to.as_ref().as_os_str().as_bytes())?)
}

/// The host's `/usr` and the links or directories beside it, and an `/etc` of our own.
fn host() -> Result<(), Broken> {
    for name in ["usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32"] {
        entry(Path::new("/"), name.as_ref())?;
    }
    for path in COVERED {
        if Path::new(path.to_str().unwrap_or_default()).is_dir() {
            let empty = new_mount(c"tmpfs", &[(c"mode", c"0755"), (c"size", c"4k")], READ_ONLY).at("root: cover")?;
            move_mount(empty.as_fd(), HERE, path).at("root: cover")?;
        }
    }
    written_etc()?;
    for name in HOST_ETC {
        host_etc(name)?;
    }
    symlinkat(c"../usr/lib/os-release", HERE, c"etc/os-release").at("root: os-release")?;
    symlinkat(c"/proc/self/mounts", HERE, c"etc/mtab").at("root: mtab")
}

fn written_etc() -> Result<(), Broken> {
    mkdirat(HERE, c"etc", 0o755).at("root: etc")?;
    for (name, text) in WRITTEN {
        fs::write(format!("etc/{name}"), text).at("root: etc")?;
    }
    Ok(())
}

/// One entry of `/etc`: a file is copied, a directory bound, a link followed first; what the host lacks is left out.
fn host_etc(name: &str) -> Result<(), Broken> {
    let Ok(from) = fs::canonicalize(Path::new("/etc").join(name)) else { return Ok(()) };
    let to = format!("etc/{name}");
    if let Some(parent) = Path::new(&to).parent() {
        fs::create_dir_all(parent).at("root: etc")?;
    }
    if from.is_dir() {
        fs::create_dir(&to).at("root: etc")?;
        bind(&from, &to, READ_ONLY).at("root: etc")
    } else {
        let bytes = fs::read(&from).at("root: etc")?;
        fs::write(&to, bytes).at("root: etc")
    }
}

/// A root from a directory: its top-level directories are bound, its links made again; ours stay ours.
fn from_directory(directory: &Path) -> Result<(), Broken> {
    for item in fs::read_dir(directory).at("root: read")? {
        let name = item.at("root: read")?.file_name();
        if !OURS.contains(&name.as_bytes()) {
            entry(directory, &name)?;
        }
    }
    match fs::symlink_metadata("etc") {
        Ok(etc) if etc.is_dir() => Ok(()),
        // Where it leads can't be known before the root is used.
        Ok(_) => Err(Broken { step: "root: etc is no directory", errno: libc::ENOTDIR }),
        Err(_) => written_etc(),
    }
}

/// A directory is bound, a link made again with the same target, anything else left out.
fn entry(directory: &Path, name: &std::ffi::OsStr) -> Result<(), Broken> {
    let from = directory.join(name);
    let Ok(kind) = fs::symlink_metadata(&from).map(|metadata| metadata.file_type()) else { return Ok(()) };
    if kind.is_symlink() {
        let target = fs::read_link(&from).at("root: link")?;
        std::os::unix::fs::symlink(target, name).at("root: link")
    } else if kind.is_dir() {
        fs::create_dir(name).at("root: directory")?;
        bind(&from, Path::new(name), READ_ONLY).at("root: bind")
    } else {
        Ok(())
    }
}
