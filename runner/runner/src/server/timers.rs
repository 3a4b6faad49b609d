//! What happens later. A timer names a thing by id; one that is gone, or has changed since, is simply not found.

use super::Server;
use boxkite_wire::frames::{Cause, End};

/// What is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// An exec's time is over.
    Deadline(u64),
    /// An exec's CPU time is to be read.
    Cpu(u64),
    /// An envelope may have been idle for long.
    Idle(u64),
    /// An envelope should be ready by now.
    Making(u64),
    /// The process of this envelope may have ended.
    Unwatched(u64),
    /// A list of programs should have its maker by now.
    Planning(u64),
    /// Lists of programs that no sandbox has may be ended.
    UnusedLists,
    /// Cgroups of a sandbox's ended envelope could not be removed yet.
    RemoveEnvelope(u64),
    /// The same of a sandbox.
    RemoveSandbox(u64),
    /// The kernel may be ready to let go of a workspace's image.
    LetGo(u64),
    /// Clients of a listening socket may be accepted again.
    Listen(u64),
    /// Blank sandboxes are to be made.
    Refill,
    /// The service has had its time to end in order.
    EndService,
    /// The end has had its time: makers that hang are killed.
    GiveUp,
}

impl Server {
    pub(super) fn timer(&mut self, timer: Timer) {
        match timer {
            Timer::Deadline(exec) => self.kill_exec(exec, End::TimedOut, Cause::None),
            Timer::Cpu(exec) => self.check_cpu(exec),
            Timer::Idle(envelope) => self.check_idle(envelope),
            Timer::Making(envelope) => self.check_making(envelope),
            Timer::Unwatched(envelope) => self.look_at_process(envelope),
            Timer::Planning(list) => self.check_planning(list),
            Timer::UnusedLists => self.end_unused_lists(),
            Timer::RemoveEnvelope(envelope) => self.remove_envelope(envelope),
            Timer::RemoveSandbox(sandbox) => self.finish_closing(sandbox),
            Timer::LetGo(job) => self.let_go_again(job),
            Timer::Listen(place) => self.listen_again(place),
            Timer::EndService => self.end(),
            Timer::GiveUp => self.give_up(),
            Timer::Refill => self.refill(),
        }
    }
}
