//! PID 1 of an envelope: sets the envelope up, gives its own privileges away, then runs one command at a time.

mod code;
mod command;
mod look;
mod mounts;
mod pump;
pub mod serve;
mod trial;

use std::ffi::CStr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};

use crate::maker::{Plan, Role, keep_only, write_broken};
use crate::programs::Fence;
use crate::weakening::{Layer, Weakening};
use boxkite_confine::landlock;
use boxkite_confine::seccomp::Program;
use boxkite_host::cgroup;
use boxkite_system::step::{At, Broken};
use boxkite_system::sys::{self, Errno};
use boxkite_wire::effective::{Made, layer, programs_via as via};
use boxkite_wire::frames::Writer;

/// The command's user and group id inside.
pub const COMMAND_ID: u32 = 1001;

/// What every child of one maker has in common.
pub struct Shared {
    pub weakening: Weakening,
    /// The file agent's program.
    pub agent: OwnedFd,
    pub filter: Program,
    /// Whether supplementary groups may be left (not where one id alone is mapped).
    pub may_clear_groups: bool,
    /// The list of programs that all envelopes of the maker are for.
    pub fence: Option<Fence>,
}

impl Shared {
    /// The fence that is to be put up: the twin may leave it out.
    fn standing_fence(&self) -> Option<&Fence> {
        self.fence.as_ref().filter(|_| !self.weakening.lacks(Layer::Programs))
    }
}

/// Messages from PID 1 to the runner, by their first byte.
pub mod report {
    /// The envelope is ready: `Made`.
    pub const READY: u8 = b'R';
    /// It could not be set up: errno i32, step.
    pub const FAILED: u8 = b'F';
    /// A command runs: `Status`, and on a terminal its master's descriptor.
    pub const STARTED: u8 = b'S';
    /// A command could not be started: protocol code u16, errno i32, step.
    pub const NOT_STARTED: u8 = b'N';
    /// A command has ended and nothing else is alive: wait status i32, CPU in us u64, clean u8.
    pub const EXITED: u8 = b'E';
}

/// Orders from the runner to PID 1, by their first byte.
pub mod order {
    /// Run a command: see `serve::Order`.
    pub const EXEC: u8 = b'X';
    /// Its descriptor is a socket whose bytes are the command's standard input.
    pub const STDIN: u8 = b'I';
    /// Signal u8 for the command's process group.
    pub const SIGNAL: u8 = b'K';
}

/// CAP_KILL, CAP_SETGID, CAP_SETUID: all that PID 1 keeps.
const KEPT: u64 = (1 << 5) | (1 << 6) | (1 << 7);

/// The child's side of the maker's clone. `wait` tells when the ids are mapped.
pub fn enter(plan: &Plan, fds: Vec<OwnedFd>, shared: &Shared, wait: &OwnedFd) -> ! {
    let Some((control, rest)) = fds.split_first() else { std::process::exit(1) };
    let mut keep: Vec<RawFd> = fds.iter().map(AsRawFd::as_raw_fd).collect();
    keep.push(wait.as_raw_fd());
    if plan.role != Role::Command {
        keep.push(shared.agent.as_raw_fd());
    }
    let mut buffer = [0; 1];
    if keep_only(&keep).is_err() || !matches!(sys::receive(wait.as_fd(), &mut buffer), Ok((1, _))) {
        std::process::exit(1);
    }
    let (mounts, groups) = rest.split_at(usize::from(plan.mounts).min(rest.len()));
    let result = join(groups).and_then(|()| match plan.role {
        Role::Command => command_envelope(plan, mounts, shared),
        // A maker is cloned by another way.
        Role::Agent | Role::Filler | Role::Programs => Err(agent(plan, mounts, shared, control)),
    });
    match result {
        Ok(made) => {
            let message = made.write(Writer::new(0, 0)).finish();
            let ready = [&[report::READY], &message[boxkite_wire::frames::HEADER..]].concat();
            let (control, init) = (control.as_raw_fd(), plan.init_id.is_some());
            if sys::send(fds[0].as_fd(), &ready, &[]).is_err() || keep_only(&[control]).is_err() {
                std::process::exit(1);
            }
            std::mem::forget(fds);
            serve::run(control, init, shared.weakening)
        }
        Err(broken) => {
            // The runner may be gone already; then nobody is left to tell.
            let _ = sys::send(control.as_fd(), &write_broken(report::FAILED, broken), &[]);
            std::process::exit(1)
        }
    }
}

