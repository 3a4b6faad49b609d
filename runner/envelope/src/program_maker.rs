//! The runner's side of a list of programs: from the order to a maker whose envelopes execute nothing else.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::maker::{Cloned, Maker, Plan, read_broken};
use crate::programs::{FAILED, MESSAGE, READY, REFUSED};
use boxkite_programs::Reason;
use boxkite_system::sys;
use boxkite_wire::frames::{Code, Failure};

/// A list's maker, or the way to it.
pub struct ProgramMaker(State);

enum State {
    /// It finds the list's files. Its process is known once the root's maker has answered.
    Planning {
        socket: OwnedFd,
        process: Option<OwnedFd>,
    },
    Ready {
        maker: Maker,
        programs: u16,
        missing: Vec<u8>,
    },
    /// What runs in its envelopes runs on, with so many programs.
    Lost {
        programs: u16,
    },
}

impl State {
    /// That of a list which never came to be.
    const NONE: Self = Self::Lost { programs: 0 };
}

/// What a list's maker has said.
pub enum Heard {
    Nothing,
    /// It makes envelopes from now on.
    Ready,
    /// It never will.
    Failed(Failure),
    Cloned(Cloned),
    /// It has ended.
    Lost,
}

impl ProgramMaker {
    /// Orders one for the encoded `names` from the maker of their root. `plan` tells whose ids read that root.
    pub fn order(names: &[u8], plan: Plan, root: &mut Maker) -> Result<Self, Failure> {
        let internal = |step: &'static str| move |errno| Failure::with(Code::Internal, step, errno);
        let (socket, theirs) = sys::packet_pair().map_err(internal("programs: socket"))?;
        sys::set_nonblocking(socket.as_fd(), true).map_err(internal("programs: socket"))?;
        sys::send(socket.as_fd(), names, &[]).map_err(internal("programs: list"))?;
        root.request(plan, vec![theirs]).map_err(internal("programs: maker"))?;
        Ok(Self(State::Planning { socket, process: None }))
    }

    /// What tells that there is something to hear.
    pub fn socket(&self) -> Option<BorrowedFd<'_>> {
        match &self.0 {
            State::Planning { socket, .. } => Some(socket.as_fd()),
            State::Ready { maker, .. } => Some(maker.socket.as_fd()),
            State::Lost { .. } => None,
        }
    }

    pub fn is_planning(&self) -> bool {
        matches!(self.0, State::Planning { .. })
    }

    pub fn is_lost(&self) -> bool {
        matches!(self.0, State::Lost { .. })
    }

    /// The maker of its envelopes.
    pub fn maker(&mut self) -> Option<&mut Maker> {
        if let State::Ready { maker, .. } = &mut self.0 { Some(maker) } else { None }
    }

    /// How many programs can be executed.
    pub fn programs(&self) -> u16 {
        match self.0 {
            State::Ready { programs, .. } | State::Lost { programs } => programs,
            State::Planning { .. } => 0,
        }
    }

    /// Names without a file, encoded as `Programs::names` reads them.
    pub fn missing(&self) -> &[u8] {
        if let State::Ready { missing, .. } = &self.0 { missing } else { &[0; 4] }
    }

    /// The root's maker has made it.
    pub fn made(&mut self, made: OwnedFd) {
        if let State::Planning { process, .. } = &mut self.0 {
            *process = Some(made);
        }
    }

    /// The next thing that it has said.
    pub fn hear(&mut self) -> Heard {
        match &mut self.0 {
            // Without its process it can't be kept: `made` comes, and the caller asks again.
            State::Planning { process: None, .. } | State::Lost { .. } => Heard::Nothing,
            State::Planning { socket, .. } => {
                let mut buffer = vec![0; MESSAGE];
                match sys::receive(socket.as_fd(), &mut buffer) {
                    Err(libc::EAGAIN) => Heard::Nothing,
                    Ok((count, _)) => self.planned(&buffer[..count]),
                    Err(_) => self.planned(&[]),
                }
            }
            State::Ready { maker, .. } => match (maker.send_waiting(), maker.answer()) {
                (Ok(()), Ok(Some(cloned))) => Heard::Cloned(cloned),
                (Ok(()), Ok(None)) => Heard::Nothing,
                _ => Heard::Lost,
            },
        }
    }

    fn planned(&mut self, message: &[u8]) -> Heard {
        let failure = match message.split_first() {
            Some((&READY, [low, high, missing @ ..])) => {
                let State::Planning { socket, process: Some(process) } = std::mem::replace(&mut self.0, State::NONE)
                else {
                    return Heard::Lost;
                };
                let (maker, programs) = (Maker::new(socket, process), u16::from_le_bytes([*low, *high]));
                self.0 = State::Ready { maker, programs, missing: missing.to_vec() };
                return Heard::Ready;
            }
            Some((&REFUSED, rest)) => refusal(rest),
            Some((&FAILED, rest)) => read_broken(rest),
            _ => Failure::new(Code::Internal, "programs: maker ended"),
        };
        Heard::Failed(failure)
    }

    /// Lets go of one that has ended.
    pub fn lose(&mut self) {
        self.0 = State::Lost { programs: self.programs() };
    }
}

impl Drop for ProgramMaker {
    /// Nothing of one that is still planning is left: a maker ends by itself.
    fn drop(&mut self) {
        let state = std::mem::replace(&mut self.0, State::NONE);
        if let State::Planning { socket, process: Some(process) } = state {
            drop(Maker::new(socket, process));
        }
    }
}

/// Why an envelope of a list can't be made any more: ESTALE, as of a root that has changed.
pub fn list_is_lost() -> Failure {
    let detail = "the root has changed, or the list's maker has ended: the list has to be set again";
    Failure::with(Code::IsolationUnavailable, "programs", libc::ESTALE).detail(detail)
}

/// A refusal on the wire: its reason as the step; the program, and after a NUL what it lacks, as the detail.
fn refusal(rest: &[u8]) -> Failure {
    let (reason, names) = rest.split_first().map_or((0, rest), |(reason, names)| (*reason, names));
    let step = Reason::of(reason).map_or("unknown", Reason::name);
    Failure::new(Code::ProgramRefused, step).detail(String::from_utf8_lossy(names))
}
