//! The runner's loop: one thread, one epoll, no waiting for anybody.
//!
//! `connections` and `operations` face the clients, `sandboxes` and `making` and `envelopes` the kernel, `launch`,
//! `execs` and `output` the commands. Everything hangs on ids, never on references, so that any of it may end at any moment.

mod agents;
mod connection;
mod connections;
mod envelopes;
mod execs;
mod launch;
mod making;
mod operations;
mod output;
mod poll;
mod sandboxes;
mod timers;

use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::time::Duration;

use boxkite_envelope::maker::Maker;
use boxkite_envelope::weakening::Weakening;
use boxkite_host::cgroup::{Availability, Cgroups};
use boxkite_host::ids::IdSource;
use boxkite_host::probe::Fact;
use boxkite_host::user_namespace::{HostIds, Mode};
use boxkite_system::sys;
use boxkite_wire::frames::Failure;
use connection::Connection;
use envelopes::Envelope;
use execs::Exec;
use poll::{Event, Poll, Token};
use sandboxes::Sandbox;
use timers::Timers;

/// What the runner was started with and found out before it serves.
pub struct Setup {
    pub directory: PathBuf,
    pub makers: Vec<Maker>,
    pub blanks: usize,
    pub idle: Duration,
    pub mode: Mode,
    /// Adds to an id of the runner's own user namespace to give the host's; `None` where they are the same.
    pub host_ids: HostIds,
    pub ids: IdSource,
    pub cgroups: Cgroups,
    pub facts: Vec<Fact>,
    pub weakening: Weakening,
}

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
    timers: Timers,
    listener: OwnedFd,
    signals: OwnedFd,
    connections: HashMap<u64, Connection>,
    sandboxes: HashMap<u64, Sandbox>,
    envelopes: HashMap<u64, Envelope>,
    execs: HashMap<u64, Exec>,
    /// The owner's connection: its end is the runner's.
    owner: u64,
    next: u64,
    most_idle: usize,
    opened: usize,
    /// No new work; ends when the last sandbox is gone.
    ending: bool,
}

impl Server {
    /// Takes over what the runner has set up.
    pub fn new(setup: Setup, listener: OwnedFd, signals: OwnedFd, owner: OwnedFd) -> Result<Self, i32> {
        let poll = Poll::new()?;
        poll.add(listener.as_fd(), Token::Listener)?;
        poll.add(signals.as_fd(), Token::Signals)?;
        for (index, maker) in setup.makers.iter().enumerate() {
            poll.add(maker.socket.as_fd(), Token::Maker(index as u64))?;
        }
        let mut server = Self {
            available: sandboxes::weakened(setup.cgroups.available(), setup.weakening),
            setup,
            poll,
            timers: Timers::default(),
            listener,
            signals,
            connections: HashMap::new(),
            sandboxes: HashMap::new(),
            envelopes: HashMap::new(),
            execs: HashMap::new(),
            owner: 0,
            next: 1,
            most_idle: most_idle(),
            opened: 0,
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
        while !(self.ending && self.sandboxes.is_empty()) {
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
            Token::Listener => self.accept(),
            Token::Signals => self.end(),
            Token::Maker(index) => self.cloned(index as usize)?,
            Token::Connection(id) => self.connection_event(id, event),
            Token::Control(id) => self.report(id),
            Token::Process(id) => self.process_ended(id),
            Token::Memory(id) => self.memory_event(id),
            Token::Stdout(id) => self.stream_event(id, 0),
            Token::Stderr(id) => self.stream_event(id, 1),
        }
        Ok(())
    }

    /// Begins the end: every sandbox is closed, nothing new begins.
    fn end(&mut self) {
        if !self.ending {
            self.ending = true;
            // A second signal is not read again: the end is under way.
            let _ = self.poll.remove(self.signals.as_fd());
            let ids: Vec<u64> = self.sandboxes.keys().copied().collect();
            for id in ids {
                self.close_sandbox(id);
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
