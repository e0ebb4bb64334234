//! Contexts: where streams, events and memory are made.

use std::collections::HashMap;

use crate::device::{Device, Driver};
use crate::driver::{DriverContext, DriverStream, Generation, Special};
use crate::error::{DriverError, Error};
use crate::event_pool::EventPool;
use crate::fence::{Fence, FenceTimer};
use crate::graph::Grave;
use crate::known_streams::KnownStreams;
use crate::leftovers::Leftovers;
use crate::observe::Reached;
use crate::order::Registry;
use crate::stream::{PerThreadStream, Stream, StreamOptions};
use crate::stream_core::{StreamCore, StreamHandle, StreamKind, StreamTraits};
use crate::sync::{Arc, AtomicBool, AtomicUsize, Mutex, Ordering, Weak, current_thread, lock};
use crate::timekeeper::Timekeeper;

/// A context: where streams, events and memory are made. Clones are the same context.
///
/// It lives until the last thing made in it is gone. `Send`, `Sync`; no call leaves it current.
#[derive(Debug, Clone)]
pub struct Context {
    core: Arc<ContextCore>,
    /// The context's own, where it is found without a look at the context.
    generation: Generation,
}

/// What streams, events and memory of a context share.
#[derive(Debug)]
pub(crate) struct ContextCore {
    pub(crate) raw: Arc<DriverContext>,
    device: Device,
    id: u64,
    pub(crate) pool: Arc<EventPool>,
    pub(crate) times: Timekeeper,
    streams: Mutex<KnownStreams>,
    /// Captures that were begun through us and have not ended.
    pub(crate) captures: AtomicUsize,
    synchronous: AtomicBool,
    /// The streams that an observer was told of, and not of their end; none without an observer.
    told: Mutex<HashMap<u64, Weak<StreamCore>>>,
    /// Fences of streams that are gone, so that their slots can be used again.
    pub(crate) orphans: Mutex<Vec<Fence>>,
    /// Memory that nobody has any more.
    pub(crate) leftovers: Leftovers,
    /// What destroyed graphs still hold.
    pub(crate) graves: Mutex<Vec<Grave>>,
}

/// Fences of streams that are gone, or of destroyed graphs, that are asked at one time.
pub(crate) const ORPHANS_ASKED_MAX: usize = 8;

impl ContextCore {
    fn new(driver: &Driver, raw: DriverContext, id: u64) -> Self {
        let raw = Arc::new(raw);
        Self {
            device: Device::of(driver, &raw),
            id,
            pool: Arc::new(EventPool::new(Arc::clone(&raw))),
            times: Timekeeper::default(),
            raw,
            streams: Mutex::default(),
            captures: AtomicUsize::new(0),
            synchronous: AtomicBool::new(false),
            told: Mutex::default(),
            orphans: Mutex::default(),
            leftovers: Leftovers::default(),
            graves: Mutex::default(),
        }
    }

    #[inline]
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    pub(crate) fn driver(&self) -> &Driver {
        self.device.driver()
    }

    pub(crate) fn registry(&self) -> &Arc<Registry> {
        self.driver().registry()
    }

    pub(crate) fn is_synchronous(&self) -> bool {
        self.synchronous.load(Ordering::Relaxed)
    }

    /// Keeps the last fence of a stream that is gone until it has passed.
    pub(crate) fn adopt_orphan(&self, fence: Fence) {
        lock(&self.orphans).push(fence);
    }

    /// Asks a bounded number of fences that nobody else asks, and lets go of what is done.
    pub(crate) fn sweep(&self) -> Result<(), Error> {
        lock(&self.streams).forget_gone_now_and_then();
        self.settle_leftovers();
        let asked: Vec<Fence> = lock(&self.orphans)
            .iter()
            .filter(|fence| !fence.is_known_complete())
            .take(ORPHANS_ASKED_MAX)
            .cloned()
            .collect();
        for fence in asked {
            fence.query()?;
        }
        // Where answers are kept apart, when its event can be used again must not depend on them.
        let (over, open) =
            std::mem::take(&mut *lock(&self.orphans)).into_iter().partition(Fence::is_settled);
        lock(&self.orphans).extend::<Vec<Fence>>(open);
        // Without the lock: their events go back.
        drop::<Vec<Fence>>(over);
        let fences: Vec<Fence> = lock(&self.graves)
            .iter()
            .filter_map(|grave| grave.first_open_fence().cloned())
            .take(ORPHANS_ASKED_MAX)
            .collect();
        for fence in fences {
            fence.query()?;
        }
        self.close_graves();
        Ok(())
    }

