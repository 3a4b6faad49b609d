//! From the command line to the loop, and from the end of the loop to nothing left.

use std::ffi::OsString;
use std::fs;
use std::io::Read;
use std::os::fd::{FromRawFd, OwnedFd};
use std::path::PathBuf;
use std::time::Duration;

use crate::server::{Server, Setup};
use boxkite_envelope::RootSource;
use boxkite_envelope::init::Shared;
use boxkite_envelope::landlock;
use boxkite_envelope::maker::Maker;
use boxkite_envelope::seccomp::{FilterOptions, command_filter};
use boxkite_envelope::weakening::Weakening;
use boxkite_host::cgroup::Cgroups;
use boxkite_host::private_directory::PrivateDirectory;
use boxkite_host::probe;
use boxkite_host::user_namespace::{self, Entered, Mode};
use boxkite_system::step::{At, Broken};
use boxkite_system::sys;
use boxkite_wire::frames::{Code, Failure};

/// The owner's socket.
const OWNER: i32 = 3;
const MOST_BLANKS: usize = 64;
/// The least that the caller must let files grow to: below it output and workspaces would be cut.
const SMALLEST_FILES: u64 = 64 << 20;

/// The command line, checked.
pub struct Arguments {
    directory: PathBuf,
    agent: PathBuf,
    roots: Vec<RootSource>,
    blanks: usize,
    idle: Duration,
}

impl Arguments {
    /// Reads the command line; the error is for people.
    pub fn parse(args: impl Iterator<Item = OsString>) -> Result<Self, String> {
        let (mut directory, mut agent, mut roots) = (None, None, Vec::new());
        let (mut blanks, mut idle) = (0, 60);
        let mut args = args;
        while let Some(name) = args.next() {
            let name = name.to_string_lossy().into_owned();
            let known = ["--dir", "--agent", "--root", "--blanks", "--idle-seconds"].contains(&name.as_str());
            let value = args.next().filter(|_| known).ok_or(format!("unknown or without a value: {name}"))?;
            let number = || value.to_str().and_then(|text| text.parse::<u64>().ok()).ok_or(format!("{name}: a number"));
            match name.as_str() {
                "--dir" => directory = Some(PathBuf::from(value)),
                "--agent" => agent = Some(PathBuf::from(value)),
                "--root" if value == "host" => roots.push(RootSource::Host),
                "--root" => roots.push(RootSource::Directory(PathBuf::from(value))),
                "--blanks" => blanks = number()? as usize,
                _ => idle = number()?,
            }
        }
        let relative = roots.iter().any(|root| matches!(root, RootSource::Directory(path) if !path.is_absolute()));
        match () {
            () if roots.is_empty() => Err("--root is missing".into()),
            () if relative => Err("--root: an absolute directory".into()),
            () if blanks > MOST_BLANKS => Err(format!("--blanks: at most {MOST_BLANKS}")),
            () => Ok(Self {
                directory: directory.ok_or("--dir is missing")?,
                agent: agent.ok_or("--agent is missing")?,
                roots,
                blanks,
                idle: Duration::from_secs(idle),
            }),
        }
    }
}

fn internal(broken: Broken) -> Failure {
    let words = std::io::Error::from_raw_os_error(broken.errno).to_string();
    broken.failure(Code::Internal).detail(words)
}

/// Sets up, serves, and removes everything.
pub fn serve(arguments: &Arguments, weakening: Weakening) -> Result<(), Failure> {
    // A session of its own: a Ctrl-C at the owner's terminal is the owner's to handle.
    // SAFETY: no effect but on this process; fails where it leads a group already, which is as good.
    unsafe {
        libc::setsid();
        // The caller's mask would change the modes of every root, and a command's own.
        libc::umask(0o022);
        // A file size limit of the caller's is an error where it is met, not the end of the runner.
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
    }
    raise_limits().map_err(internal)?;
    let owner = owner().map_err(internal)?;
    for root in &arguments.roots {
        if let RootSource::Directory(path) = root {
            fs::read_dir(path).at("root: directory").map_err(internal)?;
        }
    }
    let agent = fs::File::open(&arguments.agent).at("agent: program").map_err(internal)?;
    let directory = PrivateDirectory::take(&arguments.directory).map_err(internal)?;
    let listener = directory.listen().map_err(internal)?;
    let fallback = directory.path().parent().and_then(|private| private.parent());
    let fallback = fallback.unwrap_or(directory.path()).to_owned();
    let entered = user_namespace::enter(&fallback).map_err(internal)?;
    sys::mount(None, c"/", None, libc::MS_REC | libc::MS_PRIVATE, None).at("private mounts").map_err(internal)?;
    let shared = Shared {
        weakening,
        agent: agent.into(),
        filter: command_filter(FilterOptions::default()),
        may_clear_groups: entered.mode != Mode::OneId,
    };
    let scratch = directory.workspaces();
    let makers = arguments.roots.iter().map(|root| Maker::start(root, &scratch, &shared));
    let makers = makers.collect::<Result<Vec<_>, _>>().map_err(|failure| {
        let words = std::io::Error::from_raw_os_error(failure.errno).to_string();
        failure.detail(words)
    })?;
    // From here on secrets pass through this process's memory. Before, the makers' children had to be able to open
    // their own id maps.
    sys::prctl(libc::PR_SET_DUMPABLE, 0, 0).at("not dumpable").map_err(internal)?;
    let mut server = assemble(arguments, weakening, entered, makers, &directory, listener, owner)?;
    let served = server.run();
    // What is left of ours by a failure here goes with the next runner's sweep.
    let _ = server.remove_groups();
    served
}

