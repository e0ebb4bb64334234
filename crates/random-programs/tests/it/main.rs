//! The programs of some hundred seeds are clean; each broken product is caught; a program that
//! fails shrinks. `cargo xtask sim` runs more seeds.
#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, reason = "a test says what it covered and how to repeat it")]

mod controls;
mod programs;
mod shrinking;
mod verdicts;
