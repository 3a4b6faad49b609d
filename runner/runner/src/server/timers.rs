//! What happens later. A timer names a thing by id; one that is gone, or has changed since, is simply not found.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use super::Server;

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
    /// Cgroups of a sandbox's ended envelope could not be removed yet.
    RemoveEnvelope(u64),
    /// The same of a sandbox.
    RemoveSandbox(u64),
    /// Clients may be accepted again.
    Listen,
    /// Blank sandboxes are to be made.
    Refill,
}

/// All timers, by time.
#[derive(Default)]
pub struct Timers(BTreeSet<(Instant, Timer)>);

impl Timers {
    pub fn add(&mut self, after: Duration, timer: Timer) {
        // A time too far for the clock is no time at all.
        if let Some(at) = Instant::now().checked_add(after) {
            self.0.insert((at, timer));
        }
    }

    /// How long until the next one.
    pub fn wait(&self) -> Option<Duration> {
        self.0.first().map(|(at, _)| at.saturating_duration_since(Instant::now()))
    }

    /// Takes the next one that is due.
    pub fn due(&mut self) -> Option<Timer> {
        let (at, timer) = *self.0.first()?;
        if at > Instant::now() {
            return None;
        }
        self.0.remove(&(at, timer));
        Some(timer)
    }

    /// Takes every timer of this kind and id away.
    pub fn cancel(&mut self, timer: Timer, at: Instant) {
        self.0.remove(&(at, timer));
    }

    /// Adds one and tells its time, by which it can be cancelled.
    pub fn add_at(&mut self, at: Instant, timer: Timer) {
        self.0.insert((at, timer));
    }
}

impl Server {
    pub(super) fn timer(&mut self, timer: Timer) {
        match timer {
            Timer::Deadline(exec) => self.deadline(exec),
            Timer::Cpu(exec) => self.check_cpu(exec),
            Timer::Idle(envelope) => self.check_idle(envelope),
            Timer::Making(envelope) => self.check_making(envelope),
            Timer::RemoveEnvelope(envelope) => self.remove_envelope(envelope),
            Timer::RemoveSandbox(sandbox) => self.finish_closing(sandbox),
            Timer::Listen => self.listen_again(),
            Timer::Refill => self.refill(),
        }
    }
}
