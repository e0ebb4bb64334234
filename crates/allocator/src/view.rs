//! Whose word a policy takes for what is over: the device's answers, or the program's calls alone.
//!
//! What a policy that goes by answers records, waits for and synchronizes with depends on answers
//! too, so it is made apart ([`StreamOrder::apart`]): it orders, but a policy that goes by the
//! calls alone sees nothing of it (R9). So whatever an allocator does with a stream goes through
//! here.

use streams::order::Point;
use streams::{Context, Error, Fence, Stream, StreamOrder};

use crate::config::{Config, Policy, Sabotage};

/// What counts as known (R9).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum View {
    /// Everything, answers of the device included.
    Observed,
    /// What the calls of the program say; of the device only that it was synchronized with.
    Settled,
    /// As [`View::Observed`], but what is done because of an answer is done for everybody: a check
    /// that is left out, to show that its absence is caught.
    ObservedOpenly,
}

impl View {
    /// How the policy sees things. For a policy that does not ask, the context keeps answers apart
    /// from now on.
    pub(crate) fn of(config: &Config, context: &Context) -> Self {
        let is_open = config.sabotage == Some(Sabotage::ActOpenly);
        match config.policy {
            Policy::Default | Policy::PyTorch if cfg!(feature = "sabotage") && is_open => {
                Self::ObservedOpenly
            }
            Policy::Default => {
                context.expect_waits_apart();
                Self::Observed
            }
            Policy::PyTorch => Self::Observed,
            Policy::Deterministic => {
                context.keep_answers_apart();
                Self::Settled
            }
        }
    }

    /// Whether a stream that comes into the slot of one that owned memory may inherit it. Which
    /// slot a new stream gets depends on what earlier streams of the process have left, so a policy
    /// that goes by the calls alone keeps the slot until it ends.
    pub(crate) fn inherits(self) -> bool {
        !matches!(self, Self::Settled)
    }

    /// Whether the next operation of the stream is known to come after `point`.
    #[inline]
    pub(crate) fn knows(self, order: &StreamOrder, point: Point) -> bool {
        match self {
            Self::Observed | Self::ObservedOpenly => order.knows(point),
            Self::Settled => order.knows_settled(point),
        }
    }

    /// Whether everything up to `point`, on any stream of the order's driver, is over.
    #[inline]
    pub(crate) fn is_complete(self, order: &StreamOrder, point: Point) -> bool {
        match self {
            Self::Observed | Self::ObservedOpenly => order.is_complete(point),
            Self::Settled => order.is_settled(point),
        }
    }

    /// The point up to which a home stream must come for a block that is freed now: with the waits
    /// that the block may have been handed out after. For a use of a block
    /// [`StreamOrder::settled_position`] is enough, and the same under every policy.
    #[inline]
    pub(crate) fn home_position(self, order: &StreamOrder) -> Point {
        match self {
            Self::Observed | Self::ObservedOpenly => order.position(),
            Self::Settled => order.settled_position(),
        }
    }

    /// A fence of a stream "now".
    #[track_caller]
    pub(crate) fn fence_now(self, order: &StreamOrder) -> Result<Fence, Error> {
        match self {
            Self::Observed => order.apart().fence_now(),
            Self::Settled | Self::ObservedOpenly => order.fence_now(),
        }
    }

    /// A kept fence that covers `point` and nothing submitted after it.
    pub(crate) fn fence_exactly(self, order: &StreamOrder, point: Point) -> Option<Fence> {
        match self {
            Self::Observed => order.apart().fence_exactly(point),
            Self::Settled | Self::ObservedOpenly => order.fence_exactly(point),
        }
    }

    /// A kept fence that covers `point`.
    pub(crate) fn fence_covering(self, order: &StreamOrder, point: Point) -> Option<Fence> {
        match self {
            Self::Observed => order.apart().fence_covering(point),
            Self::Settled | Self::ObservedOpenly => order.fence_covering(point),
        }
    }

    /// Makes a stream wait for `fence` on the device.
    #[track_caller]
    pub(crate) fn wait_fence(self, order: &StreamOrder, fence: &Fence) -> Result<(), Error> {
        match self {
            Self::Observed => order.apart().wait_fence(fence),
            Self::Settled | Self::ObservedOpenly => order.wait_fence(fence),
        }
    }

    /// Makes a stream wait for all of another one on the device, because the program asked for it.
    #[track_caller]
    pub(crate) fn wait_stream(self, stream: &Stream, other: &Stream) -> Result<(), Error> {
        match self {
            Self::Observed => stream.order().apart().wait_stream(other),
            Self::Settled | Self::ObservedOpenly => stream.wait_stream(other),
        }
    }

    /// Blocks until `fence` has passed.
    #[track_caller]
    pub(crate) fn synchronize(self, fence: &Fence) -> Result<(), Error> {
        match self {
            Self::Observed => fence.synchronize_apart(),
            Self::Settled | Self::ObservedOpenly => fence.synchronize(),
        }
    }

    /// What to wait for until everything up to `point`, a point of the stream, is done: a fence
    /// that was kept, else one recorded now. Nothing if it is known to be over.
    #[track_caller]
    pub(crate) fn fence_until(
        self,
        order: &StreamOrder,
        point: Point,
    ) -> Result<Option<Fence>, Error> {
        if self.is_complete(order, point) {
            return Ok(None);
        }
        let kept = self.fence_covering(order, point);
        kept.map_or_else(|| self.fence_now(order), Ok).map(Some)
    }
}
