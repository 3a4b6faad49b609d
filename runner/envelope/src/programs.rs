//! A list of programs that alone can be executed: a maker of its own, whose root has everything else mounted `noexec`.
//!
//! What the list needs is found out by a child without privileges in that root. Of its answer, paths of the root, this
//! side believes nothing but that each names a file there, without a link on the way. All that is above it in the
//! machine, the mounts of the files before the rest becomes `noexec`, is done once for all envelopes of a list.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use crate::init::{self, COMMAND_ID, Shared};
use crate::maker::{self, Plan, keep_only, write_broken};
use crate::root::PLACE;
use crate::weakening::Layer;
use boxkite_confine::landlock::{self, Access, Rule};
use boxkite_confine::seccomp::{FilterOptions, command_filter};
use boxkite_programs::{Plan as Files, Refusal, plan};
use boxkite_system::step::{At, Broken};
use boxkite_system::sys::{self, Fork};
use boxkite_wire::frames::{Failure, HEADER, MAX_PROGRAM_NAMES, MAX_PROGRAMS, Programs, Reader, Writer};

/// What envelopes of a list know of it.
pub struct Fence {
    /// What execve may open.
    pub executables: Vec<CString>,
    /// A program of the root that is not listed, to be tried.
    pub unlisted: Option<CString>,
    /// All that is code: each file where it was bound, and its mount. Empty in the twin.
    mounts: Vec<(CString, u64)>,
}

impl Fence {
    /// Whether each file is still there. One that the root's owner replaces takes its mount along, and what is then in its
    /// place is data.
    pub fn is_whole(&self) -> bool {
        self.mounts.iter().all(|(path, mount)| mount_of(path) == Some(*mount))
    }
}

/// The number of the mount that a path leads to.
fn mount_of(path: &CStr) -> Option<u64> {
    // SAFETY: an all-zero statx is a valid value, filled by the call.
    unsafe {
        let mut found: libc::statx = std::mem::zeroed();
        let flags = libc::AT_SYMLINK_NOFOLLOW;
        let called = libc::statx(libc::AT_FDCWD, path.as_ptr(), flags, libc::STATX_MNT_ID, &raw mut found);
        (called == 0 && found.stx_mask & libc::STATX_MNT_ID != 0).then_some(found.stx_mnt_id)
    }
}

/// The longest message with a list, and the longest answer.
pub const MESSAGE: usize = MAX_PROGRAM_NAMES + 4 * MAX_PROGRAMS + 64;

/// The first message of a list's maker: how many programs can be executed u16, and the names without a file, encoded as
/// `Programs::names` reads them.
pub const READY: u8 = b'R';
/// Reason u8, the program, and after a NUL what it lacks.
pub const REFUSED: u8 = b'P';
/// errno i32, step.
pub const FAILED: u8 = b'F';

/// The life of a list's maker, a copy of its root's in mounts of its own. The first message on `socket` is the list.
pub fn serve(template: &Plan, socket: &OwnedFd, shared: &Shared) -> ! {
    match prepare(template, socket, shared) {
        Ok((fence, ready)) => {
            let weak = shared.weakening.lacks(Layer::Programs);
            let agent = shared.agent.try_clone();
            let Ok(agent) = agent else { std::process::exit(1) };
            let own = Shared {
                weakening: shared.weakening,
                agent,
                filter: command_filter(FilterOptions { memfd_noexec_only: !weak }),
                may_clear_groups: shared.may_clear_groups,
                fence: Some(fence),
            };
            if sys::send(socket.as_fd(), &ready, &[]).is_err() {
                std::process::exit(1);
            }
            maker::serve_plans(&own, socket)
        }
        Err(answer) => {
            // The runner may be gone already; then nobody is left to tell.
            let _ = sys::send(socket.as_fd(), &answer, &[]);
            std::process::exit(1)
        }
    }
}

