//! One line of the answer: what one allocator under one setting came to.

use std::cmp::{Ordering, Reverse};

use pytorch_model::Settings;
use serde::{Deserialize, Serialize};
use trace::{BlockNumber, Operation};

use super::case::Case;
use super::serve::{Assumed, Served, serve};
use crate::engine::Outcome;

/// Whose allocator a row is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Allocator {
    /// The model of PyTorch's.
    Pytorch,
    /// Wellspring's own.
    Wellspring,
}

/// How far a row's figures depend on what only a driver or a version knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Spread {
    /// How many other assumptions were tried.
    pub tries: usize,
    /// The least that was reserved at the peak under any of them.
    pub low_bytes: u64,
    /// The most.
    pub high_bytes: u64,
    /// Under how many of them everything found room.
    pub fits: usize,
}

/// What one allocator under one setting came to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Row {
    /// Whose allocator.
    pub model: Allocator,
    /// Its setting, as given.
    pub setting: String,
    /// Whether the trace was recorded under it.
    pub is_recorded: bool,
    /// The most bytes in blocks, as this allocator rounds them.
    pub peak_allocated_bytes: u64,
    /// The most bytes held from the device.
    pub peak_reserved_bytes: u64,
    /// The one by the other.
    pub utilization: f64,
    /// The most segments held; pages of expandable segments do not count.
    pub segments: u64,
    /// How often all that was cached had to be given back before a request was served.
    pub retries: u64,
    /// Driver calls by which requests gave memory back, each of which may stall a real run; for
    /// Wellspring, requests that had to.
    pub driver_frees: u64,
    /// Whether every request found room.
    pub fits: bool,
    /// The index of the trace's entry that found none; figures are those up to there.
    pub out_of_memory_event: Option<u64>,
    /// The time it took to work out.
    pub milliseconds: u64,
    /// How far its figures depend on assumptions, for the rows that matter.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub spread: Option<Spread>,
}

impl Row {
    /// Serves a case under a setting of PyTorch's.
    pub(super) fn of_setting(case: &Case, setting: &Setting, capacity: Option<u64>) -> Self {
        let served = serve(case, &setting.settings, capacity, Assumed::default());
        let Served { figures, failed, give_backs, elapsed } = served;
        Self {
            model: Allocator::Pytorch,
            setting: setting.line.clone(),
            is_recorded: setting.is_recorded,
            peak_allocated_bytes: figures.allocated_peak_bytes,
            peak_reserved_bytes: figures.reserved_peak_bytes,
            utilization: ratio(figures.allocated_peak_bytes, figures.reserved_peak_bytes),
            segments: figures.segment_peak_count,
            retries: figures.retry_count,
            driver_frees: give_backs,
            fits: failed.is_none(),
            out_of_memory_event: failed.map(|operation| case.event_of(operation)),
            milliseconds: u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX),
            spread: None,
        }
    }

    /// What a run of Wellspring's allocator over the case's operations came to.
    #[must_use]
    pub fn of_wellspring(case: &Case, setting: impl Into<String>, outcome: &Outcome) -> Self {
        let figures = &outcome.figures;
        let ladder = figures.served.iter().filter(|served| served.by == "ladder");
        let ladder = ladder.map(|served| served.count).sum();
        Self {
            model: Allocator::Wellspring,
            setting: setting.into(),
            is_recorded: false,
            peak_allocated_bytes: figures.peak_allocated_bytes,
            peak_reserved_bytes: figures.peak_reserved_bytes,
            utilization: ratio(figures.peak_allocated_bytes, figures.peak_reserved_bytes),
            segments: figures.segments,
            retries: ladder,
            driver_frees: ladder,
            fits: outcome.out_of_memory_count == 0,
            out_of_memory_event: outcome.refused.and_then(|block| event_of_block(case, block)),
            milliseconds: u64::try_from(outcome.elapsed.as_millis()).unwrap_or(u64::MAX),
            spread: None,
        }
    }

    /// Finds out how far the figures depend on assumptions.
    pub(super) fn spread(case: &Case, settings: &Settings, capacity: Option<u64>) -> Spread {
        let others = Assumed::OTHERS.map(|assumed| serve(case, settings, capacity, assumed));
        let peaks = || others.iter().map(|served| served.figures.reserved_peak_bytes);
        Spread {
            tries: others.len(),
            low_bytes: peaks().min().unwrap_or(0),
            high_bytes: peaks().max().unwrap_or(0),
            fits: others.iter().filter(|served| served.failed.is_none()).count(),
        }
    }

    /// Better rows come first: what fits, then what seldom gives memory back, then what reserves
    /// less. Of what does not fit, what gets furthest.
    #[must_use]
    pub fn order(&self, other: &Self) -> Ordering {
        let key = |row: &Self| {
            let reached = row.out_of_memory_event.unwrap_or(u64::MAX);
            (!row.fits, Reverse(reached), row.driver_frees, row.peak_reserved_bytes)
        };
        key(self).cmp(&key(other))
    }
}

/// A line to try.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Setting {
    pub(super) line: String,
    pub(super) settings: Settings,
    pub(super) is_recorded: bool,
}

fn event_of_block(case: &Case, block: BlockNumber) -> Option<u64> {
    let asked = case.operations.list.iter().position(|operation| allocates(operation, block));
    asked.map(|operation| case.event_of(operation))
}

fn allocates(operation: &Operation, wanted: BlockNumber) -> bool {
    matches!(operation, Operation::Allocate { block, .. } if *block == wanted)
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
