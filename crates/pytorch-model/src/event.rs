//! What the model did with the driver, in the words of a recorded trace.

/// One line that PyTorch would have recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// A segment was taken from the driver.
    SegmentAlloc {
        /// Its first byte.
        address: u64,
        /// Its length.
        bytes: u64,
        /// The stream whose requests it serves.
        stream: u64,
    },
    /// A segment was given back.
    SegmentFree {
        /// Its first byte.
        address: u64,
        /// Its length.
        bytes: u64,
        /// The stream whose requests it served.
        stream: u64,
    },
    /// Pages of an expandable segment were mapped.
    SegmentMap {
        /// The first byte.
        address: u64,
        /// The length.
        bytes: u64,
        /// The stream whose requests they serve.
        stream: u64,
    },
    /// Pages of an expandable segment were unmapped.
    SegmentUnmap {
        /// The first byte.
        address: u64,
        /// The length.
        bytes: u64,
        /// The stream whose requests they served.
        stream: u64,
    },
    /// A request failed for lack of memory.
    OutOfMemory {
        /// What the driver was asked for.
        bytes: u64,
        /// The stream of the request.
        stream: u64,
    },
}
