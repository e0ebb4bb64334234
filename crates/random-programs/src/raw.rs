//! Memory used without a word to its owner: what a program does that tells of its uses itself.

#![allow(unsafe_code, reason = "the one door to memory whose uses are not counted")]

use streams::{DeviceSpan, RawSpan};

/// The memory at `range`, for operations that tell nobody.
pub(crate) fn uncounted(range: DeviceSpan) -> RawSpan {
    // SAFETY: the ranges are live blocks, whose uses the program tells the allocator in another
    // way, unless it makes a mistake on purpose, and memory of the stand, which is given back when
    // everything has ended. Memory of the simulated machine is memory of its own: a use too late
    // is found, and touches nothing else.
    unsafe { RawSpan::from_raw(range.address, range.bytes) }
}