fn join(groups: &[OwnedFd]) -> Result<(), Broken> {
    let fds: Vec<RawFd> = groups.iter().map(AsRawFd::as_raw_fd).collect();
    cgroup::join(&fds).at("cgroup: join")?;
    sys::unshare(libc::CLONE_NEWCGROUP).at("cgroup namespace")
}

/// Everything up to "ready" of an envelope for commands.
fn command_envelope(plan: &Plan, mounts: &[OwnedFd], shared: &Shared) -> Result<Made, Broken> {
    let weak = |layer| shared.weakening.lacks(layer);
    let fence = shared.standing_fence();
    let mut programs_via = if fence.is_some() { no_executable_memory_files() } else { 0 };
    become_init(plan, shared)?;
    set_host_name()?;
    if !weak(Layer::Net) {
        loopback_up()?;
    }
    if fence.is_some() {
        command::highest_oom_score()?;
    }
    mounts::command(mounts, fence.is_some(), shared.weakening)?;
    sys::prctl(libc::PR_SET_DUMPABLE, 0, 0).at("not dumpable")?;
    // A socket of the other side of the Landlock domain: a command must not be able to reach it.
    let outside = trial::Outside::new();
    if !weak(Layer::NoNewPrivs) {
        sys::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0).at("no_new_privs")?;
    }
    let abi = if weak(Layer::Landlock) { 0 } else { landlock::abi() };
    if abi > 0 {
        landlock::restrict(landlock::STANDARD).map_err(|(_, errno)| Broken { step: "landlock", errno })?;
        if let Some(fence) = fence {
            fence_execution(fence)?;
            programs_via |= via::LANDLOCK;
        }
    }
    if !weak(Layer::Caps) {
        drop_capabilities(if plan.init_id.is_some() { KEPT } else { 0 })?;
    }
    if !weak(Layer::Seccomp) {
        shared.filter.load().at("seccomp: load")?;
        if fence.is_some() {
            programs_via |= via::MEMFD_FILTER;
        }
    }
    die_with_runner()?;
    let subject = trial::Subject { outside: &outside, abi, fence: shared.fence.as_ref() };
    let found = trial::run(&subject, plan.init_id.is_some(), shared.weakening)?;
    let (tried, held, status) = (found.tried, found.held, found.status);
    if fence.is_some() && held & layer::PROGRAMS != 0 {
        programs_via |= via::NOEXEC_MOUNTS;
    }
    Ok(Made { landlock: abi as u8, tried, held, programs_via, namespaces: namespaces()?, status })
}

/// Has the kernel refuse memory files that could be executed, for this pid namespace. Only while this process still has
/// the user id that owns the machine's settings, which an ordinary user's never has: then the filter does it alone.
fn no_executable_memory_files() -> u8 {
    let set = std::fs::write("/proc/sys/vm/memfd_noexec", "2");
    if set.is_ok() { via::MEMFD_NOEXEC } else { 0 }
}

/// The second fence of a list of programs.
fn fence_execution(fence: &Fence) -> Result<(), Broken> {
    let access = landlock::Access::ReadExecute;
    let rules: Vec<_> = fence.executables.iter().map(|path| landlock::Rule { path, access }).collect();
    landlock::restrict_execution(&rules).map_err(|(_, errno)| Broken { step: "landlock: programs", errno })
}

/// Ids and groups. The ids are mapped by now, and every capability of the own user namespace is held.
fn become_init(plan: &Plan, shared: &Shared) -> Result<(), Broken> {
    if shared.weakening.lacks(Layer::User) {
        return Ok(());
    }
    let id = if plan.init_id.is_some() { 0 } else { COMMAND_ID };
    if shared.may_clear_groups {
        sys::clear_groups().at("setgroups")?;
    }
    sys::set_group(id).at("setresgid")?;
    sys::set_user(id).at("setresuid")
}

