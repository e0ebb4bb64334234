//! Cutting blocks and joining them again, with what must come before their next use.
//!
//! A split copies the frontier: each part was touched by whoever touched the whole. A join owns
//! the join of its parts' frontiers. Neighbours join at once only when one frontier covers the
//! other and both are ready for the shard's stream, or wait for the same, so that no block becomes
//! harder to reuse by lying next to another (R7, R10); all others are joined by the request that
//! needs both.

use streams::order::Point;

use crate::block::{BlockIndex, BlockRecord, Link, State};
use crate::config::Sabotage;
use crate::shard::ShardState;

impl ShardState {
    /// Shortens `block` to `size` bytes and gives the rest back to the free lists. The block is
    /// in no list; the rest keeps the frontier of the whole.
    pub(crate) fn split(&mut self, block: BlockIndex, size: u64) {
        if let Some(rest) = self.cut(block, size) {
            self.arena.at_mut(rest).set_state(State::Reserved);
            self.settle(rest);
        }
    }

    /// Cuts `block` at `size` bytes into two neighbours; the second has no state yet.
    pub(crate) fn cut(&mut self, block: BlockIndex, size: u64) -> Option<BlockIndex> {
        let record = self.arena.at(block);
        let rest_size = record.size - size;
        if rest_size == 0 {
            return None;
        }
        let (place, address) = ((record.segment, record.kind), record.address + size);
        let (home, mark, freed_at) = (record.home, record.home_mark, record.freed_at);
        let next = record.next;
        let copied = (!record.is_home_only()).then(|| record.copy_frontier());
        let rest = self.arena.insert(place, address, rest_size, home);
        let forgets = self.is_sabotaged(Sabotage::SplitForgetsFrontier);
        let own = self.slot;
        let new = self.arena.at_mut(rest);
        (new.home_mark, new.freed_at) = (mark, freed_at);
        if forgets {
            (new.home, new.home_mark) = (own, 0);
        } else if let Some(frontier) = copied {
            new.set_frontier(frontier);
        }
        new.previous = Link::to(block);
        new.next = next;
        self.arena.at_mut(block).size = size;
        self.arena.at_mut(block).next = Link::to(rest);
        if let Some(next) = next.get() {
            self.arena.at_mut(next).previous = Link::to(rest);
        }
        Some(rest)
    }

    /// Puts a reserved block into the free lists, after joining it with what may join at once.
    #[inline]
    pub(crate) fn settle(&mut self, block: BlockIndex) {
        let block = self.join_with_neighbours(block);
        self.put_in(block);
    }

    #[inline]
    fn join_with_neighbours(&mut self, block: BlockIndex) -> BlockIndex {
        let mut whole = block;
        if let Some(next) = self.arena.at(whole).next.get()
            && self.arena.at(next).state.is_free()
            && self.may_join_at_once(whole, next)
        {
            self.take_out(next, State::Reserved);
            self.join(whole, next);
        }
        if let Some(previous) = self.arena.at(whole).previous.get()
            && self.arena.at(previous).state.is_free()
            && self.may_join_at_once(previous, whole)
        {
            self.take_out(previous, State::Reserved);
            self.join(previous, whole);
            whole = previous;
        }
        whole
    }

    /// Whether two free neighbours may become one now (R7).
    #[inline]
    fn may_join_at_once(&self, left: BlockIndex, right: BlockIndex) -> bool {
        let (first, second) = (self.arena.at(left), self.arena.at(right));
        let one_home = first.home == second.home && first.is_home_only() && second.is_home_only();
        if one_home && first.home_mark == second.home_mark {
            return true;
        }
        if !one_home && self.is_sabotaged(Sabotage::MergeKeepsOneFrontier) {
            return true;
        }
        // What every stream may use stays that, also beside what only some may: else a free would
        // take memory away from the others (R10).
        if self.is_over(first) != self.is_over(second) {
            return false;
        }
        if one_home {
            let own = first.home == self.slot;
            return own || (self.is_ready(left) && self.is_ready(right));
        }
        let (forth, back) = (self.covers(first, second), self.covers(second, first));
        (forth && back) || ((forth || back) && self.is_ready(left) && self.is_ready(right))
    }

    /// Whether every earlier use of a free block is complete.
    #[inline]
    fn is_over(&self, record: &BlockRecord) -> bool {
        requirements(record).all(|point| self.is_complete(point))
    }

    fn is_ready(&self, block: BlockIndex) -> bool {
        self.first_unknown(block).is_none()
    }

    /// Whether everything that must come before `second` comes before `first` too.
    fn covers(&self, first: &BlockRecord, second: &BlockRecord) -> bool {
        requirements(second).all(|point| {
            self.is_complete(point)
                || requirements(first)
                    .any(|other| other.stream == point.stream && point.mark <= other.mark)
        })
    }

    /// Joins `right` into `left`; both are reserved or being handed over, in no list.
    pub(crate) fn join(&mut self, left: BlockIndex, right: BlockIndex) {
        let record = self.arena.at_mut(right);
        let (size, next, freed_at) = (record.size, record.next, record.freed_at);
        let other_home = record.home_point();
        let frontier = record.take_frontier();
        self.arena.remove(right);
        let sabotaged = self.is_sabotaged(Sabotage::MergeKeepsOneFrontier);
        let record = self.arena.at_mut(left);
        record.size += size;
        record.next = next;
        record.freed_at = record.freed_at.max(freed_at);
        if !sabotaged {
            let home = record.home_point();
            if home.stream == other_home.stream {
                record.home_mark = home.mark.max(other_home.mark);
            } else {
                self.join_homes(left, home, other_home);
            }
            let record = self.arena.at_mut(left);
            for point in frontier.iter() {
                if point.stream == record.home {
                    record.home_mark = record.home_mark.max(point.mark);
                } else {
                    record.require(point);
                }
            }
        }
        if let Some(next) = next.get() {
            self.arena.at_mut(next).previous = Link::to(left);
        }
    }

    /// Two homes become one home and one point of the frontier; a complete one is dropped.
    fn join_homes(&mut self, block: BlockIndex, home: Point, other: Point) {
        if self.is_complete(other) {
            return;
        }
        let home_is_complete = self.is_complete(home);
        let record = self.arena.at_mut(block);
        if !home_is_complete {
            record.require(other);
            self.counters.cross_stream_merges += 1;
            return;
        }
        (record.home, record.home_mark) = (other.stream, other.mark);
        let frontier = record.take_frontier();
        for point in frontier.iter() {
            if point.stream == other.stream {
                record.home_mark = record.home_mark.max(point.mark);
            } else {
                record.require(point);
            }
        }
    }
}

/// Everything that must come before a free block's next use.
pub(crate) fn requirements(record: &BlockRecord) -> impl Iterator<Item = Point> + '_ {
    std::iter::once(record.home_point()).chain(record.frontier())
}
