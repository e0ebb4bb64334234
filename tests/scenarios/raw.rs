//! Memory used behind the allocator's back, and streams of others: what scenarios do to see that
//! somebody notices.

#![allow(unsafe_code, reason = "the one door to memory whose uses are not counted")]

use streams::{BorrowPromises, Context, DeviceSpan, RawSpan, Stream};

/// The memory at `range`, for operations that tell nobody. Whoever uses it records the use by
/// hand, or does not, and then a check is to find what went wrong.
pub fn uncounted(range: DeviceSpan) -> RawSpan {
    // SAFETY: the ranges of the scenarios are blocks, live or freed, and counters. Their memory
    // is mapped until the rig's allocator goes, which waits for its streams; what is read and
    // written there are words of this suite, so a use too late is a mismatch or a hazard, no more.
    unsafe { RawSpan::from_raw(range.address, range.bytes) }
}

/// A stream that another part of the program made, and announces captures and gates on. Nothing is
/// known of the two being one.
pub fn borrowed(context: &Context, other: &Stream) -> Stream {
    let mut promises = BorrowPromises::default();
    (promises.announces_captures, promises.announces_gates) = (true, true);
    // SAFETY: `other` outlives what is made of it in every scenario, and none queues anything on it
    // that would have to be announced.
    let borrowed = unsafe { context.borrow_stream_with(other.as_raw(), promises) };
    borrowed.expect("a live stream of this driver")
}
