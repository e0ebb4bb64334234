//! Memory used behind the allocator's back: what scenarios do to see that somebody notices.

#![allow(unsafe_code, reason = "the one door to memory whose uses are not counted")]

use streams::{DeviceSpan, RawSpan};

/// The memory at `range`, for operations that tell nobody. Whoever uses it records the use by
/// hand, or does not, and then a check is to find what went wrong.
pub fn uncounted(range: DeviceSpan) -> RawSpan {
    // SAFETY: the ranges of the scenarios are blocks, live or freed, and counters. Their memory
    // is mapped until the rig's allocator goes, which waits for its streams; what is read and
    // written there are words of this suite, so a use too late is a mismatch or a hazard, no more.
    unsafe { RawSpan::from_raw(range.address, range.bytes) }
}
