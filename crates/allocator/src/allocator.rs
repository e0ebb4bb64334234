//! The allocator: the order in which a request is served, and what it shares.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt;
use std::panic::Location;

use streams::order::StreamSlot;
use streams::{Context, Stream, StreamOrder, in_host_function};

use crate::bursts::Bursts;
use crate::bytes::{REQUEST_BYTES_MAX, round_up};
use crate::config::{Config, Sabotage};
use crate::error::{AllocError, FreeError};
use crate::family::Family;
use crate::grow::GrowthError;
use crate::handle::{Block, RawBlock};
use crate::keeper::Handles;
use crate::make::{Means, best_source};
use crate::observe::Watch;
use crate::owners::Owners;
use crate::pace::Pace;
use crate::reuse::{Request, Step, Taken};
use crate::seat::Seat;
use crate::shard::{Shard, ShardSetup};
use crate::source::Source;
use crate::stats::SharedCounters;
use crate::sync::{Arc, AtomicU64, Mutex, Ordering};
use crate::table::{ShardTable, place};
use crate::view::View;
use crate::wait::Need;

/// A caching allocator of one context's device memory.
///
/// Cheap to clone; clones share everything. `Send` and `Sync`: requests and frees may come from
/// any thread. A cached request on one stream takes one lock of that stream's own shard and makes
/// no driver call.
///
/// Blocks keep the allocator alive. When the last clone and the last block are gone, its memory
/// goes back to the device, after a synchronization of the streams that used it. What cannot be
/// waited for then, because the last to go goes in a host function, under
/// [`Driver::forbid_blocking`](streams::Driver::forbid_blocking), after a stream that left no
/// fence or while a gate or a host function that is known holds a stream, is left to the context: it goes back once it is known to be over, when another allocator
/// there grows, polls, trims or ends, or at the calls that [`Context::leave`] names, and counts in
/// [`Context::leftover_bytes`] until then. Memory that is still handed out as numbers counts there
/// for good.
#[derive(Clone)]
pub struct Allocator {
    pub(crate) inner: Arc<Inner>,
    /// Lets go of the allocator when the last clone goes.
    _handles: Arc<Handles>,
}

/// What clones and blocks share.
#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) context: Context,
    pub(crate) source: Arc<dyn Source>,
    pub(crate) config: Config,
    pub(crate) view: View,
    pub(crate) shards: ShardTable,
    /// Which of them have ever had a segment.
    pub(crate) owners: Owners,
    pub(crate) counters: Arc<SharedCounters>,
    /// Where frees left fences on the streams that had used their blocks.
    pub(crate) bursts: Bursts,
    /// What waits have cost.
    pub(crate) pace: Pace,
    /// The pools beside this one, and what they share.
    pub(crate) family: Arc<Family>,
    /// Whether it is the allocator's own pool, which ends the family with it.
    pub(crate) is_first: bool,
    pub(crate) identity: u64,
    pub(crate) setup: ShardSetup,
    pub(crate) limit: AtomicU64,
    /// The limit as the fast way reads it: 0 if every request goes the slow way, so that the
    /// fast one is left at once.
    pub(crate) quick_limit: AtomicU64,
    pub(crate) watch: Watch,
    /// What the device has.
    pub(crate) total: u64,
    pub(crate) pending_max: u64,
    /// Handles that are no clones of each other. Taken before the lock of a shard.
    pub(crate) group_count: Mutex<u64>,
    /// Held while ceilings move: taken before the lock of a shard, and no other lock beside it.
    pub(crate) settling: Mutex<()>,
    /// Every stream this allocator has met, so that a point leads back to its stream.
    pub(crate) orders: Mutex<BTreeMap<StreamSlot, StreamOrder>>,
}

impl Allocator {
    /// An allocator with the default source: VMM where the device has it, else plain memory.
    ///
    /// # Errors
    /// The device could not be asked about itself.
    pub fn new(context: &Context, config: Config) -> Result<Self, AllocError> {
        Self::build(context, config, best_source(context)?, Watch::default())
    }

