//! Blocks that were freed a moment ago, kept apart by size.
//!
//! A program that frees a block mostly asks for the same size again soon. So a block that is free
//! for its own stream is first put on the shelf of its size, in no list and joined with nothing,
//! where the next request of that size finds it at once. A shelf that runs over, or is needed for
//! another size, is emptied into the free lists. A request that finds no fit there empties them
//! all before anything else is tried, so nothing is ever kept from anybody.

use smallvec::SmallVec;

use crate::block::BlockIndex;
use crate::bytes::GRAIN;

/// How many sizes are kept apart.
const SHELF_COUNT: usize = 64;
/// How many blocks of one size.
const SHELF_BLOCKS_MAX: usize = 4;

/// Blocks that leave a shelf.
pub(crate) type Leaving = SmallVec<[BlockIndex; SHELF_BLOCKS_MAX]>;

/// The blocks of one size.
#[derive(Debug, Clone, Copy)]
struct Shelf {
    size: u64,
    count: usize,
    blocks: [BlockIndex; SHELF_BLOCKS_MAX],
}

/// The shelves of one shard.
#[derive(Debug)]
pub(crate) struct Recent {
    shelves: Box<[Shelf; SHELF_COUNT]>,
    /// How many bytes lie on all of them.
    pub(crate) bytes: u64,
}

impl Default for Recent {
    fn default() -> Self {
        let empty = Shelf { size: 0, count: 0, blocks: [BlockIndex(0); SHELF_BLOCKS_MAX] };
        Self { shelves: Box::new([empty; SHELF_COUNT]), bytes: 0 }
    }
}

impl Recent {
    /// Puts a block on its shelf; gives back what had to leave it.
    #[inline]
    pub(crate) fn put(&mut self, block: BlockIndex, size: u64) -> Option<Leaving> {
        let shelf = self.shelves.get_mut(place(size))?;
        let mut leaving = None;
        if shelf.size != size || shelf.count == SHELF_BLOCKS_MAX {
            self.bytes -= shelf.bytes();
            leaving = shelf.empty();
            shelf.size = size;
        }
        if let Some(free) = shelf.blocks.get_mut(shelf.count) {
            *free = block;
            shelf.count += 1;
            self.bytes += size;
        }
        leaving
    }

    /// Takes the latest block of exactly this size.
    #[inline]
    pub(crate) fn take(&mut self, size: u64) -> Option<BlockIndex> {
        let shelf = self.shelves.get_mut(place(size))?;
        if shelf.size != size {
            return None;
        }
        let count = shelf.count.checked_sub(1)?;
        shelf.count = count;
        self.bytes -= size;
        shelf.blocks.get(count).copied()
    }

    /// Takes everything.
    pub(crate) fn take_all(&mut self) -> Vec<BlockIndex> {
        self.bytes = 0;
        self.shelves.iter_mut().filter_map(Shelf::empty).flatten().collect()
    }
}

impl Shelf {
    fn bytes(&self) -> u64 {
        self.blocks.iter().take(self.count).map(|_| self.size).sum()
    }

    fn empty(&mut self) -> Option<Leaving> {
        let blocks = self.blocks.get(..self.count).filter(|blocks| !blocks.is_empty());
        let leaving = blocks.map(Leaving::from_slice);
        self.count = 0;
        leaving
    }
}

/// The shelf of a size.
#[inline]
fn place(size: u64) -> usize {
    let grains = size / GRAIN;
    let mixed = grains ^ (grains >> 6) ^ (grains >> 12) ^ (grains >> 18);
    usize::try_from(mixed & 63).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::{Recent, SHELF_BLOCKS_MAX};
    use crate::block::BlockIndex;

    #[test]
    fn the_latest_block_of_a_size_comes_back_first() {
        let mut recent = Recent::default();
        assert!(recent.put(BlockIndex(1), 512).is_none());
        assert!(recent.put(BlockIndex(2), 512).is_none());
        assert!(recent.put(BlockIndex(3), 1024).is_none());
        assert_eq!(recent.bytes, 2048);
        assert_eq!(recent.take(512), Some(BlockIndex(2)));
        assert_eq!(recent.take(512), Some(BlockIndex(1)));
        assert_eq!(recent.take(512), None);
        assert_eq!(recent.take_all(), [BlockIndex(3)]);
        assert_eq!(recent.bytes, 0);
    }

    #[test]
    fn a_full_shelf_is_emptied() {
        let mut recent = Recent::default();
        for index in 0..SHELF_BLOCKS_MAX {
            assert!(recent.put(BlockIndex(u32::try_from(index).unwrap()), 512).is_none());
        }
        let leaving = recent.put(BlockIndex(9), 512).unwrap();
        assert_eq!(leaving.len(), SHELF_BLOCKS_MAX);
        assert_eq!(recent.bytes, 512);
        assert_eq!(recent.take(512), Some(BlockIndex(9)));
    }
}
