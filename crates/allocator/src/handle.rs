//! What a caller holds: a block, its uses, and holds on it.
//!
//! Dropping a block is a stream-ordered free: work already queued on its home stream may still
//! use it, and so may every stream that was recorded. Nothing here blocks or panics; an error
//! that a drop meets is counted in the statistics, and the block then stays unused.

use std::fmt;
use std::mem::ManuallyDrop;
use std::panic::Location;

use streams::StreamOrder;
use streams::observe::Place;
use streams::order::{Point, StreamSlot};
use streams::{Context, Stream};

use crate::allocator::{Allocator, Inner};
use crate::block::{BlockName, UseRecord};
use crate::error::{AllocError, FreeError};
use crate::observe::{UseKind, What};
use crate::reuse::Taken;
use crate::seat::Seat;
use crate::shard::Shard;
use crate::sync::Arc;
use crate::uses::{Named, sharpen};

/// A range of device memory that belongs to its holder until it is dropped.
///
/// `Send` and `Sync`: it may be freed on any thread, whatever stream it was made for. Work on
/// streams other than its home is announced with [`Block::record_stream`] or
/// [`Block::record_use`]; without that, the block may be reused while they still run.
#[must_use = "a block that is not kept is freed at once"]
// In this order, because a move reads two pairs of words and then one. A word of a pair that was
// written by itself a moment ago is waited for; the last word is not, and a free needs it first.
#[repr(C)]
pub struct Block {
    address: u64,
    size: u64,
    requested: u64,
    kept: Kept,
}

/// What a block keeps, and by what it keeps the allocator.
enum Kept {
    /// Memory, and the allocator through its shard.
    Memory(Owned),
    /// A block of zero bytes has no shard.
    Nothing(Arc<Inner>),
}

/// A block by its name in its shard, which is freed when this is dropped.
#[repr(C)]
struct Owned {
    name: BlockName,
    shard: Seat,
}

const _: () = assert!(size_of::<Block>() == 40, "a block is five words, its shard the last");

impl Drop for Owned {
    #[inline]
    fn drop(&mut self) {
        self.shard.free_dropped(self.name);
    }
}

/// A block's parts, for carrying it through code that knows only numbers. See
/// [`Block::into_raw`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RawBlock {
    /// The device address.
    pub address: u64,
    /// The size in bytes, after rounding.
    pub size: u64,
    /// Names the block inside its allocator.
    pub token: [u64; 2],
}

impl RawBlock {
    /// The token of a block of zero bytes.
    pub(crate) const EMPTY: [u64; 2] = [u64::MAX; 2];

    #[inline]
    pub(crate) fn token(identity: u64, owner: StreamSlot, name: BlockName) -> [u64; 2] {
        let place = identity << 32 | u64::from(owner.index());
        [place, name.0]
    }

    /// Whether these are the parts of a block of zero bytes.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.token == Self::EMPTY && self.address == 0
    }

    /// The slot and the name of the block, if it belongs to this allocator.
    #[inline]
    pub(crate) fn names(&self, identity: u64) -> Result<(usize, BlockName), FreeError> {
        let [place, name] = self.token;
        if place >> 32 != identity {
            return Err(FreeError::Foreign { address: self.address });
        }
        let slot = usize::try_from(place & u64::from(u32::MAX)).unwrap_or(usize::MAX);
        Ok((slot, BlockName(name)))
    }
}

impl Block {
    #[inline]
    pub(crate) fn new(shard: Seat, taken: Taken, requested: u64) -> Self {
        let kept = Kept::Memory(Owned { shard, name: taken.name });
        Self { kept, address: taken.address, size: taken.size, requested }
    }

    pub(crate) fn empty(allocator: Arc<Inner>) -> Self {
        Self { kept: Kept::Nothing(allocator), address: 0, size: 0, requested: 0 }
    }

    /// The device address; 0 for a block of zero bytes.
    #[inline]
    #[must_use]
    pub fn address(&self) -> u64 {
        self.address
    }

    /// The usable bytes: what was asked for, rounded up to 512.
    #[inline]
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Its allocator. Takes the shard's lock.
    pub(crate) fn inner(&self) -> Arc<Inner> {
        match &self.kept {
            Kept::Memory(owned) => owned.shard.kept(),
            Kept::Nothing(allocator) => Arc::clone(allocator),
        }
    }

