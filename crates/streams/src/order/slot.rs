//! One stream's counters and clock.

use super::{Frontier, Made, Point, Quiet, Registry, Stamp, StreamSlot};
use crate::sync::{AtomicU32, AtomicU64, Mutex, Ordering, lock};

/// The raw handle is known to others, or belongs to them.
const SHARED: u32 = 1;
/// In `submitted`: the stream takes no more work, and its last mark is the rest of the word.
const RETIRED: u64 = 1 << 63;
/// A clock longer than this drops its settled points at the next join.
const CLOCK_POINTS_MAX: usize = 8;

/// One stream's counters and clock; see the module's rules.
#[derive(Debug)]
pub(crate) struct Slot {
    /// Submissions whose driver call succeeded, plus the positions of shared streams.
    submitted: AtomicU64,
    /// The mark of the last of them that is not a wait made apart: a position that the calls of
    /// the program alone decide.
    counted: AtomicU64,
    /// Every submission up to this one is known to be done.
    complete: AtomicU64,
    /// The same, but without what only answers to questions told, where these are kept apart.
    settled: AtomicU64,
    /// Driver calls begun, and driver calls that returned: equal when none is in flight.
    started: AtomicU64,
    finished: AtomicU64,
    /// The last submission that may wait for the host.
    gated: AtomicU64,
    flags: AtomicU32,
    /// How many want no other stream here (`SlotKeeper`).
    keepers: AtomicU32,
    context: AtomicU64,
    clock: Mutex<Clock>,
}

/// The points of other streams that a stream's next operation comes after.
#[derive(Debug, Default)]
struct Clock {
    all: Frontier,
    /// The same without what only waits made apart brought; `None` while there were none.
    settled: Option<Frontier>,
}

impl Clock {
    fn settled(&self) -> &Frontier {
        self.settled.as_ref().unwrap_or(&self.all)
    }

    /// The stream was made to wait for what `stamp` claims.
    fn join(&mut self, me: StreamSlot, stamp: &Stamp, made: Made, registry: &Registry) {
        if made == Made::Apart || stamp.settled.is_some() || self.settled.is_some() {
            let settled = self.settled.get_or_insert_with(|| self.all.clone());
            if made == Made::ByCalls {
                join(settled, me, stamp.settled(), registry);
            }
        }
        join(&mut self.all, me, &stamp.frontier, registry);
    }
}

/// Adds to `clock` what is not settled.
fn join(clock: &mut Frontier, me: StreamSlot, frontier: &Frontier, registry: &Registry) {
    for point in frontier.iter() {
        if point.stream != me && !registry.is_settled(point) {
            clock.insert(point);
        }
    }
    if CLOCK_POINTS_MAX < clock.len() {
        clock.prune_settled(registry);
    }
}

impl Slot {
    pub(crate) fn new() -> Self {
        Self {
            submitted: AtomicU64::new(0),
            counted: AtomicU64::new(0),
            complete: AtomicU64::new(0),
            settled: AtomicU64::new(0),
            started: AtomicU64::new(0),
            finished: AtomicU64::new(0),
            gated: AtomicU64::new(0),
            flags: AtomicU32::new(0),
            keepers: AtomicU32::new(0),
            context: AtomicU64::new(0),
            clock: Mutex::default(),
        }
    }

    /// Gives the slot to a new stream. The counters go on; what a failed call of the old stream
    /// announced as a gate does not.
    pub(crate) fn open(&self, context: u64, shared: bool) {
        *lock(&self.clock) = Clock::default();
        self.gated.store(0, Ordering::SeqCst);
        self.context.store(context, Ordering::Release);
        self.flags.store(if shared { SHARED } else { 0 }, Ordering::SeqCst);
        self.submitted.fetch_and(!RETIRED, Ordering::SeqCst);
    }

    pub(crate) fn context(&self) -> u64 {
        self.context.load(Ordering::Acquire)
    }

    /// One more wants no other stream here.
    pub(crate) fn keep(&self) {
        self.keepers.fetch_add(1, Ordering::SeqCst);
    }

    /// One of them does not any more.
    pub(crate) fn let_go(&self) {
        self.keepers.fetch_sub(1, Ordering::SeqCst);
    }

    pub(crate) fn is_kept(&self) -> bool {
        0 < self.keepers.load(Ordering::SeqCst)
    }

    /// Someone else may submit from now on.
    pub(crate) fn share(&self) {
        self.flags.fetch_or(SHARED, Ordering::SeqCst);
    }

    #[inline]
    pub(crate) fn is_shared(&self) -> bool {
        self.flags.load(Ordering::SeqCst) & SHARED != 0
    }

