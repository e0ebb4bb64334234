//! One stream's share of the allocator: its segments, its blocks, its free lists.
//!
//! A shard owns the segments that were opened for its stream, with everything about them: block
//! records, neighbours, free lists, watches. One lock guards it all, no other lock is taken while
//! it is held, and it is never held across a driver call (L1). A block lent to another stream
//! stays in the shard that owns its segment.
//!
//! Shards are numbered by stream slot. A slot is recycled only when everything its old stream did
//! or waited for is complete, so the next stream in it inherits the cache as its own.

use std::collections::BTreeMap;

use streams::order::StreamSlot;
use streams::{Context, Generation, StreamOrder};

use crate::allocator::Inner;
use crate::arena::Arena;
use crate::block::{BlockIndex, Spare, State};
use crate::ceilings::Levels;
use crate::config::Sabotage;
use crate::free_list::FreeList;
use crate::lent::Lent;
use crate::limbo::Limbo;
use crate::lock::Lock;
use crate::recent::Recent;
use crate::regulars::Regulars;
use crate::source::{Piece, PoolKind, Region};
use crate::stats::{ShardCounters, SharedCounters, Stats};
use crate::stock::Stock;
use crate::sync::{Arc, AtomicU64, Ordering, Weak};
use crate::view::View;

/// The lists of free blocks of one pool kind.
#[derive(Debug)]
pub(crate) struct Pool {
    /// What the shard's stream may use at once.
    pub(crate) ready: FreeList,
    /// What still waits for uses on other streams.
    pub(crate) pending: FreeList,
}

impl Pool {
    fn new() -> Self {
        Self { ready: FreeList::new(), pending: FreeList::new() }
    }

    /// All free bytes.
    pub(crate) fn free_bytes(&self) -> u64 {
        self.ready.bytes + self.pending.bytes
    }
}

/// A region and what is committed into it.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) region: Arc<dyn Region>,
    /// The block at the region's base.
    pub(crate) first: BlockIndex,
    /// Committed pieces by offset.
    pub(crate) pieces: BTreeMap<u64, CommittedPiece>,
}

/// One committed piece.
#[derive(Debug)]
pub(crate) struct CommittedPiece {
    pub(crate) bytes: u64,
    pub(crate) memory: Box<dyn Piece>,
}

/// What a shard's lock guards.
#[derive(Debug)]
pub(crate) struct ShardState {
    pub(crate) order: StreamOrder,
    /// The stream's id, beside the lock where every request compares it.
    pub(crate) stream_id: u64,
    /// The stream's slot, which is the shard's number.
    pub(crate) slot: StreamSlot,
    /// How many keep the allocator through this shard.
    pub(crate) keeper_count: u64,
    /// The allocator, while it has keepers here.
    pub(crate) kept: Option<Arc<Inner>>,
    has_watch: bool,
    pub(crate) context: Context,
    pub(crate) arena: Arena,
    pub(crate) small: Pool,
    pub(crate) large: Pool,
    pub(crate) segments: Vec<Option<Segment>>,
    /// The blocks without memory, by segment and address.
    pub(crate) unmapped: BTreeMap<(u32, u64), BlockIndex>,
    pub(crate) limbo: Limbo,
    pub(crate) recent: Recent,
    pub(crate) regulars: Regulars,
    pub(crate) lent: Lent,
    pub(crate) spare: Spare,
    pub(crate) freed_count: u64,
    /// Bytes in blocks of this shard that are handed out.
    pub(crate) allocated: u64,
    /// Bytes in blocks of this shard that were freed and are kept by a hold.
    pub(crate) held: u64,
    /// Bytes of this shard that are pending, those kept by a hold among them.
    pub(crate) pending: u64,
    /// How much may be pending before the stream waits for what costs nothing.
    pub(crate) stock: Stock,
    /// The levels up to which no peak is passed (`ceilings`).
    pub(crate) ceilings: Levels,
    /// How many bytes may be handed out without a ceiling being passed.
    pub(crate) allocated_max: u64,
    pub(crate) counters: ShardCounters,
    pub(crate) shared: Arc<SharedCounters>,
    pub(crate) view: View,
    sabotage: Option<Sabotage>,
}

/// What every shard of an allocator is made with.
#[derive(Debug)]
pub(crate) struct ShardSetup {
    /// The allocator, which has handles whenever a shard is made.
    pub(crate) allocator: Weak<Inner>,
    pub(crate) context: Context,
    pub(crate) is_watched: bool,
    pub(crate) shared: Arc<SharedCounters>,
    pub(crate) view: View,
    pub(crate) sabotage: Option<Sabotage>,
}

