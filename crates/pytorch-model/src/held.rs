//! What an allocator holds already when a recording begins.

use crate::block::{Block, BlockIndex, BlockState, Blocks, ExpandableIndex};
use crate::driver::Driver;
use crate::model::{BlockNumber, Model, PoolId};
use crate::pool::Pools;
use crate::sizes::CHUNK_SMALL_BYTES;

/// A segment that is held, or a mapped range of an expandable one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldSegment {
    /// Its first byte.
    pub address: u64,
    /// Its length.
    pub bytes: u64,
    /// The handle of the stream whose requests it serves.
    pub stream: u64,
    /// The pool it belongs to.
    pub pool: PoolId,
    /// Whether it serves requests of at most 1 MiB.
    pub is_small: bool,
    /// The blocks in use, by address; what lies between them is free.
    pub blocks: Vec<HeldBlock>,
}

/// A block in use in a segment that is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeldBlock {
    /// Its first byte.
    pub address: u64,
    /// Its length.
    pub bytes: u64,
    /// What it is called.
    pub number: BlockNumber,
    /// Whether it was freed and waits for other streams.
    pub is_pending: bool,
}

impl HeldSegment {
    /// A page of the expandable segment it is part of.
    const fn pool_page_bytes(&self, large_segment_bytes: u64) -> u64 {
        if self.is_small { CHUNK_SMALL_BYTES } else { large_segment_bytes }
    }

    /// Whether its blocks are in order, not empty, and within it.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        let Some(end) = self.address.checked_add(self.bytes) else { return false };
        let mut free_from = self.address;
        for block in &self.blocks {
            let Some(block_end) = block.address.checked_add(block.bytes) else { return false };
            if block.bytes == 0 || block.address < free_from || end < block_end {
                return false;
            }
            free_from = block_end;
        }
        0 < self.bytes
    }
}

impl<D: Driver> Model<D> {
    /// Takes over a segment that somebody else has taken from the driver. Its bytes count as
    /// reserved, and the blocks in use as handed out, from here on.
    ///
    /// # Panics
    /// If the segment is not [sound](HeldSegment::is_sound), or a number is in use.
    pub fn adopt(&mut self, segment: &HeldSegment) {
        self.figures.add_segment();
        self.adopt_range(segment, None, None);
    }

    /// Takes over an expandable segment that begins at `start`, with the ranges of it that are
    /// mapped, by address. Nothing if there are none.
    ///
    /// # Panics
    /// If a range is not [sound](HeldSegment::is_sound), they are out of order, or a number is in
    /// use.
    pub fn adopt_expandable(&mut self, start: u64, ranges: &[HeldSegment]) {
        let Some(first) = ranges.first() else { return };
        let bytes = first.pool_page_bytes(self.settings.large_segment_bytes);
        let end = ranges.iter().map(|range| range.address + range.bytes).max().unwrap_or(start);
        let reserved = self.reserve_bytes(end - start, bytes);
        let expandable = self.add_expandable(start, reserved, bytes);
        let model = Block { expandable: Some(expandable), ..self.block_like(first) };
        let (mut last, mut unmapped_from) = (None, start);
        for range in ranges {
            last = self.adopt_between(
                model,
                (unmapped_from, range.address),
                last,
                Pools::insert_unmapped,
            );
            last = self.adopt_range(range, Some(expandable), last);
            unmapped_from = range.address + range.bytes;
        }
        self.adopt_between(model, (unmapped_from, start + reserved), last, Pools::insert_unmapped);
    }

    fn block_like(&mut self, segment: &HeldSegment) -> Block {
        Block {
            address: segment.address,
            bytes: segment.bytes,
            stream: segment.stream,
            pool: self.pools.index(segment.pool, segment.is_small),
            before: None,
            after: None,
            expandable: None,
            creation: 0,
            free_since: 0,
            state: BlockState::Allocated,
        }
    }

    /// Adds the blocks of a segment or range behind `last`; gives the last of them.
    fn adopt_range(
        &mut self,
        segment: &HeldSegment,
        expandable: Option<ExpandableIndex>,
        before: Option<BlockIndex>,
    ) -> Option<BlockIndex> {
        assert!(segment.is_sound(), "blocks lie in order within their segment");
        let model = Block { expandable, ..self.block_like(segment) };
        self.figures.reserve(segment.bytes);
        let (mut last, mut free_from) = (before, segment.address);
        for held in &segment.blocks {
            last = self.adopt_between(model, (free_from, held.address), last, Pools::insert);
            let place = (held.address, held.bytes);
            let index = self.blocks.add_between(model, place, (last, None));
            self.figures.hand_out(held.bytes);
            self.name(held.number, index);
            if held.is_pending {
                self.free(held.number, true);
            }
            (last, free_from) = (Some(index), held.address + held.bytes);
        }
        self.adopt_between(model, (free_from, segment.address + segment.bytes), last, Pools::insert)
    }

