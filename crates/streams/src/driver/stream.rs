//! Streams: create, borrow, ask, wait, destroy.

use std::ptr;

use cuda_sys::{CUresult, CUstream, CUstream_flags, CUstreamCaptureMode, CUstreamCaptureStatus};

use super::{Current, DriverContext, DriverEvent, DriverGraph, Handle};
use crate::error::{Code, Error};
use crate::sync::Arc;

/// The two streams whose handle means something else in every context, or every thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Special {
    Legacy,
    PerThread,
}

/// One stream.
#[derive(Debug)]
pub(crate) struct DriverStream {
    context: Arc<DriverContext>,
    raw: Handle<CUstream>,
    owned: bool,
    special: bool,
}

impl DriverContext {
    /// A query's answer: yes, no, or an error.
    pub(super) fn answer(&self, call: &'static str, code: CUresult) -> Result<bool, Error> {
        if Code::of(code).is_not_ready() {
            self.count_call();
            return Ok(false);
        }
        self.check(call, code).map(|()| true)
    }
}

impl DriverStream {
    pub(crate) fn create(
        context: &Arc<DriverContext>,
        non_blocking: bool,
        priority: i32,
    ) -> Result<Self, Error> {
        context.ready()?;
        let flags = if non_blocking { CUstream_flags::CU_STREAM_NON_BLOCKING.0 } else { 0 };
        let _current = context.current()?;
        let mut raw = ptr::null_mut();
        // SAFETY: the context is current, and the result is ours to write.
        let code =
            unsafe { context.table().stream_create_with_priority()(&raw mut raw, flags, priority) };
        context.check("cuStreamCreateWithPriority", code)?;
        let context = Arc::clone(context);
        Ok(Self { context, raw: Handle(raw), owned: true, special: false })
    }

    /// A default stream of the context.
    pub(crate) fn special(context: &Arc<DriverContext>, which: Special) -> Self {
        let number: usize = match which {
            Special::Legacy => 1,
            Special::PerThread => 2,
        };
        let raw = ptr::without_provenance_mut(number);
        Self { context: Arc::clone(context), raw: Handle(raw), owned: false, special: true }
    }

    /// Which default stream a handle names; a null handle is the legacy one.
    pub(crate) fn which_special(raw: CUstream) -> Option<Special> {
        match raw.addr() {
            0 | 1 => Some(Special::Legacy),
            2 => Some(Special::PerThread),
            _ => None,
        }
    }

    /// Takes a stream that somebody else owns.
    ///
    /// # Safety
    /// - `raw` is a live stream of `context` and stays one for as long as it is used through the
    ///   result.
    pub(crate) unsafe fn borrow(context: &Arc<DriverContext>, raw: CUstream) -> Self {
        let context = Arc::clone(context);
        Self { context, raw: Handle(raw), owned: false, special: false }
    }

    pub(crate) fn raw(&self) -> CUstream {
        self.raw.get()
    }

    pub(super) fn context(&self) -> &DriverContext {
        &self.context
    }

