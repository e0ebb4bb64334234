//! What is noted when a program says that a stream uses a block.

use std::panic::Location;

use streams::observe::Place;
use streams::order::Point;
use streams::{Stream, StreamOrder};

use crate::allocator::{Allocator, Inner};
use crate::block::{BlockIndex, BlockName, State, UseRecord};
use crate::error::FreeError;
use crate::handle::RawBlock;
use crate::observe::{UseKind, What};
use crate::shard::{Shard, ShardState};
use crate::sync::Arc;

impl Allocator {
    /// As [`crate::Block::record_stream`], for a block that is kept as numbers: `stream` uses it,
    /// and it will not be reused before everything queued there at the time of the free is done.
    /// One lock of the shard the block lies in; no driver call.
    ///
    /// # Errors
    /// The raw parts name no such block of this allocator: it was taken back or freed before, or
    /// belongs to another one. Nothing is noted then.
    #[inline]
    #[track_caller]
    pub fn record_stream_raw(&self, raw: RawBlock, stream: &Stream) -> Result<(), FreeError> {
        if raw.is_empty() {
            return Ok(());
        }
        let (slot, name) = raw.names(self.inner.identity())?;
        let address = raw.address;
        if self.inner.context.is_forked() {
            // The lock may be held for ever in a fork.
            return Ok(());
        }
        let Some(shard) = self.inner.shards.at(slot) else {
            return Err(FreeError::NotAllocated { address });
        };
        let (block, order) = (name.index(), stream.order());
        let is_noted = shard
            .with_uses(|state| state.has_raw(name, address) && state.note_regular(block, order));
        if is_noted {
            return Ok(());
        }
        let is_there = |state: &ShardState| state.has_raw(name, address);
        let named = Named { block, address, place: Location::caller() };
        if self.inner.note_whole(shard, named, order, is_there) {
            Ok(())
        } else {
            Err(FreeError::NotAllocated { address })
        }
    }
}

/// A block that a use is said of, and where the program says it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Named {
    pub(crate) block: BlockIndex,
    pub(crate) address: u64,
    pub(crate) place: Place,
}

impl ShardState {
    /// Whether this names a block that is handed out as numbers.
    #[inline]
    pub(crate) fn has_raw(&self, name: BlockName, address: u64) -> bool {
        self.arena.get(name.index()).is_some_and(|record| {
            record.generation == name.generation()
                && record.state == State::Allocated
                && record.address == address
                && record.handle.is_raw()
        })
    }
}

impl Inner {
    /// Notes that `order` uses a block until its free, as a whole, where one bit of the block's
    /// record does not say it, and tells whoever watches; no if `is_there` says that there is no
    /// such block. One bit never does where somebody watches: a watched allocator has no regulars,
    /// so that only this way has to tell.
    #[cold]
    pub(crate) fn note_whole(
        &self,
        shard: &Shard,
        named: Named,
        order: &StreamOrder,
        is_there: impl Fn(&ShardState) -> bool,
    ) -> bool {
        let Named { block, address, place } = named;
        let is_ours = order.shares_driver_with(&self.context);
        if is_ours {
            // Without the shard's lock.
            self.meet(order);
        }
        let may_be_regular = is_ours && !self.watch.is_on();
        let mut leaving = None;
        let is_noted = shard.with_uses(|state| {
            if !is_there(state) {
                return false;
            }
            if !(may_be_regular && state.admit_regular(block, order, &mut leaving)) {
                state.note_met_use(block, order, |used| used.whole_stream = true);
            }
            true
        });
        drop(leaving);
        if is_noted {
            let (stream, kind) = (order.id(), UseKind::WholeStream);
            self.tell(Some(place), || What::Used { address, stream, kind });
        }
        is_noted
    }
}

impl Shard {
    /// Says with one bit that `order` uses an allocated block until its free; no if it takes more.
    #[inline]
    pub(crate) fn note_regular(&self, block: BlockIndex, order: &StreamOrder) -> bool {
        self.with_uses(|state| state.note_regular(block, order))
    }

    /// Changes what is noted of the use of an allocated block by one stream; gives the allocator if
    /// somebody is to be told. Nothing is noted in a fork.
    pub(crate) fn note_use(
        &self,
        block: BlockIndex,
        order: &StreamOrder,
        change: impl Fn(&mut UseRecord),
    ) -> Option<Arc<Inner>> {
        if self.is_forked() {
            return None;
        }
        let noted = self.with_uses(|state| {
            if !state.has_met(block, order) {
                return Err(Arc::clone(state.kept()));
            }
            state.note_met_use(block, order, &change);
            Ok(state.watched())
        });
        noted.unwrap_or_else(|allocator| {
            // Without the shard's lock.
            allocator.meet(order);
            self.with_uses(|state| state.note_met_use(block, order, &change));
            allocator.watch.is_on().then_some(allocator)
        })
    }
}

impl ShardState {
    /// The allocator, if somebody is to be told of what happens.
    pub(crate) fn watched(&self) -> Option<Arc<Inner>> {
        self.is_watched().then(|| Arc::clone(self.kept()))
    }

    /// Whether a stream that uses a block has been met before, as far as can be told from here; or
    /// need not be.
    fn has_met(&self, block: BlockIndex, order: &StreamOrder) -> bool {
        let record = self.arena.at(block);
        let is_listed = || record.uses().iter().any(|used| used.order.is_same(order));
        self.order.is_same(order)
            || self.spare.has(order)
            || is_listed()
            || !order.shares_driver_with(&self.context)
    }

    /// Changes what is noted of the use of an allocated block by a stream that has been met.
    fn note_met_use(
        &mut self,
        block: BlockIndex,
        order: &StreamOrder,
        change: impl FnOnce(&mut UseRecord),
    ) {
        let record = self.arena.at_mut(block);
        if !order.shares_driver_with(&self.context) {
            // Nothing here can ever know when that use is over: the block is never reused.
            record.hold_count += 1;
            return;
        }
        if record.home == order.slot() {
            // The home may be a stream that has ended, and this the next one in its slot: its
            // position is then the one that the free has to ask for.
            if record.home == self.slot && self.stream_id != order.id() {
                self.adopt(order);
            }
            return;
        }
        self.list_uses(block);
        let uses = self.arena.at_mut(block).uses_mut(&mut self.spare);
        // Not by slot: two streams, one after the other, may have had one.
        let known = uses.iter().position(|used| used.order.is_same(order));
        let place = known.unwrap_or_else(|| {
            let kept = self.spare.take(order);
            uses.push(UseRecord::new(kept.unwrap_or_else(|| order.clone())));
            uses.len() - 1
        });
        if let Some(used) = uses.get_mut(place) {
            change(used);
        }
    }
}

/// Of two exact uses on one stream the later one covers the earlier.
pub(crate) fn sharpen(used: &mut UseRecord, point: Point) {
    let later = used.point.is_none_or(|known| known.mark < point.mark);
    if later {
        used.point = Some(point);
    }
}
