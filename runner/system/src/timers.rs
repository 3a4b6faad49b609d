//! What happens later, by time.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// All timers of one kind, by time.
pub struct Timers<T>(BTreeSet<(Instant, T)>);

impl<T> Default for Timers<T> {
    fn default() -> Self {
        Self(BTreeSet::new())
    }
}

impl<T: Ord + Copy> Timers<T> {
    pub fn add(&mut self, after: Duration, timer: T) {
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
    pub fn due(&mut self) -> Option<T> {
        let (at, timer) = *self.0.first()?;
        if at > Instant::now() {
            return None;
        }
        self.0.remove(&(at, timer));
        Some(timer)
    }

    /// Takes a timer away.
    pub fn cancel(&mut self, timer: T, at: Instant) {
        self.0.remove(&(at, timer));
    }

    /// Adds one whose time is known, by which it can be cancelled.
    pub fn add_at(&mut self, at: Instant, timer: T) {
        self.0.insert((at, timer));
    }
}
