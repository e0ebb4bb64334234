//! Events that the user records, asks and waits for.
//!
//! Protocol (O4): a record begins a version, makes its call, publishes what it claims, ends the
//! version. A wait or a query reads version and claim, makes its call, and credits the claim only
//! if no record began meanwhile. So a claim is credited only for the very record the driver acted
//! on, on any number of threads.
//!
//! Once the raw handle was given out, a record may be made at any moment that nobody announces,
//! also right after one of ours. So from then on no claim is credited, ever (O5). That the handle
//! is out is looked for after the call: a record through it that the call acted on came before.

use std::panic::Location;
use std::time::Duration;

use crate::capture::CaptureState;
use crate::context::Context;
use crate::driver::{DriverEvent, DriverStream, EventKind};
use crate::error::Error;
use crate::observe::{By, How, Place, RecordId, Scope, WaitedFor, What};
use crate::order::{EventVersion, Made, Registry, Stamp};
use crate::stream_core::StreamCore;
use crate::sync::{Arc, AtomicBool, Mutex, Ordering, lock};

/// A marker that streams record, and that streams and the host wait for.
///
/// Never recorded, it counts as passed when it is asked, and a stream cannot be made to wait for it
/// ([`Error::NeverRecorded`]): the driver's wait would wait for nothing. Clones are the same event.
/// `Send`, `Sync`: several threads may record, ask and wait at the same time; where a record and a
/// wait race, the wait happens, but nobody is credited with order from it. Nor is anybody from an
/// event whose raw handle was given out: see [`Event::as_raw`].
///
/// ```
/// # fn main() -> Result<(), streams::Error> {
/// # let machine = cuda_sim::Machine::builder().build();
/// # let context = streams::Driver::from_table(machine.table())?.device(0)?.primary_context()?;
/// use streams::StreamOptions;
///
/// let (first, second) = (
///     context.create_stream(StreamOptions::default())?,
///     context.create_stream(StreamOptions::default())?,
/// );
/// let event = context.create_event()?;
/// assert!(event.query()?, "never recorded, it has passed");
/// first.record(&event)?;
/// second.wait_event(&event)?; // on the device
/// event.synchronize()?; // on the host
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Event {
    inner: Arc<EventInner>,
}

#[derive(Debug)]
struct EventInner {
    /// Names the event where it is told of.
    id: u64,
    context: Context,
    raw: DriverEvent,
    kind: EventKind,
    version: EventVersion,
    last: Mutex<LastRecord>,
    /// Others may record it without our seeing that.
    handle_is_out: AtomicBool,
}

/// What is known about the last record.
#[derive(Debug, Clone)]
enum LastRecord {
    /// There was none.
    Never,
    /// It claims this.
    Stamped(Arc<Stamp>),
    /// There may have been one, of which nothing is known: it was made elsewhere, it raced with
    /// another, or it failed.
    Unknown,
    /// It went into a capture.
    Captured(Arc<CaptureState>),
}

impl Context {
    fn event(&self, kind: EventKind) -> Result<Event, Error> {
        let raw = DriverEvent::create(&self.core().raw, kind)?;
        Ok(Event::new(self, raw, kind, LastRecord::Never))
    }

    /// A new event for order alone: the cheapest kind.
    ///
    /// # Errors
    /// The driver's answer.
    pub fn create_event(&self) -> Result<Event, Error> {
        self.event(EventKind::Plain)
    }

    /// A new event that remembers when it passed, for [`Event::elapsed_since`].
    ///
    /// # Errors
    /// The driver's answer.
    pub fn create_timing_event(&self) -> Result<Event, Error> {
        self.event(EventKind::Timing)
    }

    /// A new event that another process may open, through its raw handle.
    ///
    /// # Errors
    /// The driver's answer.
    pub fn create_interprocess_event(&self) -> Result<Event, Error> {
        self.event(EventKind::Interprocess)
    }
}

impl Event {
    fn new(context: &Context, raw: DriverEvent, kind: EventKind, last: LastRecord) -> Self {
        let inner = EventInner {
            id: context.driver().fresh_id(),
            context: context.clone(),
            raw,
            kind,
            version: EventVersion::new(),
            last: Mutex::new(last),
            handle_is_out: AtomicBool::new(false),
        };
        Self { inner: Arc::new(inner) }
    }

    /// An event recorded by somebody else, of which nothing is known (O5).
    pub(crate) fn foreign(context: &Context, raw: DriverEvent) -> Self {
        // Whether it keeps time, only the driver knows.
        Self::new(context, raw, EventKind::Timing, LastRecord::Unknown)
    }

    /// The event's context.
    #[must_use]
    pub fn context(&self) -> &Context {
        &self.inner.context
    }

