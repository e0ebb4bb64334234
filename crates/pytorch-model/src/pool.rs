//! Free blocks by stream, size and age or address: one set for small requests and one for large
//! ones, and two more for each private pool.

use std::collections::BTreeSet;
use std::collections::HashMap;

use crate::block::{BlockIndex, BlockState, Blocks};
use crate::model::{PoolId, Ties};

/// A place in the list of pools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PoolIndex(pub(crate) usize);

/// How a free block is found: the least one of the stream that is large enough.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FreeKey {
    pub(crate) stream: u64,
    pub(crate) bytes: u64,
    /// Decides among blocks of one size.
    tie: u64,
    address: u64,
    pub(crate) index: BlockIndex,
}

impl FreeKey {
    /// Comes before every block of the stream with at least so many bytes.
    pub(crate) const fn least(stream: u64, bytes: u64) -> Self {
        Self { stream, bytes, tie: 0, address: 0, index: BlockIndex(0) }
    }
}

/// The free blocks of one size class of one pool.
#[derive(Debug)]
pub(crate) struct Pool {
    pub(crate) is_small: bool,
    pub(crate) free: BTreeSet<FreeKey>,
    /// Address space without memory, by stream and address.
    pub(crate) unmapped: BTreeSet<(u64, u64, BlockIndex)>,
    /// How often a block was looked for.
    pub(crate) search_count: u64,
}

/// All pools, the default ones first.
#[derive(Debug)]
pub(crate) struct Pools {
    list: Vec<Pool>,
    by_id: HashMap<PoolId, PoolIndex>,
    /// Private pools that nobody allocates from any more.
    retired: Vec<PoolId>,
    ties: Ties,
}

impl Pools {
    pub(crate) fn new(ties: Ties) -> Self {
        let mut pools = Self { list: Vec::new(), by_id: HashMap::new(), retired: Vec::new(), ties };
        pools.index(PoolId::DEFAULT, true);
        pools
    }

    /// The pool with this id that serves small or large requests; made when it is first needed.
    pub(crate) fn index(&mut self, id: PoolId, is_small: bool) -> PoolIndex {
        let small = match self.by_id.get(&id) {
            Some(small) => *small,
            None => {
                let small = PoolIndex(self.list.len());
                for is_small in [true, false] {
                    let (free, unmapped) = (BTreeSet::new(), BTreeSet::new());
                    self.list.push(Pool { is_small, free, unmapped, search_count: 0 });
                }
                self.by_id.insert(id, small);
                small
            }
        };
        if is_small { small } else { PoolIndex(small.0 + 1) }
    }

    /// Nobody allocates from the pool any more.
    pub(crate) fn retire(&mut self, id: PoolId) {
        if !self.retired.contains(&id) {
            self.retired.push(id);
        }
    }

    pub(crate) fn retired(&self) -> &[PoolId] {
        &self.retired
    }

    pub(crate) fn get(&self, index: PoolIndex) -> &Pool {
        self.list.get(index.0).expect("an index comes from `index`")
    }

    pub(crate) fn get_mut(&mut self, index: PoolIndex) -> &mut Pool {
        self.list.get_mut(index.0).expect("an index comes from `index`")
    }

    /// Puts a block among the free ones.
    pub(crate) fn insert(&mut self, blocks: &mut Blocks, index: BlockIndex) {
        let key = self.key(blocks, index);
        let block = blocks.get_mut(index);
        block.state = BlockState::Free;
        let pool = self.get_mut(block.pool);
        block.free_since = pool.search_count;
        pool.free.insert(key);
    }

    /// Takes a block out of the free ones.
    pub(crate) fn remove(&mut self, blocks: &Blocks, index: BlockIndex) {
        let key = self.key(blocks, index);
        self.get_mut(blocks.get(index).pool).free.remove(&key);
    }

    /// Puts address space among what can be mapped.
    pub(crate) fn insert_unmapped(&mut self, blocks: &mut Blocks, index: BlockIndex) {
        let block = blocks.get_mut(index);
        block.state = BlockState::Unmapped;
        self.get_mut(block.pool).unmapped.insert((block.stream, block.address, index));
    }

    /// Takes address space out of what can be mapped.
    pub(crate) fn remove_unmapped(&mut self, blocks: &Blocks, index: BlockIndex) {
        let block = blocks.get(index);
        self.get_mut(block.pool).unmapped.remove(&(block.stream, block.address, index));
    }

    fn key(&self, blocks: &Blocks, index: BlockIndex) -> FreeKey {
        let block = blocks.get(index);
        let tie = match self.ties {
            Ties::Address => block.address,
            Ties::Creation => block.creation,
        };
        FreeKey { stream: block.stream, bytes: block.bytes, tie, address: block.address, index }
    }
}
