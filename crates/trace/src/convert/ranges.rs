//! A set of addresses as ranges that neither touch nor overlap more than they were given.
//!
//! Ranges that touch stay apart, as segments do; taking a range away cuts those it overlaps.

use std::collections::BTreeMap;

/// The set: where each range begins, and where it ends.
#[derive(Debug, Clone, Default)]
pub(super) struct Ranges {
    ends: BTreeMap<u64, u64>,
}

impl Ranges {
    /// Adds `start..end`, in place of whatever part of it was there.
    pub(super) fn add(&mut self, start: u64, end: u64) {
        if start < end {
            self.remove(start, end);
            self.ends.insert(start, end);
        }
    }

    /// Takes `start..end` away.
    pub(super) fn remove(&mut self, start: u64, end: u64) {
        let reaching_in = self.ends.range(..start).next_back().map(|(from, to)| (*from, *to));
        if let Some((from, to)) = reaching_in
            && start < to
        {
            self.ends.insert(from, start);
            if end < to {
                self.ends.insert(end, to);
            }
        }
        while let Some((from, to)) = self.first_within(start, end) {
            self.ends.remove(&from);
            if end < to {
                self.ends.insert(end, to);
            }
        }
    }

    fn first_within(&self, start: u64, end: u64) -> Option<(u64, u64)> {
        if end <= start {
            return None;
        }
        self.ends.range(start..end).next().map(|(from, to)| (*from, *to))
    }

    /// Adds `start..end` and makes one range of it and all that it overlaps.
    pub(super) fn join(&mut self, start: u64, end: u64) {
        let (mut low, mut high) = (start, end);
        let before = self.ends.range(..start).next_back().map(|(from, to)| (*from, *to));
        if let Some((from, to)) = before
            && start < to
        {
            low = from;
            high = high.max(to);
        }
        while let Some((from, to)) = self.first_within(low, high) {
            self.ends.remove(&from);
            high = high.max(to);
        }
        if low < high {
            self.ends.insert(low, high);
        }
    }

    /// The ranges by address: where each begins, and where it ends.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, u64)> {
        self.ends.iter().map(|(start, end)| (*start, *end))
    }
}

#[cfg(test)]
mod tests {
    use super::Ranges;

    fn of(ranges: &Ranges) -> Vec<(u64, u64)> {
        ranges.iter().collect()
    }

    #[test]
    fn what_is_taken_away_cuts_what_it_overlaps() {
        let mut ranges = Ranges::default();
        ranges.add(0, 10);
        ranges.add(10, 20);
        assert_eq!(of(&ranges), [(0, 10), (10, 20)]);
        ranges.remove(5, 15);
        assert_eq!(of(&ranges), [(0, 5), (15, 20)]);
        ranges.remove(16, 17);
        assert_eq!(of(&ranges), [(0, 5), (15, 16), (17, 20)]);
        ranges.remove(0, 100);
        assert_eq!(of(&ranges), []);
        ranges.remove(3, 3);
        ranges.add(7, 7);
        assert_eq!(of(&ranges), []);
    }

    #[test]
    fn what_is_joined_becomes_one_with_what_it_overlaps() {
        let mut ranges = Ranges::default();
        ranges.add(0, 10);
        ranges.add(10, 20);
        ranges.add(30, 40);
        ranges.join(5, 12);
        assert_eq!(of(&ranges), [(0, 20), (30, 40)]);
        ranges.join(20, 30);
        assert_eq!(of(&ranges), [(0, 20), (20, 30), (30, 40)]);
        ranges.join(0, 50);
        assert_eq!(of(&ranges), [(0, 50)]);
    }
}