/// Errors are the message that tells of them.
fn prepare(template: &Plan, socket: &OwnedFd, shared: &Shared) -> Result<(Fence, Vec<u8>), Vec<u8>> {
    let failed = |broken| write_broken(FAILED, broken);
    init::die_with_runner().map_err(failed)?;
    keep_only(&[socket.as_raw_fd(), shared.agent.as_raw_fd()]).at("programs: descriptors").map_err(failed)?;
    let mut list = vec![0; MESSAGE];
    let (count, _) = sys::receive(socket.as_fd(), &mut list).at("programs: list").map_err(failed)?;
    let answer = planned(template, &list[..count], shared).map_err(failed)?;
    let files = match answer.split_first() {
        Some((&READY, rest)) => decode(rest).map_err(failed)?,
        _ => return Err(answer),
    };
    let code = files.executables.iter().chain(&files.libraries);
    let mounts =
        if shared.weakening.lacks(Layer::Programs) { Vec::new() } else { mount_files(code).map_err(failed)? };
    let text = |path: &Vec<u8>| CString::new(path.as_slice()).map_err(|_| libc::EINVAL);
    let executables = files.executables.iter().map(text).collect::<Result<_, _>>();
    let executables = executables.at("programs: path").map_err(failed)?;
    let unlisted = files.unlisted.as_ref().map(text).transpose().at("programs: path").map_err(failed)?;
    let programs = u16::try_from(files.programs).unwrap_or(u16::MAX);
    let missing = write_list(Writer::new(0, 0), &files.missing).finish();
    let ready = [&[READY][..], &programs.to_le_bytes(), &missing[HEADER..]].concat();
    Ok((Fence { executables, unlisted, mounts }, ready))
}

/// Makes exactly these files code: each is bound onto itself while everything can be executed, then all else is data.
fn mount_files<'a>(files: impl Iterator<Item = &'a Vec<u8>>) -> Result<Vec<(CString, u64)>, Broken> {
    const TREE: u32 = libc::OPEN_TREE_CLONE | libc::OPEN_TREE_CLOEXEC | libc::AT_EMPTY_PATH as u32;
    let root = sys::openat(libc::AT_FDCWD, PLACE, libc::O_PATH | libc::O_DIRECTORY, 0).at("programs: root")?;
    let mut bound = Vec::new();
    for path in files {
        let path = CString::new(path.as_slice()).map_err(|_| libc::EINVAL).at("programs: path")?;
        let file = sys::open_without_links(root.as_fd(), &path, libc::O_PATH).at("programs: open")?;
        if !is_regular(&file) {
            return Err(Broken { step: "programs: no regular file", errno: libc::EINVAL });
        }
        let tree = sys::open_tree(file.as_raw_fd(), c"", TREE).at("programs: bind")?;
        bound.push((tree, file, [PLACE.to_bytes(), path.as_bytes()].concat()));
    }
    sys::set_mount_attributes(root.as_fd(), libc::MOUNT_ATTR_NOEXEC, true).at("programs: noexec")?;
    let attach = |(tree, file, place): (OwnedFd, OwnedFd, Vec<u8>)| {
        sys::move_mount_onto(tree.as_fd(), file.as_fd())?;
        let place = CString::new(place).map_err(|_| libc::EINVAL)?;
        let mount = mount_of(&place).ok_or(libc::ENOENT)?;
        Ok((place, mount))
    };
    bound.into_iter().map(attach).collect::<Result<_, i32>>().at("programs: attach")
}

fn is_regular(file: &OwnedFd) -> bool {
    // SAFETY: an all-zero stat is a valid value, filled by the call.
    unsafe {
        let mut stat: libc::stat = std::mem::zeroed();
        libc::fstat(file.as_raw_fd(), &raw mut stat) == 0 && stat.st_mode & libc::S_IFMT == libc::S_IFREG
    }
}

/// Has a child without privileges make the plan; its answer, as the child wrote it.
fn planned(template: &Plan, list: &[u8], shared: &Shared) -> Result<Vec<u8>, Broken> {
    let (from, to) = sys::pipe(0).at("programs: pipe")?;
    let (go, wait) = sys::packet_pair().at("programs: socket")?;
    let flags = libc::CLONE_NEWUSER | libc::CLONE_NEWPID | libc::CLONE_NEWNS | libc::CLONE_NEWNET | libc::CLONE_NEWIPC;
    let process = match sys::fork_into(flags as u64, libc::SIGCHLD, None).at("programs: fork")? {
        Fork::Child => {
            drop(go);
            let message = match give_up(&to, &wait, shared) {
                Ok(()) => answer(list),
                Err(broken) => write_broken(FAILED, broken),
            };
            let code = i32::from(write_all(&to, &message).is_err());
            // SAFETY: ends this child at once, without the parent's exit handlers.
            unsafe { libc::_exit(code) }
        }
        Fork::Parent { pid, pidfd } => {
            maker::map_ids(pid, template)?;
            sys::send(go.as_fd(), b"g", &[]).at("programs: go")?;
            pidfd
        }
    };
    drop(to);
    let answer = read_all(&from).at("programs: plan")?;
    if !sys::wait_readable(process.as_fd(), -1) || sys::wait_pidfd(process.as_fd()).is_err() || answer.is_empty() {
        return Err(Broken { step: "programs: plan", errno: libc::ECHILD });
    }
    Ok(answer)
}

