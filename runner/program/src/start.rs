//! From the command line to the loop, and from the end of the loop to nothing left.

use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use crate::arguments::{Arguments, Daemon};
use boxkite_confine::landlock;
use boxkite_confine::seccomp::{FilterOptions, command_filter};
use boxkite_envelope::RootSource;
use boxkite_envelope::init::Shared;
use boxkite_envelope::maker::Maker;
use boxkite_envelope::weakening::Weakening;
use boxkite_envelope::workspace;
use boxkite_host::cgroup::Cgroups;
use boxkite_host::disk::Disk;
use boxkite_host::private_directory::PrivateDirectory;
use boxkite_host::probe;
use boxkite_host::process;
use boxkite_host::service_ids::{self, ServiceId};
use boxkite_host::state_directory::{self, StateDirectory};
use boxkite_host::user_namespace::{self, Entered, Mode};
use boxkite_runner::server::{Server, Setup};
use boxkite_supervise::Listener;
use boxkite_supervise::service::Service;
use boxkite_system::inherit;
use boxkite_system::step::{At, Broken};
use boxkite_system::sys;
use boxkite_wire::frames::{Code, Failure};

fn internal(broken: Broken) -> Failure {
    let words = std::io::Error::from_raw_os_error(broken.errno).to_string();
    broken.failure(Code::Internal).detail(words)
}

/// What a process is before it takes anything.
fn prepare_process(is_daemon: bool) -> Result<(), Broken> {
    if is_daemon {
        // Whoever executed this program may have left something open.
        sys::close_range(3, u32::MAX, true).at("descriptors")?;
    }
    // SAFETY: no effect but on this process.
    unsafe {
        if !is_daemon {
            // A session of its own: a Ctrl-C at the owner's terminal is the owner's to handle, but a daemon's own. Fails
            // where it leads a group already, which is as good.
            libc::setsid();
        }
        // The caller's mask would change the modes of every root, and a command's own.
        libc::umask(0o022);
        // A file size limit of the caller's is an error where it is met, not the end of the runner.
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
        // Where the caller ignores the ends of its children, and with it whoever it executes, none can be reaped.
        libc::signal(libc::SIGCHLD, libc::SIG_DFL);
    }
    process::raise_limits()
}

/// A daemon's state directory: one daemon has it.
fn take_state(path: &Path) -> Result<StateDirectory, Failure> {
    StateDirectory::take(path).map_err(|broken| {
        let holder = state_directory::holder(path).filter(|_| broken.step == state_directory::IN_USE);
        let failure = internal(broken);
        match holder {
            Some(holder) => failure.detail(format!("{}, process {holder}", path.display())),
            None => failure,
        }
    })
}

/// What a daemon holds from before it enters a user namespace until its end.
struct Held {
    clients: Listener,
    _service_id: Option<ServiceId>,
}

/// Forks the service. Gives the owner's socket, whose other end the service has.
fn start_service(daemon: &Daemon) -> Result<(Held, Service, OwnedFd), Broken> {
    // SAFETY: no effect but its result.
    let is_root = unsafe { libc::geteuid() } == 0;
    if is_root != daemon.service_id.is_some() {
        return Err(Broken { step: "--service-uid: a daemon of root needs it, another has none", errno: libc::EINVAL });
    }
    let service_id = daemon.service_id.map(service_ids::claim).transpose()?;
    let clients = Listener::unix(&daemon.client_socket).at("client socket")?;
    if let Some(id) = daemon.service_id {
        std::os::unix::fs::lchown(&daemon.client_socket, Some(id), Some(id)).at("client socket: owner")?;
    }
    let (service, owner) = Service::fork(daemon.service_id, &daemon.supervise)?;
    Ok((Held { clients, _service_id: service_id }, service, owner))
}

/// What asks the process to end. A daemon may have a terminal, whose end asks too, and a caller who wants it to ignore
/// the terminal.
fn signals(is_daemon: bool) -> Vec<i32> {
    let of_terminal = [libc::SIGINT, libc::SIGHUP].into_iter().filter(|signal| !process::is_ignored(*signal));
    let others = if is_daemon { of_terminal.collect() } else { vec![libc::SIGINT] };
    [vec![libc::SIGTERM], others].concat()
}

