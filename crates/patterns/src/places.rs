//! Where a round's buffers were, in numbers that two runs can be compared by.

use std::collections::BTreeMap;

use crate::stage::Stage;

/// A segment, numbered in the order of first use, and the bytes from its start.
pub type Place = (usize, u64);

impl Stage {
    /// The place of each step's buffer in the last round, as far as its segment is still open.
    #[must_use]
    pub fn places(&self) -> Vec<Place> {
        let snapshot = self.runtime().allocator().snapshot();
        let starts: BTreeMap<u64, u64> =
            snapshot.segments.iter().map(|segment| (segment.address, segment.span_bytes)).collect();
        places(&starts, self.addresses())
    }
}

/// `segments` holds the span of each, by its first address.
fn places(segments: &BTreeMap<u64, u64>, addresses: &[u64]) -> Vec<Place> {
    let mut ordinals: BTreeMap<u64, usize> = BTreeMap::new();
    let mut places = Vec::new();
    for &address in addresses {
        let Some((&start, &span)) = segments.range(..=address).next_back() else { continue };
        let offset = address - start;
        if offset < span {
            let next = ordinals.len();
            places.push((*ordinals.entry(start).or_insert(next), offset));
        }
    }
    places
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::places;

    #[test]
    fn places_do_not_depend_on_where_the_segments_lie() {
        let here = BTreeMap::from([(1_000, 100), (5_000, 100)]);
        let there = BTreeMap::from([(2_000, 100), (1_000, 100)]);
        let found = places(&here, &[5_010, 1_000, 5_020, 9_999]);
        assert_eq!(found, [(0, 10), (1, 0), (0, 20)]);
        assert_eq!(places(&there, &[2_010, 1_000, 2_020]), found);
        assert_ne!(places(&there, &[2_011, 1_000, 2_020]), found);
    }
}