    /// An allocator whose memory comes from `source`.
    ///
    /// # Errors
    /// The device could not be asked how much memory it has.
    pub fn with_source(
        context: &Context,
        config: Config,
        source: Arc<dyn Source>,
    ) -> Result<Self, AllocError> {
        Self::build(context, config, source, Watch::default())
    }

    pub(crate) fn build(
        context: &Context,
        config: Config,
        source: Arc<dyn Source>,
        watch: Watch,
    ) -> Result<Self, AllocError> {
        context.settle_leftovers();
        let total = context.device().total_bytes()?;
        let limit_max = total.min(REQUEST_BYTES_MAX);
        let family =
            Family::new(config.limit_bytes.map_or(limit_max, |limit| limit.min(limit_max)));
        let means =
            Means { context: context.clone(), source, total, watch, family: Arc::new(family) };
        let inner = Inner::new(means, config, true);
        inner.family.set_first(&inner);
        Ok(Self::of(inner))
    }

    /// A handle beside those there are.
    pub(crate) fn of(inner: Arc<Inner>) -> Self {
        let handles = Arc::new(Handles::of(&inner));
        Self { inner, _handles: handles }
    }

    /// Gives `bytes` of device memory, ready for the next operation submitted to `stream`.
    ///
    /// The block's address is a multiple of 512. Its content is undefined. Zero bytes give a
    /// block without memory, at address 0, as in PyTorch.
    ///
    /// # Errors
    /// See [`AllocError`]; nothing is kept, and the same request may be made again.
    #[inline]
    #[track_caller]
    pub fn allocate(&self, stream: &Stream, bytes: u64) -> Result<Block, AllocError> {
        if bytes == 0 {
            return Ok(Block::empty(Arc::clone(&self.inner)));
        }
        let (owner, taken) = self.inner.allocate(stream.order(), bytes, false)?;
        let shard = *self.inner.shards.get(owner).expect("the shard that served is there");
        Ok(Block::new(shard, taken, bytes))
    }

    /// As [`Allocator::allocate`], for callers that keep numbers instead of a [`Block`]: a C
    /// interface, or a container of its own. It is the cheapest way: the block does not keep the
    /// allocator alive. [`Allocator::free_raw`] frees it; [`Allocator::from_raw`] makes a block
    /// of it, which is also how its uses are recorded.
    ///
    /// # Errors
    /// As for [`Allocator::allocate`].
    #[inline]
    #[track_caller]
    pub fn allocate_raw(&self, stream: &Stream, bytes: u64) -> Result<RawBlock, AllocError> {
        if bytes == 0 {
            return Ok(RawBlock { address: 0, size: 0, token: RawBlock::EMPTY });
        }
        let (owner, taken) = self.inner.allocate(stream.order(), bytes, true)?;
        let token = RawBlock::token(self.inner.identity, owner, taken.name);
        Ok(RawBlock { address: taken.address, size: taken.size, token })
    }

    /// Frees a block that [`Allocator::allocate_raw`] or [`Block::into_raw`] gave, as a drop of
    /// the block would.
    ///
    /// # Errors
    /// The raw parts name no such block of this allocator: it was taken back or freed before, or
    /// belongs to another one. Or the block was freed but could not be fenced.
    #[inline]
    #[track_caller]
    pub fn free_raw(&self, raw: RawBlock) -> Result<(), FreeError> {
        self.inner.free_raw(&raw, Location::caller())
    }

    /// Takes a block back from the raw parts that [`Block::into_raw`] gave.
    ///
    /// # Errors
    /// The raw parts name no allocated block of this allocator: it was taken back or freed
    /// before, or belongs to another one. Or this is a fork of the allocator's process.
    pub fn from_raw(&self, raw: RawBlock) -> Result<Block, FreeError> {
        Block::from_raw(self, raw)
    }

    /// The context whose memory this is.
    #[must_use]
    pub fn context(&self) -> &Context {
        &self.inner.context
    }