fn set_host_name() -> Result<(), Broken> {
    const NAME: &CStr = c"sandbox";
    // SAFETY: NAME is valid for its seven bytes.
    let result = unsafe { libc::sethostname(NAME.as_ptr(), NAME.count_bytes()) };
    if result == 0 { Ok(()) } else { Err(sys::errno()).at("sethostname") }
}

/// Brings `lo` up, the only interface that the namespace has.
fn loopback_up() -> Result<(), Broken> {
    // SAFETY: an all-zero ifreq is a valid value; the ioctl reads it and the flags union field set below.
    let result = unsafe {
        let socket = libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0);
        let mut request: libc::ifreq = std::mem::zeroed();
        request.ifr_name[0] = b'l' as _;
        request.ifr_name[1] = b'o' as _;
        request.ifr_ifru.ifru_flags = libc::IFF_UP as i16;
        let result = if socket < 0 { -1 } else { libc::ioctl(socket, libc::SIOCSIFFLAGS as _, &raw const request) };
        let errno = sys::errno();
        libc::close(socket);
        if result < 0 { Err(errno) } else { Ok(()) }
    };
    result.at("loopback")
}

/// Empties the bounding and ambient sets for ever and keeps `kept` of the rest.
pub fn drop_capabilities(kept: u64) -> Result<(), Broken> {
    for capability in 0..64 {
        match sys::prctl(libc::PR_CAPBSET_DROP, capability, 0) {
            Err(libc::EINVAL) => break,
            other => other.map(drop).at("bounding set")?,
        }
    }
    sys::prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_CLEAR_ALL as u64, 0).map(drop).at("ambient set")?;
    sys::set_capabilities(kept).at("capset")
}

/// SIGKILL when the runner ends, however it ends. Set after the last change of ids, which would clear it.
pub fn die_with_runner() -> Result<(), Broken> {
    sys::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as u64, 0).map(drop).at("death signal")
}

fn namespaces() -> Result<[u32; 7], Broken> {
    const FILES: [&CStr; 7] = [c"user", c"pid", c"mnt", c"net", c"ipc", c"uts", c"cgroup"];
    let dir = sys::openat(libc::AT_FDCWD, c"/proc/self/ns", libc::O_PATH | libc::O_DIRECTORY, 0).at("namespaces")?;
    let mut inodes = [0; 7];
    for (inode, file) in inodes.iter_mut().zip(FILES) {
        *inode = stat_inode(dir.as_raw_fd(), file).at("namespaces")?;
    }
    Ok(inodes)
}

fn stat_inode(dir: RawFd, file: &CStr) -> Result<u32, Errno> {
    // SAFETY: an all-zero stat is a valid value, filled by the call.
    unsafe {
        let mut stat: libc::stat = std::mem::zeroed();
        if libc::fstatat(dir, file.as_ptr(), &raw mut stat, 0) < 0 { Err(sys::errno()) } else { Ok(stat.st_ino as u32) }
    }
}

/// Becomes the file agent. Returns only the step that failed.
fn agent(plan: &Plan, mounts: &[OwnedFd], shared: &Shared, control: &OwnedFd) -> Broken {
    match become_agent(plan, mounts, shared, control) {
        Ok(never) => match never {},
        Err(broken) => broken,
    }
}

fn become_agent(
    plan: &Plan,
    mounts: &[OwnedFd],
    shared: &Shared,
    control: &OwnedFd,
) -> Result<std::convert::Infallible, Broken> {
    become_init(plan, shared)?;
    mounts::agent(mounts, plan.role == Role::Filler, shared.weakening)?;
    sys::prctl(libc::PR_SET_DUMPABLE, 0, 0).at("not dumpable")?;
    sys::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0).at("no_new_privs")?;
    drop_capabilities(if plan.init_id.is_some() { KEPT } else { 0 })?;
    sys::set_group(COMMAND_ID).at("setresgid")?;
    sys::set_user(COMMAND_ID).at("setresuid")?;
    sys::set_capabilities(0).at("capset")?;
    sys::lower_limit(libc::RLIMIT_CORE as _, 1, 1).at("rlimit core")?;
    die_with_runner()?;
    shared.filter.load().at("seccomp: load")?;
    command::execute_agent(&shared.agent, control).at("execveat")
}
