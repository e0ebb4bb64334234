//! Streams: where work is queued.

use std::marker::PhantomData;
use std::ops::Deref;
use std::panic::Location;

use crate::context::Context;
use crate::device::Device;
use crate::driver::HostFunction;
use crate::error::Error;
use crate::event::Event;
use crate::observe::By;
use crate::stream_core::StreamHandle;
use crate::stream_order::StreamOrder;
use crate::submission::Submission;
use crate::sync::Arc;

/// How a new stream is to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamOptions {
    /// Runs beside the legacy default stream instead of taking turns with it. On by default.
    pub non_blocking: bool,
    /// The greater priority is the smaller number; what is out of the range that
    /// [`Context::priority_range`] gives is refused. It says nothing about copies.
    pub priority: i32,
    /// An allocator never makes another stream wait for this one.
    pub never_wait_on: bool,
}

impl Default for StreamOptions {
    fn default() -> Self {
        Self { non_blocking: true, priority: 0, never_wait_on: false }
    }
}

/// A stream: what is queued on it runs in order.
///
/// Clones are the same stream; the last one dropped records a last fence and destroys the stream
/// if it is ours, which does not wait for its work. `Send`, `Sync`: any thread may submit, each
/// call is one operation.
#[derive(Debug, Clone)]
pub struct Stream {
    handle: Arc<StreamHandle>,
    order: StreamOrder,
}

impl Stream {
    pub(crate) fn from_handle(handle: Arc<StreamHandle>) -> Self {
        let order = StreamOrder::new(Arc::clone(handle.core()));
        Self { handle, order }
    }

    /// What is known about the stream, for allocators.
    #[inline]
    #[must_use]
    pub fn order(&self) -> &StreamOrder {
        &self.order
    }

    /// The stream's context.
    #[must_use]
    pub fn context(&self) -> Context {
        Context::from_core(Arc::clone(self.order.core().context()))
    }

    /// The stream's device.
    #[must_use]
    pub fn device(&self) -> Device {
        self.context().device().clone()
    }

    /// See [`StreamOrder::id`].
    #[must_use]
    pub fn id(&self) -> u64 {
        self.order.id()
    }

    /// The priority, after the driver clamped it; the greater priority is the smaller number.
    #[must_use]
    pub fn priority(&self) -> i32 {
        self.order.priority()
    }

    /// Whether the stream runs beside the legacy default stream.
    #[must_use]
    pub fn is_non_blocking(&self) -> bool {
        self.order.core().traits().non_blocking
    }

    /// The driver's own handle, for other libraries. From now on the stream counts as used by
    /// others too: every position on it is new, and it counts as gated.
    ///
    /// Work queued through the handle is bound by the same rule as our own: plain stream order,
    /// no launch attribute that lets a kernel begin before its predecessor has ended, unless it
    /// touches no memory before it waits for that (O11). A capture is not begun through it while a
    /// call on this stream is under way.
    #[must_use]
    #[track_caller]
    pub fn as_raw(&self) -> cuda_sys::CUstream {
        self.order.core().share();
        self.handle.raw.raw()
    }

    /// Ends the stream for us: every clone refuses new calls, and the last fence is recorded.
    /// Waits for calls that other threads have under way, not for the device. A borrowed stream
    /// may be destroyed by its owner after this. Its slot is given to another stream once what was
    /// queued is complete, whoever still holds this one.
    pub fn retire(&self) {
        self.handle.retire();
    }

    /// Records `event` here: it passes when everything submitted until now is done.
    ///
    /// # Errors
    /// The event belongs to another context; or the driver's answer.
    #[track_caller]
    pub fn record(&self, event: &Event) -> Result<(), Error> {
        event.record_on(self.order.core())
    }

    /// Records a new event.
    ///
    /// # Errors
    /// The driver's answer.
    #[track_caller]
    pub fn record_event(&self) -> Result<Event, Error> {
        let event = self.context().create_event()?;
        self.record(&event)?;
        Ok(event)
    }

