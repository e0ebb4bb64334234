//! The union of the layers' errors; each keeps its cause.

use allocator::{AllocError, FreeError, SourceError};
use cuda_sys::{CUresult, LoadError};

/// Why no device could be opened, told by what is missing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Install the NVIDIA driver, or a newer one: there is none, or it lacks a call that
    /// everything here builds on. The cause names the library, or the call and its version.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// Ask for another device: the driver sees `count` of them.
    #[error("no CUDA device {ordinal}: the driver sees {count}")]
    NoDevice {
        /// The device that was asked for, counted from zero.
        ordinal: u32,
        /// How many there are.
        count: u32,
    },
    /// Use another source: the device or its driver has no virtual memory management.
    #[error("device {ordinal} has no virtual memory management, which the source `vmm` needs")]
    NoVirtualMemory {
        /// The device that was asked for, counted from zero.
        ordinal: u32,
    },
    /// Read the cause: the driver refused to open the device.
    #[error("device {ordinal} could not be opened: {cause}")]
    Driver {
        /// The device that was asked for, counted from zero.
        ordinal: u32,
        /// The driver's answer.
        #[source]
        cause: streams::Error,
    },
    /// Read the cause: the allocator could not be made.
    #[error("the allocator could not be made: {0}")]
    Allocator(#[from] AllocError),
    /// Write `auto`, `sim`, `cuda` or `cuda:N`.
    #[error("`{text}` names no device: write auto, sim, cuda or cuda:N")]
    UnknownChoice {
        /// What was written.
        text: String,
    },
    /// Name another file: this one cannot be recorded to.
    #[error("the run cannot be recorded to {path}: {kind}")]
    Record {
        /// The file.
        path: String,
        /// What the operating system said.
        kind: std::io::ErrorKind,
    },
    /// Turn the feature `sim` on: this build has no simulated device.
    #[error("this build has no simulated device: turn the feature `sim` on")]
    NoSimulator,
    /// Drop a simulated machine first: too many live in this process.
    #[cfg(feature = "sim")]
    #[error("the simulated device could not be made: {0}")]
    Simulated(#[source] cuda_sim::TooManyMachines),
}

impl OpenError {
    /// What the driver's answer means when device `ordinal` of `count` was to be opened.
    pub(crate) fn from_driver(ordinal: u32, count: u32, cause: streams::Error) -> Self {
        if let streams::Error::Load(error) = cause {
            return Self::Load(error);
        }
        let none = matches!(&cause, streams::Error::Driver(error) if error.code == no_device());
        if none { Self::NoDevice { ordinal, count } } else { Self::Driver { ordinal, cause } }
    }

    pub(crate) fn from_source(ordinal: u32, error: SourceError) -> Self {
        if let SourceError::Driver(cause) = error {
            return Self::Driver { ordinal, cause };
        }
        Self::Allocator(error.into())
    }
}

fn no_device() -> streams::Code {
    streams::Code(CUresult::CUDA_ERROR_NO_DEVICE.0)
}

/// Why something failed; the cause is the layer's own error.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No device could be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// No memory was given.
    #[error("failed to allocate: {0}")]
    Alloc(#[from] AllocError),
    /// A free took effect, but left the memory unused.
    #[error(transparent)]
    Free(#[from] FreeError),
    /// A stream, an event, a copy or a launch failed.
    #[error(transparent)]
    Stream(#[from] streams::Error),
    /// Give as many elements on both sides: a copy is of whole buffers.
    #[error("{found} elements were given where the buffer has {expected}")]
    Length {
        /// The buffer's length, in elements.
        expected: usize,
        /// The length of the other side, in elements.
        found: usize,
    },
    /// Ask for a part that is there.
    #[error("elements {start} to {end} are not all among {len}")]
    OutOfBounds {
        /// Where the part begins.
        start: usize,
        /// Where it ends.
        end: usize,
        /// How many elements there are.
        len: usize,
    },
    /// Ask for another type, or another part: the bytes are not whole elements of this one.
    #[error(
        "{bytes} bytes at {address:#x} are not whole elements of {element_bytes} bytes, aligned \
         to {alignment}"
    )]
    Cast {
        /// Where they begin.
        address: u64,
        /// How many there are.
        bytes: u64,
        /// The bytes of one element of the type that was asked for.
        element_bytes: u64,
        /// What its address must be a multiple of.
        alignment: u64,
    },
    /// Ask for less: so many elements have more bytes than there are addresses.
    #[error("{len} elements of {element_bytes} bytes are more bytes than there are addresses")]
    TooLong {
        /// The elements asked for.
        len: usize,
        /// The bytes of one.
        element_bytes: usize,
    },
}
