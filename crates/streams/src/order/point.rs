//! Names of streams and of moments on them.

/// A stream's place in the registry of its driver.
///
/// A slot is used again by a new stream once its old stream is retired and complete, also while
/// somebody still holds the old stream: two streams that never lived at one time may have the same
/// slot, and ids tell them apart. Marks on it go on counting, so a point never means two moments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamSlot(u32);

impl StreamSlot {
    pub(crate) const fn new(index: u32) -> Self {
        Self(index)
    }

    /// The slot's number, counted from zero; small, and dense among living streams.
    #[must_use]
    pub const fn index(self) -> u32 {
        self.0
    }
}

/// Everything submitted to `stream` up to its `mark`-th submission, seen by us or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Point {
    /// The stream.
    pub stream: StreamSlot,
    /// The number of the last submission that is covered.
    pub mark: u64,
}
