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
//! ```no_run
//! use cudarc::driver::CudaContext;
//! use cudarc_adapter::Neighbor;
//!
//! let context = CudaContext::new(0)?;
//! let (home, other) = (context.new_stream()?, context.new_stream()?);
//! let neighbor = Neighbor::new(&context)?;
//! neighbor.stream(&other)?; // so that its uses are counted without the host waiting
//!
//! let buffer = neighbor.alloc_zeros::<f32>(&home, 1 << 20)?;
//! let mut copy = neighbor.alloc::<f32>(&other, 1 << 20)?;
//! other.memcpy_dtod(&buffer, &mut copy)?; // waits on the device for the zeros
//! drop(buffer); // its memory serves nobody before the copy is done
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The example `neighbor` goes through all of this. Where there is no GPU, cudarc opens the
//! simulated driver in place of the real one:
//!
//! ```sh
//! cargo build -p cudarc-adapter --examples
//! mkdir -p target/driver
//! ln -sf ../debug/examples/libsimulated_cuda.so target/driver/libcuda.so.1
//! ln -sf libcuda.so.1 target/driver/libcuda.so
//! LD_LIBRARY_PATH=target/driver cargo run -p cudarc-adapter --example neighbor
//! ```
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
