//! Wellspring's buffers where cudarc takes its own slices.
//!
//! What it does: a [`Neighbor`] borrows a context and streams of cudarc and allocates in them. A
//! [`SharedBuffer`] goes into cudarc's copies, fills and cuBLAS in place of a `CudaSlice`, and into
//! its launches by [`SharedBuffer::on`]; each counts its use of the memory by itself, on the stream
//! that cudarc names.
//!
//! - Memory: a freed buffer is not reused before every stream that used it is done with it, however
//!   many there were and in whatever order they end.
//! - Reads and writes: as cudarc's own slices do it, a stream that reads waits on the device for
//!   the last write, and one that writes for the last write and for every read since.
//! - A stream that was not given to [`Neighbor::stream`] is waited for by the host after its
//!   operation: slower, not wrong. So is cudarc's per-thread stream, whose handle is another stream
//!   on each thread.
//!
//! What it must not know: how the allocator decides.
//!
//! A capture of cudarc's own is not seen by it: buffers of this crate are not for captured work.

mod buffer;
mod kept;
mod neighbor;
mod order;

pub use buffer::{OnStream, SharedBuffer};
pub use neighbor::{Error, Neighbor};
