//! What is known about one stream, and what can be asked.

use std::fmt;
use std::panic::Location;

use crate::apart::Apart;
use crate::context::Context;
use crate::driver::DriverStream;
use crate::error::Error;
use crate::fence::Fence;
use crate::observe::{By, Place, WaitedFor, What};
use crate::order::{Frontier, Made, Point, SlotKeeper, StreamSlot};
use crate::stream::Stream;
use crate::stream_core::{StreamCore, StreamKind};
use crate::sync::Arc;

/// What is known about one stream, and what can be asked: the stream as an allocator sees it.
///
/// Clones are the same stream. It outlives the stream; then nothing new can be recorded, and what
/// was recorded can still be asked. `Send`, `Sync`.
///
/// A stream that is retired gives up its slot: when its last point is known complete, a new stream
/// may get the slot, while this is still held. Then
///
/// - this answers for its own stream only: the position stays the last one for ever, nothing is
///   gated or shared any more once that is complete, and no fence is given for a point of the new
///   stream;
/// - points stay true for both: as long as a point is not complete its slot has no other stream,
///   and once it is complete it stays so, whatever the new stream does;
/// - what it *knows* shrinks. The clock, the points of other streams that its next operation came
///   after, was kept in the slot, and there is no next operation. So a retired stream knows a point
///   only if that is complete, or its own and not past its last: both stay right for whoever comes
///   next in the slot, which begins after all of it.
#[derive(Clone)]
pub struct StreamOrder {
    core: Arc<StreamCore>,
}

impl StreamOrder {
    pub(crate) fn new(core: Arc<StreamCore>) -> Self {
        Self { core }
    }

    pub(crate) fn core(&self) -> &Arc<StreamCore> {
        &self.core
    }

