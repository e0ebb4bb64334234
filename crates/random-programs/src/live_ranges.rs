//! The model that random programs are held against: which bytes are handed out. Too simple to be
//! wrong, and as slow as that.

use streams::DeviceSpan;

/// Ranges that are handed out.
#[derive(Debug, Default)]
pub struct LiveRanges(Vec<DeviceSpan>);

impl LiveRanges {
    /// A range is handed out; none of its bytes may be handed out already.
    ///
    /// # Panics
    /// One is.
    pub fn add(&mut self, range: DeviceSpan) {
        let end = range.address + range.bytes;
        for other in &self.0 {
            let apart = end <= other.address || other.address + other.bytes <= range.address;
            assert!(apart, "{range:x?} was handed out over {other:x?}");
        }
        self.0.push(range);
    }

    /// A range is given back.
    ///
    /// # Panics
    /// It was not handed out.
    pub fn remove(&mut self, range: DeviceSpan) {
        let place = self.0.iter().position(|other| *other == range);
        self.0.swap_remove(place.expect("what is given back was handed out"));
    }

    /// The bytes handed out.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.0.iter().map(|range| range.bytes).sum()
    }
}
