//! Random programs over the allocator, on the simulated driver.
//!
//! What it does: draws programs from seeds, runs them, and says what is wrong. A program is a list
//! of operations, free of races by itself, so whatever race is found is one that the allocator let
//! in; and because it is a list, a program that fails can be made shorter until nothing more can
//! be left out. Start with [`Program::draw`], then [`run`]; [`Campaign`] runs many seeds.
//!
//! What it must not know: how the allocator chooses. It sees what a user sees, and asks the
//! simulated driver, which keeps its own account of what comes after what (S2, S3).
//!
//! What is held against each program:
//! - no byte is handed out twice, and no word that was written is lost;
//! - no block is handed out before everything that touched it comes first (S3);
//! - what `streams` says is ordered or complete is so in the simulator's account, and what is so
//!   there is known, for marks that are made and compared along the way (S2);
//! - the checker that a user can turn on finds the same as the simulator, and of mistakes that are
//!   made on purpose too;
//! - no request waits, grows or fails while a block that is ready fits (R10);
//! - every figure of the statistics can be computed again from a snapshot;
//! - nothing stays behind when all was given back.
//!
//! Invariant: the same program gives the same run.
#![deny(unsafe_code)]

mod operation;
mod program;

mod chance;
mod draw;
mod draw_setup;
mod live_ranges;

mod blocks;
mod graphs;
mod marks;
mod meetings;
mod mistakes;
mod order;
mod raw;
mod stand;
mod tightness;
mod verdicts;
mod world;

mod campaign;
mod outcome;
mod run;
mod shrink;
mod workers;

pub use campaign::{Campaign, Failure, HUNG, Summary};
pub use chance::Chance;
pub use draw::Wishes;
pub use live_ranges::LiveRanges;
pub use operation::{
    BlockName, CaptureStep, EventName, Fault, FaultCall, GraphName, Join, MarkName, Mended,
    Mistake, Operation, StreamName, Synchronize, Told, Trim, Way,
};
pub use outcome::{Answer, Feature, Finding, Outcome, Reached, Verdict};
pub use program::{Broken, Memory, Program, Setup, Step};
pub use run::run;
pub use shrink::shrink;
