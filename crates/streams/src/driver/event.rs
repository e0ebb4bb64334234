//! Events: create, record, ask, wait for, destroy.

use std::ptr;
use std::time::Duration;

use cuda_sys::{CUevent, CUevent_flags};

use super::{DriverContext, DriverStream, Handle};
use crate::error::Error;
use crate::sync::Arc;

/// What an event is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum EventKind {
    /// Order only: the cheapest.
    #[default]
    Plain,
    /// Remembers when it passed.
    Timing,
    /// Can be opened by other processes.
    Interprocess,
}

/// One event.
#[derive(Debug)]
pub(crate) struct DriverEvent {
    context: Arc<DriverContext>,
    raw: Handle<CUevent>,
    owned: bool,
    timed: bool,
}

impl DriverEvent {
    pub(crate) fn create(context: &Arc<DriverContext>, kind: EventKind) -> Result<Self, Error> {
        context.ready()?;
        let no_timing = CUevent_flags::CU_EVENT_DISABLE_TIMING.0;
        let flags = match kind {
            EventKind::Plain => no_timing,
            EventKind::Timing => CUevent_flags::CU_EVENT_DEFAULT.0,
            EventKind::Interprocess => no_timing | CUevent_flags::CU_EVENT_INTERPROCESS.0,
        };
        let _current = context.current()?;
        let _relaxed = context.relaxed()?;
        let mut raw = ptr::null_mut();
        // SAFETY: the context is current, and the result is ours to write.
        let code = unsafe { context.table().event_create()(&raw mut raw, flags) };
        context.check("cuEventCreate", code)?;
        let timed = kind == EventKind::Timing;
        Ok(Self { context: Arc::clone(context), raw: Handle(raw), owned: true, timed })
    }

    /// Takes an event that somebody else owns.
    ///
    /// # Safety
    /// - `raw` is a live event of `context` and stays one for as long as the result lives.
    pub(crate) unsafe fn borrow(context: &Arc<DriverContext>, raw: CUevent) -> Self {
        Self { context: Arc::clone(context), raw: Handle(raw), owned: false, timed: false }
    }

    /// Whether it remembers when it passed, as far as we know.
    pub(crate) fn is_timed(&self) -> bool {
        self.timed
    }

    pub(crate) fn raw(&self) -> CUevent {
        self.raw.get()
    }

    /// Makes the event pass when everything now in `stream` is done.
    pub(crate) fn record(&self, stream: &DriverStream) -> Result<(), Error> {
        self.context.ready()?;
        let _relaxed = self.context.relaxed()?;
        let _current = stream.scope()?;
        // SAFETY: both objects are live; a mismatch of contexts is refused by the driver.
        let code = unsafe { self.context.table().event_record()(self.raw(), stream.raw()) };
        self.context.check("cuEventRecord", code)
    }

    /// Whether the last record has passed.
    pub(crate) fn query(&self) -> Result<bool, Error> {
        self.context.ready()?;
        let _relaxed = self.context.relaxed()?;
        // SAFETY: the event is live.
        let code = unsafe { self.context.table().event_query()(self.raw()) };
        self.context.answer("cuEventQuery", code)
    }

    /// Waits until the record that is the last one now has passed.
    pub(crate) fn synchronize(&self) -> Result<(), Error> {
        self.context.ready()?;
        let _relaxed = self.context.relaxed()?;
        // SAFETY: the event is live.
        let code = unsafe { self.context.table().event_synchronize()(self.raw()) };
        self.context.check("cuEventSynchronize", code)
    }

    /// The time from `start` to this event; nothing, if this one passed first.
    pub(crate) fn elapsed_since(&self, start: &Self) -> Result<Duration, Error> {
        self.context.ready()?;
        let _current = self.context.current()?;
        let _relaxed = self.context.relaxed()?;
        let mut milliseconds: f32 = 0.0;
        // SAFETY: both events are live, and the result is ours to write.
        let code = unsafe {
            self.context.table().event_elapsed_time()(
                &raw mut milliseconds,
                start.raw(),
                self.raw(),
            )
        };
        self.context.check("cuEventElapsedTime", code)?;
        Ok(Duration::from_secs_f64(f64::from(milliseconds.max(0.0)) / 1000.0))
    }
}

impl Drop for DriverEvent {
    fn drop(&mut self) {
        if self.owned {
            let raw = self.raw;
            // SAFETY: this was the only owner, so nothing uses the handle after this; streams
            // that were told to wait for it keep what they wait for.
            self.context
                .dispose(move |context| unsafe { context.table().event_destroy()(raw.get()) });
        }
    }
}
