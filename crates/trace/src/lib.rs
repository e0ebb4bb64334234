//! Reads recorded traces: PyTorch's memory snapshots, and stream traces of our own.
//!
//! Start with [`pytorch::read_file`]: it judges a PyTorch memory snapshot, plain or compressed,
//! and gives a typed [`pytorch::Snapshot`]. [`pytorch::Snapshot::trace`] picks one device;
//! [`Operations`] lists its trace as numbered blocks and streams, beginning with the blocks that
//! were alive before the trace began, and [`Summary`] says what PyTorch itself needed for it.
//! A snapshot lacks the order between streams; [`stream_trace`] reads and writes traces that have
//! it. [`read_any`] takes either, RMM's logs, and snapshots that [`chrome`] and [`csv`]
//! wrote.
//!
//! [`pytorch::write`], [`convert`], [`chrome`] and [`csv`] write what was read as other files;
//! [`Digest`] says who holds memory at the peak and which requests failed, and [`compare`] what
//! changed between two files.
//!
//! ```
//! use trace::pytorch::{ReadOptions, read_file};
//!
//! # let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../traces");
//! let file = std::path::Path::new(folder).join("side_stream.pickle.zst");
//! let snapshot = read_file(&file, &ReadOptions::default(), None)?;
//! let trace = snapshot.trace(None)?;
//! let operations = trace.operations();
//! let summary = trace.summary(&operations);
//! assert_eq!(summary.deferred_free_count, 399);
//! assert_eq!(summary.recorded_peak_reserved_bytes, 11_744 << 20);
//! # Ok::<(), trace::pytorch::ReadError>(())
//! ```
//!
//! This crate knows nothing of allocators, devices or command lines, prints nothing and runs
//! nothing that a file asks for. Without its feature `files` it is [`stream_trace`] alone, for
//! programs that only record. Its invariants:
//! - a file is data: opcodes that could call anything are refused by name;
//! - memory and time stay proportional to the bytes read, within limits the caller sets, and
//!   nothing recurses over what a file nests;
//! - in [`Operations`] every block is allocated once, freed at most once, and completed only
//!   after a free that was deferred.
#![cfg_attr(
    not(feature = "files"),
    allow(rustdoc::broken_intra_doc_links, reason = "half is absent")
)]
#![forbid(unsafe_code)]

#[cfg(feature = "files")]
pub mod pytorch;
pub mod stream_trace;

#[cfg(feature = "files")]
pub mod amount;
#[cfg(feature = "files")]
mod any;
#[cfg(feature = "files")]
mod beginning;
#[cfg(feature = "files")]
pub mod chrome;
#[cfg(feature = "files")]
pub mod compare;
#[cfg(feature = "files")]
pub mod convert;
#[cfg(feature = "files")]
pub mod csv;
#[cfg(feature = "files")]
mod digest;
#[cfg(feature = "files")]
mod failed;
#[cfg(feature = "files")]
mod initial;
mod number;
#[cfg(feature = "files")]
mod operations;
#[cfg(feature = "files")]
mod origin;
#[cfg(feature = "files")]
mod owner;
#[cfg(feature = "files")]
mod reserved;
#[cfg(feature = "files")]
pub mod rmm;
#[cfg(feature = "files")]
mod summary;

#[cfg(feature = "files")]
pub use any::{AnyError, AnyTrace, FileKind, read_any, read_any_kind, read_any_stream};
#[cfg(feature = "files")]
pub use beginning::Beginning;
#[cfg(feature = "files")]
pub use digest::{Digest, Holder, Holders, Moment, PoolSum, SegmentSum};
#[cfg(feature = "files")]
pub use failed::FailedRequest;
#[cfg(feature = "files")]
pub use initial::InitialBlock;
pub use number::{BlockNumber, StreamNumber};
#[cfg(feature = "files")]
pub use operations::{Operation, Operations, direct_completion};
#[cfg(feature = "files")]
pub use origin::Origin;
#[cfg(feature = "files")]
pub use owner::{OpenAnnotations, OwnerId, Owners, Pattern, is_own_file, size_class};
#[cfg(feature = "files")]
pub use reserved::{ReservedBytes, SegmentChange, reserved_change_bytes};
#[cfg(feature = "files")]
pub use summary::{ActionCounts, Peaks, Summary, page_floor_bytes, rounded_bytes};