    /// Its shard, and its name there; `None` for a block of zero bytes.
    #[inline]
    pub(crate) fn place(&self) -> Option<(&Shard, BlockName)> {
        match &self.kept {
            Kept::Memory(owned) => Some((&owned.shard, owned.name)),
            Kept::Nothing(_) => None,
        }
    }

    /// The bytes that were asked for.
    #[must_use]
    pub fn requested(&self) -> u64 {
        self.requested
    }

    /// Says that `stream` uses the block: it will not be reused before everything queued on that
    /// stream at the time of the free is done. As in PyTorch, the call may come before the use,
    /// and a call for the home stream changes nothing. No driver call. A block that a stream of
    /// another driver used is never reused.
    #[inline]
    #[track_caller]
    pub fn record_stream(&self, stream: &Stream) {
        let Some((shard, name)) = self.place() else { return };
        // A fork has no use of it, and the lock may be held for ever there.
        if !shard.is_forked() && !shard.note_regular(name.index(), stream.order()) {
            self.record_otherwise(stream.order(), Location::caller());
        }
    }

    /// Says that work queued on `stream` up to now uses the block: it will not be reused before
    /// that is done, whatever is queued there later. Called after the work was submitted. No
    /// driver call.
    #[track_caller]
    pub fn record_use(&self, stream: &Stream) -> Use {
        let point = stream.order().settled_position();
        let kind = UseKind::UntilNow;
        self.note_use(stream.order(), kind, Location::caller(), |used| sharpen(used, point));
        Use { order: stream.order().clone(), point }
    }

