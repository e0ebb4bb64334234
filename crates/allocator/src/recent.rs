//! Blocks that were freed a moment ago and not yet joined with their neighbours.
//!
//! A program that frees a block mostly asks for the same size again soon. So a freed block stays
//! as it is for the next [`RECENT_COUNT`] frees of its shard, where an exact fit finds it without
//! a split or a join; then it is joined with its neighbours. A request that finds no fit joins
//! all of them before anything else is tried.

use crate::block::BlockIndex;

/// How many frees a block stays apart.
pub(crate) const RECENT_COUNT: usize = 64;

/// The last frees of a shard, oldest first.
#[derive(Debug)]
pub(crate) struct Recent {
    ring: [Option<(BlockIndex, u32)>; RECENT_COUNT],
    next: usize,
}

impl Default for Recent {
    fn default() -> Self {
        Self { ring: [None; RECENT_COUNT], next: 0 }
    }
}

impl Recent {
    /// Remembers a free; gives back the oldest one, which is due to be joined. Its generation
    /// tells whether the block is still the one that was freed then.
    #[inline]
    pub(crate) fn push(&mut self, block: BlockIndex, generation: u32) -> Option<(BlockIndex, u32)> {
        let place = self.next % RECENT_COUNT;
        self.next = place + 1;
        self.ring.get_mut(place)?.replace((block, generation))
    }

    /// Forgets all of them, oldest or not.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = (BlockIndex, u32)> + use<> {
        std::mem::take(self).ring.into_iter().flatten()
    }
}