    /// Refuses when a capture of this context is known, or found on a stream that others use.
    pub(crate) fn refuse_while_capturing(&self) -> Result<(), Error> {
        let refused = Error::ContextCapturing { context: self.id };
        if 0 < self.captures.load(Ordering::SeqCst) {
            return Err(refused);
        }
        for handle in self.living_streams() {
            if handle.core().is_capturing() {
                return Err(refused);
            }
        }
        Ok(())
    }

    pub(crate) fn living_streams(&self) -> Vec<Arc<StreamHandle>> {
        lock(&self.streams).living()
    }

    /// An observer is about to be told of a stream.
    pub(crate) fn add_told(&self, stream: &Arc<StreamCore>) {
        lock(&self.told).insert(stream.traits().id, Arc::downgrade(stream));
    }

    /// An observer was told that a stream is retired.
    pub(crate) fn remove_told(&self, stream: &StreamCore) {
        let mut told = lock(&self.told);
        let id = stream.traits().id;
        // One that was borrowed may have been borrowed again.
        if told.get(&id).is_some_and(|known| std::ptr::eq(known.as_ptr(), stream)) {
            told.remove(&id);
        }
    }

    /// How far each stream is of which an observer does not know that it is retired: those of
    /// other threads too, and those that are being retired and no longer found among the living.
    pub(crate) fn reached_streams(&self) -> Vec<Reached> {
        let told: Vec<_> = lock(&self.told).values().filter_map(Weak::upgrade).collect();
        told.iter().map(|core| core.reached()).collect()
    }
}

impl Drop for ContextCore {
    fn drop(&mut self) {
        if self.raw.is_forked() {
            return;
        }
        // Nothing that lives can find these out any more, so one last question is asked, and what
        // is still in use is leaked rather than freed under a running graph (C3).
        let _ = self.sweep();
        let open = std::mem::take(&mut *lock(&self.graves));
        if !open.is_empty() {
            Box::leak(Box::new(open));
        }
        let orphans = std::mem::take(&mut *lock(&self.orphans));
        self.end_leftovers(orphans);
    }
}

impl Context {
    /// Tells the observer of every operation that has ended and of which it was not told, if it
    /// wants times ([`crate::observe::Observer::wants_times`]); does not wait for any.
    pub fn tell_times(&self) {
        let watch = self.driver().watch();
        for stream in self.core.times.streams() {
            self.core.times.tell_ended(stream, usize::MAX, &mut |what| watch.tell(None, || what));
        }
        self.core.times.forget_gone();
    }

    pub(crate) fn from_core(core: Arc<ContextCore>) -> Self {
        let generation = core.raw.generation();
        Self { core, generation }
    }

    pub(crate) fn core(&self) -> &Arc<ContextCore> {
        &self.core
    }

    pub(crate) fn primary(device: &Device) -> Result<Self, Error> {
        let driver = device.driver();
        let raw = DriverContext::retain(driver.calls(), device.handle())?;
        Self::adopt(driver, raw, true)
    }

    /// The open context that `raw` is, or a new one; identity is the driver's id (O8).
    pub(crate) fn adopt(driver: &Driver, raw: DriverContext, owned: bool) -> Result<Self, Error> {
        let id = match raw.id() {
            Ok(id) => id,
            // A driver without ids: the handle of a primary context stays the same while it is
            // retained, and ours is retained for as long as it is known here.
            Err(Error::MissingEntryPoint(_)) if owned => {
                let known = driver.contexts();
                let same = known.iter().find(|context| context.core.raw.raw() == raw.raw());
                same.map_or_else(|| driver.fresh_id(), Self::id)
            }
            Err(error) => return Err(error),
        };
        Ok(driver.adopt(id, || ContextCore::new(driver, raw, id)))
    }

