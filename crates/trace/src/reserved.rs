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
}

impl ReservedBytes {
    /// Counts back from the segments at the end. Two walks over the entries.
    #[must_use]
    pub fn of(trace: &DeviceTrace<'_>) -> Self {
        let last: i128 = trace.segments().map(|segment| i128::from(segment.total_bytes)).sum();
        let changes = || trace.entries().iter().map(reserved_change_bytes);
        let first = last - changes().sum::<i128>();
        let (mut now, mut peak) = (first, first);
        for change in changes() {
            now += change;
            peak = peak.max(now);
        }
        Self { first, peak, last }
    }
}

/// By how many bytes an entry changes what is held from the driver: below zero where memory is
/// given back, zero for an entry that is not about segments.
#[must_use]
pub fn reserved_change_bytes(entry: &Entry) -> i128 {
    match entry.action {
        Action::SegmentAlloc | Action::SegmentMap => i128::from(entry.bytes),
        Action::SegmentFree | Action::SegmentUnmap => -i128::from(entry.bytes),
        Action::Alloc
        | Action::Free
        | Action::FreeRequested
        | Action::FreeCompleted
        | Action::Snapshot
        | Action::OutOfMemory
        | Action::Annotate
        | Action::Other(_) => 0,
    }
}