    /// Whether both are of one stream as it was made or borrowed once. Equal slots do not say so,
    /// nor do equal ids: a stream that was borrowed, retired and borrowed again has its id still.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.core, &other.core)
    }

    /// The stream's place in the driver's registry; after the stream, maybe another one's.
    #[inline]
    #[must_use]
    pub fn slot(&self) -> StreamSlot {
        self.core.me()
    }

    /// Keeps the slot from every other stream for as long as the result lives, unless all slots are
    /// taken: for whoever keeps something by slots that the next stream there is not to inherit.
    #[must_use]
    pub fn keep_slot(&self) -> SlotKeeper {
        SlotKeeper::new(self.core.registry(), self.slot())
    }

    /// The driver's id for the stream, which no other stream ever has. A default stream, and any
    /// stream of a driver without ids, has one of ours, from `1 << 63` up.
    #[inline]
    #[must_use]
    pub fn id(&self) -> u64 {
        self.core.traits().id
    }

    /// The id of the stream's context.
    #[inline]
    #[must_use]
    pub fn context_id(&self) -> u64 {
        self.core.context().id()
    }

    /// Whether this is a stream of `context`. Two drivers in one process may give two contexts
    /// one id; they are still two contexts here.
    #[inline]
    #[must_use]
    pub fn is_in(&self, context: &Context) -> bool {
        Arc::ptr_eq(self.core.context(), context.core())
    }

    /// Whether this stream and `context` belong to one driver: a point of a stream of another
    /// driver means nothing there.
    #[must_use]
    pub fn shares_driver_with(&self, context: &Context) -> bool {
        Arc::ptr_eq(self.core.registry(), context.core().registry())
    }

    /// The stream's priority in the driver's numbers: the greater priority is the smaller number.
    #[must_use]
    pub fn priority(&self) -> i32 {
        self.core.traits().priority
    }

    /// The stream itself, while it lives.
    #[must_use]
    pub fn stream(&self) -> Option<Stream> {
        self.core.handle().map(Stream::from_handle)
    }

    /// The point "now". On a stream whose raw handle others have, always a new one (O2); on a
    /// retired stream always the last one.
    #[inline]
    #[must_use]
    pub fn position(&self) -> Point {
        self.core.position()
    }

    /// The point "now" as the calls of the program alone decide it. It covers all that was
    /// submitted but waits that were made apart ([`StreamOrder::apart`]) since the last other
    /// submission: enough for a use of memory, not for what rests on such a wait.
    #[inline]
    #[must_use]
    pub fn settled_position(&self) -> Point {
        self.core.settled_position()
    }

    /// The stream as somebody uses it whose decisions depend on answers of the device.
    #[inline]
    #[must_use]
    pub fn apart(&self) -> Apart<'_> {
        Apart { order: self }
    }

    /// Whether the stream's next operation is known to come after `point`. No driver call.
    ///
    /// A retired stream has no next operation, and knows what is complete, and its own points.
    #[must_use]
    pub fn knows(&self, point: Point) -> bool {
        self.core.knows(point)
    }

    /// Whether the stream's next operation is known to come after all of `frontier`. No driver
    /// call.
    #[must_use]
    pub fn knows_all(&self, frontier: &Frontier) -> bool {
        self.core.knows_all(frontier)
    }

    /// Whether everything up to `point`, on any stream, is known to be done. No driver call.
    #[inline]
    #[must_use]
    pub fn is_complete(&self, point: Point) -> bool {
        self.core.registry().is_complete(point)
    }

    /// As [`StreamOrder::knows`], but by what is settled: what the calls of the program say, the
    /// answers to questions left out where they are kept apart
    /// ([`Context::keep_answers_apart`]). No driver call.
    #[must_use]
    pub fn knows_settled(&self, point: Point) -> bool {
        self.core.knows_settled(point)
    }

    /// As [`StreamOrder::is_complete`], but by what is settled. No driver call.
    #[inline]
    #[must_use]
    pub fn is_settled(&self, point: Point) -> bool {
        self.core.registry().is_settled(point)
    }

    /// Whether others may submit to the stream: then every position is new. Not of a retired one.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        self.core.is_shared()
    }

    /// Whether the stream takes no more work.
    #[must_use]
    pub fn is_retired(&self) -> bool {
        self.core.last().get().is_some()
    }

    /// Whether the stream captures; yes also if that cannot be found out. Only a stream that
    /// others may capture is asked (C4).
    #[inline]
    #[must_use]
    pub fn is_capturing(&self) -> bool {
        self.core.is_capturing()
    }

    /// Whether work queued here may wait for the host (R5): after a host function, after waiting
    /// for a gated stream, and always where unknown raw work may be queued.
    #[must_use]
    pub fn is_gated(&self) -> bool {
        self.core.is_gated() || self.core.may_hide_gates()
    }

    /// Whether something is queued here that is known to wait for the host: a host function, a
    /// gate, or a wait for a stream that has one. A host that waited for it might wait for itself.
    #[must_use]
    pub fn is_known_gated(&self) -> bool {
        self.core.is_gated()
    }

    /// Whether an allocator may make another stream wait for this one (R5).
    #[must_use]
    pub fn may_be_waited_on(&self) -> bool {
        !self.core.traits().never_wait_on && !self.is_gated() && !self.is_capturing()
    }

    /// Whether an allocator may make another stream wait for `fence`, a fence of this stream (R5).
    /// What was recorded before a gate was closed is not behind it.
    #[must_use]
    pub fn may_be_waited_on_until(&self, fence: &Fence) -> bool {
        !self.core.traits().never_wait_on && !fence.is_gated() && !self.is_capturing()
    }

    /// Whether an allocator may make this stream wait for another one (R5, O9).
    #[must_use]
    pub fn may_wait(&self) -> bool {
        self.core.traits().kind != StreamKind::Legacy
            && !self.is_retired()
            && self.core.check_thread().is_ok()
            && !self.is_capturing()
    }

    /// A fence at the point "now".
    ///
    /// On a stream used only through us, the last fence is shared when nothing was submitted since.
    /// Only waits made apart since, and the fence is one that nobody finds later. If another thread
    /// is retiring the stream now, its last fence is waited for, as long as a driver call takes.
    ///
    /// # Errors
    /// The stream is gone, is capturing, or is the per-thread stream of another thread; or the
    /// driver's answer.
    #[track_caller]
    pub fn fence_now(&self) -> Result<Fence, Error> {
        self.living_fence_now().or_else(|error| self.last_fence_instead(error))
    }

    /// The last fence of a stream that another thread was retiring, instead of an error that says
    /// that the stream is gone.
    pub(crate) fn last_fence_instead(&self, error: Error) -> Result<Fence, Error> {
        if !matches!(error, Error::StreamGone { .. }) {
            return Err(error);
        }
        self.core.await_last_fence();
        self.core.fence_without_any_news().ok_or(error)
    }

    /// If another thread is retiring the stream now, waits until that has left its last fence, no
    /// longer than a driver call takes: until then there is neither a stream to be waited for nor
    /// that fence.
    pub fn await_last_fence(&self) {
        self.core.await_last_fence();
    }

    #[track_caller]
    fn living_fence_now(&self) -> Result<Fence, Error> {
        let shared = self.core.fence_without_news();
        let mine = |fence: &Fence| fence.frontier().point_on(self.slot());
        if let Some(fence) = &shared
            && mine(fence).is_some_and(|point| self.core.submitted() <= point.mark)
        {
            return Ok(fence.clone());
        }
        let entered = self.core.enter()?;
        let adding = self.core.add_eagerly(&entered)?;
        match shared {
            Some(shared) => self.core.record_fence_beside(entered.raw(), &adding, &shared),
            None => self.core.record_fence(entered.raw(), &adding),
        }
    }

    /// A fence that exists, covers `point`, and covers nothing submitted after it. No driver call.
    #[must_use]
    pub fn fence_exactly(&self, point: Point) -> Option<Fence> {
        self.core.fences.exactly(point)
    }

    /// A fence that exists and covers `point`, and maybe more. No driver call.
    #[must_use]
    pub fn fence_covering(&self, point: Point) -> Option<Fence> {
        (point.stream == self.slot()).then(|| self.core.fences.covering(point.mark)).flatten()
    }

    /// Learns what is done, with at most one question that is answered "not yet".
    ///
    /// Fences are asked oldest first, and after each yes twice as far ahead, up to the first no:
    /// a host that fell far behind catches up in few calls, and what the last step leaped over is
    /// found by the next poll. If no fence covers the last position, the stream is asked, and if
    /// it is busy a fence is left for the next poll. Nothing is asked when there is no news.
    ///
    /// # Errors
    /// The driver's answer, or that this is a host function.
    #[track_caller]
    pub fn poll(&self) -> Result<(), Error> {
        let mut ahead = 0;
        while self.core.has_news() {
            let Some(fence) = self.core.fence_to_ask(ahead) else { return self.poll_stream() };
            if !fence.query()? {
                break;
            }
            ahead = 2 * ahead + 1;
        }
        Ok(())
    }

    /// Asks the stream itself, where that is allowed.
    #[track_caller]
    fn poll_stream(&self) -> Result<(), Error> {
        let entered = match self.core.enter() {
            Ok(entered) => entered,
            Err(Error::StreamGone { .. } | Error::WrongThread { .. }) => return Ok(()),
            Err(error) => return Err(error),
        };
        // Announced as if it added something: a capture that begins now waits for the answer, so
        // that the question does not break it.
        let adding = match self.core.add_eagerly(&entered) {
            Ok(adding) => adding,
            Err(Error::Capturing { .. }) => return Ok(()),
            Err(error) => return Err(error),
        };
        if !self.core.query(&entered)? {
            self.core.record_fence_apart(entered.raw(), &adding)?;
        }
        Ok(())
    }

    /// Makes everything submitted here from now on wait for `fence` on the device. What is known
    /// to come before already is not waited for.
    ///
    /// # Errors
    /// The stream is gone, is capturing, is the legacy default stream, or is the per-thread stream
    /// of another thread; or the driver's answer.
    #[track_caller]
    pub fn wait_fence(&self, fence: &Fence) -> Result<(), Error> {
        if self.core.traits().kind == StreamKind::Legacy {
            return Err(Error::LegacyWait { context: self.context_id() });
        }
        self.wait_fence_for(fence, By::Library)
    }

    /// The same for a wait the user asked for, which the legacy stream takes too.
    #[track_caller]
    pub(crate) fn wait_fence_anyway(&self, fence: &Fence) -> Result<(), Error> {
        self.wait_fence_for(fence, By::Program)
    }

    #[track_caller]
    fn wait_fence_for(&self, fence: &Fence, by: By) -> Result<(), Error> {
        self.core.check_driver(fence.registry())?;
        let is_settled = self.core.knows_all_settled(fence.stamp().settled()) && !self.is_retired();
        if is_settled && self.core.knows_all(fence.frontier()) {
            self.tell_skipped(fence.recorded_on(), by, Location::caller());
            return Ok(());
        }
        // What was only made apart is still to be waited for, but is no matter of the program's.
        let made = if is_settled { Made::Apart } else { Made::ByCalls };
        self.make_wait(fence, by, made)
    }

    #[track_caller]
    pub(crate) fn make_wait(&self, fence: &Fence, by: By, made: Made) -> Result<(), Error> {
        let entered = self.core.enter()?;
        let adding = self.core.add_eagerly(&entered)?;
        if fence.is_gated() {
            self.core.gate_after_token(&entered, &adding, made);
        }
        let on = || WaitedFor::Record(fence.record_id());
        let wait = |raw: &DriverStream| raw.wait(fence.event());
        let point = self.core.submit_wait(&entered, &adding, wait, (by, on, made))?;
        self.core.registry().learn_wait(self.slot(), fence.stamp(), point.mark, made);
        Ok(())
    }

    /// Tells of a wait that was not made, because the order was known.
    pub(crate) fn tell_skipped(&self, other: u64, by: By, place: Place) {
        let stream = self.id();
        self.core.watch().tell(Some(place), || What::WaitSkipped { stream, other, by });
    }

    /// Blocks until everything up to `point`, a point of this stream, is done.
    ///
    /// The oldest fence that covers it is waited for; if there is none, one is recorded, which
    /// covers everything submitted until then.
    ///
    /// # Errors
    /// There is no such fence, and none can be recorded (see [`StreamOrder::fence_now`]), or the
    /// point is past the end of a stream that is gone; or the driver's answer.
    #[track_caller]
    pub fn synchronize_point(&self, point: Point) -> Result<(), Error> {
        if self.is_settled(point) {
            return Ok(());
        }
        self.check_end(point)?;
        let fence = match self.fence_covering(point) {
            Some(fence) => Ok(fence),
            None => self.fence_now(),
        };
        match fence {
            // It ended meanwhile, and left no fence, as all of it was over.
            Err(Error::StreamGone { .. }) if self.is_settled(point) => Ok(()),
            fence => fence?.synchronize(),
        }
    }

    /// Refuses a point past the end of a stream that is gone.
    pub(crate) fn check_end(&self, point: Point) -> Result<(), Error> {
        let is_past = self.core.last().get().is_some_and(|last| last < point.mark);
        if is_past { Err(self.core.gone()) } else { Ok(()) }
    }
}

impl fmt::Debug for StreamOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamOrder")
            .field("slot", &self.slot())
            .field("id", &self.id())
            .finish_non_exhaustive()
    }
}
