//! What a PyTorch snapshot shows of waiting: how long frees took to be completed.
//!
//! A snapshot has no uses: it does not say which stream used a block, nor until when. What it has
//! is the time between the free that the program asked for and the moment PyTorch found that no
//! stream used the block any more. That moment is when it looked, not when the use was over.

use std::collections::{BTreeMap, HashMap, VecDeque};

use serde::{Deserialize, Serialize};
use trace::Origin;
use trace::pytorch::{Action, DeviceTrace, StreamHandle};

use super::advice::Advice;

/// The most blocks that are named one by one.
pub const HOLDERS_MAX: usize = 10;

/// The frees of one stream that had to wait.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamGaps {
    /// The stream's handle.
    pub stream: String,
    /// Frees whose completion did not follow directly.
    pub waited: u64,
    /// Frees that were never completed in the trace; their gap counts to its end.
    pub never_completed: u64,
    /// The mean gap in microseconds.
    pub mean_us: u64,
    /// The longest gap in microseconds.
    pub max_us: u64,
    /// Bytes times milliseconds, of all gaps.
    pub byte_ms: u64,
    /// The most bytes that waited at once.
    pub peak_bytes: u64,
}

/// A block whose free had to wait.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// The stream's handle.
    pub stream: String,
    /// What was asked for.
    pub bytes: u64,
    /// Its address.
    pub address: u64,
    /// The index of its `free_requested` entry.
    pub event: usize,
    /// How long its free waited, in microseconds.
    pub gap_us: u64,
    /// Whether it was completed at all.
    pub completed: bool,
}

/// One free on its way.
#[derive(Debug, Clone, Copy)]
struct Gap {
    stream: StreamHandle,
    bytes: u64,
    address: u64,
    event: usize,
    from_us: i64,
    to_us: i64,
    completed: bool,
}

impl Gap {
    fn us(&self) -> u64 {
        u64::try_from(self.to_us.saturating_sub(self.from_us)).unwrap_or(0)
    }

    fn byte_us(&self) -> u128 {
        u128::from(self.bytes) * u128::from(self.us())
    }
}

/// Says what a snapshot shows: that uses are missing, and how long frees waited.
#[must_use]
pub fn advise_snapshot(snapshot: &DeviceTrace<'_>, trace: impl Into<String>) -> Advice {
    let (kind, what) = match snapshot.origin() {
        Origin::Pytorch => ("pytorch_snapshot", "a PyTorch snapshot has no uses"),
        Origin::PytorchEntries => {
            ("pytorch_entries", "the entries of a PyTorch snapshot have no uses")
        }
        Origin::RmmLog => ("rmm_log", "a log of RMM has no uses"),
        Origin::StreamTrace => (
            "stream_trace_snapshot",
            "a snapshot that was made of a stream trace has no uses any more (give the stream \
             trace itself)",
        ),
    };
    let mut advice = Advice::empty(trace.into(), kind);
    advice.notes.push(format!(
        "{what}: which stream used a block, and until when, is missing, so no wait can be proposed"
    ));
    let gaps = gaps(snapshot);
    advice.notes.push(
        if gaps.is_empty() && snapshot.has_no_completions() {
            "nor does it say when a free was complete: how long frees waited is not known"
        } else if gaps.is_empty() {
            "no free had to wait: nothing here is used across streams"
        } else {
            "gaps are from free_requested to free_completed, which is when PyTorch looked, not \
             when the use was over"
        }
        .to_owned(),
    );
    let mut by_stream: BTreeMap<StreamHandle, Vec<&Gap>> = BTreeMap::new();
    for gap in &gaps {
        by_stream.entry(gap.stream).or_default().push(gap);
    }
    advice.gaps = by_stream.iter().map(|(stream, gaps)| stream_gaps(*stream, gaps)).collect();
    advice.gaps.sort_by_key(|gaps| std::cmp::Reverse(gaps.byte_ms));
    let mut largest: Vec<&Gap> = gaps.iter().collect();
    largest.sort_by_key(|gap| (std::cmp::Reverse(gap.byte_us()), gap.event));
    advice.holders = largest.into_iter().take(HOLDERS_MAX).map(holder).collect();
    advice
}

/// The frees that another entry of a block's life came between.
fn gaps(snapshot: &DeviceTrace<'_>) -> Vec<Gap> {
    let entries = snapshot.entries();
    let end_us = entries.last().map_or(0, |entry| entry.time_us);
    let mut open: HashMap<u64, VecDeque<Gap>> = HashMap::new();
    let mut gaps = Vec::new();
    let mut last = None;
    for (event, entry) in entries.iter().enumerate() {
        let before = last;
        match entry.action {
            Action::FreeRequested => {
                last = Some(entry.address);
                open.entry(entry.address).or_default().push_back(Gap {
                    stream: entry.stream,
                    bytes: entry.bytes,
                    address: entry.address,
                    event,
                    from_us: entry.time_us,
                    to_us: end_us,
                    completed: false,
                });
            }
            Action::FreeCompleted => {
                last = None;
                let opened = open.get_mut(&entry.address).and_then(VecDeque::pop_front);
                // What is completed by the very next entry did not wait.
                if let Some(gap) = opened
                    && before != Some(entry.address)
                {
                    gaps.push(Gap { to_us: entry.time_us, completed: true, ..gap });
                }
            }
            Action::Snapshot | Action::Annotate | Action::Other(_) => {}
            Action::Alloc
            | Action::Free
            | Action::SegmentAlloc
            | Action::SegmentFree
            | Action::SegmentMap
            | Action::SegmentUnmap
            | Action::OutOfMemory => last = None,
        }
    }
    // Where completions were left out of the recording, nothing is known to have waited.
    if entries.iter().any(|entry| entry.action == Action::FreeCompleted) {
        gaps.extend(open.into_values().flatten());
    }
    gaps.sort_by_key(|gap| gap.event);
    gaps
}

fn stream_gaps(stream: StreamHandle, gaps: &[&Gap]) -> StreamGaps {
    let count = u64::try_from(gaps.len()).unwrap_or(u64::MAX);
    let us: u64 = gaps.iter().map(|gap| gap.us()).fold(0, u64::saturating_add);
    let byte_us: u128 = gaps.iter().map(|gap| gap.byte_us()).sum();
    let open = gaps.iter().filter(|gap| !gap.completed).count();
    let mut changes: Vec<(i64, i128)> = gaps
        .iter()
        .flat_map(|gap| {
            let bytes = i128::from(gap.bytes);
            [(gap.from_us, bytes), (gap.to_us, -bytes)]
        })
        .collect();
    changes.sort_unstable();
    let (mut now, mut peak) = (0_i128, 0_i128);
    for (_, change) in changes {
        now += change;
        peak = peak.max(now);
    }
    StreamGaps {
        stream: stream.to_string(),
        waited: count,
        never_completed: u64::try_from(open).unwrap_or(u64::MAX),
        mean_us: us / count.max(1),
        max_us: gaps.iter().map(|gap| gap.us()).max().unwrap_or(0),
        byte_ms: u64::try_from(byte_us / 1000).unwrap_or(u64::MAX),
        peak_bytes: u64::try_from(peak).unwrap_or(u64::MAX),
    }
}

fn holder(gap: &Gap) -> Holder {
    Holder {
        stream: gap.stream.to_string(),
        bytes: gap.bytes,
        address: gap.address,
        event: gap.event,
        gap_us: gap.us(),
        completed: gap.completed,
    }
}
