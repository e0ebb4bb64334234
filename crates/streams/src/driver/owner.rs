//! What an owner of device memory promises, and memory whose owner is elsewhere.

use std::any::Any;

use smallvec::SmallVec;

use crate::error::Error;
use crate::launch::{DeviceSlice, DeviceSliceMut};
use crate::stream::Stream;
use crate::uses::{Access, DeviceBytes, DevicePart, DeviceSpan, UseTicket, Used};

/// An owner of device memory, which is told of every use of it (O13).
///
/// Copies, fills and launches are safe functions, and the device reads and writes where an owner
/// says. So to be an owner is a promise; a type that only *has* one, as a buffer has a block,
/// promises nothing and implements [`DeviceBytes`] instead.
///
/// # Safety
/// - Every byte of [`DeviceOwner::span`] is device memory that is mapped, on the device of the
///   streams that [`DeviceOwner::begin_use`] accepts or reachable from there.
/// - The span never changes.
/// - The memory stays mapped, and is given to nobody else, while the owner lives; and after it,
///   until every use that was begun is over as [`DeviceOwner::end_use`] told, and until everything
///   that [`DeviceOwner::hold`] gave is dropped. A use that was never ended lasts for all that is
///   ever queued on its stream.
pub unsafe trait DeviceOwner {
    /// Where the memory is.
    fn span(&self) -> DeviceSpan;

    /// Something on `stream` is about to use the memory; from now on, and until
    /// [`DeviceOwner::end_use`] says more, whatever is queued on `stream` may use it.
    ///
    /// # Errors
    /// The memory may not be used there. Nothing is submitted then.
    fn begin_use(&self, stream: &Stream, access: Access) -> Result<UseTicket, Error>;

    /// The use that `ticket` was given for is `used`.
    ///
    /// # Safety
    /// - `ticket` is of a use of this owner on this stream that was begun and has not ended.
    /// - Nothing but that use, and so nothing queued after `used`, rests on it.
    unsafe fn end_use(&self, stream: &Stream, ticket: UseTicket, used: Used);

    /// Keeps the memory alive, for a graph that uses it.
    fn hold(&self) -> Box<dyn Any + Send>;
}

/// Memory whose owner keeps it by other means and counts no uses: an address from elsewhere, with
/// the promises of whoever wrote it down.
///
/// ```
/// # fn main() -> Result<(), streams::Error> {
/// # let machine = cuda_sim::Machine::builder().build();
/// # let context = streams::Driver::from_table(machine.table())?.device(0)?.primary_context()?;
/// use streams::memory::DeviceMemory;
/// use streams::{RawSpan, StreamOptions};
///
/// let stream = context.create_stream(StreamOptions::default())?;
/// let memory = DeviceMemory::allocate(&context, 64)?;
/// // SAFETY: the memory is dropped only after the fill was waited for.
/// let span = unsafe { RawSpan::from_raw(memory.address(), 64) };
/// stream.fill_bytes(&span, 0, 64, 1)?.wait()?;
/// drop(memory);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RawSpan(DeviceSpan);

impl RawSpan {
    /// The `bytes` bytes from `address` on, to be used by operations that tell nobody.
    ///
    /// # Safety
    /// For everything that the result, or a copy of it, is ever given to:
    /// - every byte is device memory that is mapped, on the device of the stream or reachable from
    ///   there;
    /// - it stays so until what was queued with it is complete, and for a captured operation until
    ///   no graph that holds it can run any more: nobody frees, unmaps or hands out the memory
    ///   before;
    /// - whoever owns the memory lets it be used so.
    #[must_use]
    pub const unsafe fn from_raw(address: u64, bytes: u64) -> Self {
        Self(DeviceSpan { address, bytes })
    }

    /// Where it is.
    #[must_use]
    pub const fn span(self) -> DeviceSpan {
        self.0
    }

    /// The part of it that begins `offset` bytes in.
    ///
    /// # Errors
    /// It does not lie inside.
    pub fn part(self, offset: u64, bytes: u64) -> Result<Self, Error> {
        self.0.part(offset, bytes).map(Self)
    }
}

// SAFETY: whoever made the span promises all of it; nothing is to be told of its uses.
unsafe impl DeviceOwner for RawSpan {
    fn span(&self) -> DeviceSpan {
        self.0
    }

    fn begin_use(&self, _: &Stream, _: Access) -> Result<UseTicket, Error> {
        Ok(UseTicket::default())
    }

    unsafe fn end_use(&self, _: &Stream, _: UseTicket, _: Used) {}

    fn hold(&self) -> Box<dyn Any + Send> {
        Box::new(())
    }
}

impl DeviceBytes for RawSpan {
    fn whole(&self) -> DevicePart<'_> {
        DevicePart::of(self)
    }
}

/// A raw span is taken for whatever the kernel was declared with.
impl<T> DeviceSlice<T> for RawSpan {}
impl<T> DeviceSliceMut<T> for RawSpan {}

/// The uses of one operation: begun before it is submitted, ended after it. While it is being
/// submitted they stay open on the way out of a panic, and last for all of the stream (O13).
pub(crate) struct OpenUses<'a> {
    stream: &'a Stream,
    uses: SmallVec<[(&'a dyn DeviceOwner, UseTicket); 4]>,
    used: Option<Used>,
}

impl<'a> OpenUses<'a> {
    pub(crate) fn new(stream: &'a Stream) -> Self {
        Self { stream, uses: SmallVec::new(), used: Some(Used::Never) }
    }

    #[track_caller]
    pub(crate) fn begin(
        &mut self,
        owner: &'a dyn DeviceOwner,
        access: Access,
    ) -> Result<(), Error> {
        let ticket = owner.begin_use(self.stream, access)?;
        self.uses.push((owner, ticket));
        Ok(())
    }

    /// The driver is about to be called: what is used cannot be said before [`OpenUses::end`].
    pub(crate) fn submitting(&mut self) {
        self.used = None;
    }

    /// The submission found this.
    pub(crate) fn end(mut self, used: Used) {
        self.used = Some(used);
    }
}

impl Drop for OpenUses<'_> {
    fn drop(&mut self) {
        let Some(used) = self.used else { return };
        for &(owner, ticket) in &self.uses {
            // SAFETY: the ticket is the one that `begin` got of this owner for this stream, and
            // the list goes with this; `used` covers the one operation it was begun for.
            unsafe { owner.end_use(self.stream, ticket, used) };
        }
    }
}
