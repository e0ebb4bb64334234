//! Free blocks by size: bins for speed, best fit inside and across them.
//!
//! Knows nothing of streams; whether a block may be used is the caller's question. Insert and
//! remove are O(1). A search looks at up to [`FIT_SCAN_MAX`] blocks of the first bin, then takes
//! the best of as many of the next bin that holds anything, so it is O(1) too and misses the
//! best fit by less than one sixteenth.

use crate::arena::Arena;
use crate::block::{BlockIndex, Link};
use crate::size_class::{BIN_COUNT, Bin, BinMap};

/// How many blocks of one bin a search compares before it takes the best so far.
const FIT_SCAN_MAX: usize = 16;

/// The free blocks of one kind.
#[derive(Debug)]
pub(crate) struct FreeList {
    heads: Box<[Link]>,
    map: BinMap,
    pub(crate) block_count: u64,
    pub(crate) bytes: u64,
}

impl FreeList {
    pub(crate) fn new() -> Self {
        let heads = vec![Link::NONE; BIN_COUNT].into_boxed_slice();
        Self { heads, map: BinMap::new(), block_count: 0, bytes: 0 }
    }

    /// Adds a block; its state has been set by the caller.
    #[inline]
    pub(crate) fn insert(&mut self, arena: &mut Arena, block: BlockIndex) {
        let size = arena.at(block).size;
        let bin = Bin::of(size);
        let head = self.head_mut(bin);
        let old = std::mem::replace(head, Link::to(block));
        arena.at_mut(block).bin_previous = Link::NONE;
        arena.at_mut(block).bin_next = old;
        if let Some(old) = old.get() {
            arena.at_mut(old).bin_previous = Link::to(block);
        } else {
            self.map.set(bin);
        }
        self.block_count += 1;
        self.bytes += size;
    }

    /// Takes a block out again.
    #[inline]
    pub(crate) fn remove(&mut self, arena: &mut Arena, block: BlockIndex) {
        let record = arena.at(block);
        let (previous, next, size) = (record.bin_previous, record.bin_next, record.size);
        if let Some(next) = next.get() {
            arena.at_mut(next).bin_previous = previous;
        }
        if let Some(previous) = previous.get() {
            arena.at_mut(previous).bin_next = next;
        } else {
            let bin = Bin::of(size);
            *self.head_mut(bin) = next;
            if next == Link::NONE {
                self.map.clear(bin);
            }
        }
        self.block_count -= 1;
        self.bytes -= size;
    }

    /// A block of at least `size` bytes that fits well.
    #[inline]
    pub(crate) fn best_fit(&self, arena: &Arena, size: u64) -> Option<BlockIndex> {
        let first = Bin::of(size);
        let mut bin = self.map.first_from(first)?;
        if bin == first {
            if let Some(found) = self.best_of_bin(arena, bin, size, FIT_SCAN_MAX) {
                return Some(found);
            }
            match self.map.first_after(first) {
                Some(next) => bin = next,
                None => return self.best_of_bin(arena, bin, size, usize::MAX),
            }
        }
        self.best_of_bin(arena, bin, size, FIT_SCAN_MAX)
    }

    /// The smallest fitting block, the lowest address first, among `scan_max` of a bin.
    #[inline]
    fn best_of_bin(
        &self,
        arena: &Arena,
        bin: Bin,
        size: u64,
        scan_max: usize,
    ) -> Option<BlockIndex> {
        let mut best: Option<(u64, u64, BlockIndex)> = None;
        let mut link = self.head(bin);
        let mut scanned = 0;
        while let Some(block) = link.get() {
            let record = arena.at(block);
            if size <= record.size {
                let candidate = (record.size, record.address, block);
                if best.is_none_or(|best| candidate < best) {
                    best = Some(candidate);
                }
            }
            scanned += 1;
            if scan_max <= scanned {
                break;
            }
            link = record.bin_next;
        }
        best.map(|(_, _, block)| block)
    }

    /// Every block of at least `size` bytes, bin by bin from the smallest.
    pub(crate) fn fitting<'list>(
        &'list self,
        arena: &'list Arena,
        size: u64,
    ) -> impl Iterator<Item = BlockIndex> + 'list {
        let bins = std::iter::successors(self.map.first_from(Bin::of(size)), |bin| {
            self.map.first_after(*bin)
        });
        bins.flat_map(move |bin| {
            std::iter::successors(self.head(bin).get(), |block| arena.at(*block).bin_next.get())
        })
        .filter(move |block| size <= arena.at(*block).size)
    }

    #[inline]
    fn head(&self, bin: Bin) -> Link {
        self.heads.get(bin.index()).copied().unwrap_or(Link::NONE)
    }

    #[inline]
    fn head_mut(&mut self, bin: Bin) -> &mut Link {
        self.heads.get_mut(bin.index()).expect("every bin has a head")
    }
}
