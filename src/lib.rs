//! GPU memory for Rust programs that use more than one CUDA stream.
#![forbid(unsafe_code)]

mod buffer;
mod build_stamp;
mod builder;
mod choice;
mod error;
mod pinned;
mod runtime;
#[cfg(feature = "sim")]
mod simulation;

pub use buffer::{DeviceBuffer, DeviceCopy};
pub use build_stamp::{BUILD, BuildStamp};
pub use builder::Builder;
pub use choice::{DEVICE_VARIABLE, DeviceChoice, open_from_environment};
pub use error::{Error, OpenError};
pub use pinned::PinnedBuffer;
pub use runtime::{DeviceKind, Runtime, open, open_device};
#[cfg(feature = "sim")]
pub use runtime::{open_or_simulated, simulated};
#[cfg(feature = "sim")]
pub use simulation::Simulation;

pub use allocator::{
    self, AllocError, Allocator, Block, Config, FreeError, Hold, OutOfMemory, Policy, Stats, Use,
};
pub use bytemuck;
#[cfg(feature = "sim")]
pub use cuda_sim;
#[cfg(feature = "kernels")]
pub use kernels::{self, launch::Kernels};
pub use streams::{
    self, Capture, CaptureMode, Context, CurrentStream, Device, Driver, Event, Graph, GraphExec,
    Kernel, Module, Stream, StreamOptions, StreamPool, Submission,
};

#[cfg(all(test, feature = "sim"))]
mod tests;
