//! Buffers used without a use being counted: what a program that orders everything by hand does.

#![allow(unsafe_code, reason = "the strategies that record by hand, or not at all, start here")]

use wellspring::DeviceBuffer;
use wellspring::streams::RawSpan;

/// The memory of a buffer, for kernels that tell it nothing.
pub(crate) fn uncounted<T>(buffer: &DeviceBuffer<T>) -> RawSpan {
    // SAFETY: a strategy that does not count uses frees a buffer only behind them: its own record
    // or wait keeps the memory, or the buffer lives until the stage has been synchronized.
    unsafe { RawSpan::from_raw(buffer.address(), buffer.bytes()) }
}
