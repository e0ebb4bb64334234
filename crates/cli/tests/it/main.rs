//! The built command on real traces and bad input, on the simulated device.
#![forbid(unsafe_code)]
#![allow(clippy::indexing_slicing, clippy::unwrap_used, reason = "a failed step fails its test")]

mod advice_taken;
mod advise;
mod bad_files;
mod capacity;
mod command;
mod convert;
mod devices;
mod lines;
mod origin;
mod pickle;
#[cfg(unix)]
mod pipes;
mod report;
mod shell;
mod summary;
mod traces;
mod what_if;
