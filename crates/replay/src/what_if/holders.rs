//! Who holds the bytes at the moment when the blocks in use were largest together.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use trace::{BlockNumber, Operation};

use super::case::Case;

/// A group of blocks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Holder {
    /// What its blocks have in common.
    pub owner: String,
    /// Their bytes, each block rounded up to whole 512.
    pub bytes: u64,
    /// How many they are.
    pub blocks: u64,
}

/// A block that is in use at the live peak.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct LiveBlock {
    /// The block.
    pub number: BlockNumber,
    /// The trace's entry that allocated it; none for blocks of the beginning.
    pub entry: Option<usize>,
    /// What was asked for.
    pub bytes: u64,
}

/// The groups at the live peak, the largest first. `owner_of` names a block's group; it is asked in
/// the order of allocation.
pub(super) fn at_live_peak(
    case: &Case,
    mut owner_of: impl FnMut(&LiveBlock) -> String,
) -> Vec<Holder> {
    let operations = &case.operations;
    let mut live: HashMap<u32, (usize, u64)> = HashMap::new();
    for (index, operation) in operations.list.iter().enumerate().take(case.live.operation + 1) {
        match *operation {
            Operation::Allocate { block, bytes, .. } => {
                live.insert(block.0, (index, bytes));
            }
            Operation::Free { block, .. } => {
                live.remove(&block.0);
            }
            Operation::Complete { .. } | Operation::OutOfMemory { .. } => {}
        }
    }
    let mut groups: HashMap<String, (u64, u64)> = HashMap::new();
    let blocks = live.into_iter().map(|(number, (index, bytes))| (index, number, bytes));
    let mut blocks: Vec<(usize, u32, u64)> = blocks.collect();
    blocks.sort_unstable();
    for (index, number, bytes) in blocks {
        let (number, entry) = (BlockNumber(number), operations.entry_of(index));
        let owner = owner_of(&LiveBlock { number, entry, bytes });
        let (sum, count) = groups.entry(owner).or_default();
        *sum = sum.saturating_add(trace::rounded_bytes(bytes));
        *count += 1;
    }
    let holder = |(owner, (bytes, blocks))| Holder { owner, bytes, blocks };
    let mut holders: Vec<Holder> = groups.into_iter().map(holder).collect();
    holders.sort_unstable_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.owner.cmp(&b.owner)));
    holders
}
