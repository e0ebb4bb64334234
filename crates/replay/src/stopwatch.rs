//! A clock that can be paused, so that only the calls in question are timed.

use std::time::{Duration, Instant};

/// Sums up the time it runs.
#[derive(Debug, Default)]
pub(crate) struct Stopwatch {
    total: Duration,
    since: Option<Instant>,
}

impl Stopwatch {
    /// Runs from here on.
    #[inline]
    pub(crate) fn start(&mut self) {
        if self.since.is_none() {
            self.since = Some(Instant::now());
        }
    }

    /// Stands still from here on.
    #[inline]
    pub(crate) fn pause(&mut self) {
        if let Some(since) = self.since.take() {
            self.total += since.elapsed();
        }
    }

    /// How long it ran, once paused.
    pub(crate) fn total(&self) -> Duration {
        self.total
    }
}
