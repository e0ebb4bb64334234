//! The numbers by which traces name blocks and streams.

/// A block of a trace, counted from 0 in the order of allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "files", derive(serde::Serialize, serde::Deserialize))]
pub struct BlockNumber(pub u32);

impl BlockNumber {
    /// As an index.
    #[must_use]
    pub fn index(self) -> usize {
        usize::try_from(self.0).expect("this library needs pointers of at least 32 bits")
    }
}

/// A stream of a trace, counted from 0 in the order of first use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "files", derive(serde::Serialize, serde::Deserialize))]
pub struct StreamNumber(pub u32);

impl StreamNumber {
    /// As an index.
    #[must_use]
    pub fn index(self) -> usize {
        usize::try_from(self.0).expect("this library needs pointers of at least 32 bits")
    }
}
