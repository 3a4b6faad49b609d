//! The runner's loop: one thread, one epoll, no waiting for anybody.
//!
//! `connections` and `operations` face the clients, `sandboxes` and `making` and `envelopes` the kernel, `launch`,
//! `execs` and `output` the commands. Everything hangs on ids, never on references, so that any of it may end at any moment.

mod agents;
mod connections;
mod disk;
mod envelopes;
mod execs;
mod launch;
mod making;
mod operations;
mod output;
mod programs;
mod sandboxes;
mod timers;

use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::time::Duration;

use boxkite_envelope::maker::Maker;
use boxkite_envelope::weakening::Weakening;
use boxkite_host::ceilings::Ceilings;
use boxkite_host::cgroup::{Availability, Cgroups};
use boxkite_host::disk::Disk;
use boxkite_host::ids::IdSource;
use boxkite_host::probe::Fact;
use boxkite_host::user_namespace::{HostIds, Mode};
use boxkite_supervise::service::{End, Service};
use boxkite_system::connection::Connection;
use boxkite_system::poll::{Event, Poll, Token};
use boxkite_system::sys;
use boxkite_system::timers::Timers;
use boxkite_wire::frames::Failure;
use envelopes::{Envelope, Phase};
use execs::Exec;
use programs::ProgramList;
use sandboxes::Sandbox;
use timers::Timer;

/// What the runner was started with and found out before it serves.
pub struct Setup {
    pub directory: PathBuf,
    pub makers: Vec<Maker>,
    pub blanks: usize,
    pub idle: Duration,
    pub ceilings: Ceilings,
    pub mode: Mode,
    /// Adds to an id of the runner's own user namespace to give the host's; `None` where they are the same.
    pub host_ids: HostIds,
    pub ids: IdSource,
    pub cgroups: Cgroups,
    pub facts: Vec<Fact>,
    /// Disk workspaces, or why there are none.
    pub disk: Result<Disk, String>,
    pub weakening: Weakening,
    /// Of a daemon: the process that parents its Node. It holds the owner's socket.
    pub service: Option<Service>,
}

/// How long the service may take to end: supervise gives Node 20 seconds.
const SERVICE_PATIENCE: Duration = Duration::from_secs(25);
/// How long the end of all sandboxes may take before what hangs is killed.
const END_PATIENCE: Duration = Duration::from_secs(5);

/// Idle envelopes that one sandbox keeps.
fn most_idle() -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    (4 * cores).max(16)
}

/// All state of the runner.
pub struct Server {
    setup: Setup,
    available: Availability,
    poll: Poll,
    timers: Timers<Timer>,
    listeners: Vec<OwnedFd>,
    signals: OwnedFd,
    connections: HashMap<u64, Connection>,
    sandboxes: HashMap<u64, Sandbox>,
    envelopes: HashMap<u64, Envelope>,
    execs: HashMap<u64, Exec>,
    /// What the keeper of disk workspaces was asked for.
    jobs: HashMap<u64, disk::Job>,
    lists: HashMap<u64, ProgramList>,
    /// The owner's connection: its end is the runner's.
    owner: u64,
    next: u64,
    most_idle: usize,
    opened: usize,
    /// The service has been asked to end.
    asked: bool,
    /// No new work; ends when the last sandbox is gone.
    ending: bool,
}

impl Server {
    /// Takes over what the runner has set up.
    pub fn new(setup: Setup, listeners: Vec<OwnedFd>, signals: OwnedFd, owner: OwnedFd) -> Result<Self, i32> {
        let poll = Poll::new()?;
        for (place, listener) in listeners.iter().enumerate() {
            poll.add(listener.as_fd(), Token::Listener(place as u64))?;
        }
        poll.add(signals.as_fd(), Token::Signals)?;
        if let Ok(disk) = &setup.disk {
            poll.add(disk.socket().as_fd(), Token::Keeper)?;
        }
        for (index, maker) in setup.makers.iter().enumerate() {
            poll.add(maker.socket.as_fd(), Token::Maker(index as u64))?;
        }
        let mut server = Self {
            available: setup.weakening.of(setup.cgroups.available()),
            setup,
            poll,
            timers: Timers::default(),
            listeners,
            signals,
            connections: HashMap::new(),
            sandboxes: HashMap::new(),
            envelopes: HashMap::new(),
            execs: HashMap::new(),
            jobs: HashMap::new(),
            lists: HashMap::new(),
            owner: 0,
            next: 1,
            most_idle: most_idle(),
            opened: 0,
            asked: false,
            ending: false,
        };
        server.owner = server.accept_connection(owner)?;
        Ok(server)
    }

