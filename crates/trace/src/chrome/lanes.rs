//! Puts slices that overlap into rows beside each other.
//!
//! In one row slices must nest: viewers draw one that begins within another and ends behind it
//! wrongly, or leave it out.

/// The most rows that are made of one. A slice that finds none free is cut to begin where the last
/// one is.
pub(super) const LANES_MAX: usize = 32;

/// The rows, the first of which is the one that all slices are meant for.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    /// By row: the ends of the slices that are open, the innermost last.
    open: Vec<Vec<u64>>,
}

/// Where a slice goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Placed {
    pub(super) lane: usize,
    pub(super) start_ns: u64,
    pub(super) end_ns: u64,
}

impl Lanes {
    /// The row for the next slice. Slices come by their beginnings, of those that begin together
    /// the longest first.
    pub(super) fn place(&mut self, start_ns: u64, end_ns: u64) -> Placed {
        for (lane, ends) in self.open.iter_mut().enumerate() {
            while ends.pop_if(|end| *end <= start_ns).is_some() {}
            if ends.last().is_none_or(|end| end_ns <= *end) {
                ends.push(end_ns);
                return Placed { lane, start_ns, end_ns };
            }
        }
        let lane = self.open.len();
        if lane < LANES_MAX {
            self.open.push(vec![end_ns]);
            return Placed { lane, start_ns, end_ns };
        }
        let last = self.open.last_mut().into_iter().flat_map(|ends| ends.drain(..));
        let free_ns = last.max().unwrap_or(start_ns);
        let (start_ns, end_ns) = (free_ns, end_ns.max(free_ns));
        self.open.last_mut().into_iter().for_each(|ends| ends.push(end_ns));
        Placed { lane: lane - 1, start_ns, end_ns }
    }
}

#[cfg(test)]
mod tests {
    use super::{LANES_MAX, Lanes};

    #[test]
    fn what_nests_or_follows_stays_in_one_row() {
        let mut lanes = Lanes::default();
        for (start, end) in [(0, 10), (0, 5), (5, 10), (7, 7), (10, 20), (11, 12)] {
            assert_eq!(lanes.place(start, end).lane, 0, "{start} to {end}");
        }
    }

    #[test]
    fn what_overlaps_gets_a_row_up_to_the_limit_and_is_then_cut() {
        let mut lanes = Lanes::default();
        for number in 0..LANES_MAX {
            let start = u64::try_from(number).unwrap();
            assert_eq!(lanes.place(start, start + 100).lane, number);
        }
        let cut = lanes.place(50, 200);
        assert_eq!((cut.lane, cut.start_ns, cut.end_ns), (LANES_MAX - 1, 131, 200));
        assert_eq!(lanes.place(210, 300).lane, 0);
    }
}
