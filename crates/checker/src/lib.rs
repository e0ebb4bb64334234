//! A checker for programs on several streams, on a GPU as well as on a simulated device.
//!
//! What it does: watches a driver's streams ([`streams::observe`]) and an allocator's memory
//! ([`allocator::observe`]), and reports uses that nothing orders, uses after a free, uses the
//! allocator was not told of, waits that do not cover what they should, and memory that the
//! allocator handed out or gave back too early. Start with [`Checker`]; the facade puts one into a
//! program (`wellspring::checked`).
//!
//! What it must not know: how the library itself decides what is ordered. It shares no code with
//! `streams::order`: it has vector clocks, events and a map of bytes of its own, built from what it
//! is told alone. So where the two disagree, one of them is wrong.
//!
//! Invariants: the verdict rests on what was submitted, never on what happened to overlap; where
//! others may have queued what nobody saw, nothing is reported; memory is bounded (records,
//! streams that are over, reports), and what is forgotten counts as ordered.
#![forbid(unsafe_code)]

mod checker;
mod clock;
mod judge;
mod memory;
mod report;
mod timeline;

pub use checker::Checker;
pub use report::{Buffer, Deed, Kind, Line, Report, StreamName};
