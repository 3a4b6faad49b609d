//! File agents: started at the first file call, given each client's socket, ended when idle.

use std::os::fd::{AsFd, AsRawFd};
use std::time::{Duration, Instant};

use super::Server;
use super::envelopes::Phase;
use boxkite_envelope::maker::Role;
use boxkite_system::sys;
use boxkite_wire::frames::{Code, Failure, Reader};

/// The agent's messages: `R` it serves; `I` and a u64: no connection is open, and this many have been received.
mod said {
    pub const READY: u8 = b'R';
    pub const IDLE: u8 = b'I';
}

/// So far ahead does an agent that has a connection begin to be idle.
const IN_USE: Duration = Duration::from_secs(u32::MAX as u64);

/// The message that carries a client's socket to the agent.
const CONNECTION: &[u8] = b"C";

impl Server {
    /// Hands a connection on to the sandbox's file agent, which is started where there is none.
    pub(super) fn file(&mut self, client: u64, request: u32, payload: &[u8]) -> Result<(), Failure> {
        let mut reader = Reader::new(payload);
        let (sandbox, instance) = (reader.u64()?, usize::from(reader.u8()?));
        reader.end()?;
        let entry = self.sandboxes.get(&sandbox).filter(|entry| !entry.blank);
        match entry {
            None => return Err(Failure::new(Code::UnknownSandbox, "sandbox")),
            Some(entry) if entry.closing => return Err(Failure::new(Code::Closing, "sandbox")),
            Some(_) if instance > 1 => return Err(Failure::new(Code::InvalidArgument, "instance")),
            Some(_) => {}
        }
        let agent = match self.live_agent(sandbox, instance) {
            Some(agent) => agent,
            None => self.start_agent(sandbox, instance)?,
        };
        let socket = self.take_socket(client).ok_or(Failure::new(Code::InvalidArgument, "socket"))?;
        if let Some(envelope) = self.envelopes.get_mut(&agent) {
            envelope.waiting.push((socket, request));
        }
        self.hand_on(agent);
        Ok(())
    }

    fn start_agent(&mut self, sandbox: u64, instance: usize) -> Result<u64, Failure> {
        let role = if instance == 0 { Role::Agent } else { Role::Filler };
        let id = self.make_envelope(sandbox, role)?;
        if let Some(entry) = self.sandboxes.get_mut(&sandbox) {
            entry.agents[instance] = Some(id);
        }
        Ok(id)
    }

    pub(super) fn agent_report(&mut self, id: u64, message: &[u8]) {
        let Some(envelope) = self.envelopes.get_mut(&id) else { return };
        match message[0] {
            said::READY if envelope.phase == Phase::Making => {
                envelope.group.release_procs();
                envelope.phase = Phase::Idle;
                self.begin_idle(id);
                self.hand_on(id);
            }
            // A message older than the last socket handed on says nothing.
            said::IDLE if Reader::new(&message[1..]).u64() == Ok(envelope.handed) => self.begin_idle(id),
            _ => {}
        }
    }

    /// Gives every waiting socket to a ready agent, then tells its client. One that is ending takes none: the next does.
    fn hand_on(&mut self, id: u64) {
        let Some(envelope) = self.envelopes.get_mut(&id).filter(|envelope| envelope.phase == Phase::Idle) else {
            return;
        };
        let mut left = Vec::new();
        for (socket, request) in std::mem::take(&mut envelope.waiting) {
            match sys::send(envelope.control.as_fd(), CONNECTION, &[socket.as_raw_fd()]) {
                Ok(_) => {
                    // Busy from here on: the timer of an earlier idle time must not end it.
                    envelope.idle_since = Instant::now() + IN_USE;
                    envelope.handed += 1;
                    Self::confirm(&socket, request);
                }
                Err(libc::EPIPE | libc::ECONNRESET) => left.push((socket, request)),
                Err(errno) => {
                    Self::refuse_socket(&socket, request, &Failure::with(Code::LimitReached, "file agent", errno));
                }
            }
        }
        if !left.is_empty() {
            let (sandbox, instance) = (envelope.sandbox, usize::from(envelope.role == Role::Filler));
            self.kill_envelope(id);
            let next = self.start_agent(sandbox, instance);
            match next.map(|next| self.envelopes.get_mut(&next)) {
                Ok(next) => next.into_iter().for_each(|next| next.waiting.append(&mut left)),
                Err(failure) => {
                    left.iter().for_each(|(socket, request)| Self::refuse_socket(socket, *request, &failure))
                }
            }
        }
    }
}