/// Sets up, serves, and removes everything. Gives the exit status.
pub fn serve(arguments: &Arguments, weakening: Weakening) -> Result<u8, Failure> {
    prepare_process(arguments.daemon.is_some()).map_err(internal)?;
    let state = arguments.state.as_deref().map(take_state).transpose()?;
    let started = arguments.daemon.as_ref().map(start_service).transpose().map_err(internal)?;
    let (held, service, owner) = match started {
        Some((held, service, owner)) => (Some(held), Some(service), owner),
        None => (None, None, process::owner().map_err(internal)?),
    };
    for root in &arguments.roots {
        if let RootSource::Directory(path) = root {
            fs::read_dir(path).at("root: directory").map_err(internal)?;
        }
    }
    let agent = fs::File::open(&arguments.agent).at("agent: program").map_err(internal)?;
    let directory = PrivateDirectory::take(&arguments.directory, arguments.daemon.is_none()).map_err(internal)?;
    let clients = held.iter().map(|held| held.clients.as_fd().try_clone_to_owned().at("client socket"));
    let listeners = [directory.listen()].into_iter().chain(clients).collect::<Result<_, _>>().map_err(internal)?;
    let fallback = directory.path().parent().and_then(|private| private.parent());
    let fallback = fallback.unwrap_or(directory.path()).to_owned();
    let entered = user_namespace::enter(&fallback).map_err(internal)?;
    sys::mount(None, c"/", None, libc::MS_REC | libc::MS_PRIVATE, None).at("private mounts").map_err(internal)?;
    let shared = Shared {
        weakening,
        agent: agent.into(),
        filter: command_filter(FilterOptions::default()),
        may_clear_groups: entered.mode != Mode::OneId,
        fence: None,
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
    let setup = assemble(arguments, weakening, entered, makers, &directory, service, state.as_ref())?;
    let signals = inherit::signals(&signals(arguments.daemon.is_some())).at("signals").map_err(internal)?;
    let mut server = Server::new(setup, listeners, signals, owner).at("server").map_err(internal)?;
    let served = server.run();
    // What is left of ours by a failure here goes with the next runner's sweep.
    let _ = server.remove_groups();
    served.map(|()| server.exit_status())
}

fn assemble(
    arguments: &Arguments,
    weakening: Weakening,
    entered: Entered,
    makers: Vec<Maker>,
    directory: &PrivateDirectory,
    service: Option<Service>,
    state: Option<&StateDirectory>,
) -> Result<Setup, Failure> {
    let place = std::ffi::CString::new(directory.workspaces().into_os_string().into_encoded_bytes());
    let place = place.map_err(|_| libc::EINVAL).at("workspaces").map_err(internal)?;
    let small = c"mode=0700,size=4m";
    let flags = libc::MS_NOSUID | libc::MS_NODEV;
    sys::mount(Some(c"workspaces"), &place, Some(c"tmpfs"), flags, Some(small)).at("workspaces").map_err(internal)?;
    let read = |path| fs::read_to_string(path).at("control groups").map_err(internal);
    let instance = process::instance().map_err(internal)?;
    let cgroups = Cgroups::detect(&instance, &read("/proc/self/cgroup")?, &read("/proc/self/mountinfo")?);
    // A dead runner's group that can't be removed is none of this one's business.
    let _ = cgroups.sweep();
    directory.record_groups(cgroups.directories()).map_err(internal)?;
    entered.ids.sweep();
    let mut facts = probe::facts(entered.mode, &cgroups.available(), &entered.no_range, landlock::abi());
    let disk = Disk::start(state, &entered.ids, &workspace::roots());
    facts.extend(probe::disk(&disk, state.is_some()));
    Ok(Setup {
        directory: directory.path().to_owned(),
        makers,
        blanks: arguments.blanks,
        idle: arguments.idle,
        ceilings: arguments.ceilings,
        mode: entered.mode,
        host_ids: entered.host_ids,
        ids: entered.ids,
        cgroups,
        facts,
        disk,
        weakening,
        service,
    })
}
