//! What was held from the driver: which range of addresses from which moment to which.
//!
//! Segments are known at the end of a trace. Walking backwards, what was allocated or mapped is cut
//! out of what is held, and what was freed or unmapped comes back; so a range of which the trace
//! lost the beginning is there as well.

use std::collections::BTreeMap;

use trace::pytorch::{Segment, SegmentKind, StreamHandle};

use crate::history::{Moment, NEVER};

/// A change of what is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Change {
    /// The moment after it.
    pub(crate) moment: Moment,
    pub(crate) address: u64,
    pub(crate) bytes: u64,
    pub(crate) stream: StreamHandle,
    pub(crate) pool: (u64, u64),
    pub(crate) is_gain: bool,
    /// Whether a part of an expandable segment was mapped or unmapped.
    pub(crate) is_expandable: bool,
}

/// A range of addresses while it was held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) address: u64,
    pub(crate) bytes: u64,
    pub(crate) stream: StreamHandle,
    pub(crate) from: Moment,
    pub(crate) to: Moment,
    pub(crate) is_expandable: bool,
    pub(crate) is_small: bool,
    pub(crate) pool: (u64, u64),
}

impl Range {
    pub(crate) const fn end(&self) -> u64 {
        self.address.saturating_add(self.bytes)
    }
}

/// Every range that was ever held, by the moment it begins and its address, given the segments that
/// are held at the end.
pub(crate) fn ranges<'a>(
    segments: impl Iterator<Item = &'a Segment>,
    changes: &[Change],
) -> Vec<Range> {
    let mut walk = Walk::default();
    for segment in segments {
        walk.open(Range {
            address: segment.address,
            bytes: segment.total_bytes,
            stream: segment.stream,
            from: 0,
            to: NEVER,
            is_expandable: segment.is_expandable,
            is_small: segment.kind == SegmentKind::Small,
            pool: segment.pool_id,
        });
    }
    walk.back(changes)
}

/// The same of a trace that has its beginning, when nothing was held.
pub(crate) fn ranges_from_nothing(changes: &[Change]) -> Vec<Range> {
    let mut walk = Walk::default();
    for change in changes {
        let range = change.range(NEVER);
        if change.is_gain {
            walk.open(range);
        } else {
            walk.cut(range.address, range.end(), change.moment);
        }
    }
    // What is still held is where the way back begins.
    Walk { held: walk.held, ..Walk::default() }.back(changes)
}

impl Change {
    /// What changes, held from the beginning to a moment.
    const fn range(&self, to: Moment) -> Range {
        Range {
            address: self.address,
            bytes: self.bytes,
            stream: self.stream,
            from: 0,
            to,
            is_expandable: self.is_expandable,
            is_small: self.bytes <= SMALL_SEGMENT_BYTES,
            pool: self.pool,
        }
    }
}

/// The segments of requests up to 1 MiB.
const SMALL_SEGMENT_BYTES: u64 = 2 << 20;

#[derive(Default)]
struct Walk {
    /// Held at the moment the walk has come to, by address; no two overlap.
    held: BTreeMap<u64, Range>,
    /// Of which both ends are known.
    closed: Vec<Range>,
}

impl Walk {
    /// Undoes the changes, the last one first, and gives what was held in between.
    fn back(mut self, changes: &[Change]) -> Vec<Range> {
        for change in changes.iter().rev() {
            let range = change.range(change.moment);
            if change.is_gain {
                self.cut(range.address, range.end(), change.moment);
            } else {
                self.open(range);
            }
        }
        self.closed.extend(self.held.into_values());
        self.closed.retain(|range| range.from < range.to && 0 < range.bytes);
        self.closed.sort_unstable_by_key(|range| (range.from, range.address));
        self.closed
    }

    /// Going back, `range` is held from here on. What the file says is held there already, and
    /// cannot be, begins here.
    fn open(&mut self, range: Range) {
        if 0 < range.bytes {
            self.cut(range.address, range.end(), range.to);
            self.held.insert(range.address, range);
        }
    }

    /// Going back, the addresses are no longer held: they came at `moment`.
    fn cut(&mut self, start: u64, end: u64, moment: Moment) {
        let mut overlapping = Vec::new();
        for range in self.held.range(..end).rev().map(|(_, range)| range) {
            if range.end() <= start {
                break;
            }
            overlapping.push(*range);
        }
        for range in overlapping {
            self.held.remove(&range.address);
            let (low, high) = (range.address.max(start), range.end().min(end));
            if range.address < low {
                self.held.insert(range.address, Range { bytes: low - range.address, ..range });
            }
            if high < range.end() {
                self.held.insert(high, Range { address: high, bytes: range.end() - high, ..range });
            }
            self.closed.push(Range { address: low, bytes: high - low, from: moment, ..range });
        }
    }
}

/// How the bytes change that an expandable segment had mapped before and has not now.
pub(crate) fn unmapped_steps(ranges: &[Range], changes: &[Change]) -> Vec<(Moment, i128)> {
    let mut seen = Seen::default();
    for range in ranges.iter().filter(|range| range.is_expandable && range.from == 0) {
        seen.add(range.address, range.end());
    }
    let mut steps = Vec::new();
    for change in changes.iter().filter(|change| change.is_expandable) {
        let end = change.address.saturating_add(change.bytes);
        let step = if change.is_gain {
            -i128::from(seen.add(change.address, end))
        } else {
            i128::from(seen.add(change.address, end))
        };
        if step != 0 {
            steps.push((change.moment, step));
        }
    }
    steps
}

/// Addresses that were mapped at any time, as ranges that do not touch.
#[derive(Default)]
struct Seen {
    ends: BTreeMap<u64, u64>,
}

impl Seen {
    /// Adds addresses, and says how many bytes of them were there before.
    fn add(&mut self, start: u64, end: u64) -> u64 {
        let (mut low, mut high, mut before) = (start, end, 0);
        let mut joined = Vec::new();
        for (&from, &to) in self.ends.range(..=end).rev() {
            if to < start {
                break;
            }
            before += to.min(end).saturating_sub(from.max(start));
            low = low.min(from);
            high = high.max(to);
            joined.push(from);
        }
        for from in joined {
            self.ends.remove(&from);
        }
        self.ends.insert(low, high);
        before
    }
}

#[cfg(test)]
mod tests;
