//! The address ranges of live blocks, and whether a new one overlaps any of them.

use std::collections::BTreeMap;

use trace::BlockNumber;

use crate::target::Placed;

/// Which block lies where. Ranges that overlap are all kept, so that none is forgotten.
#[derive(Debug, Default)]
pub(crate) struct LiveRanges {
    /// End and owner by first byte and block: two blocks may begin at one address.
    ranges: BTreeMap<(u64, BlockNumber), u64>,
    /// The longest range so far bounds how far back an overlap can begin.
    longest_bytes: u64,
    overlap_count: u64,
}

impl LiveRanges {
    /// Adds a block; one that overlaps a live block, or leaves the address space, is counted.
    pub(crate) fn insert(&mut self, block: BlockNumber, placed: Placed) {
        if placed.bytes == 0 {
            return;
        }
        let Some(end) = placed.address.checked_add(placed.bytes) else {
            self.overlap_count += 1;
            return;
        };
        let first = placed.address.saturating_sub(self.longest_bytes);
        let near = (first, BlockNumber(0))..(end, BlockNumber(0));
        // Disjoint neighbours end at once; only a target that is wrong already walks further.
        let overlaps = self
            .ranges
            .range(near)
            .next_back()
            .is_some_and(|(_, &before_end)| placed.address < before_end)
            || (0 < self.overlap_count && self.overlaps_any(placed.address, end));
        if overlaps {
            self.overlap_count += 1;
        }
        self.longest_bytes = self.longest_bytes.max(placed.bytes);
        self.ranges.insert((placed.address, block), end);
    }

    fn overlaps_any(&self, start: u64, end: u64) -> bool {
        let first = start.saturating_sub(self.longest_bytes);
        let near = (first, BlockNumber(0))..(end, BlockNumber(0));
        self.ranges.range(near).any(|(_, &other_end)| start < other_end)
    }

    /// Takes a block out.
    pub(crate) fn remove(&mut self, block: BlockNumber, address: u64) {
        self.ranges.remove(&(address, block));
    }

    /// How many blocks overlapped one that was live.
    pub(crate) fn overlap_count(&self) -> u64 {
        self.overlap_count
    }
}

#[cfg(test)]
mod tests {
    use trace::BlockNumber;

    use super::LiveRanges;
    use crate::target::Placed;

    /// Inserts all ranges in order; how many of them overlapped an earlier one.
    fn overlaps(ranges: &[(u64, u64)]) -> u64 {
        let mut live = LiveRanges::default();
        for (number, &(address, bytes)) in (0..).zip(ranges) {
            live.insert(BlockNumber(number), Placed { address, bytes });
        }
        live.overlap_count()
    }

    #[test]
    fn neighbours_do_not_overlap() {
        assert_eq!(overlaps(&[(0, 512), (512, 512), (2048, 512), (1024, 1024)]), 0);
        assert_eq!(overlaps(&[(512, 512), (512, 0), (700, 0)]), 0);
    }

    #[test]
    fn every_way_to_overlap_is_seen() {
        assert_eq!(overlaps(&[(1024, 1024), (1024, 1024)]), 1);
        assert_eq!(overlaps(&[(1024, 1024), (512, 513)]), 1);
        assert_eq!(overlaps(&[(1024, 1024), (2047, 1)]), 1);
        assert_eq!(overlaps(&[(1024, 1024), (0, 1 << 20)]), 1);
        assert_eq!(overlaps(&[(0, 1 << 20), (1024, 512), (4096, 512)]), 2);
        assert_eq!(overlaps(&[(0, 1 << 20), (512, 512), (2048, 512)]), 2);
        assert_eq!(overlaps(&[(u64::MAX - 4, 512)]), 1);
    }

    #[test]
    fn a_block_that_is_gone_is_no_obstacle() {
        let mut live = LiveRanges::default();
        live.insert(BlockNumber(0), Placed { address: 512, bytes: 512 });
        live.remove(BlockNumber(0), 512);
        live.insert(BlockNumber(1), Placed { address: 0, bytes: 4096 });
        assert_eq!(live.overlap_count(), 0);
    }
}
