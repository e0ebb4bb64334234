//! Who was handed which addresses inside an allocation, as the test rig tells it.
//!
//! An allocator carves its segments where the driver cannot see it. The rig declares each range
//! born and dead here; a range never declared belongs to nobody and is not judged.

use std::collections::BTreeMap;
use std::ops::Range;

/// What a range of addresses is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tenant {
    end: u64,
    pub(crate) alive: bool,
    /// The stream's name: where it was born, or where it died.
    pub(crate) stream: String,
}

/// All declared ranges.
#[derive(Debug, Default)]
pub(crate) struct Tenancy {
    ranges: BTreeMap<u64, Tenant>,
}

impl Tenancy {
    pub(crate) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// The first declared range that overlaps and is, or is not, alive.
    pub(crate) fn find(&self, range: &Range<u64>, alive: bool) -> Option<(Range<u64>, &Tenant)> {
        let start = self.first_key(range.start);
        self.ranges
            .range(start..range.end)
            .filter(|(_, tenant)| range.start < tenant.end && tenant.alive == alive)
            .map(|(&from, tenant)| (from..tenant.end, tenant))
            .next()
    }

    /// Whether exactly this range is alive.
    pub(crate) fn is_alive(&self, range: &Range<u64>) -> bool {
        self.ranges.get(&range.start).is_some_and(|tenant| tenant.alive && tenant.end == range.end)
    }

    /// Declares a range, whatever it was before.
    pub(crate) fn set(&mut self, range: Range<u64>, alive: bool, stream: String) {
        self.clear(&range);
        self.ranges.insert(range.start, Tenant { end: range.end, alive, stream });
    }

    /// Forgets a range.
    pub(crate) fn clear(&mut self, range: &Range<u64>) {
        self.split(range.start);
        self.split(range.end);
        while let Some(from) = self.ranges.range(range.clone()).next().map(|(&from, _)| from) {
            self.ranges.remove(&from);
        }
    }

    fn first_key(&self, at: u64) -> u64 {
        self.ranges.range(..=at).next_back().map_or(at, |(&from, _)| from)
    }

    fn split(&mut self, at: u64) {
        let Some((_, tenant)) = self.ranges.range_mut(..at).next_back() else { return };
        if at < tenant.end {
            let tail = tenant.clone();
            tenant.end = at;
            self.ranges.insert(at, tail);
        }
    }
}
