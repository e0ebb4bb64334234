//! The pools that entries name: each distinct pair of numbers stored once.
//!
//! PyTorch names a pool by two numbers of 64 bits. A trace has few pools and millions of entries,
//! so that an entry holds a number of four bytes instead.

use std::collections::HashMap;
use std::num::NonZeroU32;

/// A pool of a snapshot, by its number in [`Pools`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PoolNumber(NonZeroU32);

impl PoolNumber {
    /// As an index, below [`Pools::count`].
    #[must_use]
    pub fn index(self) -> usize {
        let number = usize::try_from(self.0.get());
        number.expect("this library needs pointers of at least 32 bits") - 1
    }
}

/// All distinct pools that the entries of a snapshot name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Pools {
    ids: Vec<(u64, u64)>,
}

impl Pools {
    /// Both halves of the pool's id (`pool_id`), in constant time; (0, 0) is the default pool.
    ///
    /// # Panics
    /// If `pool` is of another snapshot, and this one has fewer.
    #[must_use]
    pub fn get(&self, pool: PoolNumber) -> (u64, u64) {
        *self.ids.get(pool.index()).expect("the pool is of this snapshot")
    }

    /// How many distinct pools there are.
    #[must_use]
    pub const fn count(&self) -> usize {
        self.ids.len()
    }
}

/// Makes [`Pools`], each distinct pool once.
#[derive(Debug, Default)]
pub(super) struct PoolsBuilder {
    pools: Pools,
    numbers: HashMap<(u64, u64), PoolNumber>,
    /// What was asked for last: neighbors in a trace mostly have the same pool.
    last: Option<((u64, u64), PoolNumber)>,
}

impl PoolsBuilder {
    /// The number of the pool `id`. Nothing comes of the one that would be too many for 32 bits.
    #[inline]
    pub(super) fn add(&mut self, id: (u64, u64)) -> Option<PoolNumber> {
        if let Some((last, number)) = self.last
            && last == id
        {
            return Some(number);
        }
        self.look_up(id)
    }

    fn look_up(&mut self, id: (u64, u64)) -> Option<PoolNumber> {
        let number = match self.numbers.get(&id) {
            Some(number) => *number,
            None => {
                self.pools.ids.push(id);
                let number = u32::try_from(self.pools.ids.len()).ok()?;
                let number = PoolNumber(NonZeroU32::new(number)?);
                self.numbers.insert(id, number);
                number
            }
        };
        self.last = Some((id, number));
        Some(number)
    }

    pub(super) fn build(mut self) -> Pools {
        self.pools.ids.shrink_to_fit();
        self.pools
    }
}
