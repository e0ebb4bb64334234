//! What a recorded run would have reserved under other settings, and within other capacities.
//!
//! Start with [`Case`], a trace made ready, and [`what_if`], which serves it under models of
//! PyTorch's allocator and says what that comes to. [`compare_with_record`] holds the model
//! against what PyTorch itself recorded.
//!
//! A trace tells which requests were made, not which would have been made: a run that a setting
//! saves goes on as it was recorded, and a request that failed is made, and freed at once. The
//! recorded completion times stand for uses of other streams. What was held before a trace began
//! is rebuilt for the recorded setting alone.

mod answer;
mod case;
mod crew;
mod held;
mod holders;
mod notes;
mod owner;
mod ranges;
mod record;
mod row;
mod search;
mod serve;
mod settings;
mod text;
mod timeline;
mod verdict;

pub use answer::{Question, SCHEMA, WhatIf, what_if};
pub use case::{Case, LivePeak, Recorder};
pub use crew::Runs;
pub use holders::{Holder, LiveBlock};
pub use owner::BlockOwners;
pub use record::{Comparison, compare_with_record};
pub use row::{Allocator, Row, Spread};
pub use settings::{SEARCH_TRIES_MAX, USUAL};
