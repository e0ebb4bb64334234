//! Every stream of one driver, living or gone, and what is known about each.

use super::{Frontier, Made, Point, Slot, Stamp, StreamSlot};
use crate::sync::{Arc, AtomicBool, AtomicU32, Mutex, OnceLock, Ordering, lock};

const CHUNK: usize = 64;
const CHUNKS: usize = 1024;
/// Streams that may be alive or not yet complete at one time.
pub(crate) const STREAMS_MAX: u32 = 65_536;
const _: () = assert!(CHUNK * CHUNKS == 65_536);

type Chunk = Box<[Arc<Slot>]>;

/// Every stream of one driver, living or gone, and what is known about each.
///
/// Reading takes no lock: slots live in chunks that are made once and never move. A stream's slot
/// is used again when the stream is retired and its last point is settled, whether or not its
/// [`StreamOrder`](crate::StreamOrder) is still held, so memory is bounded by the streams that
/// live at one time.
#[derive(Debug)]
pub struct Registry {
    chunks: Box<[OnceLock<Chunk>]>,
    /// Slots ever opened.
    opened: AtomicU32,
    free: Mutex<FreeSlots>,
    /// Answers to questions settle nothing.
    keeps_answers_apart: AtomicBool,
    /// Somebody may make waits that depend on answers.
    has_waits_apart: AtomicBool,
}

#[derive(Debug, Default)]
struct FreeSlots {
    ready: Vec<StreamSlot>,
    /// Gone, but not yet settled.
    draining: Vec<StreamSlot>,
}

impl Registry {
    pub(crate) fn new() -> Self {
        Self {
            chunks: (0..CHUNKS).map(|_| OnceLock::new()).collect(),
            opened: AtomicU32::new(0),
            free: Mutex::default(),
            keeps_answers_apart: AtomicBool::new(false),
            has_waits_apart: AtomicBool::new(false),
        }
    }

    /// From now on, what only the answer to a question told is not settled (R9).
    pub(crate) fn keep_answers_apart(&self) {
        self.keeps_answers_apart.store(true, Ordering::SeqCst);
    }

    #[inline]
    pub(crate) fn keeps_answers(&self) -> bool {
        self.keeps_answers_apart.load(Ordering::SeqCst)
    }

    /// Who makes waits that depend on answers is there from now on.
    pub(crate) fn expect_waits_apart(&self) {
        self.has_waits_apart.store(true, Ordering::SeqCst);
    }

    /// Whether a stream may have more on it than the calls of the program say.
    pub(crate) fn may_hide_waits(&self) -> bool {
        self.keeps_answers() && self.has_waits_apart.load(Ordering::SeqCst)
    }

    /// What a submission counts as whose making depends on answers.
    pub(crate) fn made_by_answers(&self) -> Made {
        if self.keeps_answers() { Made::Apart } else { Made::ByCalls }
    }

    /// A slot for a new stream of `context`, or `None` when all are taken.
    pub(crate) fn open(&self, context: u64, shared: bool) -> Option<StreamSlot> {
        let settled = |slot: &Slot| !slot.has_unsettled() && !slot.is_kept();
        let done = |slot: &Slot| slot.is_complete(slot.submitted());
        let taken = self.take_free(settled).or_else(|| self.append());
        // Rather than refuse, a slot is taken that was only seen to be done, or is kept.
        let me = taken.or_else(|| self.take_free(done))?;
        self.slot(me)?.open(context, shared);
        Some(me)
    }

    /// The stream is retired: its last mark is published, and nobody can get a later point of it.
    pub(crate) fn close(&self, me: StreamSlot) {
        lock(&self.free).draining.push(me);
    }

    fn take_free(&self, is_over: impl Fn(&Slot) -> bool) -> Option<StreamSlot> {
        let mut free = lock(&self.free);
        while let Some(me) = free.ready.pop() {
            // Somebody may have come to keep it.
            if self.slot(me).is_some_and(&is_over) {
                return Some(me);
            }
            free.draining.push(me);
        }
        let draining = std::mem::take(&mut free.draining);
        let (done, still) =
            draining.into_iter().partition(|&me| self.slot(me).is_some_and(&is_over));
        free.ready = done;
        free.draining = still;
        free.ready.pop()
    }