fn assemble(
    arguments: &Arguments,
    weakening: Weakening,
    entered: Entered,
    makers: Vec<Maker>,
    directory: &PrivateDirectory,
    listener: OwnedFd,
    owner: OwnedFd,
) -> Result<Server, Failure> {
    let place = std::ffi::CString::new(directory.workspaces().into_os_string().into_encoded_bytes());
    let place = place.map_err(|_| libc::EINVAL).at("workspaces").map_err(internal)?;
    let small = c"mode=0700,size=4m";
    let flags = libc::MS_NOSUID | libc::MS_NODEV;
    sys::mount(Some(c"workspaces"), &place, Some(c"tmpfs"), flags, Some(small)).at("workspaces").map_err(internal)?;
    let read = |path| fs::read_to_string(path).at("control groups").map_err(internal);
    let cgroups = Cgroups::detect(&instance()?, &read("/proc/self/cgroup")?, &read("/proc/self/mountinfo")?);
    // A dead runner's group that can't be removed is none of this one's business.
    let _ = cgroups.sweep();
    directory.record_groups(cgroups.directories()).map_err(internal)?;
    entered.ids.sweep();
    let facts = probe::facts(entered.mode, &cgroups.available(), &entered.no_range, landlock::abi());
    let setup = Setup {
        directory: directory.path().to_owned(),
        makers,
        blanks: arguments.blanks,
        idle: arguments.idle,
        mode: entered.mode,
        host_ids: entered.host_ids,
        ids: entered.ids,
        cgroups,
        facts,
        weakening,
    };
    let signals = signals().at("signals").map_err(internal)?;
    Server::new(setup, listener, signals, owner).at("server").map_err(internal)
}

/// A name that no other runner has.
fn instance() -> Result<String, Failure> {
    let mut bytes = [0; 8];
    fs::File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes)).at("instance").map_err(internal)?;
    Ok(format!("{:016x}", u64::from_le_bytes(bytes)))
}

/// Many sandboxes need many descriptors, and spools and workspaces are files.
fn raise_limits() -> Result<(), Broken> {
    let (_, hard) = sys::limit(libc::RLIMIT_NOFILE as _).at("open files")?;
    sys::set_limit(libc::RLIMIT_NOFILE as _, hard, hard).at("open files")?;
    let (_, hard) = sys::limit(libc::RLIMIT_FSIZE as _).at("file size")?;
    if hard < SMALLEST_FILES {
        return Err(Broken { step: "file size limit (ulimit -f) is too small", errno: libc::EFBIG });
    }
    sys::set_limit(libc::RLIMIT_FSIZE as _, hard, hard).at("file size")
}

/// Descriptor 3, which must be a socket.
fn owner() -> Result<OwnedFd, Broken> {
    // SAFETY: an all-zero stat is a valid value, filled by the call.
    let is_socket = unsafe {
        let mut stat: libc::stat = std::mem::zeroed();
        libc::fstat(OWNER, &raw mut stat) == 0 && stat.st_mode & libc::S_IFMT == libc::S_IFSOCK
    };
    if !is_socket {
        return Err(Broken { step: "owner: descriptor 3 is no socket", errno: libc::ENOTSOCK });
    }
    // SAFETY: whoever started this process gave it this descriptor; it is taken once.
    let socket = unsafe { OwnedFd::from_raw_fd(OWNER) };
    // SAFETY: takes an open descriptor and constants.
    unsafe { libc::fcntl(OWNER, libc::F_SETFD, libc::FD_CLOEXEC) };
    Ok(socket)
}

/// Readable when the runner is asked to end.
fn signals() -> Result<OwnedFd, i32> {
    // SAFETY: plain calls on a local signal set; the new descriptor is ours.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGTERM);
        libc::sigaddset(&raw mut set, libc::SIGINT);
        libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
        let fd = libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
        if fd < 0 { Err(sys::errno()) } else { Ok(OwnedFd::from_raw_fd(fd)) }
    }
}