impl ShardState {
    /// Whether somebody is to be told of what happens; never in a build that
    /// `cargo xtask observers` makes to count what this question costs.
    #[inline]
    pub(crate) fn is_watched(&self) -> bool {
        !cfg!(wellspring_unobserved) && self.has_watch
    }

    pub(crate) fn new(order: StreamOrder, setup: &ShardSetup) -> Self {
        Self {
            // The handles.
            keeper_count: 1,
            kept: setup.allocator.upgrade(),
            has_watch: setup.is_watched,
            context: setup.context.clone(),
            stream_id: order.id(),
            slot: order.slot(),
            order,
            arena: Arena::default(),
            small: Pool::new(),
            large: Pool::new(),
            segments: Vec::new(),
            unmapped: BTreeMap::new(),
            limbo: Limbo::default(),
            recent: Recent::default(),
            regulars: Regulars::default(),
            lent: Lent::default(),
            spare: Spare::default(),
            freed_count: 0,
            allocated: 0,
            held: 0,
            pending: 0,
            stock: Stock::default(),
            ceilings: Levels::default(),
            allocated_max: 0,
            counters: ShardCounters::default(),
            shared: Arc::clone(&setup.shared),
            view: setup.view,
            sabotage: setup.sabotage,
        }
    }

    /// Whether this check has been taken out, to show that a test can fail.
    #[inline]
    pub(crate) fn is_sabotaged(&self, sabotage: Sabotage) -> bool {
        cfg!(feature = "sabotage") && self.sabotage == Some(sabotage)
    }

    /// The lists of one kind.
    #[inline]
    pub(crate) fn pool(&self, kind: PoolKind) -> &Pool {
        match kind {
            PoolKind::Small => &self.small,
            PoolKind::Large => &self.large,
        }
    }

    /// The lists and the arena they link, together.
    #[inline]
    pub(crate) fn pool_and_arena(&mut self, kind: PoolKind) -> (&mut Pool, &mut Arena) {
        match kind {
            PoolKind::Small => (&mut self.small, &mut self.arena),
            PoolKind::Large => (&mut self.large, &mut self.arena),
        }
    }

    /// The segment a block lies in.
    pub(crate) fn segment_of(&self, block: BlockIndex) -> &Segment {
        let index = usize::try_from(self.arena.at(block).segment).unwrap_or(usize::MAX);
        let segment = self.segments.get(index).and_then(Option::as_ref);
        segment.expect("a block's segment lives as long as its blocks")
    }

    /// The segment a block lies in, to change.
    pub(crate) fn segment_of_mut(&mut self, block: BlockIndex) -> &mut Segment {
        let index = usize::try_from(self.arena.at(block).segment).unwrap_or(usize::MAX);
        let segment = self.segments.get_mut(index).and_then(Option::as_mut);
        segment.expect("a block's segment lives as long as its blocks")
    }

    /// The kind of the pool a block belongs to.
    #[inline]
    pub(crate) fn kind_of(&self, block: BlockIndex) -> PoolKind {
        self.arena.at(block).kind
    }

    /// Takes a free block out of its list and marks it `next`.
    #[inline]
    pub(crate) fn take_out(&mut self, block: BlockIndex, next: State) {
        let kind = self.kind_of(block);
        let state = self.arena.at(block).state;
        if state == State::Pending {
            self.limbo.forget(&mut self.arena, block);
            self.unpend(self.arena.at(block).size);
        }
        let (pool, arena) = self.pool_and_arena(kind);
        let list = if state == State::Ready { &mut pool.ready } else { &mut pool.pending };
        list.remove(arena, block);
        arena.at_mut(block).set_state(next);
    }

    /// Puts a block into the list its frontier says, without looking at its neighbours.
    #[inline]
    pub(crate) fn put_in(&mut self, block: BlockIndex) {
        let kind = self.kind_of(block);
        let next = match self.first_unknown(block) {
            None => State::Ready,
            Some(point) => {
                self.limbo.file(&mut self.arena, block, point);
                self.pend(self.arena.at(block).size);
                State::Pending
            }
        };
        let (pool, arena) = self.pool_and_arena(kind);
        arena.at_mut(block).set_state(next);
        let list = if next == State::Ready { &mut pool.ready } else { &mut pool.pending };
        list.insert(arena, block);
    }

