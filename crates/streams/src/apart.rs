//! Answers of the device kept apart from what the calls of the program say, and a stream as
//! somebody uses it whose decisions depend on them.

use std::panic::Location;

use crate::context::Context;
use crate::error::Error;
use crate::fence::Fence;
use crate::observe::By;
use crate::order::Point;
use crate::stream::Stream;
use crate::stream_core::StreamKind;
use crate::stream_order::StreamOrder;

impl Context {
    /// From now on, and for every context of this driver, the answers to questions (`query` on
    /// events, fences, streams and submissions, and `.await`) settle nothing: which slot a stream
    /// gets, which waits are made, what stays gated and what
    /// [`StreamOrder::knows_settled`](crate::StreamOrder::knows_settled) says then depend on the
    /// calls of the program alone, not on how far the device came (R9). Host synchronization
    /// settles. What is *known* stays as it is.
    ///
    /// Called before the first stream is made, everything is so; there is no way back. It costs a
    /// wait that would have been left out, and slots of retired streams are used again only after
    /// a host synchronization, or when all 65,536 are taken.
    pub fn keep_answers_apart(&self) {
        self.core().registry().keep_answers_apart();
    }

    /// Whether answers are kept apart: see [`Context::keep_answers_apart`].
    #[must_use]
    pub fn keeps_answers(&self) -> bool {
        self.core().registry().keeps_answers()
    }

    /// From now on somebody may make waits that depend on answers
    /// ([`StreamOrder::apart`](crate::StreamOrder::apart)). Where answers are kept apart, the slot
    /// of a retired stream is
    /// then used again only after a synchronization of its context that comes after the
    /// retirement.
    pub fn expect_waits_apart(&self) {
        self.core().registry().expect_waits_apart();
    }
}

/// A stream as somebody uses it whose decisions depend on answers of the device.
///
/// What is recorded, waited for and synchronized with here orders the device as it does on
/// [`StreamOrder`], and is *known* to everybody. But where answers are kept apart
/// ([`Context::keep_answers_apart`]), nothing of it is
/// *settled*: who goes by the calls of the program alone sees the same positions, clocks and fences
/// as if it had not been made (R9). Where they are not, there is no difference.
#[derive(Debug, Clone, Copy)]
pub struct Apart<'order> {
    pub(crate) order: &'order StreamOrder,
}

impl Apart<'_> {
    /// As [`StreamOrder::fence_now`].
    ///
    /// # Errors
    /// As there.
    #[track_caller]
    pub fn fence_now(self) -> Result<Fence, Error> {
        let core = self.order.core();
        if !core.registry().keeps_answers() {
            return self.order.fence_now();
        }
        if let Some(fence) = core.fence_without_any_news() {
            return Ok(fence);
        }
        self.living_fence_now().or_else(|error| self.order.last_fence_instead(error))
    }

    #[track_caller]
    fn living_fence_now(self) -> Result<Fence, Error> {
        let core = self.order.core();
        let entered = core.enter()?;
        let adding = core.add_eagerly(&entered)?;
        core.record_fence_apart(entered.raw(), &adding)
    }

    /// As [`StreamOrder::fence_exactly`], of the fences that were recorded apart, too.
    #[must_use]
    pub fn fence_exactly(self, point: Point) -> Option<Fence> {
        let apart = || self.order.core().fences_apart.exactly(point);
        self.order.fence_exactly(point).or_else(apart)
    }

    /// As [`StreamOrder::fence_covering`], of the fences that were recorded apart, too.
    #[must_use]
    pub fn fence_covering(self, point: Point) -> Option<Fence> {
        let is_own = point.stream == self.order.slot();
        let apart = is_own.then(|| self.order.core().fences_apart.covering(point.mark)).flatten();
        self.order.fence_covering(point).into_iter().chain(apart).min_by_key(Fence::point)
    }

    /// As [`StreamOrder::wait_fence`].
    ///
    /// # Errors
    /// As there.
    #[track_caller]
    pub fn wait_fence(self, fence: &Fence) -> Result<(), Error> {
        let core = self.order.core();
        if !core.registry().keeps_answers() || core.traits().kind == StreamKind::Legacy {
            return self.order.wait_fence(fence);
        }
        self.wait(fence, By::Library)
    }

    #[track_caller]
    fn wait(self, fence: &Fence, by: By) -> Result<(), Error> {
        let core = self.order.core();
        core.check_driver(fence.registry())?;
        if core.knows_all(fence.frontier()) && !self.order.is_retired() {
            self.order.tell_skipped(fence.recorded_on(), by, Location::caller());
            return Ok(());
        }
        self.order.make_wait(fence, by, core.registry().made_by_answers())
    }

    /// As [`Stream::wait_stream`].
    ///
    /// # Errors
    /// As there, or that this stream is gone.
    #[track_caller]
    pub fn wait_stream(self, other: &Stream) -> Result<(), Error> {
        let (core, theirs) = (self.order.core(), other.order());
        let is_usual = core.registry().keeps_answers() && self.order.may_wait();
        if !is_usual || theirs.core().membership.is_captured() {
            return self.order.stream().ok_or_else(|| core.gone())?.wait_stream(other);
        }
        core.check_driver(theirs.core().registry())?;
        if self.order.is_same(theirs) {
            return Ok(());
        }
        self.wait(&theirs.apart().fence_now()?, By::Program)
    }

    /// As [`StreamOrder::synchronize_point`].
    ///
    /// # Errors
    /// As there.
    #[track_caller]
    pub fn synchronize_point(self, point: Point) -> Result<(), Error> {
        if !self.order.core().registry().keeps_answers() {
            return self.order.synchronize_point(point);
        }
        if self.order.is_complete(point) {
            return Ok(());
        }
        self.order.check_end(point)?;
        let fence = match self.fence_covering(point) {
            Some(fence) => Ok(fence),
            None => self.fence_now(),
        };
        match fence {
            Err(Error::StreamGone { .. }) if self.order.is_complete(point) => Ok(()),
            fence => fence?.synchronize_apart(),
        }
    }
}
