//! Copies and fills on a stream.
//!
//! A copy from or to host memory is never captured: no graph can hold that, and it would use it at
//! every replay.

use std::ops::Range;

use crate::error::Error;
use crate::memory::{PinnedMemory, check_part};
use crate::observe::Operation;
use crate::stream::Stream;
use crate::submission::Submission;
use crate::uses::{Access, DeviceBytes, WhenCaptured, submit_with};

/// A host length as the device counts it.
fn length(bytes: usize) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

/// A part of pinned memory, checked, as (offset, bytes).
fn pinned_part(memory: &PinnedMemory, part: &Range<usize>) -> Result<(usize, usize), Error> {
    let bytes = part.end.saturating_sub(part.start);
    check_part(length(part.start), length(bytes), length(memory.len()))?;
    Ok((part.start, bytes))
}

impl Stream {
    /// Copies `source` to `destination`, `offset` bytes in, and blocks until that is done: the
    /// driver may read ordinary host memory late. See [`Stream::copy_from_pinned`] for a copy that
    /// runs beside the host.
    ///
    /// # Errors
    /// The part does not lie inside, or the stream captures; or the driver's answer.
    #[track_caller]
    pub fn copy_to_device(
        &self,
        destination: &impl DeviceBytes,
        offset: u64,
        source: &[u8],
    ) -> Result<Submission, Error> {
        let part = destination.whole().part(offset, length(source.len()))?;
        let uses = [(part, Access::Write)];
        let copy =
            submit_with(self, Operation::CopyToDevice, &uses, WhenCaptured::Refused, |raw| {
                raw.copy_to_device(part.span().address, source)
            })?;
        self.finish_with_host(copy)
    }

    /// Copies to `destination` from `source`, `offset` bytes in, and blocks until that is done.
    ///
    /// # Errors
    /// The part does not lie inside, or the stream captures; or the driver's answer.
    #[track_caller]
    pub fn copy_to_host(
        &self,
        destination: &mut [u8],
        source: &impl DeviceBytes,
        offset: u64,
    ) -> Result<Submission, Error> {
        let part = source.whole().part(offset, length(destination.len()))?;
        let uses = [(part, Access::Read)];
        let copy = submit_with(self, Operation::CopyToHost, &uses, WhenCaptured::Refused, |raw| {
            raw.copy_to_host(destination, part.span().address)
        })?;
        self.finish_with_host(copy)
    }

    /// Queues a copy of `part` of pinned memory to `destination`, `offset` bytes in. The memory
    /// waits for it before it is written or freed.
    ///
    /// # Errors
    /// A part does not lie inside, or the stream captures; or the driver's answer.
    #[track_caller]
    pub fn copy_from_pinned(
        &self,
        destination: &impl DeviceBytes,
        offset: u64,
        source: &PinnedMemory,
        part: Range<usize>,
    ) -> Result<Submission, Error> {
        let (start, bytes) = pinned_part(source, &part)?;
        let to = destination.whole().part(offset, length(bytes))?;
        let uses = [(to, Access::Write)];
        let copy =
            submit_with(self, Operation::CopyToDevice, &uses, WhenCaptured::Refused, |raw| {
                raw.copy_from_pinned(to.span().address, source.driver(), start, bytes)
            })?;
        source.read_by(&copy);
        Ok(copy)
    }

    /// Queues a copy to `part` of pinned memory from `source`, `offset` bytes in. The memory waits
    /// for it before it is read, written or freed.
    ///
    /// # Errors
    /// A part does not lie inside, or the stream captures; or the driver's answer.
    #[track_caller]
    pub fn copy_to_pinned(
        &self,
        destination: &mut PinnedMemory,
        part: Range<usize>,
        source: &impl DeviceBytes,
        offset: u64,
    ) -> Result<Submission, Error> {
        let (start, bytes) = pinned_part(destination, &part)?;
        let from = source.whole().part(offset, length(bytes))?;
        let uses = [(from, Access::Read)];
        let copy = submit_with(self, Operation::CopyToHost, &uses, WhenCaptured::Refused, |raw| {
            raw.copy_into_pinned(destination.driver(), start, from.span().address, bytes)
        })?;
        destination.written_by(&copy);
        Ok(copy)
    }

    /// Queues a copy of `bytes` bytes on the device, between two parts that do not overlap.
    ///
    /// # Errors
    /// A part does not lie inside; or the driver's answer.
    #[track_caller]
    pub fn copy_on_device(
        &self,
        destination: &impl DeviceBytes,
        destination_offset: u64,
        source: &impl DeviceBytes,
        source_offset: u64,
        bytes: u64,
    ) -> Result<Submission, Error> {
        let to = destination.whole().part(destination_offset, bytes)?;
        let from = source.whole().part(source_offset, bytes)?;
        let uses = [(to, Access::Write), (from, Access::Read)];
        submit_with(self, Operation::CopyOnDevice, &uses, WhenCaptured::Held, |raw| {
            raw.copy_on_device(to.span().address, from.span().address, bytes)
        })
    }

    /// Queues a fill of `bytes` bytes, `offset` bytes in, with `value`.
    ///
    /// # Errors
    /// The part does not lie inside; or the driver's answer.
    #[track_caller]
    pub fn fill_bytes(
        &self,
        memory: &impl DeviceBytes,
        offset: u64,
        bytes: u64,
        value: u8,
    ) -> Result<Submission, Error> {
        let part = memory.whole().part(offset, bytes)?;
        let uses = [(part, Access::Write)];
        submit_with(self, Operation::Fill, &uses, WhenCaptured::Held, |raw| {
            raw.fill_bytes(part.span().address, value, bytes)
        })
    }

    /// Queues a fill of `words` words of 32 bits, `offset` bytes in, with `value`.
    ///
    /// # Errors
    /// The part does not lie inside; or the driver's answer, which refuses an odd address.
    #[track_caller]
    pub fn fill_words(
        &self,
        memory: &impl DeviceBytes,
        offset: u64,
        words: u64,
        value: u32,
    ) -> Result<Submission, Error> {
        let part = memory.whole().part(offset, words.saturating_mul(4))?;
        let uses = [(part, Access::Write)];
        submit_with(self, Operation::Fill, &uses, WhenCaptured::Held, |raw| {
            raw.fill_words(part.span().address, value, words)
        })
    }

    /// Waits for a copy whose host side is only lent to us.
    #[track_caller]
    fn finish_with_host(&self, copy: Submission) -> Result<Submission, Error> {
        match copy.wait() {
            Ok(()) => Ok(copy),
            // The copy may still be under way, so its host side may not be given back: the stream
            // or its context is waited for, and a context that failed runs nothing any more.
            Err(error) => {
                self.synchronize().or_else(|_| self.context().synchronize()).and(Err(error))
            }
        }
    }
}