    /// Adds this shard's counts to the figures.
    pub(crate) fn add_to(&mut self, stats: &mut Stats) {
        self.sweep();
        let counters = &self.counters;
        let (sum, served) = (&mut stats.served_by, &counters.served_by);
        sum.own_stream += served.own_stream;
        sum.known_order += served.known_order;
        sum.completion += served.completion;
        sum.device_wait += served.device_wait;
        sum.growth += served.growth;
        sum.ladder += served.ladder;
        stats.allocation_total += served.total();
        stats.free_total += counters.freed;
        stats.allocation_count += served.total() - counters.freed;
        stats.deferred_free_total += counters.deferred;
        stats.requested_bytes += counters.requested_bytes;
        stats.stock_wait_total += counters.stock_waits;
        stats.cross_stream_merges += counters.cross_stream_merges;
        stats.cross_stream_splits += counters.cross_stream_splits;
        stats.segment_count += self.segments.iter().flatten().map(|_| 1).sum::<u64>();
    }

    /// The indices of the live segments.
    pub(crate) fn segment_indices(&self) -> impl Iterator<Item = u32> + '_ {
        self.segments
            .iter()
            .zip(0_u32..)
            .filter_map(|(segment, index)| segment.as_ref().map(|_| index))
    }

    /// The blocks of one segment in address order.
    pub(crate) fn blocks_of(&self, segment: u32) -> impl Iterator<Item = BlockIndex> + '_ {
        let index = usize::try_from(segment).unwrap_or(usize::MAX);
        let first = self.segments.get(index).and_then(Option::as_ref).map(|found| found.first);
        std::iter::successors(first, |block| self.arena.at(*block).next.get())
    }
}

/// One stream's shard.
#[derive(Debug)]
pub(crate) struct Shard {
    /// The process that made it.
    generation: Generation,
    /// Empty when no allocator has it.
    state: Lock<Option<ShardState>>,
    /// A copy of the free bytes, so that searches pass empty shards without locking them.
    free_bytes_hint: AtomicU64,
    /// A copy of the bytes handed out, so that the shards can be added up without their locks.
    allocated_hint: AtomicU64,
}

impl Shard {
    /// One that no allocator has.
    pub(crate) fn vacant(generation: Generation) -> Self {
        let zero = || AtomicU64::new(0);
        let state = Lock::new(None);
        Self { generation, state, free_bytes_hint: zero(), allocated_hint: zero() }
    }

    /// Gives a vacant one to an allocator.
    pub(crate) fn fill(&self, state: ShardState) {
        self.free_bytes_hint.store(0, Ordering::Relaxed);
        self.allocated_hint.store(0, Ordering::Relaxed);
        let before = self.state.with_at_once(|place| place.replace(state));
        assert!(before.is_none(), "a shard has one allocator at a time");
    }

    /// Takes it from an allocator, of which nothing is left.
    pub(crate) fn empty(&self) -> Option<ShardState> {
        self.state.with_at_once(Option::take)
    }

    /// The process that made it.
    pub(crate) fn generation(&self) -> Generation {
        self.generation
    }

    /// Whether this process is a fork of the one that has it. Then its lock may be held for ever.
    #[inline]
    pub(crate) fn is_forked(&self) -> bool {
        self.generation.is_past()
    }

    /// Runs `work` under the shard's lock.
    #[inline]
    pub(crate) fn with<R>(&self, work: impl FnOnce(&mut ShardState) -> R) -> R {
        self.state.with(|state| {
            let state = lent(state);
            let outcome = work(state);
            let free = state.small.free_bytes() + state.large.free_bytes() + state.recent.bytes;
            self.free_bytes_hint.store(free, Ordering::Relaxed);
            self.allocated_hint.store(state.allocated, Ordering::Relaxed);
            outcome
        })
    }

    /// The same for work that changes nothing that is free or handed out: no copies are made.
    #[inline]
    pub(crate) fn with_uses<R>(&self, work: impl FnOnce(&mut ShardState) -> R) -> R {
        self.state.with(|state| work(lent(state)))
    }

    /// The same for whoever holds a lock that is taken before this one: no other thread gets a
    /// turn.
    pub(crate) fn with_at_once<R>(&self, work: impl FnOnce(&mut ShardState) -> R) -> R {
        self.state.with_at_once(|state| work(lent(state)))
    }

    /// How many bytes were free when the lock was last let go.
    #[inline]
    pub(crate) fn free_bytes_hint(&self) -> u64 {
        self.free_bytes_hint.load(Ordering::Relaxed)
    }

    /// How many bytes were handed out when the lock was last let go.
    #[inline]
    pub(crate) fn allocated_hint(&self) -> u64 {
        self.allocated_hint.load(Ordering::Relaxed)
    }
}

/// What is in a shard, for who keeps the allocator that has it.
#[inline]
fn lent(state: &mut Option<ShardState>) -> &mut ShardState {
    state.as_mut().expect("a shard is its allocator's until that has ended")
}
