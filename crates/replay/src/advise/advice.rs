//! What is advised, as values that can be printed as a table or as one line of JSON.

use serde::{Deserialize, Serialize};

/// The version of the JSON line's fields.
pub const ADVICE_SCHEMA: u32 = 1;

/// What a run would take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prediction {
    /// From the first operation's beginning to the last one's end on the device, in nanoseconds.
    pub time_ns: u64,
    /// The most bytes allocated, or freed and in use.
    pub peak_bytes: u64,
    /// How long streams would stand still at the proposed waits, in nanoseconds.
    pub stalled_ns: u64,
}

/// What a run would take with the waits so many units after the free.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct AtLag {
    /// How many units later.
    pub lag: usize,
    /// What it would take.
    pub predicted: Prediction,
}

/// Whether and where to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Wait there: it costs nothing, and bounds the memory.
    Wait,
    /// Leave it: no wait would lower the peak without making the run longer.
    Leave,
    /// It was not tried: others hold more.
    NotTried,
    /// It cannot be told: the recording has no device times.
    NoTimes,
}

/// In what the lag is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LagUnit {
    /// Allocations at the same place: steps of a loop.
    Allocations,
    /// Operations on the home stream.
    Operations,
}

/// One stream's use of the blocks of a group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UseAdvice {
    /// The stream, by its number in the recording.
    pub stream: u32,
    /// Where the program made the stream.
    pub stream_made_at: Option<String>,
    /// How the use was announced: `record_stream`, `record_use`, or `operation` where the launch
    /// or copy did it by itself.
    pub announced_by: String,
    /// Where.
    pub announced_at: Option<String>,
    /// The last operation there that uses the block: its name.
    pub last_operation: Option<String>,
    /// Where it is queued.
    pub last_operation_at: Option<String>,
    /// How long the use went on after the free, on average, in nanoseconds.
    pub after_free_ns: u64,
    /// How long the memory lay there after the use, until other memory took its place or the run
    /// ended, on average, in nanoseconds.
    pub held_ns: u64,
    /// The call that marks the end of the use.
    pub record_call: String,
    /// The call that waits for it.
    pub wait_call: String,
}

/// What is advised for the blocks of one pattern.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupAdvice {
    /// The home stream, by its number in the recording.
    pub stream: u32,
    /// Where the program made it.
    pub stream_made_at: Option<String>,
    /// Where the blocks are allocated.
    pub allocated_at: Option<String>,
    /// Where they are freed.
    pub freed_at: Option<String>,
    /// How many blocks.
    pub blocks: usize,
    /// The largest one.
    pub bytes_max: u64,
    /// Bytes times milliseconds from the free to the end of the last use, of all blocks.
    pub pending_byte_ms: u64,
    /// Bytes times milliseconds from the end of the last use until other memory took the place, or
    /// the run ended, of all blocks.
    pub held_byte_ms: u64,
    /// What part of the peak was these blocks, freed and in use, in thousandths.
    pub peak_share_permille: u64,
    /// By stream.
    pub uses: Vec<UseAdvice>,
    /// Whether to wait.
    pub verdict: Verdict,
    /// How many units after the free the wait and the free go.
    pub lag: Option<usize>,
    /// In what that is counted.
    pub unit: LagUnit,
    /// Before what the home stream waits.
    pub wait_before: Option<String>,
    /// Without any wait.
    pub never: Option<Prediction>,
    /// Around the lag: one step earlier, there, one step later.
    pub around: Vec<AtLag>,
}

/// What is advised for a recorded run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Advice {
    /// The version of these fields.
    pub schema: u32,
    /// The trace, as it was named.
    pub trace: String,
    /// `stream_trace`; of what has no uses `pytorch_snapshot`, `pytorch_entries`, `rmm_log`, or
    /// `stream_trace_snapshot`, which is a snapshot that was made of a stream trace.
    pub kind: String,
    /// What somebody should know who reads the figures.
    pub notes: Vec<String>,
    /// The run as it was recorded: time and the most bytes, as measured there.
    pub recorded: Option<Measured>,
    /// The run as it was recorded, on paper.
    pub as_recorded: Option<Prediction>,
    /// All of the advice taken, on paper.
    pub advised: Option<Prediction>,
    /// By pattern, the most memory first.
    pub groups: Vec<GroupAdvice>,
    /// For a snapshot: by stream, how long frees waited to be completed.
    pub gaps: Vec<super::snapshot::StreamGaps>,
    /// For a snapshot: the blocks whose free waited most, by bytes times time.
    pub holders: Vec<super::snapshot::Holder>,
}

/// What a recording itself measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Measured {
    /// From the first operation's beginning, as far as that is known, to the last one's end, in
    /// nanoseconds; `None` without device times.
    pub time_ns: Option<u64>,
    /// The most bytes allocated, or freed and in use, as the allocator counted.
    pub peak_active_bytes: Option<u64>,
    /// The most bytes held of the device.
    pub peak_reserved_bytes: Option<u64>,
}

impl Advice {
    pub(super) fn empty(trace: String, kind: &str) -> Self {
        Self {
            schema: ADVICE_SCHEMA,
            trace,
            kind: kind.to_owned(),
            notes: Vec::new(),
            recorded: None,
            as_recorded: None,
            advised: None,
            groups: Vec::new(),
            gaps: Vec::new(),
            holders: Vec::new(),
        }
    }

    /// The JSON line, without its end.
    ///
    /// # Errors
    /// None of these fields can fail to be written; the writer's type says otherwise.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string(self)
    }

    /// The tables, several lines with an end each.
    #[must_use]
    pub fn to_text(&self) -> String {
        super::text::tables(self)
    }
}
