//! Whose word a policy takes for what is over: the device's answers, or the program's calls alone.

use streams::order::Point;
use streams::{Context, StreamOrder};

use crate::config::Policy;

/// What counts as known (R9).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum View {
    /// Everything, answers of the device included.
    Observed,
    /// What the calls of the program say; of the device only that it was synchronized with.
    Settled,
}

impl View {
    /// How `policy` sees things. For a policy that does not ask, the context keeps answers apart
    /// from now on.
    pub(crate) fn of(policy: Policy, context: &Context) -> Self {
        match policy {
            Policy::Default | Policy::PyTorch => Self::Observed,
            Policy::Deterministic => {
                context.keep_answers_apart();
                Self::Settled
            }
        }
    }

    /// Whether the next operation of the stream is known to come after `point`.
    #[inline]
    pub(crate) fn knows(self, order: &StreamOrder, point: Point) -> bool {
        match self {
            Self::Observed => order.knows(point),
            Self::Settled => order.knows_settled(point),
        }
    }

    /// Whether everything up to `point`, on any stream of the order's driver, is over.
    #[inline]
    pub(crate) fn is_complete(self, order: &StreamOrder, point: Point) -> bool {
        match self {
            Self::Observed => order.is_complete(point),
            Self::Settled => order.is_settled(point),
        }
    }
}
