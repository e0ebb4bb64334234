//! What happens to a block when its owner lets it go, and while someone still holds it.
//!
//! The fast way is one visit to one shard: no uses, freed for its own stream. Otherwise the block
//! is reserved, the lock dropped, a fence recorded on each stream whose use is not known to be
//! over (L1), and the block put back with its frontier. A fence that cannot be recorded leaves
//! the point without one: the block then waits for a synchronization, and is never reused early.

use smallvec::SmallVec;
use streams::observe::Place;
use streams::order::{Frontier, Point, StreamSlot};
use streams::{Fence, StreamOrder};

use crate::allocator::Inner;
use crate::block::{BlockIndex, BlockName, Handle, State, Uses};
use crate::config::Sabotage;
use crate::error::FreeError;
use crate::handle::RawBlock;
use crate::shard::{Shard, ShardState};
use crate::source::PoolKind;
use crate::sync::Arc;

/// The fences that a free has left on the streams that had used the block.
type Ends = SmallVec<[Fence; 2]>;

/// What a free still has to do outside the lock.
#[derive(Debug)]
enum Plan {
    /// The name is that of no such block.
    Missing,
    Done,
    /// As done, and nothing else keeps the allocator.
    Last(Arc<Inner>),
    /// The block is reserved, and the fences of its uses are to be recorded.
    Fence,
}

impl Shard {
    /// Frees an allocated block that keeps the allocator, which it then does no more.
    pub(crate) fn free(
        &self,
        name: BlockName,
        address: u64,
        place: Place,
    ) -> Result<(), FreeError> {
        let plan = self.begin_free(name);
        if let Plan::Done = plan {
            return Ok(());
        }
        self.free_otherwise(plan, (name, address), Some(place))
    }

    /// The same for a block that is dropped: what goes wrong is counted.
    #[inline]
    pub(crate) fn free_dropped(&self, name: BlockName) {
        let plan = self.begin_free(name);
        if let Plan::Done = plan {
            return;
        }
        self.free_dropped_otherwise(plan, name);
    }

    /// One visit, which is all of it if nothing is to be told and no fence to be recorded.
    #[inline(always)]
    fn begin_free(&self, name: BlockName) -> Plan {
        if self.is_forked() {
            // The block is the parent's; its locks may be held for ever here.
            return Plan::Done;
        }
        self.with(|state| {
            let plan = state.begin_free(name, State::Allocated, Handle::Block);
            if let Plan::Done = plan { state.let_go().map_or(plan, Plan::Last) } else { plan }
        })
    }

    #[cold]
    fn free_dropped_otherwise(&self, plan: Plan, name: BlockName) {
        let _counted = self.free_otherwise(plan, (name, 0), None);
    }

    /// What a free has to do beyond one visit. Lets go of the allocator at its end.
    #[cold]
    fn free_otherwise(
        &self,
        plan: Plan,
        (name, address): (BlockName, u64),
        place: Option<Place>,
    ) -> Result<(), FreeError> {
        if let Plan::Last(allocator) = plan {
            // Without the lock: the allocator ends, and leaves this shard.
            drop(allocator);
            return Ok(());
        }
        let allocator = self.kept();
        let mut plan = plan;
        if matches!(plan, Plan::Missing) && allocator.watch.is_on() {
            // Not begun: it is told first.
            allocator.tell_freed(place, self, (name, None, Handle::ToldBlock));
            plan = self.with(|state| state.begin_free(name, State::Allocated, Handle::ToldBlock));
        }
        let outcome = match plan {
            Plan::Done | Plan::Last(_) => Ok(()),
            Plan::Fence => allocator.finish_free(self, name),
            Plan::Missing => Err(FreeError::NotAllocated { address }),
        };
        if outcome.is_err() && place.is_none() {
            allocator.count_drop_error();
        }
        self.let_go();
        outcome
    }

    /// Ends one hold, which then keeps the allocator no more.
    pub(crate) fn end_hold(&self, name: BlockName) {
        if self.is_forked() {
            return;
        }
        self.kept().end_hold(self, name);
        self.let_go();
    }
}

impl Inner {
    /// Frees a block that was handed out as numbers.
    #[inline]
    pub(crate) fn free_raw(&self, raw: &RawBlock, place: Place) -> Result<(), FreeError> {
        if raw.is_empty() || self.context.is_forked() {
            return Ok(());
        }
        let (slot, name) = raw.names(self.identity())?;
        let address = raw.address;
        let Some(shard) = self.shards.at(slot) else {
            return Err(FreeError::NotAllocated { address });
        };
        match shard.with(|state| state.begin_free_raw(name, address, Handle::Raw)) {
            Plan::Done | Plan::Last(_) => Ok(()),
            Plan::Fence => self.finish_free(shard, name),
            Plan::Missing => self.free_told_raw(shard, (name, address), place),
        }
    }

