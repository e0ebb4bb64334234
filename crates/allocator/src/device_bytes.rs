//! What lets copies, fills and launches of `streams` use a block and tell it so by themselves.
//!
//! Before an operation is submitted the block counts the whole stream as using it; afterwards the
//! use ends with that operation (O13). A captured operation takes a hold instead (C3).

#![allow(unsafe_code, reason = "the allocator promises here what it is there for")]

use std::any::Any;
use std::panic::Location;

use streams::launch::{DeviceSlice, DeviceSliceMut};
use streams::{
    Access, DeviceBytes, DeviceOwner, DevicePart, DeviceSpan, Error, Stream, UseTicket, Used,
};

use crate::handle::Block;
use crate::observe::{UseKind, ended};
use crate::uses::sharpen;

/// A block is bytes, so it can be given for a pointer to anything.
impl<T> DeviceSlice<T> for Block {}
impl<T> DeviceSliceMut<T> for Block {}

impl DeviceBytes for Block {
    fn whole(&self) -> DevicePart<'_> {
        DevicePart::of(self)
    }
}

// SAFETY: a block's memory is committed before the block is handed out, and its address and size
// never change. Until the block is freed it is given to nobody else; after that, by the protocol at
// the crate's root, not before every recorded use is known ordered before the next one or complete,
// and neither given back nor reused while it is held. `begin_use` counts the whole stream, and
// `end_use` alone says less; a stream of another context is refused.
unsafe impl DeviceOwner for Block {
    fn span(&self) -> DeviceSpan {
        DeviceSpan { address: self.address(), bytes: self.size() }
    }

    fn begin_use(&self, stream: &Stream, _: Access) -> Result<UseTicket, Error> {
        self.check_stream(stream)?;
        let kind = UseKind::Begun;
        self.note_use(stream.order(), kind, Location::caller(), |used| used.open_count += 1);
        Ok(UseTicket::default())
    }

    unsafe fn end_use(&self, stream: &Stream, _: UseTicket, used: Used) {
        self.note_use(stream.order(), ended(used), Location::caller(), |record| {
            record.open_count = record.open_count.saturating_sub(1);
            match used {
                Used::Until(point) => sharpen(record, point),
                // The graph has its hold; a refused operation uses nothing.
                Used::ByGraph | Used::Never => {}
            }
        });
    }

    fn hold(&self) -> Box<dyn Any + Send> {
        Box::new(Self::hold(self))
    }
}

/// The block's memory, for an operation that tells it nothing: what a test then records by hand.
#[cfg(test)]
pub(crate) fn uncounted(block: &Block) -> streams::RawSpan {
    // SAFETY: on the simulated driver, which reports every use that nothing keeps apart.
    unsafe { streams::RawSpan::from_raw(block.address(), block.size()) }
}
