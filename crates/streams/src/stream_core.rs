//! What every handle of one stream shares. The road a submission takes: `submit`.
//!
//! A [`StreamHandle`] owns the driver's stream; a [`StreamCore`] owns the stream's place in the
//! registry, its fences and its capture, and outlives the handle. A call that uses the driver's
//! stream goes through [`StreamCore::enter`], which keeps the handle alive for the call and is
//! refused once the stream is retired, so the stream is never destroyed under a call.
//!
//! The place in the registry goes to another stream when this one is retired and complete. A call
//! that has entered keeps it. Everything else asks by the functions of `stream_knowledge`, which
//! answer for this stream only.

use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;
use std::panic::Location;

use crate::capture::{Adding, CaptureState, Membership};
use crate::context::ContextCore;
use crate::driver::{DriverStream, HostFunction, in_host_function};
use crate::error::Error;
use crate::fence_list::FenceList;
use crate::order::{LastMark, Made, Point, Registry, STREAMS_MAX, Slot, Stamp, StreamSlot};
use crate::submission::Token;
use crate::sync::{
    Arc, AtomicU32, Mutex, OnceLock, Ordering, ThreadId, Weak, current_thread, lock, yield_now,
};
use crate::watch::Watched;

/// In `users`: the stream takes no new calls.
const RETIRED: u32 = 1 << 31;

/// Whose stream it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StreamKind {
    Owned,
    Borrowed,
    Legacy,
    PerThread(ThreadId),
}

/// What does not change about a stream.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StreamTraits {
    pub(crate) kind: StreamKind,
    pub(crate) id: u64,
    pub(crate) priority: i32,
    pub(crate) non_blocking: bool,
    pub(crate) never_wait_on: bool,
    pub(crate) announces_captures: bool,
    pub(crate) announces_gates: bool,
}

/// Owns the driver's stream; retires it when dropped.
#[derive(Debug)]
pub(crate) struct StreamHandle {
    core: Arc<StreamCore>,
    pub(crate) raw: DriverStream,
    users: AtomicU32,
}

/// What outlives the driver's stream.
pub(crate) struct StreamCore {
    context: Arc<ContextCore>,
    registry: Arc<Registry>,
    me: StreamSlot,
    slot: Arc<Slot>,
    last: LastMark,
    traits: StreamTraits,
    handle: OnceLock<Weak<StreamHandle>>,
    pub(crate) fences: FenceList,
    /// Fences that were recorded because of what the device answered.
    pub(crate) fences_apart: FenceList,
    pub(crate) membership: Membership,
    watched: Watched,
    pub(crate) last_token: Mutex<Weak<Token>>,
    host_functions: Mutex<Vec<HostFunction>>,
}

thread_local! {
    static CALL_COUNT: Cell<u32> = const { Cell::new(0) };
}

/// This thread is in a call of a stream, for which whoever retires that stream waits, or retires
/// one itself.
#[derive(Debug)]
struct Inside {
    thread: PhantomData<*const ()>,
}

impl Inside {
    fn begin() -> Self {
        CALL_COUNT.set(CALL_COUNT.get() + 1);
        Self { thread: PhantomData }
    }

    /// Whether this thread is.
    fn is_anywhere() -> bool {
        CALL_COUNT.get() != 0
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        CALL_COUNT.set(CALL_COUNT.get() - 1);
    }
}

/// A call that uses the driver's stream is under way.
#[derive(Debug)]
pub(crate) struct Entered {
    handle: Arc<StreamHandle>,
    _inside: Inside,
}

impl Entered {
    pub(crate) fn raw(&self) -> &DriverStream {
        &self.handle.raw
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        self.handle.users.fetch_sub(1, Ordering::SeqCst);
    }
}

