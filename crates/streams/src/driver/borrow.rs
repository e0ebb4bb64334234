//! Where handles of other libraries come in: the `unsafe` doors of the crate.

use cuda_sys::{CUcontext, CUevent, CUstream};

use super::{DriverContext, DriverEvent, DriverStream};
use crate::context::Context;
use crate::device::Driver;
use crate::error::Error;
use crate::event::Event;
use crate::launch::{Kernel, Module, Signature};
use crate::stream::Stream;
use crate::stream_core::{StreamKind, StreamTraits};

/// What the owner of a borrowed stream promises beyond its life. The default promises nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BorrowPromises {
    /// Nobody captures the stream but through us, so it need not be asked (C4).
    pub announces_captures: bool,
    /// Nobody queues work on it that waits for the host but through us, so it does not count as
    /// gated (R5).
    pub announces_gates: bool,
    /// An allocator never makes another stream wait for it.
    pub never_wait_on: bool,
}

impl Driver {
    /// Takes a context that somebody else owns. Given again while it is known, it is the same.
    ///
    /// # Safety
    /// - `raw` is a live context of this driver, and lives for as long as anything made of it here.
    ///
    /// # Errors
    /// The driver gives contexts no ids, so that a foreign one has no identity (O8); or its answer.
    pub unsafe fn borrow_context(&self, raw: CUcontext) -> Result<Context, Error> {
        // SAFETY: the caller promises the context's life.
        let context = unsafe { DriverContext::borrow(self.calls(), raw) }?;
        Context::adopt(self, context, false)
    }
}

impl Context {
    /// Takes a stream that somebody else owns, with no promise but its life. A null handle is the
    /// legacy default stream; one that is known already is the same stream.
    ///
    /// # Safety
    /// - `raw` is a live stream of this context, or a default stream's handle, and lives until
    ///   [`Stream::retire`] returns or the last clone is dropped.
    /// - What others queue on it keeps plain stream order (O11).
    ///
    /// # Errors
    /// The stream captures, so that its identity cannot be asked; the driver gives streams no ids
    /// (O8); it is a stream of another context; or the driver's answer.
    #[track_caller]
    pub unsafe fn borrow_stream(&self, raw: CUstream) -> Result<Stream, Error> {
        // SAFETY: the caller's promise is the one asked for; nothing more is promised.
        unsafe { self.borrow_stream_with(raw, BorrowPromises::default()) }
    }

    /// Takes a stream that somebody else owns, with promises.
    ///
    /// # Safety
    /// - As for [`Context::borrow_stream`].
    /// - The promises are kept for as long as the result lives.
    ///
    /// # Errors
    /// As for [`Context::borrow_stream`].
    #[track_caller]
    pub unsafe fn borrow_stream_with(
        &self,
        raw: CUstream,
        promises: BorrowPromises,
    ) -> Result<Stream, Error> {
        match DriverStream::which_special(raw) {
            Some(super::Special::Legacy) => return self.legacy_stream(),
            Some(super::Special::PerThread) => return Ok((*self.per_thread_stream()?).clone()),
            None => {}
        }
        // SAFETY: the caller promises that the stream lives in this context.
        let stream = unsafe { DriverStream::borrow(&self.core().raw, raw) };
        if stream.is_capturing()? {
            return Err(Error::ContextCapturing { context: self.id() });
        }
        let traits = StreamTraits {
            kind: StreamKind::Borrowed,
            id: stream.id()?,
            priority: stream.priority()?,
            non_blocking: stream.is_non_blocking()?,
            never_wait_on: promises.never_wait_on,
            announces_captures: promises.announces_captures,
            announces_gates: promises.announces_gates,
        };
        self.adopt_stream(stream, traits)
    }

    /// Takes an event that somebody else owns. Nothing is known of its last record until it is
    /// recorded here (O5).
    ///
    /// # Safety
    /// - `raw` is a live event of this context, and lives for as long as the result.
    /// - Whoever records it elsewhere after it was recorded here calls [`Event::forget_record`]
    ///   before anything here waits for it or asks it.
    pub unsafe fn borrow_event(&self, raw: CUevent) -> Event {
        // SAFETY: the caller promises that the event lives in this context.
        let event = unsafe { DriverEvent::borrow(&self.core().raw, raw) };
        Event::foreign(self, event)
    }
}

impl Module {
    /// Declares the kernel `name` and what its parameters are: a tuple of pointers
    /// ([`Reads`](crate::launch::Reads), [`Writes`](crate::launch::Writes),
    /// [`ReadsWrites`](crate::launch::ReadsWrites)) and numbers.
    ///
    /// # Safety
    /// - The kernel takes exactly these parameters.
    /// - However it is launched, it touches only memory that its pointers point into, within the
    ///   memory given for each, and as declared: what is `Reads` it does not write.
    /// - It touches no memory before its stream predecessors have ended (O11): it does not lend
    ///   itself to programmatic early launch.
    ///
    /// # Errors
    /// There is no such kernel, or the driver knows other parameter sizes; or its answer.
    pub unsafe fn declare<S: Signature>(&self, name: &str) -> Result<Kernel<S>, Error> {
        self.kernel(name)
    }
}
