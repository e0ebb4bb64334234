//! Expandable segments: address space whose pages are mapped where they are needed.

use crate::block::{Block, BlockIndex, BlockState, ExpandableIndex};
use crate::driver::Driver;
use crate::event::Event;
use crate::model::{Model, Wanted};
use crate::sizes::CHUNK_SMALL_BYTES;

/// Address space of one stream and pool.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Expandable {
    address: u64,
    bytes: u64,
    /// A page: everything is mapped in multiples of it.
    page_bytes: u64,
}

impl Expandable {
    /// The page edge at or below an address.
    fn edge_below(&self, address: u64) -> u64 {
        self.address + (address - self.address) / self.page_bytes * self.page_bytes
    }

    /// The page edge at or above an address.
    fn edge_above(&self, address: u64) -> u64 {
        self.address + (address - self.address).next_multiple_of(self.page_bytes)
    }
}

impl<D: Driver> Model<D> {
    /// A free block that is large enough, mapped where it was not; in no list.
    pub(crate) fn map_for(&mut self, wanted: Wanted) -> Option<BlockIndex> {
        let bytes = wanted.bytes;
        let mut block = self.find_space(wanted).unwrap_or_else(|| self.add_space(wanted));
        if self.blocks.get(block).state == BlockState::Unmapped {
            block = self.map(block, bytes)?;
        }
        while let missing = bytes.saturating_sub(self.blocks.get(block).bytes)
            && 0 < missing
        {
            // Behind a free block comes only unmapped space, or the search had stopped.
            let next = self.blocks.get(block).after?;
            block = self.map(next, missing)?;
        }
        self.pools.remove(&self.blocks, block);
        Some(block)
    }

    /// The lowest address of the stream from where free and unmapped blocks are long enough.
    fn find_space(&self, wanted: Wanted) -> Option<BlockIndex> {
        let start = (wanted.stream, 0, BlockIndex(0));
        let spaces = self.pools.get(wanted.pool).unmapped.range(start..);
        let of_stream = spaces.take_while(|(stream, ..)| *stream == wanted.stream);
        let mut starts = of_stream.map(|(_, _, unmapped)| {
            let before = self.blocks.get(*unmapped).before;
            before.filter(|before| self.is_usable(*before)).unwrap_or(*unmapped)
        });
        starts.find(|start| self.has_space(*start, wanted.bytes))
    }

    fn has_space(&self, start: BlockIndex, bytes: u64) -> bool {
        let (mut next, mut found) = (Some(start), 0);
        while let Some(index) = next.filter(|index| self.is_usable(*index))
            && found < bytes
        {
            let block = self.blocks.get(index);
            found += block.bytes;
            next = block.after;
        }
        bytes <= found
    }

    fn is_usable(&self, index: BlockIndex) -> bool {
        matches!(self.blocks.get(index).state, BlockState::Free | BlockState::Unmapped)
    }

    /// The address space of an expandable segment that holds at least so much: nine eighths of
    /// the device.
    pub(crate) fn reserve_bytes(&self, least: u64, page_bytes: u64) -> u64 {
        let device = self.limits.device_bytes;
        (device + device / 8).max(least).next_multiple_of(page_bytes)
    }

    pub(crate) fn add_expandable(
        &mut self,
        address: u64,
        bytes: u64,
        page_bytes: u64,
    ) -> ExpandableIndex {
        let index = ExpandableIndex(self.expandables.len());
        self.expandables.push(Expandable { address, bytes, page_bytes });
        index
    }

    /// Takes address space.
    fn add_space(&mut self, wanted: Wanted) -> BlockIndex {
        let is_small = self.pools.get(wanted.pool).is_small;
        let page_bytes =
            if is_small { CHUNK_SMALL_BYTES } else { self.settings.large_segment_bytes };
        let bytes = self.reserve_bytes(wanted.segment_bytes, page_bytes);
        let address = self.driver.reserve(bytes);
        let expandable = Some(self.add_expandable(address, bytes, page_bytes));
        let index = self.blocks.add(Block {
            address,
            bytes,
            stream: wanted.stream,
            pool: wanted.pool,
            before: None,
            after: None,
            expandable,
            creation: 0,
            free_since: 0,
            state: BlockState::Unmapped,
        });
        self.pools.insert_unmapped(&mut self.blocks, index);
        index
    }

    /// Maps the first pages of an unmapped block, at least `bytes`; gives the free block they
    /// become part of. Nothing if memory runs out.
    fn map(&mut self, index: BlockIndex, bytes: u64) -> Option<BlockIndex> {
        let block = *self.blocks.get(index);
        let expandable = self.expandable_of(&block)?;
        let bytes = bytes.min(block.bytes);
        let end = expandable.edge_above(block.address + bytes);
        let mapped_bytes = (end - block.address).min(block.bytes);
        let total = self.figures.reserved_bytes.saturating_add(mapped_bytes);
        if self.limits.device_bytes < total {
            return None;
        }
        self.pools.remove_unmapped(&self.blocks, index);
        if mapped_bytes < block.bytes {
            let rest = (block.address + mapped_bytes, block.bytes - mapped_bytes);
            let rest = self.blocks.add_between(block, rest, (Some(index), block.after));
            self.pools.insert_unmapped(&mut self.blocks, rest);
        }
        let mapped = self.blocks.get_mut(index);
        (mapped.bytes, mapped.state) = (mapped_bytes, BlockState::Free);
        self.join(index);
        self.pools.insert(&mut self.blocks, index);
        self.figures.reserve(mapped_bytes);
        let (address, stream) = (block.address, block.stream);
        self.note(Event::SegmentMap { address, bytes: mapped_bytes, stream });
        Some(index)
    }

    /// Unmaps the whole pages of a free block, and gives its address space back if nothing else
    /// is left of it.
    pub(crate) fn unmap(&mut self, index: BlockIndex) {
        let block = *self.blocks.get(index);
        let Some(expandable) = self.expandable_of(&block) else { return };
        let (start, end) = (
            expandable.edge_above(block.address),
            expandable.edge_below(block.address + block.bytes),
        );
        if end <= start {
            return;
        }
        self.pools.remove(&self.blocks, index);
        if block.address < start {
            let front = (block.address, start - block.address);
            let front = self.blocks.add_between(block, front, (block.before, Some(index)));
            self.pools.insert(&mut self.blocks, front);
        }
        let block_end = block.address + block.bytes;
        if end < block_end {
            let back = (end, block_end - end);
            let back = self.blocks.add_between(block, back, (Some(index), block.after));
            self.pools.insert(&mut self.blocks, back);
        }
        let bytes = end - start;
        let unmapped = self.blocks.get_mut(index);
        (unmapped.address, unmapped.bytes) = (start, bytes);
        unmapped.state = BlockState::Unmapped;
        self.join(index);
        self.pools.insert_unmapped(&mut self.blocks, index);
        self.figures.give_back(bytes);
        self.note(Event::SegmentUnmap { address: start, bytes, stream: block.stream });
        if self.blocks.is_whole(index) {
            self.pools.remove_unmapped(&self.blocks, index);
            self.blocks.remove(index);
            self.driver.release(expandable.address, expandable.bytes);
        }
    }

    fn expandable_of(&self, block: &Block) -> Option<Expandable> {
        self.expandables.get(block.expandable?.0).copied()
    }
}
