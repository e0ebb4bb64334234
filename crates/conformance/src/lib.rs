//! What the real CUDA driver answers, asked again of any driver through its table.
//!
//! What it does: puts some three hundred questions to a driver, in driver calls only, and compares
//! the answers with the recorded ones in `answers.txt`. Many of the questions are wrong on purpose
//! (a block freed twice, a destroyed stream queried), so each [`Case`] wants a driver of its own:
//! a fresh simulated machine, or a process of its own on hardware.
//!
//! What it must not know: which driver it is talking to. What differs between drivers comes in as
//! an [`Environment`].
//!
//! Start with [`cases`], [`ask`] and [`judge`].
//!
//! Invariants: every recorded line is asked by exactly one case; an answer that is not recorded
//! and a recorded answer that is not given are differences too.
#![deny(unsafe_code)]

mod asker;
mod case;
mod driver;
mod environment;
mod probes;
mod report;
mod transcript;

pub use case::{Case, ask, cases};
pub use environment::{Environment, InForkedChild, Progress};
pub use report::{Difference, Kind, Report, judge, recorded};
pub use transcript::{Answer, HANGS, HAZARD, SIGSEGV, Transcript};