    /// Nothing is submitted any more, by anyone: from now on every position is the mark this
    /// gives, so one last fence covers them all. It is a new one on a shared stream, and where it
    /// is `new_anyway`.
    pub(crate) fn retire(&self, new_anyway: bool) -> u64 {
        let step = u64::from(new_anyway || self.is_shared());
        let before = self.submitted.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |word| {
            (word & RETIRED == 0).then(|| (word + step) | RETIRED)
        });
        let last = before.map_or_else(|word| word & !RETIRED, |word| word + step);
        self.counted.fetch_max(last, Ordering::SeqCst);
        last
    }

    #[cfg(test)]
    pub(crate) fn is_retired(&self) -> bool {
        self.submitted.load(Ordering::SeqCst) & RETIRED != 0
    }

    /// The mark of "now". On a shared stream this is always a new mark (O2).
    #[inline]
    pub(crate) fn position(&self) -> u64 {
        if !self.is_shared() {
            return self.submitted();
        }
        self.new_position()
    }

    /// The mark of "now" as the calls of the program decide it: it does not cover what was made
    /// apart since the last other submission.
    #[inline]
    pub(crate) fn settled_position(&self) -> u64 {
        if self.is_shared() { self.new_position() } else { self.counted() }
    }

    #[inline]
    pub(crate) fn counted(&self) -> u64 {
        self.counted.load(Ordering::SeqCst)
    }

    #[cold]
    fn new_position(&self) -> u64 {
        let before = self.submitted.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |word| {
            (word & RETIRED == 0).then_some(word + 1)
        });
        let mark = before.map_or_else(|word| word & !RETIRED, |word| word + 1);
        self.counted.fetch_max(mark, Ordering::SeqCst);
        mark
    }

    /// The highest mark anybody can hold.
    #[inline]
    pub(crate) fn submitted(&self) -> u64 {
        self.submitted.load(Ordering::SeqCst) & !RETIRED
    }

    /// A driver call that may add work begins.
    pub(crate) fn start(&self) {
        self.started.fetch_add(1, Ordering::SeqCst);
    }

    /// The call returned; gives the mark that covers it if it `succeeded`.
    pub(crate) fn finish(&self, succeeded: bool, made: Made) -> Option<u64> {
        let mark =
            succeeded.then(|| (self.submitted.fetch_add(1, Ordering::SeqCst) & !RETIRED) + 1);
        if let Some(mark) = mark.filter(|_| made == Made::ByCalls) {
            self.counted.fetch_max(mark, Ordering::SeqCst);
        }
        self.finished.fetch_add(1, Ordering::SeqCst);
        mark
    }

    /// A witness that no submission is in flight now, to be shown to [`Slot::is_still_quiet`].
    pub(crate) fn quiet(&self) -> Option<Quiet> {
        // In this order: every call begun by the second read had returned by the first.
        let finished = self.finished.load(Ordering::SeqCst);
        let started = self.started.load(Ordering::SeqCst);
        (finished == started).then_some(Quiet(started))
    }

    /// Whether no submission began since `quiet` was taken: a record made in between covers its
    /// point and nothing more.
    pub(crate) fn is_still_quiet(&self, quiet: Quiet) -> bool {
        self.started.load(Ordering::SeqCst) == quiet.0
    }

    /// What a record that begins after this call may claim when it succeeds.
    pub(crate) fn stamp(&self, me: StreamSlot, gated_anyway: bool) -> Stamp {
        self.stamp_at(me, self.settled_position(), gated_anyway)
    }

    /// The same for a mark that was read before.
    pub(crate) fn stamp_at(&self, me: StreamSlot, mark: u64, gated_anyway: bool) -> Stamp {
        let (submitted, counted) = (self.submitted(), self.counted());
        let whole = Point { stream: me, mark: submitted.max(mark) };
        let clock = lock(&self.clock);
        let mut frontier = clock.all.clone();
        frontier.insert(whole);
        let settled = (clock.settled.is_some() || counted < whole.mark).then(|| {
            let mut settled = clock.settled().clone();
            settled.insert(Point { stream: me, mark: counted });
            settled
        });
        drop(clock);
        let point = Point { stream: me, mark };
        let gate = if gated_anyway { mark } else { self.gated.load(Ordering::Acquire) };
        let gate =
            (gated_anyway || !self.is_settled(gate)).then_some(Point { stream: me, mark: gate });
        Stamp { point, frontier, settled, gate }
    }

    /// This stream was made to wait for everything that `stamp` claims.
    pub(crate) fn join(&self, me: StreamSlot, stamp: &Stamp, made: Made, registry: &Registry) {
        lock(&self.clock).join(me, stamp, made, registry);
    }

    /// Whether the clock has all `points`, of other streams.
    pub(crate) fn clock_covers(&self, mut points: impl Iterator<Item = Point>) -> bool {
        let clock = lock(&self.clock);
        points.all(|point| clock.all.covers(point))
    }

    /// The same without what was made apart.
    pub(crate) fn settled_clock_covers(&self, mut points: impl Iterator<Item = Point>) -> bool {
        let clock = lock(&self.clock);
        points.all(|point| clock.settled().covers(point))
    }

    #[cfg(test)]
    pub(crate) fn clock_len(&self) -> usize {
        lock(&self.clock).all.len()
    }

    #[inline]
    pub(crate) fn is_complete(&self, mark: u64) -> bool {
        mark <= self.complete.load(Ordering::Acquire)
    }

    #[inline]
    pub(crate) fn is_settled(&self, mark: u64) -> bool {
        mark <= self.settled.load(Ordering::Acquire)
    }

    /// Whether anybody may hold a point that is not settled.
    pub(crate) fn has_unsettled(&self) -> bool {
        !self.is_settled(self.submitted())
    }

    pub(crate) fn learn_complete(&self, mark: u64) {
        self.complete.fetch_max(mark, Ordering::AcqRel);
    }

    pub(crate) fn learn_settled(&self, mark: u64) {
        self.learn_complete(mark);
        self.settled.fetch_max(mark, Ordering::AcqRel);
    }

    /// What was submitted up to `mark` may wait for the host.
    pub(crate) fn gate(&self, mark: u64) {
        self.gated.fetch_max(mark, Ordering::AcqRel);
    }

    pub(crate) fn is_gated(&self) -> bool {
        !self.is_settled(self.gated.load(Ordering::Acquire))
    }
}
