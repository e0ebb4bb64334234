//! What happens to a block when its owner lets it go, and while someone still holds it.
//!
//! The fast way is one visit to one shard: no uses, freed for its own stream. Otherwise the block
//! is reserved, the lock dropped, a fence recorded on each stream whose use is not known to be
//! over (L1), and the block put back with its frontier. A fence that cannot be recorded leaves
//! the point without one: the block then waits for a synchronisation, and is never reused early.

use streams::StreamOrder;
use streams::order::{Frontier, Point, StreamSlot};

use crate::allocator::Inner;
use crate::block::{BlockIndex, State, Uses};
use crate::config::Sabotage;
use crate::error::FreeError;
use crate::shard::ShardState;

/// Names one allocated block for as long as it is allocated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct BlockKey {
    /// The shard that owns the block's segment.
    pub(crate) owner: StreamSlot,
    pub(crate) index: BlockIndex,
    pub(crate) generation: u32,
}

/// What a free still has to do outside the lock.
#[derive(Debug)]
enum Plan {
    Done,
    Fence { home: StreamSlot, uses: Uses },
}

impl Inner {
    /// Frees an allocated block.
    #[inline]
    pub(crate) fn free(&self, key: BlockKey, address: u64) -> Result<(), FreeError> {
        let missing = FreeError::NotAllocated { address };
        let Some(shard) = self.shards.get(key.owner) else { return Err(missing) };
        let plan = shard.with(|state| state.begin_free(key, State::Allocated)).ok_or(missing)?;
        match plan {
            Plan::Done => Ok(()),
            Plan::Fence { home, uses } => self.finish_free(key, home, &uses),
        }
    }

    /// Ends one hold; the last one of a freed block frees it for good.
    pub(crate) fn end_hold(&self, key: BlockKey) {
        let Some(shard) = self.shards.get(key.owner) else { return };
        let plan = shard.with(|state| {
            let record = state.arena.at_mut(key.index);
            if record.generation != key.generation {
                return None;
            }
            record.hold_count = record.hold_count.saturating_sub(1);
            if 0 < record.hold_count || record.state != State::Held {
                return None;
            }
            let size = record.size;
            state.shared.unpend(size);
            state.begin_free(key, State::Held)
        });
        if let Some(Plan::Fence { home, uses }) = plan
            && self.finish_free(key, home, &uses).is_err()
        {
            self.count_drop_error();
        }
    }

    /// Records the fences of a free and puts the block into the lists.
    #[cold]
    fn finish_free(&self, key: BlockKey, home: StreamSlot, uses: &Uses) -> Result<(), FreeError> {
        let home_order = self.order_of(home);
        let home_point = home_order.as_ref().map(StreamOrder::position);
        let mut frontier = Frontier::default();
        let mut failure = None;
        for used in uses {
            let Some(point) = used.point_at_free() else { continue };
            let ordered = home_order.as_ref().is_some_and(|order| order.knows(point));
            if ordered || used.order.is_complete(point) {
                continue;
            }
            frontier.insert(point);
            if let Err(error) = self.fence(&used.order, point) {
                failure.get_or_insert(error);
            }
        }
        if let Some(shard) = self.shards.get(key.owner) {
            shard.with(|state| state.end_free(key.index, home_point, frontier));
        }
        failure.map_or(Ok(()), |error| Err(FreeError::Unfenced(error)))
    }

    /// Makes sure the device can be asked about `point`.
    fn fence(&self, order: &StreamOrder, point: Point) -> Result<(), streams::Error> {
        if !self.config.policy.polls() && !self.config.policy.waits() {
            return Ok(());
        }
        if order.fence_exactly(point).is_some() || order.is_retired() || order.is_capturing() {
            return Ok(());
        }
        match order.fence_now() {
            // The block waits until that thread, or the end of the capture, makes a fence (O9).
            Err(
                streams::Error::WrongThread { .. }
                | streams::Error::Capturing { .. }
                | streams::Error::StreamGone { .. },
            ) => Ok(()),
            outcome => outcome.map(drop),
        }
    }
}

impl ShardState {
    /// The first half of a free, under the lock. `None`: the key names no such block.
    #[inline]
    fn begin_free(&mut self, key: BlockKey, expected: State) -> Option<Plan> {
        let own = self.order.slot();
        let record = self.arena.get(key.index)?;
        if record.generation != key.generation || record.state != expected {
            return None;
        }
        let (size, requested, home) = (record.size, record.requested, record.home);
        let (plain, held) = (record.uses.is_empty() && home == own, 0 < record.hold_count);
        if expected == State::Allocated {
            self.counters.freed += 1;
            self.counters.requested_bytes -= requested;
            self.shared.free(size);
        }
        if held {
            self.arena.at_mut(key.index).set_state(State::Held);
            self.shared.pend(size);
            self.counters.deferred += 1;
            return Some(Plan::Done);
        }
        self.freed_count += 1;
        let freed_at = self.freed_count;
        let mark = if plain { self.order.position().mark } else { 0 };
        let record = self.arena.at_mut(key.index);
        record.set_state(State::Reserved);
        // A new generation: every handle of the block is stale from here on.
        record.generation = record.generation.wrapping_add(1);
        record.freed_at = freed_at;
        if plain {
            record.home_mark = mark;
            let generation = record.generation;
            self.set_aside(key.index, generation);
            return Some(Plan::Done);
        }
        let uses = std::mem::take(&mut record.uses);
        let uses = if self.is_sabotaged(Sabotage::IgnoreUses) { Uses::new() } else { uses };
        Some(Plan::Fence { home, uses })
    }

    /// Puts a reserved block that is ready into the free lists as it is, to be joined later.
    #[inline]
    fn set_aside(&mut self, block: BlockIndex, generation: u32) {
        let (pool, arena) = self.pool_and_arena_of(block);
        arena.at_mut(block).set_state(State::Ready);
        pool.ready.insert(arena, block);
        if let Some((due, generation)) = self.recent.push(block, generation) {
            self.join_recent(due, generation);
        }
    }

    /// Joins a block that was set aside with its neighbours, if it is still that block.
    #[inline]
    fn join_recent(&mut self, block: BlockIndex, generation: u32) {
        let record = self.arena.at(block);
        if record.generation == generation && record.state.is_free() {
            self.take_out(block, State::Reserved);
            self.settle(block);
        }
    }

    /// Joins everything that was set aside; true if there was anything.
    pub(crate) fn join_all_recent(&mut self) -> bool {
        let mut any = false;
        for (block, generation) in self.recent.drain() {
            self.join_recent(block, generation);
            any = true;
        }
        any
    }

    /// The second half of a free that had uses.
    fn end_free(&mut self, block: BlockIndex, home: Option<Point>, frontier: Frontier) {
        let record = self.arena.at_mut(block);
        if let Some(home) = home {
            (record.home, record.home_mark) = (home.stream, home.mark);
        }
        record.frontier = frontier;
        if self.first_unknown(block).is_some() {
            self.counters.deferred += 1;
        }
        self.settle(block);
    }
}
