//! Programs of several streams whose buffers are freed early, and the ways to make that safe.
//!
//! What it does: a [`Pattern`] is a fixed list of steps: a producer writes a buffer, consumers on
//! other streams read it, and it is freed as soon as that is queued. A [`Strategy`] is what the
//! program says or does about the free. A [`Stage`] runs one under the other, on a GPU or, in
//! virtual time, on the simulated device, and tells what it took: time on the device and memory.
//! [`compare`] runs several in turn and takes medians.
//!
//! Every kernel lasts as long as the plan says, by the device's own clock, so that two strategies
//! differ by their order alone. A consumer looks at its input in its last moment: a buffer that
//! was given away too early shows as a mismatch.
//!
//! What it must not know: how the allocator decides.
//!
//! Start with [`Pattern::plan`] and [`Stage::new`].
#![deny(unsafe_code)]

mod compare;
mod outcome;
mod places;
mod plan;
mod stage;
mod strategy;
mod uncounted;

pub use compare::compare;
pub use outcome::{Outcome, Summary};
pub use places::Place;
pub use plan::{GateSteps, Pattern, Plan, Stall, Step};
pub use stage::{Error, Stage};
pub use strategy::Strategy;
