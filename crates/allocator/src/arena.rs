//! Where the block records of one shard live: a slab addressed by index.
//!
//! Knows nothing of what the records mean. A record that was let go is used again with a new
//! generation, so an old handle is told apart from the block that took its place.

use streams::order::StreamSlot;

use crate::block::{BlockIndex, BlockRecord, Link, State};
use crate::source::PoolKind;

/// The block records of one shard.
#[derive(Debug, Default)]
pub(crate) struct Arena {
    records: Vec<BlockRecord>,
    vacant: Vec<BlockIndex>,
}

impl Arena {
    /// Takes a record for the range `address..address + size` of a segment and its pool.
    pub(crate) fn insert(
        &mut self,
        place: (u32, PoolKind),
        address: u64,
        size: u64,
        home: StreamSlot,
    ) -> BlockIndex {
        let index = self.vacant.pop().unwrap_or_else(|| self.grow(home));
        let record = self.at_mut(index);
        (record.segment, record.kind) = place;
        record.address = address;
        record.size = size;
        record.requested = 0;
        record.home = home;
        record.home_mark = 0;
        record.freed_at = 0;
        index
    }

    /// Lets a record go; its index may come back from the next insert.
    pub(crate) fn remove(&mut self, index: BlockIndex) {
        let record = self.at_mut(index);
        record.set_state(State::Vacant);
        record.generation = record.generation.wrapping_add(1);
        record.forget_foreign();
        record.previous = Link::NONE;
        record.next = Link::NONE;
        self.vacant.push(index);
    }

    /// The record of a block of this arena.
    #[inline]
    pub(crate) fn at(&self, index: BlockIndex) -> &BlockRecord {
        self.records.get(position(index)).expect("block indices come from this arena")
    }

    /// The record of a block of this arena, to change.
    #[inline]
    pub(crate) fn at_mut(&mut self, index: BlockIndex) -> &mut BlockRecord {
        self.records.get_mut(position(index)).expect("block indices come from this arena")
    }

    /// The record, to change, if the index has ever been given out.
    pub(crate) fn get_mut(&mut self, index: BlockIndex) -> Option<&mut BlockRecord> {
        self.records.get_mut(position(index))
    }

    /// The record, if the index has ever been given out.
    pub(crate) fn get(&self, index: BlockIndex) -> Option<&BlockRecord> {
        self.records.get(position(index))
    }

    fn grow(&mut self, home: StreamSlot) -> BlockIndex {
        let index = u32::try_from(self.records.len()).expect("fewer than 2^32 blocks in a shard");
        self.records.push(BlockRecord::vacant(home));
        BlockIndex(index)
    }
}

#[inline]
fn position(index: BlockIndex) -> usize {
    usize::try_from(index.0).unwrap_or(usize::MAX)
}