impl StreamHandle {
    #[track_caller]
    pub(crate) fn open(
        context: &Arc<ContextCore>,
        raw: DriverStream,
        traits: StreamTraits,
    ) -> Result<Arc<Self>, Error> {
        let registry = Arc::clone(context.registry());
        let shared = traits.kind != StreamKind::Owned;
        let full = Error::TooManyStreams { limit: STREAMS_MAX };
        let me = registry.open(context.id(), shared).ok_or(full)?;
        let slot = Arc::clone(registry.shared_slot(me).expect("an opened slot never goes away"));
        let core = Arc::new(StreamCore {
            context: Arc::clone(context),
            registry,
            me,
            slot,
            last: LastMark::new(),
            traits,
            handle: OnceLock::new(),
            fences: FenceList::default(),
            fences_apart: FenceList::by_answers(),
            membership: Membership::new(),
            watched: Watched::new(),
            last_token: Mutex::default(),
            host_functions: Mutex::default(),
        });
        let handle = Arc::new(Self { core, raw, users: AtomicU32::new(0) });
        let set = handle.core.handle.set(Arc::downgrade(&handle));
        debug_assert!(set.is_ok(), "a core has one handle");
        if handle.core.watch().is_on() {
            context.add_told(&handle.core);
        }
        handle.core.tell_opened(Location::caller());
        handle.core.start_clock(&handle.raw, Location::caller());
        Ok(handle)
    }

    pub(crate) fn core(&self) -> &Arc<StreamCore> {
        &self.core
    }

    /// Ends the stream for us: no new calls, the last fence recorded (O6), the place in the
    /// registry given up (O12). Calls that other threads have under way are waited for.
    pub(crate) fn retire(&self) {
        if self.core.context.raw.is_forked() {
            return;
        }
        let before = self.users.fetch_or(RETIRED, Ordering::SeqCst);
        if before & RETIRED != 0 {
            return;
        }
        let _inside = Inside::begin();
        while self.users.load(Ordering::SeqCst) != RETIRED {
            self.core.let_others_run();
        }
        // In this order: who finds the last mark finds the last fence, and nobody reads a slot
        // that may have been opened again without finding the last mark.
        let mark = self.core.slot().retire(self.core.registry.may_hide_waits());
        self.leave_fence(mark);
        self.core.tell_retired();
        if self.core.watch().is_on() {
            self.core.context.remove_told(&self.core);
        }
        self.core.last.publish(mark);
        self.core.registry.close(self.core.me);
    }

    /// Records the last fence, if one is needed and can be, and has it asked for by others.
    fn leave_fence(&self, mark: u64) {
        let core = &self.core;
        if core.slot().is_settled(mark) {
            return;
        }
        let needed = core.fences.covering(mark).is_none();
        if needed && core.check_thread().is_ok() && !core.is_capturing_on(&self.raw) {
            // Without this fence the last points become complete by a synchronization of the
            // context only (O7).
            let _ = core.record_last_fence(&self.raw, mark);
        }
        if let Some(last) = core.fences.last()
            && !last.is_settled()
        {
            core.context.adopt_orphan(last);
        }
    }
}

impl Drop for StreamHandle {
    fn drop(&mut self) {
        if self.core.context.raw.is_forked() {
            return;
        }
        self.retire();
        if self.core.context.raw.first_error().is_some() {
            self.core.cancel_host_functions();
        }
    }
}

impl StreamCore {
    #[inline]
    pub(crate) fn context(&self) -> &Arc<ContextCore> {
        &self.context
    }

    pub(crate) fn registry(&self) -> &Arc<Registry> {
        &self.registry
    }

    #[inline]
    pub(crate) fn me(&self) -> StreamSlot {
        self.me
    }

    #[inline]
    pub(crate) fn traits(&self) -> &StreamTraits {
        &self.traits
    }

    /// What is counted for whoever watches.
    pub(crate) fn watched(&self) -> &Watched {
        &self.watched
    }

    /// The slot itself, for calls that have entered: after the stream it is another one's.
    #[inline]
    pub(crate) fn slot(&self) -> &Slot {
        &self.slot
    }

    /// The stream's last mark, once it is retired.
    #[inline]
    pub(crate) fn last(&self) -> &LastMark {
        &self.last
    }

