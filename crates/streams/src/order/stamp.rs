//! What a record claims: read before the driver call, published after its success.

use super::{Frontier, Point, Registry};

/// What the device has done when an event with this stamp has passed.
#[derive(Debug, Clone)]
pub(crate) struct Stamp {
    /// The recording stream's own point.
    pub(crate) point: Point,
    /// The recording stream's clock, with its last mark in it, which is `point` or later.
    pub(crate) frontier: Frontier,
    /// The same by what the calls of the program alone decide; `None` if there is no difference.
    pub(crate) settled: Option<Frontier>,
    /// The recording stream was gated when this was read, up to here: until that point is settled,
    /// a waiter may wait for the host.
    pub(crate) gate: Option<Point>,
}

impl Stamp {
    /// What the calls of the program alone say is done when the event has passed.
    pub(crate) fn settled(&self) -> &Frontier {
        self.settled.as_ref().unwrap_or(&self.frontier)
    }

    /// Whether whoever waits for it may wait for the host (R5).
    pub(crate) fn is_gated(&self, registry: &Registry) -> bool {
        let is_open = |gate| !registry.is_settled(gate) && !registry.is_settled(self.point);
        self.gate.is_some_and(is_open)
    }
}

/// What decided that a submission was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Made {
    /// The calls of the program alone.
    ByCalls,
    /// Answers of the device too: it orders, but what is settled does not say so (R9).
    Apart,
}

/// The number of submissions begun when none was in flight: see [`super::Slot::quiet`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Quiet(pub(super) u64);
