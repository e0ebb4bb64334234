//! A point the device can be asked about.

use std::fmt;
use std::panic::Location;
use std::time::Duration;

use crate::driver::DriverEvent;
use crate::error::Error;
use crate::event_pool::EventPool;
use crate::observe::{How, Place, RecordId, Scope, Watch, What};
use crate::order::{Frontier, Point, Registry, Stamp};
use crate::sync::Arc;

/// A point the device can be asked about: an event whose record there has succeeded (O1).
///
/// Clones share one event, which is recorded anew only after the last of them is gone. `Send` and
/// `Sync`: asking and waiting are allowed on any thread, except inside a host function.
#[derive(Clone)]
pub struct Fence {
    inner: Arc<FenceInner>,
}

/// While it lives, new fences of one context keep time: see
/// [`Context::time_fences`](crate::Context::time_fences).
#[derive(Debug)]
pub struct FenceTimer {
    pub(crate) pool: Arc<EventPool>,
}

impl Drop for FenceTimer {
    fn drop(&mut self) {
        self.pool.stop_timer();
    }
}

struct FenceInner {
    /// Taken out only by `drop`.
    event: Option<DriverEvent>,
    pool: Arc<EventPool>,
    watch: Watch,
    /// Names the fence where it is told of.
    id: u64,
    /// The id of the stream it was recorded on.
    stream: u64,
    registry: Arc<Registry>,
    stamp: Stamp,
    exact: bool,
}

/// What a fence is made of, beside what it claims.
pub(crate) struct FenceParts {
    pub(crate) event: DriverEvent,
    pub(crate) pool: Arc<EventPool>,
    pub(crate) watch: Watch,
    pub(crate) id: u64,
    pub(crate) stream: u64,
}

impl Fence {
    pub(crate) fn new(
        parts: FenceParts,
        registry: Arc<Registry>,
        stamp: Stamp,
        exact: bool,
    ) -> Self {
        let FenceParts { event, pool, watch, id, stream } = parts;
        let event = Some(event);
        let inner = FenceInner { event, pool, watch, id, stream, registry, stamp, exact };
        Self { inner: Arc::new(inner) }
    }

    pub(crate) fn event(&self) -> &DriverEvent {
        self.inner.event.as_ref().expect("the event leaves only when the last fence is dropped")
    }

    pub(crate) fn stamp(&self) -> &Stamp {
        &self.inner.stamp
    }

    pub(crate) fn registry(&self) -> &Arc<Registry> {
        &self.inner.registry
    }

    /// The id of the stream it was recorded on.
    pub(crate) fn recorded_on(&self) -> u64 {
        self.inner.stream
    }

    /// The fence as it is told of.
    pub(crate) fn record_id(&self) -> RecordId {
        RecordId { event: self.inner.id, version: 1 }
    }

    /// Nothing submitted after the point is covered.
    pub(crate) fn is_exact(&self) -> bool {
        self.inner.exact
    }

    /// The point on the recording stream that is done when the fence has passed.
    #[must_use]
    pub fn point(&self) -> Point {
        self.inner.stamp.point
    }

    /// Everything that is done when the fence has passed.
    #[must_use]
    pub fn frontier(&self) -> &Frontier {
        &self.inner.stamp.frontier
    }

    /// Whether a waiter may end up waiting for the host: the stream was gated when this was
    /// recorded, and it is not known that the gate has been passed (R5).
    #[must_use]
    pub fn is_gated(&self) -> bool {
        self.inner.stamp.is_gated(&self.inner.registry)
    }

    /// Whether the fence is known to have passed. Makes no driver call.
    #[must_use]
    pub fn is_known_complete(&self) -> bool {
        self.inner.registry.is_complete(self.point())
    }

    /// The same by what is settled.
    pub(crate) fn is_settled(&self) -> bool {
        self.inner.registry.is_settled(self.point())
    }

    /// Asks the device whether the fence has passed; what is known is not asked.
    ///
    /// # Errors
    /// The driver's answer, or that this is a host function.
    #[track_caller]
    pub fn query(&self) -> Result<bool, Error> {
        if self.is_known_complete() {
            return Ok(true);
        }
        let passed = self.event().query()?;
        if passed {
            self.tell_passed(How::Query, Location::caller());
            // The stamp was read before the record, so before any question about it.
            self.inner.registry.learn_answered(self.frontier());
        }
        Ok(passed)
    }

    /// Whether the fence keeps time.
    #[must_use]
    pub fn is_timed(&self) -> bool {
        self.event().is_timed()
    }

    /// How much later than `start` this fence passed, on the device's clock; nothing if it passed
    /// before.
    ///
    /// `None` unless both are known to have passed and keep time: see
    /// [`Context::time_fences`](crate::Context::time_fences). One driver call, else.
    ///
    /// # Errors
    /// The fences are of two drivers or contexts, or this is a host function; or the driver's
    /// answer.
    pub fn time_since(&self, start: &Self) -> Result<Option<Duration>, Error> {
        let timed = self.event().is_timed() && start.event().is_timed();
        if !timed || !self.is_known_complete() || !start.is_known_complete() {
            return Ok(None);
        }
        self.event().elapsed_since(start.event()).map(Some)
    }

    /// Blocks until the fence has passed.
    ///
    /// # Errors
    /// The driver's answer, or that this is a host function.
    #[track_caller]
    pub fn synchronize(&self) -> Result<(), Error> {
        if !self.is_settled() {
            let (place, scope) = (Location::caller(), Scope::Record(self.record_id()));
            self.inner.watch.tell(Some(place), || What::SynchronizationBegun { scope });
            self.event().synchronize()?;
            self.tell_passed(How::Synchronization, place);
            self.inner.registry.learn_synchronized(&self.inner.stamp);
        }
        Ok(())
    }

    /// As [`Fence::synchronize`], by somebody whose decision to wait depends on answers: what that
    /// teaches is known, but settles nothing where answers are kept apart
    /// ([`Context::keep_answers_apart`](crate::Context::keep_answers_apart)).
    ///
    /// # Errors
    /// As for [`Fence::synchronize`].
    #[track_caller]
    pub fn synchronize_apart(&self) -> Result<(), Error> {
        if !self.inner.registry.keeps_answers() {
            return self.synchronize();
        }
        if !self.is_known_complete() {
            let (place, scope) = (Location::caller(), Scope::Record(self.record_id()));
            self.inner.watch.tell(Some(place), || What::SynchronizationBegun { scope });
            self.event().synchronize()?;
            self.tell_passed(How::Synchronization, place);
            self.inner.registry.learn_answered(self.frontier());
        }
        Ok(())
    }

    fn tell_passed(&self, how: How, place: Place) {
        let scope = Scope::Record(self.record_id());
        self.inner.watch.tell(Some(place), || What::Passed { scope, reached: &[], how });
    }
}

impl fmt::Debug for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fence")
            .field("point", &self.point())
            .field("exact", &self.is_exact())
            .field("known_complete", &self.is_known_complete())
            .finish_non_exhaustive()
    }
}

impl Drop for FenceInner {
    fn drop(&mut self) {
        if let Some(event) = self.event.take() {
            self.pool.give(event);
        }
    }
}
