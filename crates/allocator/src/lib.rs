//! A caching allocator of GPU memory for programs that use more than one CUDA stream.
//!
//! What it does: serves requests from per-stream free lists, splits and joins blocks, and hands a
//! freed block to the next request only when everything that may still touch it is known to come
//! before, or to be complete. Start with [`Allocator`].
//!
//! What it must not know: files, the environment, JSON, wall clocks, the driver's calls.
//!
//! # The protocol of a block
//!
//! A block has a *home stream*, for which it was handed out, and *uses*: streams that were said
//! to touch it ([`Block::record_stream`], [`Block::record_use`]), or holds ([`Block::hold`]) that
//! end only when their owner says so. It lies in a segment of one *shard*, the stream for which
//! the segment was opened; that shard's lock guards all its bookkeeping.
//!
//! 1. A free stamps the block with its home point and with a point for each use. A fence is
//!    recorded on a used stream only if the use is not known to be over.
//! 2. A request on a stream takes a free block only if every point of it is known to come before
//!    that stream's next operation, or is complete (R2). A stream's own points always are.
//! 3. A split copies the points, a join joins them (R7).
//! 4. A thread that calls the driver on behalf of a block has made it *reserved* under the lock
//!    and let the lock go (L1). Nobody else touches a reserved block.
//! 5. Memory goes back to the device, and is handed to a capturing stream, only when every point
//!    of it is complete: order is not enough there (R8).
//!
//! Why the hard cases hold: a recycled stream handle names a new stream, because identity is the
//! driver's never-recycled id; a recycled slot is complete in all it ever did, so its cache may
//! change owner; a failed call adds no knowledge, so an error can only make a block wait longer.
//!
//! # Invariants
//! `unsafe` blocks only in the lock (`lock.rs`), and `unsafe impl` only where it is promised that
//! there is memory behind an address (`device_bytes.rs`, `source/`); no lock is held across a
//! driver call; a cached request on one stream makes no driver call; bookkeeping never touches
//! device memory.
#![deny(unsafe_code)]

mod allocator;
mod config;
mod device_bytes;
mod error;
mod figures;
mod handle;
mod keeper;
pub mod observe;
mod snapshot;
mod snapshot_check;
mod stats;
mod stock;
mod summary;

mod bytes;
mod size_class;

mod arena;
mod block;
mod bursts;
mod carve;
mod ceilings;
mod depth;
mod free_list;
mod lent;
mod limbo;
mod owners;
mod recent;
mod regulars;
mod seat;
mod shard;
mod table;

mod bound;
mod family;
mod grow;
mod ladder;
mod make;
mod pace;
mod poll;
mod pool;
mod release;
mod remains;
mod reuse;
mod stranded;
mod trim;
mod users;
mod uses;
mod view;
mod wait;

mod source;

mod lock;
#[cfg(all(test, loom))]
mod loom_tests;
mod met;
mod sync;

pub use allocator::Allocator;
pub use bound::{Bound, BoundCounts, Throttle};
pub use bytes::{Bytes, GRAIN, REQUEST_BYTES_MAX, SMALL_BYTES_MAX};
#[doc(hidden)]
pub use config::Sabotage;
pub use config::{Config, Policy, WaitDepth};
pub use error::{AllocError, FreeError, OutOfMemory, StreamUsage};
pub use handle::{Block, Hold, OpenUse, RawBlock, Use};
pub use pool::Pool;
pub use snapshot::{BlockSnapshot, BlockState, SegmentSnapshot, Snapshot};
pub use snapshot_check::Mismatch;
pub use source::{Piece, PlainSource, PoolKind, Region, Source, SourceError, VmmSource};
pub use stats::{Gauge, ServedBy, Stats};
pub use stranded::{Stranded, StrandedCause, StrandedPart};
#[doc(hidden)]
pub use sync::set_yield_point;
