//! A software CUDA driver: the same C functions, no GPU, and an eye for what is not ordered.
//!
//! What it does: fills the function table of `cuda-sys` with functions that act on a simulated
//! machine. Streams are queues of operations with simulated durations; which of them runs next,
//! and what a query answers, is chosen by a seed, by a script, or by exhaustive search. Device
//! memory holds real bytes. Every access is compared, when its operation is submitted, with every
//! earlier access that nothing orders before it.
//!
//! What it must not know: that an allocator exists. What an allocator hands out inside its
//! segments is declared from outside, by [`Machine::born`] and [`Machine::dead`].
//!
//! Start with [`Machine::builder`], then [`Machine::table`].
//!
//! Invariants: the same seed gives the same run, bit for bit; device addresses and handles are
//! the same in every run; the lock of a machine is not held while a host function runs; all
//! unsafe code is in `shims`.
//!
//! Not simulated, and answered with `CUDA_ERROR_NOT_SUPPORTED`: managed memory, physical memory on
//! the host, memory and events shared between processes, exported handles, child graphs, graphs
//! built node by node, launch attributes, flags of `cuEventRecordWithFlags` and
//! `cuStreamWaitEvent`, stream-ordered frees inside a capture, per-thread variants of entry points.
//! Simpler than the real driver: memory of a pool is new memory each time, since a pool keeps
//! nothing; what a query does not show, such as pinned memory that a host reads without waiting,
//! is not searched exhaustively.

mod call;
mod calls;
mod clock;
mod context;
mod cost;
mod engine;
mod error_text;
mod event;
mod explore;
mod fault;
mod graph;
mod handle;
mod hazard;
mod journal;
mod kernel;
mod machine;
mod memory;
mod perform;
mod physical;
mod pool;
mod profile;
mod ptx;
mod schedule;
mod shadow;
mod shims;
mod state;
mod stream;
mod submit;
mod table;
mod tenancy;
mod threads;
mod vigil;
mod worker;

pub use explore::{Coverage, Explorer, explore};
pub use fault::FaultPlan;
pub use handle::HandleReuse;
pub use hazard::{Allocation, Ending, Hazard, Operation};
pub use journal::Journal;
pub use kernel::{Access, KernelArguments, KernelBody, KernelCall};
pub use machine::{Machine, MachineBuilder, TooManyMachines};
pub use profile::DeviceProfile;
pub use schedule::Schedule;
pub use shadow::AccessKind;
pub use shims::raw::in_forked_child;
pub use threads::yield_point;
