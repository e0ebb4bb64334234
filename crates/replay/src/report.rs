//! What a replay found, beside what the trace recorded: one line of JSON, or a table.

use serde::{Deserialize, Serialize};

use crate::engine::Outcome;
use crate::fit::Fit;
use crate::plan::Plan;
use crate::target::Served;
use crate::what_if::Recorder;

mod text;

/// The version of the JSON line's fields.
pub const SCHEMA: u32 = 1;

/// What the replay ran on, and how.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Setting {
    /// The trace, as it was named.
    pub trace: String,
    /// The device.
    pub device: String,
    /// The allocator's policy.
    pub policy: String,
    /// Where its memory comes from.
    pub source: String,
}

/// What the trace itself recorded.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Recorded {
    /// Entries.
    pub event_count: usize,
    /// Whose allocator served it.
    pub recorder: Recorder,
    /// The most that was held from the device, if the file tells.
    pub peak_reserved_bytes: Option<u64>,
    /// The most bytes in blocks.
    pub peak_allocated_bytes: u64,
    /// The most bytes in blocks, those freed and still used included.
    pub peak_active_bytes: u64,
    /// The most bytes freed and still used.
    pub peak_pending_bytes: u64,
    /// The least that whole pages of 2 MiB allow.
    pub page_floor_bytes: u64,
    /// Blocks that the trace began with, rebuilt from its end.
    pub initial_block_count: usize,
    /// Requests that the recorded allocator could not serve; they are not replayed.
    pub out_of_memory_count: usize,
}

/// What a replay found. Serialized, it is the JSON line; the table shows some more.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Report {
    /// The version of these fields.
    pub schema: u32,
    /// The trace, as it was named.
    pub trace: String,
    /// The device.
    pub device: String,
    /// The allocator's policy.
    pub policy: String,
    /// Where its memory came from.
    pub source: String,
    /// Entries in the trace.
    pub events: u64,
    /// Allocations and frees that were asked of the allocator.
    pub operations: u64,
    /// Streams in the trace.
    pub streams: u64,
    /// Frees that were replayed as used by another stream.
    pub deferred_frees: u64,
    /// The most bytes in blocks.
    pub peak_allocated_bytes: u64,
    /// The most bytes in blocks, those freed and still used included.
    pub peak_active_bytes: u64,
    /// The most bytes freed and still used.
    pub peak_pending_bytes: u64,
    /// The most bytes held from the device.
    pub peak_reserved_bytes: u64,
    /// The most that was held when the trace was recorded.
    pub recorded_peak_reserved_bytes: Option<u64>,
    /// Peak allocated by peak reserved bytes; 1 when nothing was reserved.
    pub utilization: f64,
    /// Ranges of memory held from the device at the end.
    pub segments: u64,
    /// Calls of the driver, those of the replay itself left out.
    pub driver_calls: u64,
    /// Time for an allocation or a free, on average, in a pass without stamps.
    pub ns_per_operation: f64,
    /// Words that were checked.
    pub stamps_checked: u64,
    /// Words that held something else than was written, and blocks that overlapped live ones.
    pub stamp_errors: u64,
    /// Requests that found no room.
    pub out_of_memory: u64,
    /// The smallest capacity that serves the trace, where it was asked for and there is one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub smallest_capacity_bytes: Option<u64>,
    #[serde(skip)]
    details: Details,
}

/// What only the table shows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Details {
    recorded: Recorded,
    served: Vec<Served>,
    overlap_count: u64,
    is_verified: bool,
    prolonged_count: usize,
    tried_capacities: u32,
}

impl Report {
    /// Puts together what was recorded and what a timed pass found.
    #[must_use]
    pub fn new(setting: Setting, recorded: Recorded, plan: &Plan, timed: &Outcome) -> Self {
        let figures = &timed.figures;
        Self {
            schema: SCHEMA,
            trace: setting.trace,
            device: setting.device,
            policy: setting.policy,
            source: setting.source,
            events: wide(recorded.event_count),
            operations: wide(plan.operation_count),
            streams: wide(plan.stream_count),
            deferred_frees: wide(plan.deferred_free_count),
            peak_allocated_bytes: figures.peak_allocated_bytes,
            peak_active_bytes: figures.peak_active_bytes,
            peak_pending_bytes: figures.peak_pending_bytes,
            peak_reserved_bytes: figures.peak_reserved_bytes,
            recorded_peak_reserved_bytes: recorded.peak_reserved_bytes,
            utilization: ratio(figures.peak_allocated_bytes, figures.peak_reserved_bytes),
            segments: figures.segments,
            driver_calls: figures.driver_calls,
            ns_per_operation: timed.ns_per_operation(),
            stamps_checked: 0,
            stamp_errors: 0,
            out_of_memory: timed.out_of_memory_count,
            smallest_capacity_bytes: None,
            details: Details {
                recorded,
                served: figures.served.clone(),
                prolonged_count: plan.prolonged_count,
                ..Details::default()
            },
        }
    }

    /// Adds what a verified pass found.
    pub fn add_verified(&mut self, verified: &Outcome) {
        self.stamps_checked = verified.stamps.checked;
        self.stamp_errors = verified.stamps.wrong.saturating_add(verified.overlap_count);
        self.out_of_memory = self.out_of_memory.max(verified.out_of_memory_count);
        self.details.overlap_count = verified.overlap_count;
        self.details.is_verified = true;
    }

    /// Adds the smallest capacity.
    pub fn add_fit(&mut self, fit: Fit) {
        self.smallest_capacity_bytes = fit.capacity_bytes;
        self.details.tried_capacities = fit.try_count;
    }

    /// Whether every request was served, every stamp right and no live range overlapped.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.stamp_errors == 0 && self.out_of_memory == 0
    }

    /// The JSON line, without its end.
    ///
    /// # Errors
    /// None of these fields can fail to be written; the writer's type says otherwise.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string(self)
    }

    /// The table, several lines with an end each.
    #[must_use]
    pub fn to_text(&self) -> String {
        text::table(self)
    }
}

fn wide(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

/// `part` by `whole`, to about nine digits.
fn ratio(part: u64, whole: u64) -> f64 {
    const SCALE: u128 = 1_000_000_000;
    if whole == 0 {
        return 1.0;
    }
    let scaled = u128::from(part) * SCALE / u128::from(whole);
    u32::try_from(scaled).map_or(f64::INFINITY, |scaled| f64::from(scaled) / 1e9)
}

#[cfg(test)]
mod tests;
