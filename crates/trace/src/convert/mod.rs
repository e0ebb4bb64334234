//! Turns one kind of trace into the other, and says what the other cannot hold.
//!
//! [`snapshot_of`] makes a snapshot, which PyTorch's tools read, of a stream trace;
//! [`write_recording`] makes a stream trace of a snapshot's device. [`rewrite_recording`] only
//! writes a stream trace once more. [`fill_segments`] makes up the segments that a log lacks.

mod fill;
mod from_recording;
mod ranges;
mod rewrite;
mod tile;
mod to_recording;
mod uses;

use std::fmt;

pub use fill::fill_segments;
pub use from_recording::snapshot_of;
pub use rewrite::rewrite_recording;
pub use to_recording::write_recording;

/// Something that a conversion left out, and how many of it there were.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeftOut {
    /// What, in the plural.
    pub what: &'static str,
    /// How many; never 0.
    pub count: usize,
}

impl fmt::Display for LeftOut {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {}", self.count, self.what)
    }
}

/// Counts of what is left out, without those that are 0.
fn left_out(counts: &[(&'static str, usize)]) -> Vec<LeftOut> {
    let some = counts.iter().filter(|(_, count)| 0 < *count);
    some.map(|&(what, count)| LeftOut { what, count }).collect()
}
