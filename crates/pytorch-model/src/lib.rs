//! PyTorch's caching allocator as arithmetic: which segments a sequence of requests and frees
//! takes from the driver under a given setting, and where each block comes to lie.
//!
//! Start with [`Settings::parse`], which reads a `PYTORCH_CUDA_ALLOC_CONF` line, and [`Model`],
//! which takes requests, frees and completions one by one. A [`Driver`] says where segments lie:
//! the one of a recording, or an assumed one.
//!
//! It follows PyTorch 2.11 to 2.15: rounding, the two size pools of each pool, best fit within a
//! stream, splitting and joining, expandable segments, garbage collection, and the steps before an
//! out-of-memory error. This crate knows nothing of files, of devices or of Wellspring's own
//! allocator. Its invariants:
//! - blocks of a segment tile it in order; free neighbors are joined when a block is freed;
//! - reserved bytes are the sum of segments held, or of pages mapped;
//! - the same calls with the same driver give the same places.
#![forbid(unsafe_code)]

mod block;
mod driver;
mod event;
mod expandable;
mod figures;
mod held;
mod model;
mod pool;
mod release;
mod settings;
mod sizes;

pub use driver::{AddressOrder, AssumedDriver, Driver};
pub use event::Event;
pub use figures::Figures;
pub use held::{HeldBlock, HeldSegment};
pub use model::{BlockNumber, Limits, Model, OutOfMemory, Placed, PoolId, Request, Ties};
pub use settings::{SettingError, Settings, pairs};
pub use sizes::{CHUNK_SMALL_BYTES, GRAIN_BYTES, LARGE_SEGMENT_BYTES, SMALL_REQUEST_BYTES_MAX};
