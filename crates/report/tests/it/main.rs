//! Reports of recorded and made-up traces: what is in them, and what a browser makes of them.
#![forbid(unsafe_code)]
#![allow(clippy::indexing_slicing, clippy::unwrap_used, reason = "a failed step fails its test")]

mod browser;
mod made_up;
mod page;
mod pictures;
mod recorded;
mod unpacked;