    /// Others may submit from now on. Nothing to be said of a stream that is retired.
    #[track_caller]
    pub(crate) fn share(&self) {
        if let Ok(entered) = self.hold() {
            self.tell_handle_given_out(Location::caller());
            self.slot().share();
            drop(entered);
        }
    }

    #[inline]
    pub(crate) fn point_at(&self, mark: u64) -> Point {
        Point { stream: self.me, mark }
    }

    pub(crate) fn handle(&self) -> Option<Arc<StreamHandle>> {
        self.handle.get().and_then(Weak::upgrade)
    }

    pub(crate) fn gone(&self) -> Error {
        Error::StreamGone { stream: self.traits.id }
    }

    pub(crate) fn capturing(&self) -> Error {
        Error::Capturing { stream: self.traits.id }
    }

    /// Whether this thread may use the stream (O9).
    pub(crate) fn check_thread(&self) -> Result<(), Error> {
        match self.traits.kind {
            StreamKind::PerThread(owner) if owner != current_thread().id() => {
                Err(Error::WrongThread { stream: self.traits.id })
            }
            StreamKind::PerThread(_)
            | StreamKind::Owned
            | StreamKind::Borrowed
            | StreamKind::Legacy => Ok(()),
        }
    }

    /// Whether something stamped under `registry` means anything here.
    pub(crate) fn check_driver(&self, registry: &Arc<Registry>) -> Result<(), Error> {
        if Arc::ptr_eq(&self.registry, registry) { Ok(()) } else { Err(Error::OtherDriver) }
    }

    /// Begins a call that uses the driver's stream.
    pub(crate) fn enter(&self) -> Result<Entered, Error> {
        self.check_thread()?;
        let entered = self.hold()?;
        if let Err(error) = self.context.raw.ready() {
            drop(entered);
            let is_forked = self.context.raw.is_forked();
            if self.context.raw.first_error().is_some() && !is_forked {
                self.cancel_host_functions();
            }
            return Err(error);
        }
        Ok(entered)
    }

    /// Keeps the stream from retiring.
    fn hold(&self) -> Result<Entered, Error> {
        let handle = self.handle().ok_or_else(|| self.gone())?;
        let before = handle.users.fetch_add(1, Ordering::SeqCst);
        let entered = Entered { handle, _inside: Inside::begin() };
        if before & RETIRED != 0 { Err(self.gone()) } else { Ok(entered) }
    }

    /// Waits for a thread that is retiring the stream now: only then has that left the last fence.
    /// It waits for calls on the stream, so a thread that is in a call of any stream, or retires
    /// one, does not wait: two that do could wait for each other.
    pub(crate) fn await_last_fence(&self) {
        let is_retiring = || {
            let handle = self.handle();
            let retired = |handle: Arc<StreamHandle>| handle.users.load(Ordering::SeqCst) & RETIRED;
            self.last.get().is_none() && handle.is_none_or(|handle| retired(handle) != 0)
        };
        // In a host function, the thread that retires the stream may be this one: in the driver.
        let may_wait =
            !in_host_function() && !Inside::is_anywhere() && !self.context.raw.is_forked();
        while may_wait && is_retiring() {
            self.let_others_run();
        }
    }

    /// Must the driver be asked whether the stream captures (C4)?
    #[inline]
    fn may_hide_captures(&self) -> bool {
        self.is_shared() && !self.traits.announces_captures
    }

    fn is_capturing_on(&self, raw: &DriverStream) -> bool {
        self.membership.is_captured()
            || (self.may_hide_captures() && raw.is_capturing().unwrap_or(true))
    }

    /// Whether the stream captures; yes if that cannot be found out.
    #[inline]
    pub(crate) fn is_capturing(&self) -> bool {
        self.membership.is_captured() || (self.may_hide_captures() && self.asks_capturing())
    }

    #[cold]
    fn asks_capturing(&self) -> bool {
        match self.enter() {
            Ok(entered) => entered.raw().is_capturing().unwrap_or(true),
            Err(Error::StreamGone { .. }) => false,
            Err(_) => true,
        }
    }

