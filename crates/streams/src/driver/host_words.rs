//! Words of pinned memory that the host writes while the device reads them.

use std::any::Any;
use std::fmt;

use super::{DeviceOwner, DriverHostMemory};
use crate::error::Error;
use crate::launch::DeviceSlice;
use crate::order::Point;
use crate::stream::Stream;
use crate::sync::HostWord;
use crate::uses::{Access, DeviceBytes, DevicePart, DeviceSpan, UseTicket, Used};

const WORD_BYTES: u64 = 4;

impl DriverHostMemory {
    /// The word `index`, if the memory is that long. Memory is used either through this or
    /// through slices, never both.
    pub(crate) fn word(&self, index: usize) -> Option<&HostWord> {
        let offset = index.checked_mul(size_of::<u32>())?;
        if self.len() < offset.checked_add(size_of::<u32>())? {
            return None;
        }
        let place = self.start().wrapping_add(offset).cast::<u32>();
        // SAFETY: the word lies inside live memory, which the driver aligns to more than a word;
        // it was zeroed when made, and every access of the host to it is atomic.
        Some(unsafe { HostWord::from_ptr(place) })
    }
}

/// One word of pinned memory, as memory that a kernel reads.
///
/// `used` is told until when; whoever has the memory keeps it until all those points are complete.
pub(crate) struct WordOnDevice<'memory> {
    memory: &'memory DriverHostMemory,
    offset: u64,
    used: &'memory dyn Fn(&Stream, Point),
}

impl<'memory> WordOnDevice<'memory> {
    /// The word `index`; none, if the memory is not that long.
    pub(crate) fn new(
        memory: &'memory DriverHostMemory,
        index: usize,
        used: &'memory dyn Fn(&Stream, Point),
    ) -> Option<Self> {
        memory.word(index)?;
        let offset = u64::try_from(index).ok()?.checked_mul(WORD_BYTES)?;
        Some(Self { memory, offset, used })
    }
}

impl fmt::Debug for WordOnDevice<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WordOnDevice").field("offset", &self.offset).finish_non_exhaustive()
    }
}

// SAFETY: pinned memory has one address for host and device, and the word lies inside, as was
// checked; the memory is borrowed here, and kept by its owner until the uses that `used` was told
// of are over. A graph, which would hold nothing, gets no word: the launch refuses captures.
unsafe impl DeviceOwner for WordOnDevice<'_> {
    fn span(&self) -> DeviceSpan {
        let start = u64::try_from(self.memory.start().addr());
        let start = start.expect("an address of the host is one of the device");
        DeviceSpan { address: start + self.offset, bytes: WORD_BYTES }
    }

    fn begin_use(&self, _: &Stream, _: Access) -> Result<UseTicket, Error> {
        Ok(UseTicket::default())
    }

    unsafe fn end_use(&self, stream: &Stream, _: UseTicket, used: Used) {
        if let Used::Until(point) = used {
            (self.used)(stream, point);
        }
    }

    fn hold(&self) -> Box<dyn Any + Send> {
        Box::new(())
    }
}

impl DeviceBytes for WordOnDevice<'_> {
    fn whole(&self) -> DevicePart<'_> {
        DevicePart::of(self)
    }
}

impl DeviceSlice<u32> for WordOnDevice<'_> {}
