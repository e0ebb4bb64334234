//! Turns one kind of trace into the other, and says what the other cannot hold.
//!
//! [`snapshot_of`] makes a snapshot, which PyTorch's tools read, of a stream trace;
//! [`write_recording`] makes a stream trace of a snapshot's device. [`rewrite_recording`] only
//! writes a stream trace once more. [`fill_segments`] makes up the segments that a log lacks;
//! [`beside_entries`] and [`beside_items`] count what CSV and Chrome traces lack.

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

use crate::pytorch::{Action, Snapshot};
use crate::stream_trace::Recording;

/// The setting of a stream trace that says what it was made of.
const MADE_FROM: &str = "made_from";

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

/// What the entries of a snapshot, or of one of its devices, lack when they stand alone; as in CSV,
/// where of a stack there is only the owner of an allocation, or with whole stacks.
#[must_use]
pub fn beside_entries(
    snapshot: &Snapshot,
    device: Option<usize>,
    has_stacks: bool,
) -> Vec<LeftOut> {
    let chosen = |number: usize| device.is_none_or(|device| device == number);
    let segments = snapshot.segments.iter().filter(|it| chosen(it.device)).count();
    let annotations = snapshot.annotations.iter().filter(|it| it.device.is_none_or(chosen)).count();
    let host_entries: usize = snapshot.host_traces.iter().map(Vec::len).sum();
    let mut frames = 0;
    let mut entries_of_others = 0;
    for (number, entries) in snapshot.device_traces.iter().enumerate() {
        if !chosen(number) {
            entries_of_others += entries.len();
        } else if !has_stacks {
            let stacks = entries.iter().filter_map(|entry| Some((entry, entry.stack?)));
            frames += stacks
                .map(|(entry, stack)| {
                    let kept = usize::from(entry.action == Action::Alloc);
                    snapshot.stacks.frames(stack).len().saturating_sub(kept)
                })
                .sum::<usize>();
        }
    }
    left_out(&[
        ("segments", segments),
        ("annotations", annotations),
        ("frames beside the owner of an allocation", frames),
        ("entries of other devices", entries_of_others),
        ("segments and entries of pinned memory", snapshot.host_segments.len() + host_entries),
        ("unknown keys", snapshot.passed_over_count),
    ])
}

/// What a stream trace has beside its entries: those that its reader did not know, and so lacks
/// when it is written again as any kind of file.
#[must_use]
pub fn beside_items(recording: &Recording) -> Vec<LeftOut> {
    let unknown = usize::try_from(recording.unknown_count).unwrap_or(usize::MAX);
    left_out(&[("entries of unknown kinds", unknown)])
}

/// What a snapshot that is written once more lacks of the file that it was read from.
#[must_use]
pub fn beside_snapshot(snapshot: &Snapshot) -> Vec<LeftOut> {
    left_out(&[("unknown keys", snapshot.passed_over_count)])
}

/// Counts of what is left out, without those that are 0.
fn left_out(counts: &[(&'static str, usize)]) -> Vec<LeftOut> {
    let some = counts.iter().filter(|(_, count)| 0 < *count);
    some.map(|&(what, count)| LeftOut { what, count }).collect()
}
