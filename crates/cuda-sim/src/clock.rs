//! Vector clocks: what an operation is known to come after.
//!
//! A *timeline* is the life of one stream; its number is never used again, whatever happens to
//! the stream's handle. An operation is named by its timeline and its place there.

use std::sync::Arc;

/// One operation: a timeline and a place on it, counted from one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Epoch {
    pub(crate) timeline: u32,
    pub(crate) place: u64,
}

/// For each timeline, the last operation that is known to come before; shared until it changes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Clock(Option<Arc<Vec<(u32, u64)>>>);

impl Clock {
    /// The last place on `timeline` that is known to come before.
    pub(crate) fn at(&self, timeline: u32) -> u64 {
        let Some(entries) = &self.0 else { return 0 };
        match entries.binary_search_by_key(&timeline, |entry| entry.0) {
            Ok(index) => entries.get(index).map_or(0, |entry| entry.1),
            Err(_) => 0,
        }
    }

    /// Adds what `other` knows, leaving out what everybody has observed and `own` itself.
    pub(crate) fn join(&mut self, other: &Self, observed: &Observed, own: u32) {
        for (timeline, place) in other.entries() {
            if timeline != own {
                self.advance(Epoch { timeline, place }, observed);
            }
        }
    }

    /// Adds one operation.
    pub(crate) fn advance(&mut self, epoch: Epoch, observed: &Observed) {
        if observed.covers(epoch) || epoch.place <= self.at(epoch.timeline) {
            return;
        }
        let entries = Arc::make_mut(self.0.get_or_insert_default());
        match entries.binary_search_by_key(&epoch.timeline, |entry| entry.0) {
            Ok(index) => {
                if let Some(entry) = entries.get_mut(index) {
                    entry.1 = epoch.place;
                }
            }
            Err(index) => {
                entries.insert(index, (epoch.timeline, epoch.place));
                entries.retain(|&(timeline, place)| !observed.covers(Epoch { timeline, place }));
            }
        }
    }

    fn entries(&self) -> impl Iterator<Item = (u32, u64)> {
        self.0.iter().flat_map(|entries| entries.iter().copied())
    }
}

/// What the host has seen to be complete, on every timeline.
#[derive(Debug, Default)]
pub(crate) struct Observed(Vec<u64>);

impl Observed {
    /// Whether the host has seen `epoch` complete.
    pub(crate) fn covers(&self, epoch: Epoch) -> bool {
        epoch.place <= self.0.get(index(epoch.timeline)).copied().unwrap_or(0)
    }

    /// Notes that `epoch`, and all that `clock` says it comes after, is complete.
    pub(crate) fn learn(&mut self, epoch: Epoch, clock: &Clock) {
        self.raise(epoch);
        self.learn_clock(clock);
    }

    /// Notes that all `clock` knows of is complete.
    pub(crate) fn learn_clock(&mut self, clock: &Clock) {
        for (timeline, place) in clock.entries() {
            self.raise(Epoch { timeline, place });
        }
    }

    fn raise(&mut self, epoch: Epoch) {
        let index = index(epoch.timeline);
        if self.0.len() <= index {
            self.0.resize(index + 1, 0);
        }
        if let Some(place) = self.0.get_mut(index) {
            *place = (*place).max(epoch.place);
        }
    }
}

fn index(timeline: u32) -> usize {
    usize::try_from(timeline).expect("a timeline number fits the host's size type")
}