    fn new_id(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }

    /// Serves until the owner ends or a signal asks, and everything is gone.
    pub fn run(&mut self) -> Result<(), Failure> {
        let mut events = Vec::with_capacity(64);
        self.refill();
        if let Some(service) = &mut self.setup.service {
            service.release();
        }
        while !(self.ending && self.sandboxes.is_empty() && self.jobs.is_empty()) {
            let internal = |errno| Failure::with(boxkite_wire::frames::Code::Internal, "epoll", errno);
            self.poll.wait(self.timers.wait(), &mut events).map_err(internal)?;
            for event in &events {
                self.event(*event)?;
            }
            while let Some(timer) = self.timers.due() {
                self.timer(timer);
            }
        }
        Ok(())
    }

    fn event(&mut self, event: Event) -> Result<(), Failure> {
        match event.token {
            Token::Listener(place) => self.accept(place),
            Token::Signals => self.asked_to_end(),
            Token::Maker(index) => self.cloned(index as usize)?,
            Token::Connection(id) => self.connection_event(id, event),
            Token::Control(id) => self.report(id),
            Token::Process(id) => self.process_ended(id),
            Token::Memory(id) => self.memory_event(id),
            Token::Stdout(id) => self.stream_event(id, 0),
            Token::Stderr(id) => self.stream_event(id, 1),
            Token::Keeper => self.keeper_answered()?,
            Token::ProgramMaker(list) => self.program_maker_answered(list),
        }
        Ok(())
    }

    /// A signal. The service ends in order and then the runner; a second signal does not wait for that, unless it is
    /// a terminal's end, which often comes after another.
    fn asked_to_end(&mut self) {
        let mut signal = [0; size_of::<libc::signalfd_siginfo>()];
        let hangup = sys::read(self.signals.as_fd(), &mut signal).is_ok() && signal[..4] == libc::SIGHUP.to_le_bytes();
        let Some(service) = self.setup.service.as_ref().filter(|_| !self.asked || hangup) else { return self.end() };
        if self.asked {
            return;
        }
        self.asked = true;
        service.signal(libc::SIGTERM);
        self.timers.add(SERVICE_PATIENCE, Timer::EndService);
    }

    /// Begins the end: every sandbox is closed, nothing new begins.
    fn end(&mut self) {
        if !self.ending {
            self.ending = true;
            // A signal is not read again: the end is under way.
            let _ = self.poll.remove(self.signals.as_fd());
            if let Some(service) = self.setup.service.as_ref().filter(|_| self.connections.contains_key(&self.owner)) {
                service.signal(libc::SIGKILL);
            }
            self.timers.add(END_PATIENCE, Timer::GiveUp);
            let ids: Vec<u64> = self.sandboxes.keys().copied().collect();
            for id in ids {
                self.close_sandbox(id);
            }
        }
    }

    /// Kills makers that hang, and what hangs on their answers.
    fn give_up(&mut self) {
        for maker in &self.setup.makers {
            maker.kill();
            let _ = self.poll.remove(maker.socket.as_fd());
        }
        for id in self.lists.keys().copied().collect::<Vec<_>>() {
            self.end_list(id);
        }
        let waiting = |envelope: &Envelope| envelope.process.is_none() && envelope.phase != Phase::Ended;
        let unmade = self.envelopes.iter().filter(|(_, envelope)| waiting(envelope));
        for id in unmade.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.envelope_ended(id);
        }
    }

    /// How the service has ended, as the runner's own exit status.
    pub fn exit_status(&mut self) -> u8 {
        match self.setup.service.take().map(|service| service.end()) {
            None => 0,
            Some(End::Status(status)) => status,
            Some(End::Signal(signal)) => {
                eprintln!("boxkite-runner: supervise was killed by signal {signal}");
                1
            }
        }
    }

    /// Removes the runner's cgroups, after the last sandbox.
    pub fn remove_groups(&mut self) -> Result<(), boxkite_host::cgroup::Error> {
        self.setup.cgroups.remove()
    }

    /// Reads and forgets; used on descriptors whose content does not matter.
    fn drain(fd: &OwnedFd) {
        let mut buffer = [0; 4096];
        while matches!(sys::read(fd.as_fd(), &mut buffer), Ok(count) if count > 0) {}
    }
}