    /// Makes what is submitted from now on wait for the event's last record, on the device.
    ///
    /// # Errors
    /// The stream captures and the event was recorded outside its capture, or the event was
    /// recorded in a capture that is over; or the driver's answer.
    #[track_caller]
    pub fn wait_event(&self, event: &Event) -> Result<(), Error> {
        event.wait_on(self.order.core())
    }

    /// Makes what is submitted from now on wait for everything submitted to `other` until now, on
    /// the device.
    ///
    /// # Errors
    /// As for [`Stream::wait_event`].
    #[track_caller]
    pub fn wait_stream(&self, other: &Self) -> Result<(), Error> {
        self.order.core().check_driver(other.order.core().registry())?;
        if Arc::ptr_eq(self.order.core(), other.order.core()) {
            return Ok(());
        }
        if other.order.core().membership.is_captured() {
            return self.wait_event(&other.record_event()?);
        }
        self.order.wait_fence_anyway(&other.order.fence_now()?)
    }

    /// Makes what is submitted from now on wait for one operation, on the device.
    ///
    /// # Errors
    /// As for [`Submission::fence`]; or the driver's answer.
    #[track_caller]
    pub fn wait_submission(&self, submission: &Submission) -> Result<(), Error> {
        self.order.core().check_driver(submission.order().core().registry())?;
        if self.order.knows_settled(submission.point()) && !submission.is_captured() {
            self.order.tell_skipped(submission.order().id(), By::Program, Location::caller());
            return Ok(());
        }
        self.order.wait_fence_anyway(&submission.fence()?)
    }

    /// Whether everything submitted is done.
    ///
    /// # Errors
    /// The stream captures; or the driver's answer.
    #[track_caller]
    pub fn query(&self) -> Result<bool, Error> {
        let core = self.order.core();
        let entered = core.enter()?;
        core.refuse_while_capturing(&entered)?;
        core.query(&entered)
    }

    /// Blocks until everything submitted is done.
    ///
    /// # Errors
    /// The stream captures; or the driver's answer.
    #[track_caller]
    pub fn synchronize(&self) -> Result<(), Error> {
        let core = self.order.core();
        let entered = core.enter()?;
        core.refuse_while_capturing(&entered)?;
        core.synchronize(&entered)?;
        core.context().close_graves();
        core.context().settle_leftovers();
        Ok(())
    }

    /// Queues `function`, which runs on a thread of the driver's and may not call the driver:
    /// every call of this crate refuses there. A panic in it is swallowed.
    ///
    /// If the context fails before it ran, it is dropped without having run: at the next call on
    /// the stream, or with the stream (L3).
    /// The stream counts as gated until it has run: it may wait for anything.
    ///
    /// # Errors
    /// The stream captures; or the driver's answer.
    #[track_caller]
    pub fn launch_host_function(
        &self,
        function: impl FnOnce() + Send + 'static,
    ) -> Result<Submission, Error> {
        let core = self.order.core();
        let (body, before) = core.watched_function(function, Location::caller());
        let function = HostFunction::new(body);
        // What a refused function owns is dropped when the stream has been left: that may be a
        // block, and its end may wait for whoever retires the stream.
        let launched =
            core.launch_host_function(&function, &before).inspect_err(|_| function.cancel())?;
        core.keep_host_function(function);
        Ok(launched)
    }
}

/// The per-thread default stream of the thread that asked for it. Not `Send`.
///
/// It gives a [`Stream`] by dereference. A clone of that can reach another thread, where every
/// call that would mean another stream is refused with [`Error::WrongThread`].
#[derive(Debug, Clone)]
pub struct PerThreadStream {
    stream: Stream,
    thread: PhantomData<*const ()>,
}

impl PerThreadStream {
    pub(crate) fn new(stream: Stream) -> Self {
        Self { stream, thread: PhantomData }
    }
}

impl Deref for PerThreadStream {
    type Target = Stream;

    fn deref(&self) -> &Stream {
        &self.stream
    }
}
