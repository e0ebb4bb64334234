//! The answer as a whole: every setting tried, the best first, and what to do.

use pytorch_model::{SettingError, Settings};
use serde::{Deserialize, Serialize};

use super::case::{Case, Recorder};
use super::crew::{self, Runs};
use super::holders::{self, Holder, LiveBlock};
use super::row::{Allocator, Row, Setting};
use super::{notes, search, settings, text, verdict};

/// The version of the JSON line's fields.
pub const SCHEMA: u32 = 1;
/// How many holders are told.
const HOLDERS_MAX: usize = 10;

/// What is asked of a trace.
#[derive(Debug, Clone, Default)]
pub struct Question {
    /// The trace, as it was named.
    pub trace: String,
    /// What may be reserved, as a memory fraction would limit it; no limit if absent.
    pub capacity_bytes: Option<u64>,
    /// The settings to try beside the recorded one; the usual ones if empty.
    pub settings: Vec<String>,
    /// Whether combinations are searched as well.
    pub search: bool,
}

/// What a trace would have needed under each setting. Serialized, it is the JSON line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct WhatIf {
    /// The version of these fields.
    pub schema: u32,
    /// The trace, as it was named.
    pub trace: String,
    /// What may be reserved, if there is a limit.
    pub capacity_bytes: Option<u64>,
    /// The most bytes of blocks in use at once, each rounded up to whole 512: what no allocator
    /// of PyTorch's goes below.
    pub live_peak_bytes: u64,
    /// The same in whole pages of 2 MiB, with blocks of at most 1 MiB packed.
    pub page_floor_bytes: u64,
    /// Who recorded it.
    pub recorder: Recorder,
    /// What was reserved at most when it was recorded, if the file tells.
    pub recorded_peak_reserved_bytes: Option<u64>,
    /// What it was recorded under; none if another allocator than PyTorch's served it.
    pub recorded_setting: Option<String>,
    /// Requests that failed for lack of memory when it was recorded.
    #[serde(default)]
    pub recorded_out_of_memory: u64,
    /// Where such a request was PyTorch's: what the limit was below, under which it failed.
    #[serde(default)]
    pub recorded_limit_bytes: Option<u64>,
    /// What the rows come to, in a sentence that begins with `fits`, `a setting fits` or
    /// `nothing fits`.
    pub verdict: String,
    /// The line to set, if there is a better one than none.
    pub paste: Option<String>,
    /// Every setting that was tried, the best first.
    pub rows: Vec<Row>,
    /// Who held the most at the live peak, the largest first.
    pub holders: Vec<Holder>,
    /// What else should be known.
    pub notes: Vec<String>,
    /// How many lines a search tried, and how many it may.
    pub searched: Option<(usize, usize)>,
    /// Entries in the trace.
    pub events: u64,
}

impl WhatIf {
    /// The JSON line, without its end.
    ///
    /// # Errors
    /// None of these fields can fail to be written; the writer's type says otherwise.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string(self)
    }

    /// The verdict, the line to set, and a table, several lines with an end each.
    #[must_use]
    pub fn to_text(&self) -> String {
        text::table(self)
    }

    /// The best row of PyTorch's.
    pub(super) fn best(&self) -> Option<&Row> {
        self.rows.iter().find(|row| row.model == Allocator::Pytorch)
    }

    /// The row of the setting that the trace was recorded under, or of the default where another
    /// allocator served it.
    pub(super) fn baseline(&self) -> Option<&Row> {
        let is_default = |row: &&Row| {
            row.model == Allocator::Pytorch
                && Settings::parse(&row.setting).is_ok_and(|it| it == Settings::default())
        };
        let recorded = self.rows.iter().find(|row| row.is_recorded);
        match self.recorded_setting {
            Some(_) => recorded,
            None => self.rows.iter().find(is_default),
        }
    }
}

/// Serves a trace under every setting in question, on all cores, and says what that comes to.
/// `others` are rows of other allocators, which take part; `owner_of` names a block's owner, as
/// [`BlockOwners::name`](super::BlockOwners::name) does.
///
/// A setting takes about 0.3 s for a million operations.
///
/// # Errors
/// [`SettingError`] for a setting that PyTorch would refuse, or that is not modeled.
pub fn what_if(
    case: &Case,
    question: &Question,
    others: Vec<Row>,
    owner_of: impl FnMut(&LiveBlock) -> String,
    runs: Runs<'_>,
) -> Result<WhatIf, SettingError> {
    let to_try = settings::to_try(case.recorded_setting(), &question.settings)?;
    let capacity = question.capacity_bytes;
    let progress = search::Count::new(runs, to_try.len());
    let serve = |setting: &Setting| Row::of_setting(case, setting, capacity);
    let mut rows = crew::each(&to_try, serve, || progress.one_done());
    let searched = question.search.then(|| {
        let found = search::search(case, capacity, &mut rows, &progress);
        (found, settings::SEARCH_TRIES_MAX)
    });
    rows.extend(others);
    rows.sort_by(Row::order);
    spread(case, capacity, &mut rows);
    let mut holders = holders::at_live_peak(case, owner_of);
    holders.truncate(HOLDERS_MAX);
    let mut answer = WhatIf {
        schema: SCHEMA,
        trace: question.trace.clone(),
        capacity_bytes: capacity,
        live_peak_bytes: case.live.bytes,
        page_floor_bytes: case.live.page_floor_bytes,
        recorder: case.recorder,
        recorded_peak_reserved_bytes: case.summary.reserved_peak_bytes(),
        recorded_setting: case.recorded_setting().map(str::to_owned),
        recorded_out_of_memory: wide(case.summary.counts.out_of_memory),
        recorded_limit_bytes: case.timeline.limit_bytes,
        verdict: String::new(),
        paste: None,
        rows,
        holders,
        notes: Vec::new(),
        searched,
        events: wide(case.summary.entry_count),
    };
    answer.verdict = verdict::verdict(&answer);
    answer.paste = verdict::paste(&answer);
    answer.notes = notes::notes(case, &answer);
    Ok(answer)
}

fn wide(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

/// Tells of the rows that people look at how far they depend on assumptions.
fn spread(case: &Case, capacity: Option<u64>, rows: &mut [Row]) {
    let is_pytorch = |row: &Row| row.model == Allocator::Pytorch;
    let best = rows.iter().position(is_pytorch);
    let recorded = rows.iter().position(|row| row.is_recorded);
    let mut chosen: Vec<usize> = best.into_iter().chain(recorded).collect();
    chosen.dedup();
    let lines: Vec<(usize, Settings)> = chosen
        .into_iter()
        .filter_map(|at| {
            let line = rows.get(at).map(|row| row.setting.as_str())?;
            Some((at, Settings::parse(line).ok()?))
        })
        .collect();
    let found = crew::each(&lines, |(_, settings)| Row::spread(case, settings, capacity), || {});
    for ((at, _), spread) in lines.iter().zip(found) {
        if let Some(row) = rows.get_mut(*at) {
            row.spread = Some(spread);
        }
    }
}
