//! Blocks, kept in one table: each knows its neighbors within its segment.

use crate::pool::PoolIndex;

/// A place in the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct BlockIndex(pub(crate) u32);

/// A place in the list of expandable segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ExpandableIndex(pub(crate) usize);

/// A part of a segment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Block {
    pub(crate) address: u64,
    pub(crate) bytes: u64,
    pub(crate) stream: u64,
    pub(crate) pool: PoolIndex,
    pub(crate) before: Option<BlockIndex>,
    pub(crate) after: Option<BlockIndex>,
    pub(crate) expandable: Option<ExpandableIndex>,
    /// Which block was made first.
    pub(crate) creation: u64,
    /// The searches of its pool when it became free.
    pub(crate) free_since: u64,
    pub(crate) state: BlockState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BlockState {
    /// Free, with memory behind it.
    Free,
    /// Address space of an expandable segment, without memory.
    Unmapped,
    /// Handed out.
    Allocated,
    /// Freed, but other streams are not known to be through with it.
    Pending,
}

/// All blocks; places of blocks that were joined are used again.
#[derive(Debug, Default)]
pub(crate) struct Blocks {
    table: Vec<Block>,
    vacant: Vec<BlockIndex>,
    created: u64,
}

impl Blocks {
    pub(crate) fn get(&self, index: BlockIndex) -> &Block {
        let place = usize::try_from(index.0).unwrap_or(usize::MAX);
        self.table.get(place).expect("an index comes from `add`")
    }

    pub(crate) fn get_mut(&mut self, index: BlockIndex) -> &mut Block {
        let place = usize::try_from(index.0).unwrap_or(usize::MAX);
        self.table.get_mut(place).expect("an index comes from `add`")
    }

    /// Adds a block as the newest one.
    pub(crate) fn add(&mut self, mut block: Block) -> BlockIndex {
        self.created += 1;
        block.creation = self.created;
        if let Some(index) = self.vacant.pop() {
            *self.get_mut(index) = block;
            return index;
        }
        let index = u32::try_from(self.table.len()).expect("fewer blocks than 2^32 live at once");
        self.table.push(block);
        BlockIndex(index)
    }

    /// Adds a block of `bytes` at `address` that is like `model`, between its neighbors.
    pub(crate) fn add_between(
        &mut self,
        model: Block,
        (address, bytes): (u64, u64),
        (before, after): (Option<BlockIndex>, Option<BlockIndex>),
    ) -> BlockIndex {
        let index = self.add(Block { address, bytes, before, after, ..model });
        if let Some(before) = before {
            self.get_mut(before).after = Some(index);
        }
        if let Some(after) = after {
            self.get_mut(after).before = Some(index);
        }
        index
    }

    /// Takes a block out that nothing refers to any more.
    pub(crate) fn remove(&mut self, index: BlockIndex) {
        self.vacant.push(index);
    }

    /// Lets `kept` take over its neighbor `gone`, which must lie next to it.
    pub(crate) fn absorb(&mut self, kept: BlockIndex, gone: BlockIndex) {
        let taken = *self.get(gone);
        let block = self.get_mut(kept);
        block.bytes += taken.bytes;
        if block.before == Some(gone) {
            block.address = taken.address;
            block.before = taken.before;
            if let Some(before) = taken.before {
                self.get_mut(before).after = Some(kept);
            }
        } else {
            block.after = taken.after;
            if let Some(after) = taken.after {
                self.get_mut(after).before = Some(kept);
            }
        }
        self.remove(gone);
    }

    /// Whether it is all of its segment.
    pub(crate) fn is_whole(&self, index: BlockIndex) -> bool {
        let block = self.get(index);
        block.before.is_none() && block.after.is_none()
    }
}