    /// Adds a block from one address to another, if there is room, and has `insert` put it where it
    /// belongs; gives the last block.
    fn adopt_between(
        &mut self,
        model: Block,
        (start, end): (u64, u64),
        last: Option<BlockIndex>,
        insert: fn(&mut Pools, &mut Blocks, BlockIndex),
    ) -> Option<BlockIndex> {
        if end <= start {
            return last;
        }
        let index = self.blocks.add_between(model, (start, end - start), (last, None));
        insert(&mut self.pools, &mut self.blocks, index);
        Some(index)
    }
}

#[cfg(test)]
mod tests {
    use super::{HeldBlock, HeldSegment};
    use crate::{
        AddressOrder, AssumedDriver, BlockNumber, Limits, Model, PoolId, Request, Settings, Ties,
    };

    const MIB: u64 = 1 << 20;

    fn segment(blocks: &[(u64, u64)]) -> HeldSegment {
        let block = |(number, (start, bytes)): (u32, &(u64, u64))| HeldBlock {
            address: 64 * MIB + start,
            bytes: *bytes,
            number: BlockNumber(number),
            is_pending: number == 1,
        };
        HeldSegment {
            address: 64 * MIB,
            bytes: 20 * MIB,
            stream: 0,
            pool: PoolId::DEFAULT,
            is_small: false,
            blocks: (0..).zip(blocks).map(block).collect(),
        }
    }

    #[test]
    fn what_is_held_is_used_and_joined_as_if_it_had_been_taken_here() {
        let driver = AssumedDriver::new(AddressOrder::FromAbove);
        let limits = Limits { device_bytes: 1 << 40, fraction_bytes: None };
        let mut model = Model::new(Settings::default(), limits, Ties::Address, driver);
        model.adopt(&segment(&[(2 * MIB, 4 * MIB), (8 * MIB, 2 * MIB)]));
        let figures = *model.figures();
        assert_eq!((figures.reserved_bytes, figures.segment_count), (20 * MIB, 1));
        assert_eq!((figures.allocated_bytes, figures.active_bytes), (4 * MIB, 6 * MIB));
        let request = Request { bytes: 10 * MIB, stream: 0, pool: PoolId::DEFAULT };
        let placed = model.allocate(BlockNumber(2), request).unwrap();
        assert_eq!(placed.address, 74 * MIB, "the free rest");
        for number in [0, 2] {
            model.free(BlockNumber(number), false);
        }
        model.complete(BlockNumber(1));
        model.empty_cache();
        assert_eq!(model.figures().reserved_bytes, 0, "its blocks were joined to a whole");
    }

    #[test]
    fn ranges_of_an_expandable_segment_grow_into_the_space_between_them() {
        let driver = AssumedDriver::new(AddressOrder::FromAbove);
        let limits = Limits { device_bytes: 1 << 36, fraction_bytes: None };
        let settings = Settings::parse("expandable_segments:True").unwrap();
        let mut model = Model::new(settings, limits, Ties::Address, driver);
        let mut second = segment(&[(0, 20 * MIB)]);
        second.address += 40 * MIB;
        second.blocks[0].address += 40 * MIB;
        second.blocks[0].number = BlockNumber(7);
        let first = segment(&[(0, 4 * MIB)]);
        model.adopt_expandable(64 * MIB, &[first, second]);
        assert_eq!((model.figures().reserved_bytes, model.figures().segment_count), (40 * MIB, 0));
        let request = Request { bytes: 30 * MIB, stream: 0, pool: PoolId::DEFAULT };
        let placed = model.allocate(BlockNumber(1), request).unwrap();
        assert_eq!(placed.address, 68 * MIB, "the free rest, and pages mapped behind it");
        assert_eq!(model.figures().reserved_bytes, 60 * MIB);
        for number in [0, 1, 7] {
            model.free(BlockNumber(number), false);
        }
        model.empty_cache();
        assert_eq!(model.figures().reserved_bytes, 0, "the three ranges were one");
    }

    #[test]
    fn an_ended_pool_is_given_back_with_the_cache_and_no_other_private_one() {
        let driver = AssumedDriver::new(AddressOrder::FromAbove);
        let limits = Limits { device_bytes: 1 << 40, fraction_bytes: None };
        let mut model = Model::new(Settings::default(), limits, Ties::Address, driver);
        for (number, pool) in [(0, PoolId(0, 1)), (1, PoolId(0, 2))] {
            let request = Request { bytes: 12 * MIB, stream: 0, pool };
            model.allocate(BlockNumber(number), request).unwrap();
            model.free(BlockNumber(number), false);
        }
        model.empty_cache();
        assert_eq!(model.figures().reserved_bytes, 24 * MIB);
        model.retire(PoolId(0, 2));
        model.empty_cache();
        assert_eq!(model.figures().reserved_bytes, 12 * MIB);
    }

    #[test]
    fn blocks_that_overlap_or_leave_their_segment_are_not_sound() {
        assert!(segment(&[(0, 4 * MIB), (4 * MIB, 16 * MIB)]).is_sound());
        assert!(!segment(&[(0, 4 * MIB), (3 * MIB, MIB)]).is_sound());
        assert!(!segment(&[(18 * MIB, 3 * MIB)]).is_sound());
        assert!(!segment(&[(0, 0)]).is_sound());
        assert!(!segment(&[(u64::MAX - 64 * MIB, MIB)]).is_sound());
    }
}