/// Makes the calling child what a command is, but that it can only read, in the root that it is to read.
fn give_up(to: &OwnedFd, wait: &OwnedFd, shared: &Shared) -> Result<(), Broken> {
    const READ: Rule<'static> = Rule { path: c"/", access: Access::Read };
    let mut buffer = [0; 1];
    if !matches!(sys::receive(wait.as_fd(), &mut buffer), Ok((1, _))) {
        return Err(Broken { step: "programs: ids", errno: libc::ECHILD });
    }
    init::die_with_runner()?;
    keep_only(&[to.as_raw_fd()]).at("programs: descriptors")?;
    // SAFETY: takes a path that ends with NUL.
    if unsafe { libc::chroot(PLACE.as_ptr()) } < 0 {
        return Err(sys::errno()).at("programs: chroot");
    }
    sys::chdir(c"/").at("programs: chdir")?;
    if shared.may_clear_groups {
        sys::clear_groups().at("programs: setgroups")?;
    }
    sys::set_group(COMMAND_ID).at("programs: setresgid")?;
    sys::set_user(COMMAND_ID).at("programs: setresuid")?;
    sys::lower_limit(libc::RLIMIT_CORE as _, 1, 1).at("programs: rlimit")?;
    sys::lower_limit(libc::RLIMIT_CPU as _, 20, 20).at("programs: rlimit")?;
    sys::lower_limit(libc::RLIMIT_AS as _, 2 << 30, 2 << 30).at("programs: rlimit")?;
    sys::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0).at("programs: no_new_privs")?;
    if landlock::abi() > 0 {
        landlock::restrict(&[READ]).map_err(|(_, errno)| Broken { step: "programs: landlock", errno })?;
    }
    init::drop_capabilities(0)?;
    init::die_with_runner()?;
    shared.filter.load().at("programs: seccomp")
}

/// The plan, or the refusal, as `planned` gives it.
fn answer(list: &[u8]) -> Vec<u8> {
    let Ok(names) = Programs::names(list) else {
        return write_broken(FAILED, Broken { step: "programs: list", errno: libc::EPROTO });
    };
    match plan(&names) {
        Ok(files) => encode(&files),
        Err(Refusal { reason, program, other }) => {
            let other = if other.is_empty() { other } else { [&b"\0"[..], &other].concat() };
            [&[REFUSED, reason as u8][..], &program, &other].concat()
        }
    }
}

fn write_list(writer: Writer, list: &[Vec<u8>]) -> Writer {
    list.iter().fold(writer.u32(list.len() as u32), |writer, item| writer.bytes(item))
}

fn read_list(reader: &mut Reader<'_>) -> Result<Vec<Vec<u8>>, Failure> {
    let count = reader.u32()?;
    (0..count).map(|_| reader.bytes().map(<[u8]>::to_vec)).collect()
}

fn encode(files: &Files) -> Vec<u8> {
    let writer = Writer::new(0, 0).u32(files.programs as u32).bytes(files.unlisted.as_deref().unwrap_or_default());
    let lists = [&files.executables, &files.libraries, &files.missing];
    let bytes = lists.into_iter().fold(writer, |writer, list| write_list(writer, list)).finish();
    [&[READY], &bytes[HEADER..]].concat()
}

fn decode(bytes: &[u8]) -> Result<Files, Broken> {
    let mut reader = Reader::new(bytes);
    let mut read = || {
        let programs = reader.u32()? as usize;
        let unlisted = Some(reader.bytes()?.to_vec()).filter(|path| !path.is_empty());
        let (executables, libraries) = (read_list(&mut reader)?, read_list(&mut reader)?);
        Ok(Files { executables, libraries, programs, missing: read_list(&mut reader)?, unlisted })
    };
    read().map_err(|_: Failure| libc::EPROTO).at("programs: plan")
}

fn read_all(from: &OwnedFd) -> Result<Vec<u8>, i32> {
    const MOST: usize = 32 << 20;
    let mut bytes = Vec::new();
    let mut buffer = vec![0; 64 << 10];
    while bytes.len() < MOST {
        match sys::read(from.as_fd(), &mut buffer) {
            Ok(0) => return Ok(bytes),
            Ok(count) => bytes.extend_from_slice(&buffer[..count]),
            Err(libc::EINTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Err(libc::E2BIG)
}

fn write_all(to: &OwnedFd, mut bytes: &[u8]) -> Result<(), i32> {
    while !bytes.is_empty() {
        let count = sys::write(to.as_fd(), bytes)?;
        bytes = &bytes[count..];
    }
    Ok(())
}