    fn append(&self) -> Option<StreamSlot> {
        let index = self
            .opened
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |opened| {
                (opened < STREAMS_MAX).then(|| opened + 1)
            })
            .ok()?;
        let (chunk, _) = place(StreamSlot::new(index))?;
        self.chunks.get(chunk)?.get_or_init(|| (0..CHUNK).map(|_| Arc::new(Slot::new())).collect());
        Some(StreamSlot::new(index))
    }

    pub(crate) fn slot(&self, me: StreamSlot) -> Option<&Slot> {
        self.shared_slot(me).map(Arc::as_ref)
    }

    /// The slot itself, for those who look at one all the time.
    pub(crate) fn shared_slot(&self, me: StreamSlot) -> Option<&Arc<Slot>> {
        let (chunk, offset) = place(me)?;
        self.chunks.get(chunk)?.get()?.get(offset)
    }

    /// Whether everything up to `point` is known to be done. Makes no driver call.
    #[must_use]
    pub fn is_complete(&self, point: Point) -> bool {
        self.slot(point.stream).is_some_and(|slot| slot.is_complete(point.mark))
    }

    /// Whether everything up to `point` is known to be done by what the calls of the program say,
    /// answers to questions left out where they are kept apart. Makes no driver call.
    #[must_use]
    pub fn is_settled(&self, point: Point) -> bool {
        self.slot(point.stream).is_some_and(|slot| slot.is_settled(point.mark))
    }

    /// Whether the next operation on `stream` is known to come after `point`.
    #[must_use]
    pub fn knows(&self, stream: StreamSlot, point: Point) -> bool {
        let covers = |slot: &Slot| slot.clock_covers(std::iter::once(point));
        point.stream == stream || self.is_complete(point) || self.slot(stream).is_some_and(covers)
    }

    /// The same by what is settled.
    #[must_use]
    pub fn knows_settled(&self, stream: StreamSlot, point: Point) -> bool {
        let covers = |slot: &Slot| slot.settled_clock_covers(std::iter::once(point));
        point.stream == stream || self.is_settled(point) || self.slot(stream).is_some_and(covers)
    }

    /// Whether the next operation on `stream` is known to come after all of `frontier`.
    #[must_use]
    pub fn knows_all(&self, stream: StreamSlot, frontier: &Frontier) -> bool {
        let mut open = open(stream, frontier, |point| self.is_complete(point));
        open.peek().is_none() || self.slot(stream).is_some_and(|slot| slot.clock_covers(open))
    }

    /// The same by what is settled.
    #[must_use]
    pub fn knows_all_settled(&self, stream: StreamSlot, frontier: &Frontier) -> bool {
        let mut open = open(stream, frontier, |point| self.is_settled(point));
        open.peek().is_none()
            || self.slot(stream).is_some_and(|slot| slot.settled_clock_covers(open))
    }

    /// A query that began after the frontier was stamped said yes.
    pub(crate) fn learn_answered(&self, frontier: &Frontier) {
        let apart = self.keeps_answers();
        self.learn(frontier, if apart { Slot::learn_complete } else { Slot::learn_settled });
    }

    /// A synchronization that began after the stamp was read has returned.
    pub(crate) fn learn_synchronized(&self, stamp: &Stamp) {
        self.learn(stamp.settled(), Slot::learn_settled);
        self.learn(&stamp.frontier, Slot::learn_complete);
    }

    /// A synchronization with a whole context that began after `positions` were read has returned.
    pub(crate) fn learn_context_synchronized(&self, positions: &Frontier) {
        self.learn(positions, Slot::learn_settled);
    }

    fn learn(&self, frontier: &Frontier, learn: impl Fn(&Slot, u64)) {
        for point in frontier.iter() {
            if let Some(slot) = self.slot(point.stream) {
                learn(slot, point.mark);
            }
        }
    }

    /// `stream` was made to wait for an event with `stamp`, by a call that succeeded.
    pub(crate) fn learn_wait(&self, stream: StreamSlot, stamp: &Stamp, waited: u64, made: Made) {
        if let Some(slot) = self.slot(stream) {
            slot.join(stream, stamp, made, self);
            let open = stamp.settled().iter().any(|point| !self.is_settled(point));
            if open && stamp.is_gated(self) {
                slot.gate(waited);
            }
        }
    }

    /// Where every stream of `context` stands: what a synchronization that begins now covers.
    pub(crate) fn positions_in(&self, context: u64) -> Frontier {
        (0..self.opened.load(Ordering::Acquire))
            .map(StreamSlot::new)
            .filter_map(|me| Some((me, self.slot(me)?)))
            .filter_map(|(me, slot)| {
                // In this order: if the slot gets another stream in between, the mark is one of
                // the stream before, which is complete, whatever its context was.
                let mark = slot.submitted();
                (slot.context() == context).then_some(Point { stream: me, mark })
            })
            .collect()
    }
}

/// While it lives, no other stream gets the slot, unless all are taken: for somebody who keeps by
/// slots what the next stream there is not to inherit.
#[derive(Debug)]
pub struct SlotKeeper {
    registry: Arc<Registry>,
    me: StreamSlot,
}

impl SlotKeeper {
    pub(crate) fn new(registry: &Arc<Registry>, me: StreamSlot) -> Self {
        if let Some(slot) = registry.slot(me) {
            slot.keep();
        }
        Self { registry: Arc::clone(registry), me }
    }
}

impl Drop for SlotKeeper {
    fn drop(&mut self) {
        if let Some(slot) = self.registry.slot(self.me) {
            slot.let_go();
        }
    }
}

/// The points of other streams that are not over.
fn open(
    stream: StreamSlot,
    frontier: &Frontier,
    is_over: impl Fn(Point) -> bool,
) -> std::iter::Peekable<impl Iterator<Item = Point>> {
    frontier.iter().filter(move |point| point.stream != stream && !is_over(*point)).peekable()
}

fn place(me: StreamSlot) -> Option<(usize, usize)> {
    let index = usize::try_from(me.index()).ok()?;
    Some((index / CHUNK, index % CHUNK))
}

#[cfg(test)]
mod tests;