    /// Refuses a call that would break a capture of the stream.
    pub(crate) fn refuse_while_capturing(&self, entered: &Entered) -> Result<(), Error> {
        if self.is_capturing_on(entered.raw()) { Err(self.capturing()) } else { Ok(()) }
    }

    /// Announces a call that adds to the stream, whether it will run or be captured by us. Refused
    /// while a capture begins or ends, and while somebody else captures.
    pub(crate) fn add(&self, entered: &Entered) -> Result<Adding<'_>, Error> {
        let adding = self.membership.add().ok_or_else(|| self.capturing())?;
        let theirs = adding.capture().is_none() && self.may_hide_captures();
        if theirs && entered.raw().is_capturing()? {
            return Err(self.capturing());
        }
        Ok(adding)
    }

    /// The same for a call that must not go into a graph.
    pub(crate) fn add_eagerly(&self, entered: &Entered) -> Result<Adding<'_>, Error> {
        let adding = self.add(entered)?;
        if adding.capture().is_some() { Err(self.capturing()) } else { Ok(adding) }
    }

    /// Takes part in `capture` by `call`, which makes the driver's stream capture.
    pub(crate) fn join_capture(
        self: &Arc<Self>,
        entered: &Entered,
        capture: &Arc<CaptureState>,
        call: impl FnOnce(&DriverStream) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let adding = self.add_eagerly(entered)?;
        self.settle_token(entered.raw(), &adding)?;
        drop(adding);
        if !self.membership.begin(capture) {
            return Err(self.capturing());
        }
        self.drain();
        let joined = match capture.add_member(self) {
            true => call(entered.raw()),
            false => Err(Error::CapturedEvent),
        };
        match &joined {
            Ok(()) => self.membership.begun(),
            Err(_) => self.membership.ended(),
        }
        joined
    }

    /// Waits until every call that adds to the stream and began before the phase changed is over.
    pub(crate) fn drain(&self) {
        while !self.membership.is_drained() {
            self.let_others_run();
        }
    }

    /// What a record by a call that has entered may claim.
    pub(crate) fn stamp(&self, _: &Entered) -> Stamp {
        self.slot().stamp(self.me, self.may_hide_gates())
    }

    /// While another thread finishes a driver call. One harmless call of our own lets a simulated
    /// driver, which runs one thread at a time, switch to it.
    pub(crate) fn let_others_run(&self) {
        yield_now();
        drop(self.context.raw.relaxed());
    }

    /// What is queued next may wait for the host: said before its call, since a record that another
    /// thread makes meanwhile may follow it.
    #[track_caller]
    pub(crate) fn gate_next(&self, entered: &Entered) {
        match self.add_eagerly(entered) {
            Ok(adding) => self.gate_after_token(entered, &adding, Made::ByCalls),
            // It will be refused, if nothing changes meanwhile.
            Err(_) => self.slot().gate(self.slot().submitted() + 1),
        }
    }

    /// The same, once a token that somebody still holds has its fence, which is not behind the
    /// gate; if that fails it gets one later. What is made apart settles no token.
    #[track_caller]
    pub(crate) fn gate_after_token(&self, entered: &Entered, adding: &Adding<'_>, made: Made) {
        if made == Made::ByCalls {
            let _may_fail = self.settle_token(entered.raw(), adding);
        }
        self.slot().gate(self.slot().submitted() + 1);
    }

    pub(crate) fn keep_host_function(&self, function: HostFunction) {
        let mut functions = lock(&self.host_functions);
        functions.retain(|function| function.is_pending());
        functions.push(function);
    }

    /// Drops what the driver will not run any more (L3).
    pub(crate) fn cancel_host_functions(&self) {
        let functions = std::mem::take(&mut *lock(&self.host_functions));
        for function in functions {
            function.cancel();
        }
    }
}

impl fmt::Debug for StreamCore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamCore")
            .field("slot", &self.me)
            .field("traits", &self.traits)
            .finish_non_exhaustive()
    }
}