    /// The driver's id for this context, which no other context ever has.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.core.id
    }

    /// The context's device.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.core.device
    }

    /// The driver.
    #[must_use]
    pub fn driver(&self) -> &Driver {
        self.core.driver()
    }

    /// The driver's own handle, for other libraries.
    #[must_use]
    pub fn as_raw(&self) -> cuda_sys::CUcontext {
        self.core.raw.raw()
    }

    /// The error from which the context does not recover, if it has had one (L4).
    #[inline]
    #[must_use]
    pub fn first_error(&self) -> Option<DriverError> {
        self.core.raw.first_error()
    }

    /// Why no call can be made in this context any more, if that is so: it has failed, or this
    /// process was forked after the driver was started ([`Error::Forked`]). No driver call.
    #[must_use]
    pub fn failure(&self) -> Option<Error> {
        if self.is_forked() { Some(Error::Forked) } else { self.first_error().map(Error::from) }
    }

    /// Whether this process is a fork of the one that started the driver. Then nothing that came
    /// from there is of use, a drop of it does nothing, and no driver call is made.
    #[inline]
    #[must_use]
    pub fn is_forked(&self) -> bool {
        self.generation.is_past()
    }

    /// Of which process it is, for those who keep that apart from the context.
    #[doc(hidden)]
    #[must_use]
    pub fn generation(&self) -> Generation {
        self.generation
    }

    /// Whether a guard of [`Driver::forbid_blocking`] lives. No driver call.
    #[must_use]
    pub fn is_blocking_forbidden(&self) -> bool {
        self.core.raw.is_blocking_forbidden()
    }

    /// How many errors only a destructor saw.
    #[must_use]
    pub fn silent_errors(&self) -> u64 {
        self.core.raw.silent_errors()
    }

    /// How many calls of the driver were made for this context, those of destructors left out.
    #[must_use]
    pub fn driver_calls(&self) -> u64 {
        self.core.raw.call_count()
    }

    /// Free and total bytes of the device. First gives back what was left to the context and is
    /// over ([`Context::leave`]).
    ///
    /// # Errors
    /// The driver's answer.
    pub fn memory_info(&self) -> Result<(u64, u64), Error> {
        self.core.settle_leftovers();
        self.core.raw.memory_info()
    }

    /// The least and the greatest stream priority; the greater priority is the smaller number.
    ///
    /// # Errors
    /// The driver's answer.
    pub fn priority_range(&self) -> Result<(i32, i32), Error> {
        self.core.raw.priority_range()
    }

    /// Debug mode: when on, every operation submitted from now on is complete before its call
    /// returns, so that a fault that goes away names a missing edge.
    pub fn set_synchronous(&self, synchronous: bool) {
        self.core.synchronous.store(synchronous, Ordering::Relaxed);
    }

    /// While the result lives, the fences that this context's streams record remember when they
    /// passed, for [`Fence::time_since`]. Such a record takes the device a microsecond or two,
    /// where another takes nothing.
    #[must_use = "fences keep time only as long as it lives"]
    pub fn time_fences(&self) -> FenceTimer {
        self.core.pool.start_timer();
        FenceTimer { pool: Arc::clone(&self.core.pool) }
    }

    /// Events that wait in the pool to be used by a fence.
    #[must_use]
    pub fn pooled_events(&self) -> usize {
        self.core.pool.free_count()
    }

    /// A new stream.
    ///
    /// # Errors
    /// The device has no such priority ([`Error::PriorityOutOfRange`]); the driver's answer, or
    /// that too many streams are alive.
    #[track_caller]
    pub fn create_stream(&self, options: StreamOptions) -> Result<Stream, Error> {
        self.core.sweep()?;
        let raw = DriverStream::create(&self.core.raw, options.non_blocking, options.priority)?;
        // The driver clamps in silence.
        let (priority, effective) = (options.priority, raw.priority()?);
        if priority != effective {
            drop(raw);
            let (least, greatest) = self.priority_range()?;
            return Err(Error::PriorityOutOfRange { priority, least, greatest });
        }
        let id = match raw.id() {
            Ok(id) => id,
            Err(Error::MissingEntryPoint(_)) => self.driver().fresh_id(),
            Err(error) => return Err(error),
        };
        let traits = StreamTraits {
            kind: StreamKind::Owned,
            id,
            priority,
            non_blocking: options.non_blocking,
            never_wait_on: options.never_wait_on,
            announces_captures: false,
            announces_gates: false,
        };
        let stream = StreamHandle::open(&self.core, raw, traits)?;
        lock(&self.core.streams).by_id.insert(id, Arc::downgrade(&stream));
        Ok(Stream::from_handle(stream))
    }

    /// The legacy default stream of this context.
    ///
    /// # Errors
    /// The driver's answer.
    #[track_caller]
    pub fn legacy_stream(&self) -> Result<Stream, Error> {
        if let Some(open) = lock(&self.core.streams).legacy.upgrade() {
            return Ok(Stream::from_handle(open));
        }
        let raw = DriverStream::special(&self.core.raw, Special::Legacy);
        let opened = StreamHandle::open(&self.core, raw, self.default_traits(StreamKind::Legacy))?;
        let mut streams = lock(&self.core.streams);
        let (stream, spare) = first_opened(streams.legacy.upgrade(), opened);
        streams.legacy = Arc::downgrade(&stream);
        drop(streams);
        drop(spare);
        Ok(Stream::from_handle(stream))
    }

    /// The per-thread default stream of this context and the calling thread.
    ///
    /// # Errors
    /// The driver's answer.
    #[track_caller]
    pub fn per_thread_stream(&self) -> Result<PerThreadStream, Error> {
        let thread = current_thread().id();
        let open = lock(&self.core.streams).per_thread.get(&thread).and_then(Weak::upgrade);
        if let Some(open) = open {
            return Ok(PerThreadStream::new(Stream::from_handle(open)));
        }
        let raw = DriverStream::special(&self.core.raw, Special::PerThread);
        let traits = self.default_traits(StreamKind::PerThread(thread));
        let stream = StreamHandle::open(&self.core, raw, traits)?;
        lock(&self.core.streams).per_thread.insert(thread, Arc::downgrade(&stream));
        Ok(PerThreadStream::new(Stream::from_handle(stream)))
    }

    fn default_traits(&self, kind: StreamKind) -> StreamTraits {
        StreamTraits {
            kind,
            id: self.driver().fresh_id(),
            priority: 0,
            non_blocking: false,
            never_wait_on: false,
            announces_captures: false,
            announces_gates: false,
        }
    }

    /// Takes a foreign stream under `traits`, or gives the one with this id that is open.
    #[track_caller]
    pub(crate) fn adopt_stream(
        &self,
        raw: DriverStream,
        traits: StreamTraits,
    ) -> Result<Stream, Error> {
        let id = traits.id;
        let open = lock(&self.core.streams).by_id.get(&id).and_then(Weak::upgrade);
        if let Some(open) = open {
            // Whoever holds the raw handle may submit.
            open.core().share();
            return Ok(Stream::from_handle(open));
        }
        let opened = StreamHandle::open(&self.core, raw, traits)?;
        let mut streams = lock(&self.core.streams);
        let known = streams.by_id.get(&id).and_then(Weak::upgrade);
        let (stream, spare) = first_opened(known, opened);
        streams.by_id.insert(id, Arc::downgrade(&stream));
        drop(streams);
        drop(spare);
        Ok(Stream::from_handle(stream))
    }
}

/// The one another thread opened meanwhile, if it did, and what is then left over: that is dropped
/// by the caller when no lock is held.
fn first_opened(
    known: Option<Arc<StreamHandle>>,
    opened: Arc<StreamHandle>,
) -> (Arc<StreamHandle>, Option<Arc<StreamHandle>>) {
    match known {
        Some(known) => (known, Some(opened)),
        None => (opened, None),
    }
}