    /// The settings it was made with.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.inner.config
    }

    /// The name of the source its memory comes from.
    #[must_use]
    pub fn source_name(&self) -> &'static str {
        self.inner.source.name()
    }

    /// Changes the most bytes that may be reserved, at most what the device has: by this
    /// allocator with all its pools; or, of a pool's own, by that pool alone. A limit below what is
    /// reserved now only stops growth.
    pub fn set_limit(&self, bytes: u64) {
        let limit = bytes.min(self.inner.limit_max());
        self.inner.limit.store(limit, Ordering::Relaxed);
        if self.inner.is_first {
            self.inner.family.set_limit(limit);
        }
        if !self.inner.is_slow() {
            self.inner.quick_limit.store(limit, Ordering::Relaxed);
        }
    }

    /// Waits for the uses of everything cached, then gives all of it back to the device; returns
    /// the bytes that went. Pieces that hold an allocated block stay. Uses behind a gate are waited
    /// for, too: the thread that is to open it must be another one.
    ///
    /// # Errors
    /// This is a host function, and nothing was done; or the driver's failure to take a piece; that
    /// piece is leaked and never used again.
    pub fn empty_cache(&self) -> Result<u64, AllocError> {
        self.inner.check_may_free()?;
        self.inner.synchronize_pending();
        self.inner.family.reap_and_wait();
        self.inner.context.settle_leftovers();
        self.inner.trim(u64::MAX).map_err(AllocError::Source)
    }

    /// Gives back cached memory whose uses are already complete, up to `bytes`, without waiting
    /// for anything; returns the bytes that went.
    ///
    /// # Errors
    /// This is a host function, and nothing was done; or the driver's failure to take a piece; that
    /// piece is leaked and never used again.
    pub fn trim(&self, bytes: u64) -> Result<u64, AllocError> {
        self.inner.check_may_free()?;
        self.inner.learn_by_asking();
        self.inner.reap();
        self.inner.trim(bytes).map_err(AllocError::Source)
    }
}

impl fmt::Debug for Allocator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Allocator").field("source", &self.source_name()).finish_non_exhaustive()
    }
}

impl Inner {
    /// Serves a request, cheapest step first (R4).
    #[inline]
    #[track_caller]
    fn allocate(
        &self,
        order: &StreamOrder,
        bytes: u64,
        is_raw: bool,
    ) -> Result<(StreamSlot, Taken), AllocError> {
        // Nothing is reused on a context that has failed, not even what is ready (L4).
        let failed = self.context.first_error().is_some();
        let is_over = self.quick_limit.load(Ordering::Relaxed) < bytes;
        if failed || !order.is_in(&self.context) || is_over {
            return self.allocate_watched(order, bytes, is_raw, Location::caller());
        }
        let captures = order.is_capturing();
        if !captures && let Some(taken) = self.serve_ready(order, bytes, is_raw) {
            return Ok((order.slot(), taken));
        }
        let step = Cell::new(Step::Growth);
        let request = Request::new(order, bytes, is_raw, captures, &step);
        self.serve_otherwise(&request)
    }

    /// Step 1: what the stream's own shard has ready.
    #[inline]
    pub(crate) fn serve_ready(
        &self,
        order: &StreamOrder,
        bytes: u64,
        is_raw: bool,
    ) -> Option<Taken> {
        let shard = self.shard_of(order);
        let size = round_up(bytes);
        let mut is_above = false;
        let taken = shard.with(|state| {
            if state.stream_id != order.id() && !self.adopt(state, order) {
                return None;
            }
            let taken = state.take_ready(size, (bytes, is_raw));
            is_above = state.is_above_ceiling();
            taken
        });
        if is_above {
            self.settle(shard);
        }
        taken
    }

    /// The steps after the first. A capturing stream gets complete memory only (R8).
    #[cold]
    pub(crate) fn serve_otherwise(
        &self,
        request: &Request<'_>,
    ) -> Result<(StreamSlot, Taken), AllocError> {
        let order = request.order;
        if self.reach() < request.size {
            return Err(self.refusal(order, request.requested));
        }
        let shard = self.shard_of(order);
        if !shard.with(|state| state.stream_id == order.id() || self.adopt(state, order)) {
            return Err(streams::Error::StreamGone { stream: order.id() }.into());
        }
        let (owner, taken) = self.serve_beyond_ready(shard, request)?;
        if let Some(shard) = self.shards.get(owner)
            && shard.with_uses(|state| state.is_above_ceiling())
        {
            self.settle(shard);
        }
        Ok((owner, taken))
    }

