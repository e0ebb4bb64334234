//! Reads recorded allocation traces and turns them into operations that can be replayed.
//!
//! Start with [`pytorch::read_file`]: it judges a PyTorch memory snapshot, plain or compressed,
//! and gives a typed [`pytorch::Snapshot`]. [`pytorch::Snapshot::trace`] picks one device;
//! [`Summary`] says what its trace recorded, and [`Operations`] lists it as numbered blocks
//! and streams, beginning with the blocks that were alive before the trace began.
//!
//! This crate knows nothing of allocators, devices or command lines, prints nothing and runs
//! nothing that a file asks for. Its invariants:
//! - a file is data: opcodes that could call anything are refused by name;
//! - memory and time stay proportional to the bytes read, within limits the caller sets, and
//!   nothing recurses over what a file nests;
//! - in [`Operations`] every block is allocated once, freed at most once, and completed only
//!   after a free that was deferred.
#![forbid(unsafe_code)]

pub mod pytorch;

mod initial;
mod operations;
mod summary;

pub use initial::InitialBlock;
pub use operations::{BlockNumber, Operation, Operations, StreamNumber};
pub use summary::{ActionCounts, Peaks, Summary, page_floor_bytes, rounded_bytes};