    /// The same of a block whose free is to be told, if there is one.
    #[cold]
    fn free_told_raw(
        &self,
        shard: &Shard,
        (name, address): (BlockName, u64),
        place: Place,
    ) -> Result<(), FreeError> {
        self.tell_freed(Some(place), shard, (name, Some(address), Handle::ToldRaw));
        match shard.with(|state| state.begin_free_raw(name, address, Handle::ToldRaw)) {
            Plan::Done | Plan::Last(_) => Ok(()),
            Plan::Fence => self.finish_free(shard, name),
            Plan::Missing => Err(FreeError::NotAllocated { address }),
        }
    }

    /// Ends one hold; the last one of a freed block frees it for good.
    fn end_hold(&self, shard: &Shard, name: BlockName) {
        self.tell_hold_ended(shard, name);
        let plan = shard.with(|state| {
            let record = state.arena.at_mut(name.index());
            if record.generation != name.generation() {
                return Plan::Missing;
            }
            record.hold_count = record.hold_count.saturating_sub(1);
            if 0 < record.hold_count || record.state != State::Held {
                return Plan::Done;
            }
            let size = record.size;
            state.unpend(size);
            state.held -= size;
            state.begin_free(name, State::Held, Handle::Block)
        });
        if let Plan::Fence = plan
            && self.finish_free(shard, name).is_err()
        {
            self.count_drop_error();
        }
    }

    /// Records the fences of a free and puts the block into the lists.
    #[cold]
    fn finish_free(&self, shard: &Shard, name: BlockName) -> Result<(), FreeError> {
        let (home, uses) = shard.with(|state| state.take_uses(name.index()));
        let home_order = self.order_of(home);
        let home_point = home_order.as_ref().map(|order| self.view.home_position(order));
        let mut frontier = Frontier::default();
        let mut ends = Ends::new();
        let mut failure = None;
        for used in &uses {
            let Some(point) = used.point_at_free() else { continue };
            let ordered = home_order.as_ref().is_some_and(|order| self.view.knows(order, point));
            if ordered || self.view.is_complete(&used.order, point) {
                continue;
            }
            frontier.insert(point);
            let fence = self.fence(&used.order, point).unwrap_or_else(|error| {
                failure.get_or_insert(error);
                None
            });
            if self.config.policy.waits() {
                self.bursts.note(point, fence.as_ref());
                ends.extend(fence);
            }
        }
        let burst = home_order.as_ref().filter(|_| !ends.is_empty());
        let burst = burst.and_then(|order| Some((self.depth(order)?, &ends)));
        shard.with(|state| state.end_free(name.index(), home_point, frontier, burst));
        if let Some(home) = home_order.filter(|_| !ends.is_empty() && self.config.learns_depth()) {
            self.pace.note_step(&self.context, &home, ends, self.counters.remapped());
        }
        self.keep_bounds(shard);
        failure.map_or(Ok(()), |error| Err(FreeError::Unfenced(error)))
    }

    /// Makes sure the device can be asked about `point`, where that is possible: gives a fence
    /// that covers it, and nothing that is queued later than now.
    fn fence(&self, order: &StreamOrder, point: Point) -> Result<Option<Fence>, streams::Error> {
        let kept = self.view.fence_exactly(order, point);
        if kept.is_some() || order.is_retired() || order.is_capturing() {
            return Ok(kept);
        }
        match self.view.fence_now(order) {
            // The block waits until that thread, or the end of the capture, makes a fence (O9). On
            // a context that has failed it waits for ever, and the free has succeeded (L4).
            Err(
                streams::Error::ContextFailed { .. }
                | streams::Error::WrongThread { .. }
                | streams::Error::Capturing { .. }
                | streams::Error::StreamGone { .. },
            ) => Ok(None),
            Err(_) if self.context.first_error().is_some() => Ok(None),
            outcome => outcome.map(Some),
        }
    }
}

impl ShardState {
    /// As [`Self::begin_free`], of a block that was handed out as numbers.
    #[inline(always)]
    fn begin_free_raw(&mut self, name: BlockName, address: u64, handle: Handle) -> Plan {
        match self.arena.get(name.index()) {
            Some(record) if record.address == address => {}
            _ => return Plan::Missing,
        }
        self.begin_free(name, State::Allocated, handle)
    }