    #[cold]
    pub(crate) fn refusal(&self, order: &StreamOrder, bytes: u64) -> AllocError {
        if let Some(failure) = self.context.failure() {
            AllocError::Driver(failure)
        } else if order.is_in(&self.context) {
            AllocError::TooLarge { wanted_bytes: bytes, limit_bytes: self.reach() }
        } else {
            AllocError::ForeignStream { stream_id: order.id() }
        }
    }

    /// The first error of a context that has failed (L4), or that this is a host function.
    fn check_may_free(&self) -> Result<(), AllocError> {
        if in_host_function() {
            return Err(streams::Error::InsideHostFunction.into());
        }
        self.context.failure().map_or(Ok(()), |failure| Err(failure.into()))
    }

    /// Bytes handed out, over all shards.
    pub(crate) fn allocated_bytes(&self) -> u64 {
        self.shards.iter().map(|(_, shard)| shard.allocated_hint()).sum()
    }

    #[cold]
    fn serve_beyond_ready(
        &self,
        shard: &Shard,
        request: &Request<'_>,
    ) -> Result<(StreamSlot, Taken), AllocError> {
        self.keep_to_stock(shard, request);
        if let Some(served) = self.search(shard, request) {
            return Ok(served);
        }
        if self.config.policy.polls()
            && self.poll(request)
            && let Some(served) = self.search(shard, request)
        {
            return Ok(served);
        }
        let need = self.need_of(request.size);
        if let Some(served) = self.serve_by_wait(request, need) {
            return Ok(served);
        }
        match self.serve_by_growth(shard, request, Step::Growth) {
            Ok(taken) => Ok((request.order.slot(), taken)),
            Err(GrowthError::NoRoom) => self.climb(shard, request),
            Err(GrowthError::Failed(error)) => Err(error),
        }
    }

    /// Steps 2 and 3 over all shards, the stream's own first.
    pub(crate) fn search(
        &self,
        shard: &Shard,
        request: &Request<'_>,
    ) -> Option<(StreamSlot, Taken)> {
        let own = request.order.slot();
        if let Some(taken) = shard.with(|state| state.take_known(request)) {
            return Some((own, taken));
        }
        if !self.config.policy.crosses_streams() {
            return None;
        }
        self.owning_shards()
            .filter(|(index, shard)| {
                *index != place(own) && request.size <= shard.free_bytes_hint()
            })
            .find_map(|(_, shard)| {
                shard.with(|state| Some((state.order.slot(), state.take_known(request)?)))
            })
    }

    /// How much speaks for a wait on the device before memory grows.
    fn need_of(&self, size: u64) -> Need {
        let pending = self.counters.pending.load(Ordering::Relaxed);
        let at_bound = self.pending_max < pending.saturating_add(size) && 0 < pending;
        if at_bound { Need::AtBound } else { Need::BelowBound }
    }

    /// The most bytes that may be reserved now.
    #[inline]
    pub(crate) fn limit(&self) -> u64 {
        self.limit.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn shard_of(&self, order: &StreamOrder) -> &Seat {
        match self.shards.get(order.slot()) {
            Some(shard) => shard,
            None => self.first_shard_of(order),
        }
    }

    #[cold]
    fn first_shard_of(&self, order: &StreamOrder) -> &Seat {
        self.meet(order);
        self.shards.get_or_make(order, &self.setup)
    }

    /// A number that no other allocator of this process has.
    pub(crate) fn identity(&self) -> u64 {
        self.identity
    }

    /// Whether this check has been taken out, to show that a test can fail.
    pub(crate) fn is_sabotaged(&self, sabotage: Sabotage) -> bool {
        cfg!(feature = "sabotage") && self.config.sabotage == Some(sabotage)
    }

    /// A drop met an error that it could not return.
    pub(crate) fn count_drop_error(&self) {
        self.counters.drop_errors.fetch_add(1, Ordering::Relaxed);
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.end();
    }
}
