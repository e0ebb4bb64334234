//! What a stream that may be gone is known to be: read from its slot, or said by its last mark.
//!
//! A caller here need not have entered the stream, so the slot may be another stream's already.
//! Each answer goes through [`LastMark::unless_ended`](crate::order::LastMark::unless_ended).

use crate::order::{Frontier, Point};
use crate::stream_core::StreamCore;

impl StreamCore {
    #[inline]
    pub(crate) fn position(&self) -> Point {
        self.point_at(self.last().unless_ended(|| self.slot().position(), |last| last))
    }

    /// The point "now" as the calls of the program alone decide it.
    #[inline]
    pub(crate) fn settled_position(&self) -> Point {
        self.point_at(self.last().unless_ended(|| self.slot().settled_position(), |last| last))
    }

    /// Whether others may submit; no longer when the stream is retired.
    #[inline]
    pub(crate) fn is_shared(&self) -> bool {
        self.last().unless_ended(|| self.slot().is_shared(), |_| false)
    }

    /// May raw work be queued here that opens only when the host does something (R5)?
    pub(crate) fn may_hide_gates(&self) -> bool {
        self.is_shared() && !self.traits().announces_gates
    }

    /// The highest mark anybody can hold.
    pub(crate) fn submitted(&self) -> u64 {
        self.last().unless_ended(|| self.slot().submitted(), |last| last)
    }

    /// Whether anybody may hold a point of this stream that is not known complete.
    pub(crate) fn has_news(&self) -> bool {
        !self.slot().is_complete(self.submitted())
    }

    /// Whether something is queued that is known to wait for the host.
    pub(crate) fn is_gated(&self) -> bool {
        // In this order: while the last mark is not settled, the slot has no other stream.
        let ended = |last| self.slot().is_gated() && !self.slot().is_settled(last);
        self.last().unless_ended(|| self.slot().is_gated(), ended)
    }

    /// Whether the stream's next operation is known to come after `point`; see
    /// [`StreamOrder::knows`](crate::StreamOrder::knows) for a stream that has none.
    pub(crate) fn knows(&self, point: Point) -> bool {
        let ended = |last| self.knew(last, point);
        self.last().unless_ended(|| self.registry().knows(self.me(), point), ended)
    }

    /// The same for all of `frontier`.
    pub(crate) fn knows_all(&self, frontier: &Frontier) -> bool {
        let ended = |last| frontier.iter().all(|point| self.knew(last, point));
        self.last().unless_ended(|| self.registry().knows_all(self.me(), frontier), ended)
    }

    /// As [`StreamCore::knows`], by what is settled.
    pub(crate) fn knows_settled(&self, point: Point) -> bool {
        let ended = |last| self.knew_settled(last, point);
        self.last().unless_ended(|| self.registry().knows_settled(self.me(), point), ended)
    }

    /// The same for all of `frontier`.
    pub(crate) fn knows_all_settled(&self, frontier: &Frontier) -> bool {
        let ended = |last| frontier.iter().all(|point| self.knew_settled(last, point));
        self.last().unless_ended(|| self.registry().knows_all_settled(self.me(), frontier), ended)
    }

    fn knew_settled(&self, last: u64, point: Point) -> bool {
        self.is_mine(last, point) || self.registry().is_settled(point)
    }

    fn is_mine(&self, last: u64, point: Point) -> bool {
        point.stream == self.me() && point.mark <= last
    }

    /// What a stream that ended with `last` knows. Its clock went with its slot.
    fn knew(&self, last: u64, point: Point) -> bool {
        self.is_mine(last, point) || self.registry().is_complete(point)
    }
}
