//! Blocks that were freed a moment ago, kept apart by size.
//!
//! A program that frees a block mostly asks for the same size again soon. So a block that is free
//! for its own stream is first put on the shelf of its size, in no list and joined with nothing,
//! where the next request of that size finds it at once. A shelf that is full lets its oldest
//! block go to the free lists; one that is needed for another size lets go of all. A request that
//! finds no fit there empties them all before anything else is tried, so nothing is ever kept
//! from anybody.

use smallvec::SmallVec;

use crate::block::BlockIndex;
use crate::bytes::GRAIN;

/// The bits of a size's hash: so many pairs of shelves, to the power of two.
const PAIR_BITS: u32 = 7;
const PAIR_COUNT: usize = 1 << PAIR_BITS;
/// How many blocks of one size.
const SHELF_BLOCKS_MAX: usize = 4;

/// Blocks that leave a shelf.
pub(crate) type Leaving = SmallVec<[BlockIndex; SHELF_BLOCKS_MAX]>;

/// The blocks of one size, the oldest first.
#[derive(Debug, Clone, Copy)]
#[repr(align(32))]
struct Shelf {
    size: u64,
    count: u32,
    blocks: [BlockIndex; SHELF_BLOCKS_MAX],
}

/// The two shelves of all sizes with one hash, in one cache line.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
struct Pair {
    first: Shelf,
    second: Shelf,
}

const _: () = assert!(size_of::<Pair>() == 64, "a pair of shelves is one cache line");

/// The shelves of one shard.
#[derive(Debug)]
pub(crate) struct Recent {
    /// How many bytes lie on all of them.
    pub(crate) bytes: u64,
    pairs: [Pair; PAIR_COUNT],
}

impl Default for Recent {
    fn default() -> Self {
        let empty = Shelf { size: 0, count: 0, blocks: [BlockIndex(0); SHELF_BLOCKS_MAX] };
        Self { bytes: 0, pairs: [Pair { first: empty, second: empty }; PAIR_COUNT] }
    }
}

impl Recent {
    /// Puts a block on its shelf if there is room.
    #[inline]
    #[must_use]
    pub(crate) fn put(&mut self, block: BlockIndex, size: u64) -> bool {
        let Some(pair) = self.pairs.get_mut(place(size)) else { return false };
        let done = (pair.first.size == size && pair.first.push(block))
            || (pair.second.size == size && pair.second.push(block));
        if done {
            self.bytes += size;
        }
        done
    }

    /// Puts a block on a shelf that has no room for it yet; gives back what had to leave.
    #[cold]
    pub(crate) fn put_by_force(&mut self, block: BlockIndex, size: u64) -> Leaving {
        let Some(pair) = self.pairs.get_mut(place(size)) else {
            return Leaving::from_slice(&[block]);
        };
        let (left_size, leaving) = pair.make_room(block, size);
        self.bytes += size;
        self.bytes -= leaving.iter().map(|_| left_size).sum::<u64>();
        leaving
    }

    /// Takes the latest block of exactly this size.
    #[inline]
    pub(crate) fn take(&mut self, size: u64) -> Option<BlockIndex> {
        let pair = self.pairs.get_mut(place(size))?;
        let shelf = if pair.first.size == size {
            &mut pair.first
        } else if pair.second.size == size {
            &mut pair.second
        } else {
            return None;
        };
        let block = shelf.pop()?;
        self.bytes -= size;
        Some(block)
    }

    /// Takes everything.
    pub(crate) fn take_all(&mut self) -> Vec<BlockIndex> {
        self.bytes = 0;
        let shelves = self.pairs.iter_mut().flat_map(|pair| [&mut pair.first, &mut pair.second]);
        shelves.filter(|shelf| 0 < shelf.count).flat_map(Shelf::empty).collect()
    }
}

impl Pair {
    /// Puts a block where no shelf can take it at once; gives back the size and the blocks of
    /// what had to leave.
    fn make_room(&mut self, block: BlockIndex, size: u64) -> (u64, Leaving) {
        for shelf in [&mut self.first, &mut self.second] {
            if shelf.size == size {
                return (size, shelf.push_out(block));
            }
        }
        // A new size takes an empty shelf, or else the place of the size that was first.
        if 0 < self.first.count {
            std::mem::swap(&mut self.first, &mut self.second);
        }
        let (left_size, leaving) = (self.first.size, self.first.empty());
        self.first.size = size;
        self.first.push(block);
        (left_size, leaving)
    }
}