    /// The driver's own handle, for other libraries.
    ///
    /// From now on, on every clone and for good, the event carries no knowledge (O5). Others may
    /// record it at any moment, also after a record made here, and nobody can tell which record a
    /// wait or an answer is about. Waits are still made on the device, and answers are the
    /// driver's: a stream that waits is ordered, but not known to be, and counts as gated. It no
    /// longer brings a stream into a capture either. For order that is known beside order for
    /// others, record a second event.
    #[must_use]
    pub fn as_raw(&self) -> cuda_sys::CUevent {
        self.inner.handle_is_out.store(true, Ordering::SeqCst);
        self.inner.raw.raw()
    }

    /// The owner of a borrowed event recorded it: nothing is known of it from now on, until it is
    /// recorded here again. Needless where [`Event::as_raw`] gave the handle out.
    pub fn forget_record(&self) {
        let record = self.inner.version.begin();
        self.inner.version.end(&record, |_| *lock(&self.inner.last) = LastRecord::Unknown);
    }

    /// Whether it was ever recorded, as far as is known here: of an event whose raw handle others
    /// have, or that was borrowed, the answer is yes. No driver call.
    #[must_use]
    pub fn is_recorded(&self) -> bool {
        self.is_handle_out() || !matches!(&*lock(&self.inner.last), LastRecord::Never)
    }

    #[track_caller]
    pub(crate) fn record_on(&self, core: &Arc<StreamCore>) -> Result<(), Error> {
        core.check_driver(self.inner.context.core().registry())?;
        let (expected, found) = (core.context().id(), self.inner.context.id());
        if expected != found {
            return Err(Error::OtherContext { expected, found });
        }
        let entered = core.enter()?;
        let adding = core.add(&entered)?;
        let turn = core.turn();
        let record = self.inner.version.begin();
        let claim = match adding.capture() {
            Some(capture) => LastRecord::Captured(Arc::clone(capture)),
            None => LastRecord::Stamped(Arc::new(core.stamp(&entered))),
        };
        let recorded = self.inner.raw.record(entered.raw());
        if let (Ok(()), Some(turn)) = (&recorded, &turn) {
            let what = What::Recorded {
                stream: core.traits().id,
                ordinal: turn.ordinal(),
                capture: adding.capture().map(|capture| capture.id()),
                record: RecordId { event: self.inner.id, version: record.number() },
                by: By::Program,
            };
            turn.tell(Some(Location::caller()), what);
        }
        self.inner.version.end(&record, |credited| {
            let credited = credited && recorded.is_ok();
            *lock(&self.inner.last) = if credited { claim.clone() } else { LastRecord::Unknown };
        });
        recorded
    }

    fn is_handle_out(&self) -> bool {
        self.inner.handle_is_out.load(Ordering::SeqCst)
    }

    /// After a call: whether it was about the record whose claim was read before it.
    fn is_credible(&self, version: Option<u64>) -> bool {
        self.inner.version.is_still(version) && !self.is_handle_out()
    }

    #[track_caller]
    pub(crate) fn wait_on(&self, core: &Arc<StreamCore>) -> Result<(), Error> {
        let place = Location::caller();
        core.check_driver(self.inner.context.core().registry())?;
        let entered = core.enter()?;
        let adding = core.add(&entered)?;
        let version = self.inner.version.quiet();
        let last = lock(&self.inner.last).clone();
        match (last, adding.capture()) {
            (LastRecord::Captured(theirs), None) if theirs.is_active() && !self.is_handle_out() => {
                drop(adding);
                core.join_capture(&entered, &theirs, |raw| {
                    self.wait_captured(core, raw, (theirs.id(), version), place)
                })
            }
            (LastRecord::Captured(theirs), Some(ours)) if Arc::ptr_eq(ours, &theirs) => {
                self.wait_captured(core, entered.raw(), (ours.id(), version), place)
            }
            (LastRecord::Captured(_), _) => Err(Error::CapturedEvent),
            (_, Some(_)) => Err(core.capturing()),
            (LastRecord::Never, None) if version.is_some() && !self.is_recorded() => {
                let (stream, event) = (core.traits().id, self.inner.id);
                core.watch().tell(Some(place), || What::NothingToWaitFor { stream, event });
                Err(Error::NeverRecorded)
            }
            (last, None) => {
                if self.may_wait_for_host(core, &last, version) {
                    core.gate_after_token(&entered, &adding, Made::ByCalls);
                }
                let on = || self.waited_for(&last, version);
                let wait = |raw: &DriverStream| raw.wait(&self.inner.raw);
                let point =
                    core.submit_wait(&entered, &adding, wait, (By::Program, on, Made::ByCalls))?;
                match last {
                    _ if !self.is_credible(version) => core.slot().gate(point.mark),
                    LastRecord::Stamped(stamp) => {
                        core.registry().learn_wait(core.me(), &stamp, point.mark, Made::ByCalls);
                    }
                    LastRecord::Never => {}
                    // Nobody knows what is waited for, so it may be the host.
                    LastRecord::Unknown | LastRecord::Captured(_) => core.slot().gate(point.mark),
                }
                Ok(())
            }
        }
    }

