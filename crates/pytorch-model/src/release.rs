//! What is tried when no free block serves a request: garbage collection, the driver, giving back
//! blocks that may not be split, and giving back everything.

use crate::block::{Block, BlockIndex, BlockState};
use crate::driver::Driver;
use crate::event::Event;
use crate::model::{Model, PoolId, Wanted};
use crate::pool::{FreeKey, PoolIndex};

impl<D: Driver> Model<D> {
    /// A block for a request that no free one serves; in no list. Each step is tried once.
    pub(crate) fn obtain(&mut self, wanted: Wanted) -> Option<BlockIndex> {
        if 0.0 < self.settings.garbage_collection_threshold {
            self.collect_garbage();
        }
        if let Some(block) = self.ask_driver(wanted) {
            return Some(block);
        }
        if self.settings.rejects_before_driver && self.passes_fraction(wanted.segment_bytes) {
            return None;
        }
        if self.release_oversize(wanted)
            && let Some(block) = self.ask_driver(wanted)
        {
            return Some(block);
        }
        self.figures.retry_count += 1;
        self.release_cached();
        self.ask_driver(wanted)
    }

    /// A new segment, or new pages, within what may be reserved.
    fn ask_driver(&mut self, wanted: Wanted) -> Option<BlockIndex> {
        if self.passes_fraction(wanted.segment_bytes) {
            return None;
        }
        if self.settings.expandable_segments {
            return self.map_for(wanted);
        }
        let bytes = wanted.segment_bytes;
        if self.limits.device_bytes < self.figures.reserved_bytes.saturating_add(bytes) {
            return None;
        }
        let address = self.driver.allocate(bytes);
        self.figures.reserve(bytes);
        self.figures.add_segment();
        self.note(Event::SegmentAlloc { address, bytes, stream: wanted.stream });
        Some(self.blocks.add(Block {
            address,
            bytes,
            stream: wanted.stream,
            pool: wanted.pool,
            before: None,
            after: None,
            expandable: None,
            creation: 0,
            free_since: 0,
            state: BlockState::Free,
        }))
    }

    fn passes_fraction(&self, bytes: u64) -> bool {
        let fraction = self.limits.fraction_bytes;
        fraction.is_some_and(|limit| limit < self.figures.reserved_bytes.saturating_add(bytes))
    }

    /// Gives back large segments that nobody asked for in a long time, until reserved memory is
    /// below the threshold. Does nothing without a memory fraction.
    fn collect_garbage(&mut self) {
        let Some(limit) = self.limits.fraction_bytes else { return };
        let Some(threshold) = part_of(limit, self.settings.garbage_collection_threshold) else {
            return;
        };
        let Some(excess) = self.figures.reserved_bytes.checked_sub(threshold) else { return };
        let pool = self.pools.index(PoolId::DEFAULT, false);
        let searches = self.pools.get(pool).search_count;
        let is_whole = |key: &&FreeKey| self.blocks.is_whole(key.index);
        let age = |key: &FreeKey| searches - self.blocks.get(key.index).free_since;
        let whole = self.pools.get(pool).free.iter().filter(is_whole);
        let mut segments: Vec<(FreeKey, u64)> = whole.map(|key| (*key, age(key))).collect();
        let (mut reclaimed, mut was_freed) = (0, true);
        while reclaimed < excess && was_freed && !segments.is_empty() {
            let total_age: u128 = segments.iter().map(|(_, age)| u128::from(*age)).sum();
            let count = u128::try_from(segments.len()).unwrap_or(u128::MAX);
            let is_old = |(key, age): &(FreeKey, u64)| {
                total_age <= u128::from(*age) * count
                    && self.blocks.get(key.index).expandable.is_none()
            };
            let (old, rest): (Vec<_>, Vec<_>) = segments.into_iter().partition(is_old);
            was_freed = !old.is_empty();
            for (key, _) in old {
                reclaimed += key.bytes;
                self.release(key.index);
            }
            segments = rest;
        }
    }

    /// Gives back one block of the stream that may not be split and is large enough, or else
    /// several of them, the largest first. Whether that is as much as is asked for.
    fn release_oversize(&mut self, wanted: Wanted) -> bool {
        let limit = self.settings.max_split_bytes;
        if limit == u64::MAX {
            return false;
        }
        let needed = wanted.bytes.max(limit);
        let free = &self.pools.get(wanted.pool).free;
        let above = free.range(FreeKey::least(wanted.stream, needed)..).next();
        if let Some(key) = above.filter(|key| key.stream == wanted.stream) {
            let index = key.index;
            self.release_whole(index);
            return true;
        }
        let below = free.range(..FreeKey::least(wanted.stream, needed)).rev();
        let oversize: Vec<FreeKey> = below
            .take_while(|key| key.stream == wanted.stream && limit <= key.bytes)
            .copied()
            .collect();
        let mut released = 0;
        for key in oversize {
            if needed <= released {
                break;
            }
            if self.blocks.get(key.index).expandable.is_none() {
                released += key.bytes;
                self.release_whole(key.index);
            }
        }
        needed <= released
    }

    /// Waits for all pending blocks, then gives back all whole segments and unmaps all free pages.
    pub(crate) fn release_cached(&mut self) {
        self.complete_all();
        for is_small in [false, true] {
            let pool = self.pools.index(PoolId::DEFAULT, is_small);
            self.release_pool(pool);
        }
        for retired in self.pools.retired().to_vec() {
            for is_small in [true, false] {
                let pool = self.pools.index(retired, is_small);
                self.release_pool(pool);
            }
        }
    }

    fn release_pool(&mut self, pool: PoolIndex) {
        let free = self.pools.get(pool).free.iter();
        let free: Vec<BlockIndex> = free.map(|key| key.index).collect();
        let is_expandable = |index: &BlockIndex| self.blocks.get(*index).expandable.is_some();
        let (to_unmap, whole): (Vec<_>, Vec<_>) = free.into_iter().partition(is_expandable);
        for index in whole {
            self.release_whole(index);
        }
        for index in to_unmap {
            self.unmap(index);
        }
    }

    /// Gives a free block back if it is all of its segment.
    fn release_whole(&mut self, index: BlockIndex) {
        if self.blocks.is_whole(index) {
            self.release(index);
        }
    }

    fn release(&mut self, index: BlockIndex) {
        let Block { address, bytes, stream, .. } = *self.blocks.get(index);
        self.pools.remove(&self.blocks, index);
        self.blocks.remove(index);
        self.driver.free(address, bytes);
        self.figures.give_back(bytes);
        self.figures.segment_count -= 1;
        self.note(Event::SegmentFree { address, bytes, stream });
    }
}

/// A part of a size, in whole bytes; nothing for a part that is no number.
pub(crate) fn part_of(bytes: u64, part: f64) -> Option<u64> {
    // Exact to one part in 2^32, and without a cast of a float.
    let scaled = format!("{:.0}", part * 4_294_967_296.0).parse::<u128>().ok()?;
    u64::try_from((u128::from(bytes) * scaled) >> 32).ok()
}
