//! Advice from a recorded run: where a wait would cost nothing, and what it would save.
//!
//! `record_stream` and a free at once are the simplest code, and memory stays in use for as long
//! as the host runs ahead. The other way is to keep the buffer for some steps, make its home
//! stream wait for the last use, and free it then; too early and the home stream stands still, too
//! late and memory piles up. [`advise`] finds the step: it runs the recorded program again on
//! paper, with its order and durations, for waits at each distance from the free.
//!
//! The files: `program` makes a program of a recording, `simulate` runs it, `groups` puts blocks
//! of one pattern together, `search` finds the distance, `advice` and `text` say it; `snapshot`
//! says what can be said of a PyTorch snapshot, which has no uses.

mod advice;
mod groups;
mod program;
mod report;
mod search;
mod simulate;
mod snapshot;
mod text;

pub use advice::{
    ADVICE_SCHEMA, Advice, AtLag, GroupAdvice, LagUnit, Measured, Prediction, UseAdvice, Verdict,
};
pub use report::{GROUPS_TRIED_MAX, STREAMS_RUN_MAX, advise};
pub use snapshot::{HOLDERS_MAX, Holder, StreamGaps, advise_snapshot};