    /// Makes the context current where the handle alone does not name the stream.
    pub(super) fn scope(&self) -> Result<Option<Current<'_>>, Error> {
        self.special.then(|| self.context.current()).transpose()
    }

    /// The id the driver never gives twice. Breaks a capture of this stream.
    pub(crate) fn id(&self) -> Result<u64, Error> {
        self.context.ready()?;
        let _current = self.context.current()?;
        let mut id = 0;
        // SAFETY: the stream is live, and the result is ours to write.
        let code = unsafe { self.context.table().stream_get_id()?(self.raw(), &raw mut id) };
        self.context.check("cuStreamGetId", code)?;
        Ok(id)
    }

    pub(crate) fn priority(&self) -> Result<i32, Error> {
        self.context.ready()?;
        let _current = self.context.current()?;
        let mut priority = 0;
        // SAFETY: the stream is live, and the result is ours to write.
        let code =
            unsafe { self.context.table().stream_get_priority()(self.raw(), &raw mut priority) };
        self.context.check("cuStreamGetPriority", code)?;
        Ok(priority)
    }

    /// Whether the stream runs beside the legacy stream.
    pub(crate) fn is_non_blocking(&self) -> Result<bool, Error> {
        self.context.ready()?;
        let _current = self.context.current()?;
        let mut flags = 0;
        // SAFETY: the stream is live, and the result is ours to write.
        let code = unsafe { self.context.table().stream_get_flags()(self.raw(), &raw mut flags) };
        self.context.check("cuStreamGetFlags", code)?;
        Ok(flags & CUstream_flags::CU_STREAM_NON_BLOCKING.0 != 0)
    }

    /// Whether the stream captures, or a capture of it was broken and has not ended.
    pub(crate) fn is_capturing(&self) -> Result<bool, Error> {
        self.context.ready()?;
        let _current = self.scope()?;
        let mut status = CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
        // SAFETY: the stream is live, and the result is ours to write.
        let code =
            unsafe { self.context.table().stream_is_capturing()(self.raw(), &raw mut status) };
        if code == CUresult::CUDA_ERROR_STREAM_CAPTURE_IMPLICIT {
            // The legacy stream, beside a blocking stream that captures: it does not itself.
            return Ok(false);
        }
        self.context.check("cuStreamIsCapturing", code)?;
        Ok(status != CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE)
    }

    /// Whether everything in the stream is done.
    pub(crate) fn query(&self) -> Result<bool, Error> {
        self.context.ready()?;
        let _relaxed = self.context.relaxed()?;
        let _current = self.scope()?;
        // SAFETY: the stream is live.
        let code = unsafe { self.context.table().stream_query()(self.raw()) };
        self.context.answer("cuStreamQuery", code)
    }

    /// Waits until everything in the stream is done.
    pub(crate) fn synchronize(&self) -> Result<(), Error> {
        self.context.ready()?;
        let _relaxed = self.context.relaxed()?;
        let _current = self.scope()?;
        // SAFETY: the stream is live.
        let code = unsafe { self.context.table().stream_synchronize()(self.raw()) };
        self.context.check("cuStreamSynchronize", code)
    }

    /// Makes what is submitted from now on wait for the event's last record.
    pub(crate) fn wait(&self, event: &DriverEvent) -> Result<(), Error> {
        self.context.ready()?;
        let _current = self.scope()?;
        // SAFETY: both objects are live; zero is the only flag every driver knows.
        let code = unsafe { self.context.table().stream_wait_event()(self.raw(), event.raw(), 0) };
        self.context.check("cuStreamWaitEvent", code)
    }

    pub(crate) fn begin_capture(&self, mode: CUstreamCaptureMode) -> Result<(), Error> {
        self.context.ready()?;
        let _current = self.context.current()?;
        // SAFETY: the stream is live; an unknown mode is refused by the driver.
        let code = unsafe { self.context.table().stream_begin_capture()(self.raw(), mode) };
        self.context.check("cuStreamBeginCapture", code)
    }

    pub(crate) fn end_capture(&self) -> Result<DriverGraph, Error> {
        self.context.ready()?;
        let _current = self.context.current()?;
        let mut graph = ptr::null_mut();
        // SAFETY: the stream is live, and the result is ours to write.
        let code = unsafe { self.context.table().stream_end_capture()(self.raw(), &raw mut graph) };
        self.context.check("cuStreamEndCapture", code)?;
        Ok(DriverGraph::own(Arc::clone(&self.context), graph))
    }
}

impl Drop for DriverStream {
    fn drop(&mut self) {
        if self.owned {
            let raw = self.raw;
            // SAFETY: this was the only owner, so nothing uses the handle after this; work that
            // is still queued goes on.
            self.context
                .dispose(move |context| unsafe { context.table().stream_destroy()(raw.get()) });
        }
    }
}
