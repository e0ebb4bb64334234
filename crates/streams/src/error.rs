//! Why a call failed, told by what the caller can do next.

use std::fmt;

use cuda_sys::{CUresult, LoadError, MissingEntryPoint};

/// A driver's answer, by number. An answer that a newer driver brings stays a number.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Code(pub u32);

/// Pairs each code with its name, and offers both ways.
macro_rules! codes {
    ($($name:ident)*) => {
        impl Code {
            /// The driver's name for the code, without its `CUDA_` or `CUDA_ERROR_` beginning.
            #[must_use]
            pub fn name(self) -> Option<&'static str> {
                $(if self.0 == CUresult::$name.0 {
                    let name = stringify!($name);
                    let name = name.strip_prefix("CUDA_").unwrap_or(name);
                    return Some(name.strip_prefix("ERROR_").unwrap_or(name));
                })*
                None
            }
        }
    };
}

codes! {
    CUDA_SUCCESS CUDA_ERROR_INVALID_VALUE CUDA_ERROR_OUT_OF_MEMORY CUDA_ERROR_NOT_INITIALIZED
    CUDA_ERROR_DEINITIALIZED CUDA_ERROR_STUB_LIBRARY CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER
    CUDA_ERROR_DEVICE_UNAVAILABLE CUDA_ERROR_NO_DEVICE CUDA_ERROR_INVALID_DEVICE
    CUDA_ERROR_INVALID_IMAGE CUDA_ERROR_INVALID_CONTEXT CUDA_ERROR_MAP_FAILED
    CUDA_ERROR_UNMAP_FAILED CUDA_ERROR_ALREADY_MAPPED CUDA_ERROR_NO_BINARY_FOR_GPU
    CUDA_ERROR_NOT_MAPPED CUDA_ERROR_ECC_UNCORRECTABLE CUDA_ERROR_PEER_ACCESS_UNSUPPORTED
    CUDA_ERROR_INVALID_PTX CUDA_ERROR_NVLINK_UNCORRECTABLE CUDA_ERROR_UNSUPPORTED_PTX_VERSION
    CUDA_ERROR_CONTAINED CUDA_ERROR_INVALID_HANDLE CUDA_ERROR_ILLEGAL_STATE CUDA_ERROR_NOT_FOUND
    CUDA_ERROR_NOT_READY CUDA_ERROR_ILLEGAL_ADDRESS CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES
    CUDA_ERROR_LAUNCH_TIMEOUT CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE CUDA_ERROR_CONTEXT_IS_DESTROYED
    CUDA_ERROR_ASSERT CUDA_ERROR_HARDWARE_STACK_ERROR CUDA_ERROR_ILLEGAL_INSTRUCTION
    CUDA_ERROR_MISALIGNED_ADDRESS CUDA_ERROR_INVALID_ADDRESS_SPACE CUDA_ERROR_INVALID_PC
    CUDA_ERROR_LAUNCH_FAILED CUDA_ERROR_TENSOR_MEMORY_LEAK CUDA_ERROR_NOT_PERMITTED
    CUDA_ERROR_NOT_SUPPORTED CUDA_ERROR_SYSTEM_NOT_READY CUDA_ERROR_SYSTEM_DRIVER_MISMATCH
    CUDA_ERROR_MPS_CLIENT_TERMINATED CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED
    CUDA_ERROR_STREAM_CAPTURE_INVALIDATED CUDA_ERROR_STREAM_CAPTURE_MERGE
    CUDA_ERROR_STREAM_CAPTURE_UNMATCHED CUDA_ERROR_STREAM_CAPTURE_UNJOINED
    CUDA_ERROR_STREAM_CAPTURE_ISOLATION CUDA_ERROR_STREAM_CAPTURE_IMPLICIT
    CUDA_ERROR_CAPTURED_EVENT CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD CUDA_ERROR_TIMEOUT
    CUDA_ERROR_EXTERNAL_DEVICE CUDA_ERROR_UNKNOWN
}

impl Code {
    pub(crate) const fn of(result: CUresult) -> Self {
        Self(result.0)
    }

    /// Whether the device, or an address space, had no room.
    #[must_use]
    pub fn is_out_of_memory(self) -> bool {
        self == Self::of(CUresult::CUDA_ERROR_OUT_OF_MEMORY)
    }