    /// Whether a wait for the last record, as it was read, may be one for the host, as far as can
    /// be said before.
    fn may_wait_for_host(
        &self,
        core: &StreamCore,
        last: &LastRecord,
        version: Option<u64>,
    ) -> bool {
        match last {
            LastRecord::Stamped(stamp) => {
                !self.is_credible(version) || stamp.is_gated(core.registry())
            }
            LastRecord::Never | LastRecord::Unknown | LastRecord::Captured(_) => true,
        }
    }

    /// A wait that goes into a capture.
    fn wait_captured(
        &self,
        core: &StreamCore,
        raw: &DriverStream,
        (capture, version): (u64, Option<u64>),
        place: Place,
    ) -> Result<(), Error> {
        let turn = core.turn();
        raw.wait(&self.inner.raw)?;
        if let Some(turn) = turn {
            let on = WaitedFor::Record(self.record_id(version));
            let (stream, ordinal) = (core.traits().id, turn.ordinal());
            let capture = Some(capture);
            turn.tell(Some(place), What::Waited { stream, ordinal, capture, on, by: By::Program });
        }
        Ok(())
    }

    /// The record that a call was about, if that can be said.
    fn record_id(&self, version: Option<u64>) -> RecordId {
        RecordId { event: self.inner.id, version: version.map_or(0, EventVersion::number) }
    }

    /// After a wait: what it waited for.
    fn waited_for(&self, last: &LastRecord, version: Option<u64>) -> WaitedFor {
        let event = self.inner.id;
        match last {
            _ if !self.is_credible(version) => WaitedFor::Unknown { event },
            LastRecord::Stamped(_) => WaitedFor::Record(self.record_id(version)),
            LastRecord::Never | LastRecord::Unknown | LastRecord::Captured(_) => {
                WaitedFor::Unknown { event }
            }
        }
    }

    /// Whether the last record has passed; yes if there never was one.
    ///
    /// # Errors
    /// It was recorded in a capture; or the driver's answer.
    #[track_caller]
    pub fn query(&self) -> Result<bool, Error> {
        self.ask(How::Query, DriverEvent::query, |registry, stamp| {
            registry.learn_answered(&stamp.frontier);
        })
    }

    /// Blocks until the record that is the last one now has passed.
    ///
    /// # Errors
    /// It was recorded in a capture; or the driver's answer.
    #[track_caller]
    pub fn synchronize(&self) -> Result<(), Error> {
        self.ask(
            How::Synchronization,
            |raw| raw.synchronize().map(|()| true),
            Registry::learn_synchronized,
        )?;
        self.inner.context.core().close_graves();
        Ok(())
    }

    /// Makes a call that says whether the last record has passed, and credits its claim.
    #[track_caller]
    fn ask(
        &self,
        how: How,
        call: impl FnOnce(&DriverEvent) -> Result<bool, Error>,
        learn: impl FnOnce(&Registry, &Stamp),
    ) -> Result<bool, Error> {
        let place = Some(Location::caller());
        let watch = self.inner.context.driver().watch();
        let version = self.inner.version.quiet();
        let last = lock(&self.inner.last).clone();
        if let LastRecord::Captured(_) = last {
            return Err(Error::CapturedEvent);
        }
        if how == How::Synchronization {
            watch.tell(place, || What::SynchronizationBegun { scope: self.scope(&last, version) });
        }
        let passed = call(&self.inner.raw)?;
        if passed {
            let scope = self.scope(&last, version);
            watch.tell(place, || What::Passed { scope, reached: &[], how });
        }
        if passed
            && let LastRecord::Stamped(stamp) = last
            && self.is_credible(version)
        {
            learn(self.inner.context.core().registry(), &stamp);
        }
        Ok(passed)
    }

    /// What a question is about.
    fn scope(&self, last: &LastRecord, version: Option<u64>) -> Scope {
        match self.waited_for(last, version) {
            WaitedFor::Record(record) => Scope::Record(record),
            WaitedFor::Unknown { event } => Scope::Event { event },
        }
    }

    /// The time from `start` to this event, both timing events that have passed.
    ///
    /// # Errors
    /// One of them keeps no time ([`Error::NoTiming`]), was never recorded
    /// ([`Error::NeverRecorded`]), was recorded in a capture, or has not passed
    /// ([`Error::NotReady`], which [`Event::synchronize`] on both avoids); or the driver's answer.
    pub fn elapsed_since(&self, start: &Self) -> Result<Duration, Error> {
        if [self, start].iter().any(|event| event.inner.kind != EventKind::Timing) {
            return Err(Error::NoTiming);
        }
        for event in [self, start] {
            if !event.is_recorded() {
                return Err(Error::NeverRecorded);
            }
            if let LastRecord::Captured(_) = &*lock(&event.inner.last) {
                return Err(Error::CapturedEvent);
            }
        }
        let measured = self.inner.raw.elapsed_since(&start.inner.raw);
        let is_not_ready =
            |error: &Error| matches!(error, Error::Driver(error) if error.code.is_not_ready());
        measured.map_err(|error| if is_not_ready(&error) { Error::NotReady } else { error })
    }
}
