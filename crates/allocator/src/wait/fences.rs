//! Which fences a wait needs, and what speaks against waiting for them.

use smallvec::SmallVec;
use streams::order::{Frontier, Point};
use streams::{Fence, StreamOrder};

use super::{Need, Refusal, Refusals};
use crate::allocator::Inner;
use crate::reuse::Request;

/// A fence that covers a point and nothing queued after the free that it belongs to.
#[derive(Debug)]
enum Exact {
    Kept(Fence),
    /// To be recorded, on a stream that has got nothing since.
    ToRecord(StreamOrder, Point),
}

impl Inner {
    /// Fences that cover just what is waited for; or everything that speaks against it.
    ///
    /// Nothing is recorded before it is known that nothing does: points come in the order of slots,
    /// and a fence that is left on one stream since another one was refused later could be waited
    /// for under `deterministic` or not as the slots are (R9).
    pub(super) fn fences_of(
        &self,
        request: &Request<'_>,
        unmet: &Frontier,
        need: Need,
    ) -> Result<SmallVec<[Fence; 4]>, Refusals> {
        let mut found: SmallVec<[Exact; 4]> = SmallVec::new();
        let mut refusals = Refusals::new();
        for point in unmet.iter() {
            match self.look_for_fence(request, point, need) {
                Ok(fence) => found.push(fence),
                Err(refusal) => refusals.push(refusal),
            }
        }
        if !refusals.is_empty() {
            return Err(refusals);
        }
        let fences = found.into_iter().map(|fence| match fence {
            Exact::Kept(fence) => Some(fence),
            Exact::ToRecord(order, point) => self.record_exactly(&order, point),
        });
        fences.collect::<Option<_>>().ok_or_else(|| Refusals::from_iter([Refusal::Block]))
    }

    /// The fence to wait for up to `point`, if the requester may. No driver call.
    fn look_for_fence(
        &self,
        request: &Request<'_>,
        point: Point,
        need: Need,
    ) -> Result<Exact, Refusal> {
        let unwaitable = Refusal::Stream(point.stream);
        let Some(order) = self.order_of(point.stream) else { return Err(unwaitable) };
        // The driver counts downwards: a lower priority is a greater number.
        let is_lower = request.order.priority() < order.priority();
        if is_lower && need != Need::LastResort {
            return Err(unwaitable);
        }
        let Some(fence) = self.kept_exactly(&order, point) else {
            return if self.can_record_exactly(&order, point) {
                Ok(Exact::ToRecord(order, point))
            } else {
                Err(if order.may_be_waited_on() { Refusal::Block } else { unwaitable })
            };
        };
        if order.may_be_waited_on_until(&fence) {
            Ok(Exact::Kept(fence))
        } else {
            // Before the gate there may be others that can be waited for.
            Err(if fence.is_gated() { Refusal::Beyond(point) } else { unwaitable })
        }
    }

    /// A fence that covers `point` and nothing submitted after the free that it belongs to (O6),
    /// recorded now if that is still possible.
    pub(crate) fn exact_fence(&self, order: &StreamOrder, point: Point) -> Option<Fence> {
        let kept = self.kept_exactly(order, point);
        let can_record = kept.is_none() && self.can_record_exactly(order, point);
        if can_record { self.record_exactly(order, point) } else { kept }
    }

    fn kept_exactly(&self, order: &StreamOrder, point: Point) -> Option<Fence> {
        let kept = self.view.fence_exactly(order, point);
        kept.or_else(|| self.view.fence_exactly(order, self.bursts.fenced(point)?))
    }

    fn can_record_exactly(&self, order: &StreamOrder, point: Point) -> bool {
        let gone = order.is_retired() || order.is_shared() || !order.may_be_waited_on();
        !gone && self.view.home_position(order) == point
    }

    fn record_exactly(&self, order: &StreamOrder, point: Point) -> Option<Fence> {
        // Another thread may have queued something meanwhile: found again, it covers just that.
        let is_made = self.view.fence_now(order).is_ok();
        is_made.then(|| self.view.fence_exactly(order, point)).flatten()
    }
}
