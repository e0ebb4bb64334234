//! What PyTorch held from the driver over a trace: when it began, at most, and at its end.

use crate::pytorch::{Action, DeviceTrace, Entry};

/// Bytes held from the driver. Signed and wide, since a file may contradict itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReservedBytes {
    /// Before the first entry; above zero if the trace lost its beginning or was started late,
    /// below zero if it contradicts itself.
    pub first: i128,
    /// The most at any one time.
    pub peak: i128,
    /// After the last entry, as the segments say.
    pub last: i128,
    /// Whether the file tells anything of it. Without segments, as in CSV, it counts from what the
    /// entries give back at least; without entries about segments either, as in a log of RMM, all
    /// three are 0 and say nothing.
    pub is_recorded: bool,
}

impl ReservedBytes {
    /// Counts back from the segments at the end, or from the beginning where there are none. Two
    /// walks over the entries.
    #[must_use]
    pub fn of(trace: &DeviceTrace<'_>) -> Self {
        let at_the_end: i128 =
            trace.segments().map(|segment| i128::from(segment.total_bytes)).sum();
        let has_segments = trace.segments().next().is_some();
        let (mut now, mut least, mut most) = (0, 0, 0);
        for entry in trace.entries() {
            now += reserved_change_bytes(entry);
            least = least.min(now);
            most = most.max(now);
        }
        let is_about_segments = |entry| reserved_change_bytes(entry) != 0;
        let is_recorded = has_segments || trace.entries().iter().any(is_about_segments);
        let first = if has_segments { at_the_end - now } else { -least };
        Self { first, peak: first + most, last: first + now, is_recorded }
    }
}

/// What an entry about a segment says of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct SegmentChange {
    /// Memory came from the driver; else it went back.
    pub is_gain: bool,
    /// It was mapped into a segment that can grow, or unmapped from one.
    pub is_expandable: bool,
}

impl Entry {
    /// What the entry does to the memory that is held from the driver; `None` if it is not about
    /// segments.
    #[must_use]
    pub fn segment_change(&self) -> Option<SegmentChange> {
        let (is_gain, is_expandable) = match self.action {
            Action::SegmentAlloc => (true, false),
            Action::SegmentFree => (false, false),
            Action::SegmentMap => (true, true),
            Action::SegmentUnmap => (false, true),
            Action::Alloc
            | Action::Free
            | Action::FreeRequested
            | Action::FreeCompleted
            | Action::Snapshot
            | Action::OutOfMemory
            | Action::Annotate
            | Action::Other(_) => return None,
        };
        Some(SegmentChange { is_gain, is_expandable })
    }
}

/// By how many bytes an entry changes what is held from the driver: below zero where memory is
/// given back, zero for an entry that is not about segments.
#[must_use]
pub fn reserved_change_bytes(entry: &Entry) -> i128 {
    let bytes = i128::from(entry.bytes);
    entry.segment_change().map_or(0, |change| if change.is_gain { bytes } else { -bytes })
}