    /// Says that work about to be submitted to `stream` uses the block. Until
    /// [`OpenUse::sharpen`] is called the use counts as the whole stream, also when the returned
    /// guard is forgotten (O13). No driver call.
    ///
    /// # Errors
    /// The stream is retired, and takes no more work.
    #[track_caller]
    pub fn begin_use(&self, stream: &Stream) -> Result<OpenUse<'_>, streams::Error> {
        check_takes_work(stream)?;
        let kind = UseKind::Begun;
        self.note_use(stream.order(), kind, Location::caller(), |used| used.open_count += 1);
        Ok(OpenUse { block: self, order: stream.order().clone() })
    }

    /// Checks that work on `stream` can use the block, and its use be counted: the stream is one of
    /// the block's own context.
    ///
    /// # Errors
    /// It is one of another context or driver.
    pub fn check_stream(&self, stream: &Stream) -> Result<(), streams::Error> {
        match &self.kept {
            Kept::Memory(owned) if owned.shard.is_forked() => Err(streams::Error::Forked),
            Kept::Memory(owned) => {
                owned.shard.with_uses(|state| check_context(&state.context, stream))
            }
            Kept::Nothing(allocator) => check_context(&allocator.context, stream),
        }
    }

    /// Makes `stream` the home: the block is ready for the next operation there, and freed in its
    /// order. It waits, on the device, for what the old home was given until now, which makes no
    /// driver call where that is known to come before.
    ///
    /// # Errors
    /// The stream is one of another context or driver, or retired; the old home captures, or is
    /// gone without a fence; this is a fork of the block's process; or the driver's answer. Nothing
    /// is changed then.
    #[track_caller]
    pub fn move_to(&mut self, stream: &Stream) -> Result<(), AllocError> {
        self.check_process()?;
        let (order, inner) = (stream.order(), self.inner());
        if !order.is_in(&inner.context) {
            return Err(AllocError::ForeignStream { stream_id: order.id() });
        }
        check_takes_work(stream)?;
        let Some((shard, name)) = self.place() else { return Ok(()) };
        inner.meet(order);
        let home = shard.with(|state| {
            let home = state.arena.at_mut(name.index()).home;
            // The home may be a stream that has ended, and this the next one in its slot.
            if home == state.slot && home == order.slot() && state.stream_id != order.id() {
                state.adopt(order);
            }
            home
        });
        if home == order.slot() {
            return Ok(());
        }
        let known = inner.order_of(home);
        let old = known.ok_or(AllocError::ForeignStream { stream_id: order.id() })?;
        let point = inner.view.home_position(&old);
        // What the device was seen to have done is no reason to leave out a wait that later
        // decisions rest on (R9).
        let is_settled = order.knows_settled(old.settled_position());
        if !is_settled || !inner.view.knows(order, point) {
            wait_for(stream, &old, point)?;
        }
        shard.with(|state| {
            state.return_lent(home);
            state.lend(order);
            state.arena.at_mut(name.index()).home = order.slot();
        });
        // The old home is a stream like any other now. What it was given is kept in mind, although
        // the new home comes after it: the free asks what is known.
        let _watched = shard.note_use(name.index(), &old, |used| sharpen(used, point));
        let (place, address, stream) = (Location::caller(), self.address, order.id());
        inner.tell(Some(place), || What::Moved { address, stream });
        Ok(())
    }

    /// Refuses a fork of the block's process: a lock that another thread of the parent held is held
    /// there for ever.
    pub(crate) fn check_process(&self) -> Result<(), streams::Error> {
        let is_forked = match &self.kept {
            Kept::Memory(owned) => owned.shard.is_forked(),
            Kept::Nothing(allocator) => allocator.context.is_forked(),
        };
        if is_forked { Err(streams::Error::Forked) } else { Ok(()) }
    }

    /// Keeps the block from being reused, beyond its free, until the hold is dropped. In a fork of
    /// the block's process nothing is held.
    #[must_use = "a hold that is not kept holds nothing"]
    #[track_caller]
    pub fn hold(&self) -> Hold {
        let (memory, allocator) = match &self.kept {
            Kept::Memory(owned) if owned.shard.is_forked() => (None, None),
            Kept::Memory(Owned { shard, name }) => {
                let watched = shard.with(|state| {
                    state.arena.at_mut(name.index()).hold_count += 1;
                    state.keep();
                    state.watched()
                });
                let (place, address) = (Location::caller(), self.address);
                if let Some(watched) = watched {
                    watched.tell(Some(place), || What::Held { address });
                }
                (Some((*shard, *name)), None)
            }
            Kept::Nothing(allocator) => (None, Some(Arc::clone(allocator))),
        };
        Hold { memory, _allocator: allocator }
    }

    /// Frees the block, as a drop does, and says what went wrong.
    ///
    /// # Errors
    /// A fence could not be recorded; the block stays unused until its streams are synchronized.
    #[track_caller]
    pub fn free(self) -> Result<(), FreeError> {
        let Self { kept, address, .. } = self;
        let Kept::Memory(owned) = kept else { return Ok(()) };
        let Owned { shard, name } = *ManuallyDrop::new(owned);
        shard.free(name, address, Location::caller())
    }

    /// Turns the block into numbers; it stays allocated until [`crate::Allocator::from_raw`]
    /// takes it back. The allocator itself must be kept alive by the caller. In a fork of the
    /// block's process the numbers name no block.
    #[must_use = "a raw block that is lost is never freed"]
    pub fn into_raw(self) -> RawBlock {
        let Self { kept, address, size, .. } = self;
        let Kept::Memory(owned) = kept else {
            return RawBlock { address, size, token: RawBlock::EMPTY };
        };
        let Owned { shard, name } = *ManuallyDrop::new(owned);
        if shard.is_forked() {
            return RawBlock { address, size, token: RawBlock::EMPTY };
        }
        let (token, last) = shard.with(|state| {
            let record = state.arena.at_mut(name.index());
            record.handle = record.handle.raw();
            let token = RawBlock::token(state.kept().identity(), state.slot, name);
            (token, state.let_go())
        });
        // Without the lock: it may end the allocator.
        drop(last);
        RawBlock { address, size, token }
    }

    pub(crate) fn from_raw(allocator: &Allocator, raw: RawBlock) -> Result<Self, FreeError> {
        let inner = &allocator.inner;
        let address = raw.address;
        if raw.is_empty() {
            return Ok(Self::empty(Arc::clone(inner)));
        }
        if inner.context.is_forked() {
            return Err(FreeError::Forked { address });
        }
        let (slot, name) = raw.names(inner.identity())?;
        let missing = FreeError::NotAllocated { address };
        let Some(shard) = inner.shards.at(slot) else { return Err(missing) };
        let found = shard.with(|state| {
            if !state.has_raw(name, address) {
                return None;
            }
            // The raw parts work once.
            let record = state.arena.get_mut(name.index())?;
            record.handle = record.handle.block();
            let sizes = (record.size, record.requested);
            state.keep();
            Some(sizes)
        });
        let (size, requested) = found.ok_or(missing)?;
        let kept = Kept::Memory(Owned { shard: *shard, name });
        Ok(Self { kept, address, size, requested })
    }

    /// Says that a stream uses the block until its free where one bit does not say it.
    #[cold]
    fn record_otherwise(&self, order: &StreamOrder, place: Place) {
        let Some((shard, name)) = self.place() else { return };
        let named = Named { block: name.index(), address: self.address, place };
        // The handle is there, so the block is.
        shard.kept().note_whole(shard, named, order, |_| true);
    }

    /// Changes what is noted of the use by one stream, and tells it.
    pub(crate) fn note_use(
        &self,
        order: &StreamOrder,
        kind: UseKind,
        place: Place,
        change: impl Fn(&mut UseRecord),
    ) {
        let Some((shard, name)) = self.place() else { return };
        if let Some(watched) = shard.note_use(name.index(), order, change) {
            let (address, stream) = (self.address, order.id());
            watched.tell(Some(place), || What::Used { address, stream, kind });
        }
    }
}