    /// The first half of a free, under the lock. Always in line: a call of it costs a cached pair
    /// a tenth of its instructions.
    #[inline(always)]
    fn begin_free(&mut self, name: BlockName, expected: State, handle: Handle) -> Plan {
        let Some(record) = self.arena.get_mut(name.index()) else { return Plan::Missing };
        let same = record.generation == name.generation() && record.state == expected;
        if !same || record.handle != handle {
            return Plan::Missing;
        }
        let size = record.size;
        if expected == State::Allocated {
            self.counters.freed += 1;
            self.counters.requested_bytes -= record.requested;
            self.allocated -= size;
        }
        if 0 < record.hold_count {
            self.keep_held(name.index());
            return Plan::Done;
        }
        self.freed_count += 1;
        // A new generation: every handle of the block is stale from here on.
        record.generation = record.generation.wrapping_add(1);
        record.freed_at = self.freed_count;
        let block = name.index();
        let is_over = record.home == self.slot
            && if record.is_home_only() {
                record.regulars.is_empty()
                    || self.regulars.end(&mut record.regulars, &self.order, self.view)
            } else {
                self.end_uses(block)
            };
        if is_over {
            self.shelve(block, size);
            return Plan::Done;
        }
        self.arena.at_mut(block).set_state(State::Reserved);
        Plan::Fence
    }

    /// Puts a block that only its own stream, which is the shard's, has to do with on a shelf.
    #[inline]
    fn shelve(&mut self, block: BlockIndex, size: u64) {
        let home_mark = self.view.home_position(&self.order).mark;
        let record = self.arena.at_mut(block);
        record.home_mark = home_mark;
        record.set_state(State::Recent);
        // Else it serves requests of a kind that its pool is not for: not asked for again.
        let fits_pool = record.kind == PoolKind::of(size);
        if !fits_pool || !self.recent.put(block, size) {
            self.set_aside(block, size, fits_pool);
        }
    }

    /// Forgets the uses of a block if each is known to come before the next operation of its own
    /// stream, the shard's: whoever comes after that stream then comes after them. No driver call.
    #[inline(never)]
    fn end_uses(&mut self, block: BlockIndex) -> bool {
        if self.is_sabotaged(Sabotage::IgnoreUses) {
            return false;
        }
        let (order, view) = (&self.order, self.view);
        let record = self.arena.at_mut(block);
        let are_over = record.uses().iter().all(|used| {
            let point = used.point_at_free();
            point.is_none_or(|point| view.knows(order, point))
        });
        if are_over {
            record.end_uses(&mut self.spare);
        }
        are_over
    }

    /// A freed block stays as it is until its last hold ends.
    #[cold]
    fn keep_held(&mut self, block: BlockIndex) {
        let record = self.arena.at_mut(block);
        record.handle = Handle::Block;
        record.set_state(State::Held);
        let size = record.size;
        self.pend(size);
        self.held += size;
        self.counters.deferred += 1;
    }

    /// Home and uses of a block whose free is under way.
    fn take_uses(&mut self, block: BlockIndex) -> (StreamSlot, Uses) {
        let ignored = self.is_sabotaged(Sabotage::IgnoreUses);
        self.list_uses(block);
        let record = self.arena.at_mut(block);
        let uses = record.take_uses();
        (record.home, if ignored { Uses::new() } else { uses })
    }

    /// Puts a block that is free for its own stream on a shelf that has no room for it, or into
    /// the free lists at once.
    #[cold]
    fn set_aside(&mut self, block: BlockIndex, size: u64, on_shelf: bool) {
        if on_shelf {
            let leaving = self.recent.put_by_force(block, size);
            self.settle_recent(&leaving);
        } else {
            self.settle_recent(&[block]);
        }
    }

    #[cold]
    fn settle_recent(&mut self, leaving: &[BlockIndex]) {
        for block in leaving {
            self.arena.at_mut(*block).set_state(State::Reserved);
            self.settle(*block);
        }
    }

    /// Empties all shelves into the free lists; true if there was anything.
    pub(crate) fn join_all_recent(&mut self) -> bool {
        if self.recent.bytes == 0 {
            return false;
        }
        let leaving = self.recent.take_all();
        self.settle_recent(&leaving);
        true
    }

    /// The second half of a free that had uses. `burst` is how deep the home stream waits, and the
    /// fences that the free has left.
    fn end_free(
        &mut self,
        block: BlockIndex,
        home: Option<Point>,
        frontier: Frontier,
        burst: Option<(usize, &Ends)>,
    ) {
        self.return_lent(self.arena.at(block).home);
        let record = self.arena.at_mut(block);
        let size = record.size;
        if let Some(home) = home {
            (record.home, record.home_mark) = (home.stream, home.mark);
        }
        record.set_frontier(frontier);
        if self.first_unknown(block).is_some() {
            self.counters.deferred += 1;
        }
        if let Some((depth, ends)) = burst {
            let ends: SmallVec<[Point; 2]> = ends.iter().map(Fence::point).collect();
            self.stock.add(&ends, size, depth);
        }
        self.settle(block);
    }
}
