//! GPU memory for Rust programs that use more than one CUDA stream.
//!
//! As cheap as a function call, never handed out while anything may still touch it, and never held
//! longer than it must be: the program says who uses a buffer, and mostly its copies and launches
//! say so by themselves; the allocator works out the order.
//!
//! ```
//! # #[cfg(feature = "sim")] {
//! use wellspring::{DeviceBuffer, Kernels};
//!
//! let runtime = wellspring::open_or_simulated()?; // `open()` is a GPU or an error
//! let kernels = Kernels::load(runtime.context())?; // a module of your own: `load_module`
//! let (producer, consumer) = (runtime.create_stream()?, runtime.create_stream()?);
//! let mut sum = DeviceBuffer::<f32>::zeroed(&runtime, &consumer, 4096)?;
//!
//! for step in 1..=3_u8 {
//!     let mut buffer = DeviceBuffer::<f32>::new(&runtime, &producer, 4096)?;
//!     let _queued = buffer.fill(&producer, f32::from(step))?;
//!     consumer.wait_stream(&producer)?; // the order of reads and writes is the program's
//!     let _queued = kernels.scale_add(&consumer, &mut sum, &buffer, 1.0)?;
//!     // Freed here, while the consumer has not begun: its memory is not given to the next
//!     // step before the consumer is done, and no call above said so.
//! }
//! assert_eq!(sum.to_vec(&consumer)?, [6.0; 4096]);
//! # }
//! # Ok::<(), wellspring::Error>(())
//! ```
//!
//! # What it does, and what it must not know
//! It wires the layers and has no policy of its own: [`cuda_sys`] under [`streams`] under
//! [`allocator`], all of which can be used alone. Start with [`open`] and [`DeviceBuffer`];
//! [`Builder`] is the one place that composes driver, source and allocator. It must not know C or
//! command lines.
//!
//! # Dictionary
//!
//! | PyTorch | Wellspring |
//! |---|---|
//! | `torch.empty(n, device="cuda")` | [`DeviceBuffer::new`], on a home stream |
//! | `torch.zeros`, `torch.tensor(list)` | [`DeviceBuffer::zeroed`], [`DeviceBuffer::from_slice`] |
//! | `tensor.record_stream(s)` | copies and launches do it; else [`DeviceBuffer::record_stream`] |
//! | (no equal: until what is queued now is done) | [`DeviceBuffer::record_use`] |
//! | `stream.wait_stream(other)`, `wait_event` | [`Stream::wait_stream`], [`Stream::wait_event`] |
//! | (no equal: after everybody who used a tensor) | [`DeviceBuffer::wait_all_users`] |
//! | `stream.record_event()`, `event.query()` | [`Stream::record_event`], [`Event::query`] |
//! | `with torch.cuda.stream(s):` | [`CurrentStream::enter`] |
//! | `tensor.pin_memory()` | [`PinnedBuffer`] |
//! | `copy_(…, non_blocking=True)` | [`DeviceBuffer::copy_from_pinned`] |
//! | `torch.cuda.graph(g)`, `g.replay()` | [`Stream::begin_capture`], [`GraphExec::launch`] |
//! | `torch.cuda.memory_stats()`, `memory_summary()` | [`Runtime::stats`], its `Display` |
//! | `torch.cuda.MemPool()`, `use_mem_pool(pool)` | [`Runtime::create_pool`], [`CurrentPool`] |
//! | `active_bytes` minus `allocated_bytes` | `pending_bytes` of [`Stats`] |
//! | `torch.cuda.memory_snapshot()` | [`Allocator::snapshot`] |
//! | (no equal: why cached memory is of no use) | [`Allocator::stranded`] |
//! | `torch.cuda.empty_cache()` | [`Allocator::empty_cache`], [`Allocator::trim`] |
//! | `set_per_process_memory_fraction` | [`Builder::limit_bytes`] |
//! | `expandable_segments:True` | the VMM source, the default where the device has it |
//!
//! | cudarc | Wellspring |
//! |---|---|
//! | `CudaContext::new(0)` | [`open`] |
//! | `CudaContext::new_stream`, `CudaStream::fork` | [`Runtime::create_stream`] |
//! | `CudaSlice<T>` | [`DeviceBuffer`] |
//! | `stream.alloc`, `stream.alloc_zeros` | [`DeviceBuffer::new`], [`DeviceBuffer::zeroed`] |
//! | `stream.memcpy_htod` | [`DeviceBuffer::copy_from_slice`] |
//! | `stream.memcpy_dtoh` | [`DeviceBuffer::copy_to_slice`] |
//! | `stream.memcpy_dtod` | [`DeviceBuffer::copy_from`] |
//! | `CudaView`, `CudaViewMut`, `slice.slice(..)` | [`DeviceView`], [`DeviceViewMut`], [`DeviceBuffer::view`] |
//! | `slice.device_ptr(&stream)` | [`DeviceBuffer::lend`] |
//! | `ctx.load_module(ptx)` | [`Runtime::load_module`] |
//! | `module.load_function(name)` | [`Module::declare`], the `unsafe` step |
//! | `stream.launch_builder(&f)`, whose launch is `unsafe` | [`Kernel::launch`], which is safe |
//! | the read and write events of a slice | uses of a block, without an event for each |
//! | `stream.join(&other)`, `event.is_complete()` | [`Stream::wait_stream`], [`Event::query`] |
//! | a drop calls `cuMemFreeAsync` | a drop puts the block on its stream's free list; no call |
//!
//! # Features
//! `sim`: the simulated device. `kernels`: the small kernels of our own that the examples launch.
//! Neither is on by default; nothing here needs a CUDA toolkit.
#![forbid(unsafe_code)]

mod buffer;
mod build_stamp;
mod builder;
mod checking;
mod choice;
mod current_pool;
#[cfg(doctest)]
mod does_not_compile;
mod error;
mod lend;
mod observers;
mod pattern;
mod pinned;
mod recorder;
mod runtime;
#[cfg(feature = "sim")]
mod simulation;
mod view;

pub use buffer::{DeviceBuffer, DeviceCopy};
pub use build_stamp::{BUILD, BuildStamp};
pub use builder::Builder;
pub use checking::{CHECK_VARIABLE, checked};
pub use choice::{DEVICE_VARIABLE, DeviceChoice, open_from_environment};
pub use current_pool::CurrentPool;
pub use error::{Error, OpenError};
pub use lend::Lent;
pub use observers::Observer;
pub use pinned::PinnedBuffer;
pub use recorder::RECORD_VARIABLE;
pub use runtime::{DeviceKind, Runtime, open, open_device};
#[cfg(feature = "sim")]
pub use runtime::{open_or_simulated, simulated};
#[cfg(feature = "sim")]
pub use simulation::Simulation;
pub use view::{DeviceView, DeviceViewMut};

pub use allocator::{
    self, AllocError, Allocator, Block, Bound, Config, FreeError, Hold, OutOfMemory, Policy, Pool,
    Snapshot, Stats, Stranded, StrandedCause, Use,
};
pub use bytemuck;
pub use checker::{self, Checker};
#[cfg(feature = "sim")]
pub use cuda_sim;
#[cfg(feature = "kernels")]
pub use kernels::{self, launch::Kernels};
pub use streams::{
    self, Capture, CaptureMode, Completion, Context, CurrentStream, Device, DeviceBytes,
    DeviceOwner, DevicePart, Driver, Event, Fence, Graph, GraphExec, Kernel, Module, Stream,
    StreamOptions, StreamPool, Submission, launch,
};

#[cfg(test)]
mod tests;
