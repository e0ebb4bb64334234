//! The trace crate at its public face: real traces, made-up ones, and files that mean harm.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::wildcard_enum_match_arm,
    reason = "helpers of tests may fail a test as tests themselves do"
)]

mod chrome_format;
mod compression;
mod contents;
mod generated;
mod hostile;
mod offsets;
mod operations;
mod pickle;
mod problems;
mod random;
mod real_traces;
mod reports;
mod reread;
mod reread_streams;
mod rmm_logs;
mod shapes;
mod straight;
mod stream_trace;
mod writing;
mod zipped;
