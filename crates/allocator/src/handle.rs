//! What a caller holds: a block, its uses, and holds on it.
//!
//! Dropping a block is a stream-ordered free: work already queued on its home stream may still
//! use it, and so may every stream that was recorded. Nothing here blocks or panics; an error
//! that a drop meets is counted in the statistics, and the block then stays unused.

use std::fmt;
use std::panic::Location;

use streams::StreamOrder;
use streams::observe::Place;
use streams::order::Point;
use streams::{Context, Stream};

use crate::allocator::{Allocator, Inner};
use crate::block::{BlockName, BlockRecord, UseRecord};
use crate::error::{AllocError, FreeError};
use crate::keeper::Keeper;
use crate::observe::{UseKind, What};
use crate::release::BlockKey;
use crate::reuse::Taken;
use crate::uses::{Named, sharpen};

/// A range of device memory that belongs to its holder until it is dropped.
///
/// `Send` and `Sync`: it may be freed on any thread, whatever stream it was made for. Work on
/// streams other than its home is announced with [`Block::record_stream`] or
/// [`Block::record_use`]; without that, the block may be reused while they still run.
#[must_use = "a block that is not kept is freed at once"]
pub struct Block {
    keeper: Keeper,
    /// `None` for a block of zero bytes.
    key: Option<BlockKey>,
    address: u64,
    size: u64,
    requested: u64,
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
    pub(crate) fn token(identity: u64, key: BlockKey) -> [u64; 2] {
        let place = identity << 32 | u64::from(key.owner.index());
        [place, key.name.0]
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
    pub(crate) fn new(keeper: Keeper, key: BlockKey, taken: Taken, requested: u64) -> Self {
        Self { keeper, key: Some(key), address: taken.address, size: taken.size, requested }
    }

    pub(crate) fn empty(keeper: Keeper) -> Self {
        Self { keeper, key: None, address: 0, size: 0, requested: 0 }
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

    #[inline]
    pub(crate) fn inner(&self) -> &Inner {
        &self.keeper.inner
    }

    /// Its name; `None` for a block of zero bytes.
    pub(crate) fn key(&self) -> Option<BlockKey> {
        self.key
    }

    /// The context whose memory this is.
    pub(crate) fn context(&self) -> &Context {
        &self.inner().context
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
        if let Some(key) = self.key
            && let Some(shard) = self.inner().shards.get(key.owner)
        {
            let (block, address, place) = (key.name.index(), self.address, Location::caller());
            let named = Named { block, address, place };
            // The handle is there, so the block is.
            self.inner().note_whole(shard, named, stream.order(), |_| true);
        }
    }

    /// Says that work queued on `stream` up to now uses the block: it will not be reused before
    /// that is done, whatever is queued there later. Called after the work was submitted. No
    /// driver call.
    #[track_caller]
    pub fn record_use(&self, stream: &Stream) -> Use {
        let point = stream.order().settled_position();
        self.with_use(stream.order(), |used| sharpen(used, point));
        self.tell_use(stream.order(), UseKind::UntilNow, Location::caller());
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
        self.with_use(stream.order(), |used| used.open_count += 1);
        self.tell_use(stream.order(), UseKind::Begun, Location::caller());
        Ok(OpenUse { block: self, order: stream.order().clone() })
    }

    /// Checks that work on `stream` can use the block, and its use be counted: the stream is one of
    /// the block's own context.
    ///
    /// # Errors
    /// It is one of another context or driver.
    pub fn check_stream(&self, stream: &Stream) -> Result<(), streams::Error> {
        let context = self.context();
        if stream.order().is_in(context) {
            return Ok(());
        }
        if !stream.order().shares_driver_with(context) {
            return Err(streams::Error::OtherDriver);
        }
        let (expected, found) = (context.id(), stream.order().context_id());
        Err(streams::Error::OtherContext { expected, found })
    }

    /// Makes `stream` the home: the block is ready for the next operation there, and freed in its
    /// order. It waits, on the device, for what the old home was given until now, which makes no
    /// driver call where that is known to come before.
    ///
    /// # Errors
    /// The stream is one of another context or driver, or retired; the old home captures, or is
    /// gone without a fence; or the driver's answer. Nothing is changed then.
    #[track_caller]
    pub fn move_to(&mut self, stream: &Stream) -> Result<(), AllocError> {
        let order = stream.order();
        if !order.is_in(self.context()) {
            return Err(AllocError::ForeignStream { stream_id: order.id() });
        }
        check_takes_work(stream)?;
        let Some((key, shard)) =
            self.key.and_then(|key| Some((key, self.inner().shards.get(key.owner)?)))
        else {
            return Ok(());
        };
        self.inner().meet(order);
        let home = shard.with(|state| {
            let home = state.arena.at_mut(key.name.index()).home;
            // The home may be a stream that has ended, and this the next one in its slot.
            if home == state.slot && home == order.slot() && state.stream_id != order.id() {
                self.inner().adopt(state, order);
            }
            home
        });
        if home == order.slot() {
            return Ok(());
        }
        let known = self.inner().order_of(home);
        let old = known.ok_or(AllocError::ForeignStream { stream_id: order.id() })?;
        let point = self.inner().view.home_position(&old);
        // What the device was seen to have done is no reason to leave out a wait that later
        // decisions rest on (R9).
        let is_settled = order.knows_settled(old.settled_position());
        if !is_settled || !self.inner().view.knows(order, point) {
            wait_for(stream, &old, point)?;
        }
        shard.with(|state| state.arena.at_mut(key.name.index()).home = order.slot());
        // The old home is a stream like any other now. What it was given is kept in mind, although
        // the new home comes after it: the free asks what is known.
        self.with_use(&old, |used| sharpen(used, point));
        let (place, address, stream) = (Location::caller(), self.address, order.id());
        self.inner().tell(Some(place), || What::Moved { address, stream });
        Ok(())
    }

    /// Keeps the block from being reused, beyond its free, until the hold is dropped.
    #[must_use = "a hold that is not kept holds nothing"]
    #[track_caller]
    pub fn hold(&self) -> Hold {
        self.with_record(self.key, |record| record.hold_count += 1);
        if self.key.is_some() {
            let (place, address) = (Location::caller(), self.address);
            self.inner().tell(Some(place), || What::Held { address });
        }
        Hold { keeper: Keeper::clone(&self.keeper), key: self.key }
    }

    /// Frees the block, as a drop does, and says what went wrong.
    ///
    /// # Errors
    /// A fence could not be recorded; the block stays unused until its streams are synchronised.
    #[track_caller]
    pub fn free(mut self) -> Result<(), FreeError> {
        match self.key.take() {
            Some(key) => self.inner().free(key, self.address, Some(Location::caller())),
            None => Ok(()),
        }
    }

    /// Turns the block into numbers; it stays allocated until [`crate::Allocator::from_raw`]
    /// takes it back. The allocator itself must be kept alive by the caller.
    #[must_use = "a raw block that is lost is never freed"]
    pub fn into_raw(mut self) -> RawBlock {
        let key = self.key.take();
        self.with_record(key, |record| record.is_raw = true);
        let token =
            key.map_or(RawBlock::EMPTY, |key| RawBlock::token(self.inner().identity(), key));
        RawBlock { address: self.address, size: self.size, token }
    }

    pub(crate) fn from_raw(allocator: &Allocator, raw: RawBlock) -> Result<Self, FreeError> {
        let Allocator { inner, keepers } = allocator;
        let address = raw.address;
        if raw.is_empty() {
            return Ok(Self::empty(keepers.keep(inner, 0)));
        }
        let (slot, name) = raw.names(inner.identity())?;
        let missing = FreeError::NotAllocated { address };
        let Some(shard) = inner.shards.at(slot) else { return Err(missing) };
        let found = shard.with(|state| {
            let owner = state.order.slot();
            let same = state.has_raw(name, address);
            let record = state.arena.get_mut(name.index())?;
            // The raw parts work once.
            record.is_raw = record.is_raw && !same;
            same.then_some((owner, record.size, record.requested))
        });
        let (owner, size, requested) = found.ok_or(missing)?;
        let key = Some(BlockKey { owner, name });
        let keeper = keepers.keep(inner, slot);
        Ok(Self { keeper, key, address, size, requested })
    }

    pub(crate) fn with_use(&self, order: &StreamOrder, change: impl FnOnce(&mut UseRecord)) {
        let Some(key) = self.key else { return };
        let Some(shard) = self.inner().shards.get(key.owner) else { return };
        shard.with_uses(|state| self.inner().note_use(state, key.name.index(), order, change));
    }

    pub(crate) fn tell_use(&self, order: &StreamOrder, kind: UseKind, place: Place) {
        if self.key.is_some() {
            let (address, stream) = (self.address, order.id());
            self.inner().tell(Some(place), || What::Used { address, stream, kind });
        }
    }

    fn with_record(&self, key: Option<BlockKey>, change: impl FnOnce(&mut BlockRecord)) {
        let Some(key) = key else { return };
        if let Some(shard) = self.inner().shards.get(key.owner) {
            shard.with(|state| change(state.arena.at_mut(key.name.index())));
        }
    }
}

/// Makes `stream` come after `point` of `other`, on the device.
#[track_caller]
fn wait_for(stream: &Stream, other: &StreamOrder, point: Point) -> Result<(), streams::Error> {
    if other.is_capturing() {
        return Err(streams::Error::Capturing { stream: other.id() });
    }
    match (other.stream(), other.fence_covering(point)) {
        (Some(other), _) => stream.wait_stream(&other),
        (None, Some(fence)) => stream.order().wait_fence(&fence),
        (None, None) => Err(streams::Error::StreamGone { stream: other.id() }),
    }
}

/// Refuses what is for a stream's next operation where there will be none.
pub(crate) fn check_takes_work(stream: &Stream) -> Result<(), streams::Error> {
    let gone = || streams::Error::StreamGone { stream: stream.id() };
    if stream.order().is_retired() { Err(gone()) } else { Ok(()) }
}

impl Drop for Block {
    #[inline]
    fn drop(&mut self) {
        if let Some(key) = self.key
            && self.inner().free(key, self.address, None).is_err()
        {
            self.inner().count_drop_error();
        }
    }
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
        self.block.with_use(&self.order, |used| {
            used.open_count = used.open_count.saturating_sub(1);
            sharpen(used, point);
        });
        self.block.tell_use(&self.order, UseKind::Submitted, Location::caller());
        Use { order: self.order, point }
    }

    /// Says that the submission failed: there is no use.
    #[track_caller]
    pub fn cancel(self) {
        self.block.with_use(&self.order, |used| {
            used.open_count = used.open_count.saturating_sub(1);
        });
        self.block.tell_use(&self.order, UseKind::Cancelled, Location::caller());
    }
}

/// Keeps a block from being reused until it is dropped (R1).
#[derive(Debug)]
pub struct Hold {
    keeper: Keeper,
    key: Option<BlockKey>,
}

impl Drop for Hold {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            self.keeper.inner.end_hold(key);
        }
    }
}