/// Refuses a stream of another context, or of another driver.
fn check_context(context: &Context, stream: &Stream) -> Result<(), streams::Error> {
    if stream.order().is_in(context) {
        return Ok(());
    }
    if !stream.order().shares_driver_with(context) {
        return Err(streams::Error::OtherDriver);
    }
    let (expected, found) = (context.id(), stream.order().context_id());
    Err(streams::Error::OtherContext { expected, found })
}

/// Makes `stream` come after `point` of `other`, on the device.
#[track_caller]
fn wait_for(stream: &Stream, other: &StreamOrder, point: Point) -> Result<(), streams::Error> {
    if other.is_capturing() {
        return Err(streams::Error::Capturing { stream: other.id() });
    }
    if let Some(other) = other.stream() {
        return stream.wait_stream(&other);
    }
    other.await_last_fence();
    let gone = streams::Error::StreamGone { stream: other.id() };
    stream.order().wait_fence(&other.fence_covering(point).ok_or(gone)?)
}

/// Refuses what is for a stream's next operation where there will be none.
pub(crate) fn check_takes_work(stream: &Stream) -> Result<(), streams::Error> {
    let gone = || streams::Error::StreamGone { stream: stream.id() };
    if stream.order().is_retired() { Err(gone()) } else { Ok(()) }
}

impl fmt::Debug for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Block")
            .field("address", &format_args!("{:#x}", self.address))
            .field("size", &self.size)
            .finish_non_exhaustive()
    }
}

/// An exact use: the work queued on one stream up to the time it was recorded.
#[derive(Debug, Clone)]
pub struct Use {
    order: StreamOrder,
    point: Point,
}

impl Use {
    /// Up to where the stream must come for the use to be over.
    #[must_use]
    pub fn point(&self) -> Point {
        self.point
    }

    /// Whether the use is known to be over. No driver call.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.order.is_complete(self.point)
    }
}

/// A use that was announced before its work was submitted.
#[must_use = "an open use counts as the whole stream until it is sharpened"]
#[derive(Debug)]
pub struct OpenUse<'block> {
    block: &'block Block,
    order: StreamOrder,
}

impl OpenUse<'_> {
    /// Says that the work has been submitted: the use ends with what is queued there now.
    #[track_caller]
    pub fn sharpen(self) -> Use {
        let point = self.order.settled_position();
        let (kind, place) = (UseKind::Submitted, Location::caller());
        self.block.note_use(&self.order, kind, place, |used| {
            used.open_count = used.open_count.saturating_sub(1);
            sharpen(used, point);
        });
        Use { order: self.order, point }
    }

    /// Says that the submission failed: there is no use.
    #[track_caller]
    pub fn cancel(self) {
        let (kind, place) = (UseKind::Cancelled, Location::caller());
        self.block.note_use(&self.order, kind, place, |used| {
            used.open_count = used.open_count.saturating_sub(1);
        });
    }
}

/// Keeps a block from being reused until it is dropped (R1).
#[derive(Debug)]
pub struct Hold {
    memory: Option<(Seat, BlockName)>,
    /// What keeps the allocator where there is no memory.
    _allocator: Option<Arc<Inner>>,
}

impl Drop for Hold {
    fn drop(&mut self) {
        if let Some((shard, name)) = self.memory {
            shard.end_hold(name);
        }
    }
}

#[cfg(all(test, unix, not(loom)))]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that panics has failed")]
mod forked;
