//! Memory lent to work that this library does not see, on one stream.

use allocator::OpenUse;
use streams::Stream;

use crate::error::Error;
use crate::view::{DeviceView, DeviceViewMut};

/// Memory that is lent to raw launches, or to another library, on one stream.
///
/// While it lives, everything queued on the stream may use the memory; when it is dropped the use
/// ends with what is queued there by then. If it is forgotten instead, the use lasts for all that
/// is queued on the stream until the buffer is freed: that costs time, and is never too short.
///
/// ```
/// # #[cfg(feature = "sim")] {
/// use wellspring::DeviceBuffer;
///
/// let runtime = wellspring::open_or_simulated()?;
/// let (home, other) = (runtime.create_stream()?, runtime.create_stream()?);
/// let buffer = DeviceBuffer::<f32>::zeroed(&runtime, &home, 1024)?;
/// other.wait_stream(&home)?;
/// let lent = buffer.lend(&other)?;
/// let _raw_call = (other.as_raw(), lent.address(), lent.bytes()); // queue it here
/// drop(lent);
/// drop(buffer); // reused when that call is done
/// # }
/// # Ok::<(), wellspring::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "a loan that is not kept ends before the work that it is for is queued"]
pub struct Lent<'a> {
    address: u64,
    bytes: u64,
    /// Taken out only when it is dropped.
    open: Option<OpenUse<'a>>,
}

impl Lent<'_> {
    /// The device address.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.address
    }

    /// How many bytes are lent.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        if let Some(open) = self.open.take() {
            let _use = open.sharpen();
        }
    }
}

impl<'a, T> DeviceView<'a, T> {
    /// Lends the values to work that does not go through this library, on `stream`, to be read.
    ///
    /// # Errors
    /// The stream captures, as a graph would have to hold the memory; it is retired, and takes no
    /// more work; or it is one of another context or driver.
    #[track_caller]
    pub fn lend(self, stream: &Stream) -> Result<Lent<'a>, Error> {
        let block = self.block();
        block.check_stream(stream)?;
        if stream.order().is_capturing() {
            return Err(streams::Error::Capturing { stream: stream.id() }.into());
        }
        let open = Some(block.begin_use(stream)?);
        Ok(Lent { address: self.address(), bytes: self.bytes(), open })
    }
}

impl<'a, T> DeviceViewMut<'a, T> {
    /// Lends the values to work that does not go through this library, on `stream`, to be
    /// written.
    ///
    /// # Errors
    /// As for [`DeviceView::lend`].
    #[track_caller]
    pub fn lend_mut(self, stream: &Stream) -> Result<Lent<'a>, Error> {
        DeviceView::from(self).lend(stream)
    }
}