    pub(crate) fn is_invalid_context(self) -> bool {
        self == Self::of(CUresult::CUDA_ERROR_INVALID_CONTEXT)
    }

    pub(crate) fn is_not_ready(self) -> bool {
        self == Self::of(CUresult::CUDA_ERROR_NOT_READY)
    }

    /// Whether every later call of the context will answer the same.
    #[must_use]
    pub fn is_sticky(self) -> bool {
        [
            CUresult::CUDA_ERROR_ECC_UNCORRECTABLE,
            CUresult::CUDA_ERROR_NVLINK_UNCORRECTABLE,
            CUresult::CUDA_ERROR_CONTAINED,
            CUresult::CUDA_ERROR_ILLEGAL_ADDRESS,
            CUresult::CUDA_ERROR_LAUNCH_TIMEOUT,
            CUresult::CUDA_ERROR_CONTEXT_IS_DESTROYED,
            CUresult::CUDA_ERROR_ASSERT,
            CUresult::CUDA_ERROR_HARDWARE_STACK_ERROR,
            CUresult::CUDA_ERROR_ILLEGAL_INSTRUCTION,
            CUresult::CUDA_ERROR_MISALIGNED_ADDRESS,
            CUresult::CUDA_ERROR_INVALID_ADDRESS_SPACE,
            CUresult::CUDA_ERROR_INVALID_PC,
            CUresult::CUDA_ERROR_LAUNCH_FAILED,
            CUresult::CUDA_ERROR_TENSOR_MEMORY_LEAK,
            CUresult::CUDA_ERROR_MPS_CLIENT_TERMINATED,
            CUresult::CUDA_ERROR_EXTERNAL_DEVICE,
        ]
        .map(Self::of)
        .contains(&self)
    }

    /// Whether the driver is gone, or shutting down: nothing is left to destroy.
    pub(crate) fn is_gone(self) -> bool {
        [
            CUresult::CUDA_ERROR_DEINITIALIZED,
            CUresult::CUDA_ERROR_NOT_INITIALIZED,
            CUresult::CUDA_ERROR_CONTEXT_IS_DESTROYED,
        ]
        .map(Self::of)
        .contains(&self)
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => write!(f, "{name} ({})", self.0),
            None => write!(f, "code {}", self.0),
        }
    }
}

impl fmt::Debug for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A driver call that did not succeed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[error("{call} answered {code}{}", blame(*code))]
pub struct DriverError {
    /// The entry point.
    pub call: &'static str,
    /// Its answer.
    pub code: Code,
}

/// A fault of work that runs later is told by whatever call comes next.
fn blame(code: Code) -> &'static str {
    if code.is_sticky() { ": work queued before this call failed, not the call" } else { "" }
}