impl Shelf {
    /// Adds a block unless the shelf is full.
    #[inline]
    fn push(&mut self, block: BlockIndex) -> bool {
        let free = self.blocks.get_mut(index(self.count));
        let is_room = free.is_some();
        if let Some(free) = free {
            *free = block;
            self.count += 1;
        }
        is_room
    }

    /// Takes the latest block.
    #[inline]
    fn pop(&mut self) -> Option<BlockIndex> {
        let count = self.count.checked_sub(1)?;
        self.count = count;
        self.blocks.get(index(count)).copied()
    }

    /// Adds a block to a full shelf in place of the oldest, which leaves.
    fn push_out(&mut self, block: BlockIndex) -> Leaving {
        self.blocks.rotate_left(1);
        let last = self.blocks.last_mut().map(|last| std::mem::replace(last, block));
        last.into_iter().collect()
    }

    fn empty(&mut self) -> Leaving {
        let leaving = self.blocks.iter().take(index(self.count)).copied().collect();
        self.count = 0;
        leaving
    }
}

/// The pair of shelves of a size.
#[inline]
fn place(size: u64) -> usize {
    // The golden ratio spreads sizes that differ by any step.
    let hash = (size / GRAIN).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - PAIR_BITS);
    usize::try_from(hash).unwrap_or(0)
}

#[inline]
fn index(count: u32) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::{Recent, SHELF_BLOCKS_MAX, place};
    use crate::block::BlockIndex;

    /// Puts a block there and gives back what had to leave.
    fn put(recent: &mut Recent, index: u32, size: u64) -> Vec<BlockIndex> {
        let block = BlockIndex(index);
        if recent.put(block, size) { vec![] } else { recent.put_by_force(block, size).to_vec() }
    }

    #[test]
    fn the_latest_block_of_a_size_comes_back_first() {
        let mut recent = Recent::default();
        for (index, size) in [(1, 512), (2, 512), (3, 1024)] {
            assert_eq!(put(&mut recent, index, size), []);
        }
        assert_eq!(recent.bytes, 2048);
        assert_eq!(recent.take(512), Some(BlockIndex(2)));
        assert_eq!(recent.take(512), Some(BlockIndex(1)));
        assert_eq!(recent.take(512), None);
        assert_eq!(recent.take_all(), [BlockIndex(3)]);
        assert_eq!(recent.bytes, 0);
    }

    #[test]
    fn a_full_shelf_lets_its_oldest_block_go() {
        let mut recent = Recent::default();
        let count = u32::try_from(SHELF_BLOCKS_MAX).unwrap();
        for index in 0..count {
            assert_eq!(put(&mut recent, index, 512), []);
        }
        assert_eq!(put(&mut recent, count, 512), [BlockIndex(0)]);
        assert_eq!(recent.bytes, 512 * u64::from(count));
        assert_eq!(recent.take(512), Some(BlockIndex(count)));
        assert_eq!(recent.take_all(), (1..count).map(BlockIndex).collect::<Vec<_>>());
    }

    #[test]
    fn a_third_size_with_the_same_hash_takes_a_shelf_of_another() {
        let mut sizes = (1..).map(|grains| grains * 512).filter(|size| place(*size) == place(512));
        let [one, two, three] = std::array::from_fn(|_| sizes.next().unwrap());
        let mut recent = Recent::default();
        assert_eq!(put(&mut recent, 1, one), []);
        assert_eq!(put(&mut recent, 2, two), []);
        assert_eq!(put(&mut recent, 3, three), [BlockIndex(1)], "the size that came first goes");
        assert_eq!(recent.bytes, two + three);
        assert_eq!(recent.take(one), None);
        assert_eq!(recent.take(two), Some(BlockIndex(2)));
        assert_eq!(recent.take(three), Some(BlockIndex(3)));
        assert_eq!(recent.bytes, 0);
    }
}
