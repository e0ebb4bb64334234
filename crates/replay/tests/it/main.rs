//! The engine over a model allocator, sound and broken.
#![forbid(unsafe_code)]
#![allow(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    reason = "a failed step fails its test, and only some variants matter to it"
)]

mod advise;
mod broken;
mod fit;
mod model;
mod record;
mod sound;
mod traces;
mod what_if;
