//! What lets copies, fills and launches of `streams` use a block and tell it so by themselves.
//!
//! Before an operation is submitted the block counts the whole stream as using it; afterwards the
//! use ends with that operation (O13). A captured operation takes a hold instead (C3).

use std::any::Any;

use streams::launch::DeviceSlice;
use streams::{Access, DeviceBytes, DeviceSpan, Error, Stream, UseTicket, Used};

use crate::handle::{Block, sharpen};

/// A block is bytes, so it can be given for a pointer to anything.
impl<T> DeviceSlice<T> for Block {}

impl DeviceBytes for Block {
    fn span(&self) -> DeviceSpan {
        DeviceSpan { address: self.address(), bytes: self.size() }
    }

    fn begin_use(&self, stream: &Stream, _: Access) -> Result<UseTicket, Error> {
        if !stream.order().shares_driver_with(self.context()) {
            return Err(Error::OtherDriver);
        }
        self.with_use(stream.order(), |used| used.open_count += 1);
        Ok(UseTicket::default())
    }

    fn end_use(&self, stream: &Stream, _: UseTicket, used: Used) {
        self.with_use(stream.order(), |record| {
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
