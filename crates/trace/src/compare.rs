//! Says how two digests differ: what grew, and what shrank.

use std::collections::BTreeMap;

use crate::digest::Holder;

/// What somebody held in one file and in another.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct HolderChange {
    /// Who.
    pub name: String,
    /// Bytes in the first file, pending ones included.
    pub before_bytes: u64,
    /// Bytes in the second.
    pub after_bytes: u64,
    /// Blocks in the first file.
    pub before_blocks: usize,
    /// Blocks in the second.
    pub after_blocks: usize,
}

impl HolderChange {
    /// By how much it grew; below zero it shrank.
    #[must_use]
    pub fn growth_bytes(&self) -> i128 {
        i128::from(self.after_bytes) - i128::from(self.before_bytes)
    }
}

/// Everybody that holds something else after than before: who grew most comes first, who shrank
/// most comes last.
///
/// ```
/// use trace::compare;
///
/// assert_eq!(compare::holders(&[], &[]), []);
/// ```
#[must_use]
pub fn holders(before: &[Holder], after: &[Holder]) -> Vec<HolderChange> {
    let mut changes: BTreeMap<&str, HolderChange> = BTreeMap::new();
    for (holders, is_after) in [(before, false), (after, true)] {
        for holder in holders {
            let change = changes.entry(&holder.name).or_insert_with(|| HolderChange {
                name: holder.name.clone(),
                before_bytes: 0,
                after_bytes: 0,
                before_blocks: 0,
                after_blocks: 0,
            });
            if is_after {
                change.after_bytes = holder.bytes();
                change.after_blocks = holder.block_count;
            } else {
                change.before_bytes = holder.bytes();
                change.before_blocks = holder.block_count;
            }
        }
    }
    let mut changes: Vec<HolderChange> = changes
        .into_values()
        .filter(|it| it.growth_bytes() != 0 || it.before_blocks != it.after_blocks)
        .collect();
    changes.sort_by_key(|change| std::cmp::Reverse(change.growth_bytes()));
    changes
}