/// Why a call failed, told by what the caller can do next.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Read the code: the driver refused this call; others may still succeed.
    #[error(transparent)]
    Driver(#[from] DriverError),
    /// Stop using the context: an earlier call failed for good, and no driver call was made.
    #[error("the context has failed: {first}")]
    ContextFailed {
        /// The first error of the context, from which it does not recover.
        first: DriverError,
    },
    /// Use the driver in the parent alone: this process was forked after the driver was started.
    #[error("the process was forked after the driver was started; only the parent may use it")]
    Forked,
    /// Install a newer driver, or do without this call.
    #[error(transparent)]
    MissingEntryPoint(#[from] MissingEntryPoint),
    /// Install a driver, or use the simulated one.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// End the capture first: the call would break it, and was not made.
    #[error("stream {stream} is capturing")]
    Capturing {
        /// The capturing stream's id.
        stream: u64,
    },
    /// End the capture first: some stream of this context captures, and the call would break it.
    #[error("a stream of context {context} is capturing")]
    ContextCapturing {
        /// The context's id.
        context: u64,
    },
    /// Record the event anew: it was recorded in a capture, and asking about it would break that.
    #[error("the event was recorded in a capture and has not been recorded since")]
    CapturedEvent,
    /// Record the event first: a wait for an event that was never recorded would wait for nothing.
    #[error("the event was never recorded")]
    NeverRecorded,
    /// Make the event with [`Context::create_timing_event`](crate::Context::create_timing_event).
    #[error("the event keeps no time")]
    NoTiming,
    /// Ask again later, or block: the device has not passed the event yet.
    #[error("the device has not passed the event yet")]
    NotReady,
    /// Call from the stream's own thread: a per-thread stream means another stream elsewhere.
    #[error("stream {stream} is the per-thread stream of another thread")]
    WrongThread {
        /// The stream's id.
        stream: u64,
    },
    /// Nothing: the stream was retired, or its last handle dropped.
    #[error("stream {stream} is gone")]
    StreamGone {
        /// The id the stream had.
        stream: u64,
    },
    /// Wait on another stream: the legacy stream holds up all blocking streams of its context.
    #[error("no wait is inserted on the legacy default stream of context {context}")]
    LegacyWait {
        /// The context's id.
        context: u64,
    },
    /// Use objects of one context: the handle belongs to another one.
    #[error("an object of context {found} was given where context {expected} was meant")]
    OtherContext {
        /// The context that was meant.
        expected: u64,
        /// The context of the object given.
        found: u64,
    },
    /// Use objects of one driver: what another one knows means nothing here.
    #[error("objects of two drivers were used together")]
    OtherDriver,
    /// Move the call out of the host function: the driver may not be called from there.
    #[error("the driver may not be called inside a host function")]
    InsideHostFunction,
    /// Drop streams first.
    #[error("{limit} streams are alive or not yet complete, which is the limit")]
    TooManyStreams {
        /// The most streams of one driver at one time.
        limit: u32,
    },
    /// Choose a priority inside the range; the driver would take the nearest one in silence.
    #[error("there is no priority {priority}: they go from {least}, the least, to {greatest}")]
    PriorityOutOfRange {
        /// What was asked for.
        priority: i32,
        /// The device's least priority, the greatest number.
        least: i32,
        /// The device's greatest priority, the smallest number.
        greatest: i32,
    },
    /// Choose a device below `count`.
    #[error("there is no device {ordinal}: the driver counts {count}")]
    NoDevice {
        /// The ordinal that was asked for.
        ordinal: u32,
        /// How many devices the driver counts.
        count: u32,
    },
    /// Stay inside the range.
    #[error("bytes {offset} to {offset}+{bytes} are not inside a range of {length} bytes")]
    OutOfRange {
        /// Where the part begins.
        offset: u64,
        /// How long the part is.
        bytes: u64,
        /// How long the whole is.
        length: u64,
    },
    /// Unmap exactly what was mapped.
    #[error("bytes {offset} to {offset}+{bytes} are not one or more whole mappings")]
    NotMapped {
        /// Where the part begins.
        offset: u64,
        /// How long the part is.
        bytes: u64,
    },
    /// Declare the kernel as it was compiled.
    #[error(
        "kernel {kernel} takes {actual} bytes as parameter {index}, where {declared} were declared"
    )]
    WrongSignature {
        /// The kernel's name.
        kernel: String,
        /// The parameter, counted from zero.
        index: usize,
        /// Bytes declared; 0 when the declaration ends before this parameter.
        declared: usize,
        /// Bytes compiled; 0 when the kernel has no such parameter.
        actual: usize,
    },
    /// Remove the zero byte: the driver reads text up to the first one.
    #[error("the text holds a zero byte at {at}")]
    ZeroByte {
        /// Its place.
        at: usize,
    },
}

impl Error {
    /// Whether the device, or an address space, had no room.
    #[must_use]
    pub fn is_out_of_memory(&self) -> bool {
        matches!(self, Self::Driver(error) if error.code.is_out_of_memory())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_has_the_drivers_name_and_an_unknown_one_stays_a_number() {
        assert_eq!(Code(700).to_string(), "ILLEGAL_ADDRESS (700)");
        assert_eq!(Code(0).name(), Some("SUCCESS"));
        assert_eq!(Code(123_456).to_string(), "code 123456");
        assert_eq!(Code(123_456).name(), None);
    }

    #[test]
    fn l4_sticky_codes_are_told_from_passing_ones() {
        assert!(Code(700).is_sticky());
        assert!(Code(719).is_sticky());
        assert!(!Code(2).is_sticky());
        assert!(!Code(600).is_sticky());
        assert!(!Code(123_456).is_sticky());
    }
}
