//! What a record claims: read before the driver call, published after its success.

use super::{Frontier, Point};

/// What the device has done when an event with this stamp has passed.
#[derive(Debug, Clone)]
pub(crate) struct Stamp {
    /// The recording stream's own point.
    pub(crate) point: Point,
    /// The recording stream's clock, with `point` in it.
    pub(crate) frontier: Frontier,
    /// The recording stream was gated when this was read: a waiter may wait for the host.
    pub(crate) gated: bool,
}

/// The number of submissions begun when none was in flight: see [`super::Slot::quiet`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Quiet(pub(super) u64);
