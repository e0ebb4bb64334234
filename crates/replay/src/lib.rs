//! Drives an allocator, or a model of one, from a recorded trace, and reports what it needed.
//!
//! Start with [`Plan`]: it turns a trace's operations into steps for a [`Target`], with the
//! uses that a trace recorded put on a small number of *lanes*. [`run`] takes a target through
//! the steps, timed or verified; [`smallest_capacity`] bisects over fresh targets; [`Report`]
//! prints what came out, as text and as one line of JSON. [`advise`] runs a recorded program
//! with several streams again on paper, and says where a wait would cost nothing.
//!
//! What it must not know: CUDA, files, command lines. It has no policy of its own: every decision
//! about memory is the target's.
//!
//! # Invariants
//! - A block that was freed while another stream used it counts as live until that use ends.
//! - A gate that was closed is opened before [`run`] returns, unless the target failed; a target
//!   opens what is left when it is dropped.
//! - Times cover calls that allocate and free, never the work around them.
#![forbid(unsafe_code)]

pub mod advise;
pub mod what_if;

mod engine;
mod error;
mod fit;
mod live_ranges;
mod percent;
mod plan;
mod report;
mod stopwatch;
mod target;

pub use engine::{Mode, Outcome, Progress, run};
pub use error::ReplayError;
pub use fit::{Bounds, CAPACITY_GRAIN_BYTES, Fit, smallest_capacity};
pub use plan::{Gate, LANE_GATES_MAX, LANES_MAX, Lane, Plan, Step, Uses};
pub use report::{Recorded, Report, SCHEMA, Setting};
pub use target::{Figures, Placed, Served, StampCounts, Target, TargetError};
