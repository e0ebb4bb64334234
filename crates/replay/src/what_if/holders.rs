//! Who holds the bytes at the moment when the blocks in use were largest together.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use trace::Operation;

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

/// The groups at the live peak, the largest first. `owner_of` names a block's group by the trace's
/// entry that allocated it, which is absent for blocks of the beginning, and its bytes.
pub(super) fn at_live_peak(
    case: &Case,
    mut owner_of: impl FnMut(Option<usize>, u64) -> String,
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
    for (index, bytes) in live.into_values() {
        let owner = owner_of(operations.entry_of(index), bytes);
        let (sum, count) = groups.entry(owner).or_default();
        *sum = sum.saturating_add(trace::rounded_bytes(bytes));
        *count += 1;
    }
    let holder = |(owner, (bytes, blocks))| Holder { owner, bytes, blocks };
    let mut holders: Vec<Holder> = groups.into_iter().map(holder).collect();
    holders.sort_unstable_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.owner.cmp(&b.owner)));
    holders
}

/// The class of a size, where nothing better is known: between which powers of two it lies.
#[must_use]
pub fn size_class(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let name = |power: u32| {
        let unit = usize::try_from(power / 10).ok().and_then(|unit| UNITS.get(unit));
        unit.map(|unit| format!("{} {unit}", 1_u64 << (power % 10)))
    };
    let power = bytes.checked_ilog2().unwrap_or(0).max(9);
    match (name(power), name(power + 1)) {
        _ if power == 9 => "blocks below 1 KiB".to_owned(),
        (Some(low), Some(high)) => format!("blocks of {low} to {high}"),
        _ => "blocks of more than 1 PiB".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::size_class;

    #[test]
    fn classes_are_named_by_their_powers_of_two() {
        assert_eq!(size_class(0), "blocks below 1 KiB");
        assert_eq!(size_class(1 << 20), "blocks of 1 MiB to 2 MiB");
        assert_eq!(size_class((1 << 30) - 1), "blocks of 512 MiB to 1 GiB");
        assert_eq!(size_class(u64::MAX), "blocks of more than 1 PiB");
    }
}
