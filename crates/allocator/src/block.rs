//! What is known of one block, and which states may follow which.
//!
//! ```text
//!             map                 take                   free
//! Unmapped ────────▶ Free ────────────────▶ Allocated ──────────▶ Free
//!     ▲     ◀──────   ▲  ◀───────────────      │  │               ▲
//!     │      unmap    │      give back         │  └─▶ Held ───────┘
//!     └── Reserved ◀──┘                        └────▶ Reserved (its fences are being recorded)
//! ```
//! Free is one of three: `Recent`, on a shelf; `Ready`, in the list of what the shard's stream may
//! use; `Pending`, in the list of what waits.
//! `Reserved` is a block that one thread has taken out of the lists while it calls the driver
//! without a lock; only that thread moves it on.

use smallvec::SmallVec;
use streams::StreamOrder;
use streams::order::{Frontier, Point, StreamSlot};

use crate::regulars::RegularSet;
use crate::source::PoolKind;

/// The index of a block record in its shard's arena.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct BlockIndex(pub(crate) u32);

/// A block's index and generation in one word, so that a handle is written and read whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct BlockName(pub(crate) u64);

impl BlockName {
    #[inline]
    pub(crate) fn new(index: BlockIndex, generation: u32) -> Self {
        Self(u64::from(generation) << 32 | u64::from(index.0))
    }

    #[inline]
    pub(crate) fn index(self) -> BlockIndex {
        BlockIndex(u32::try_from(self.0 & u64::from(u32::MAX)).unwrap_or(u32::MAX))
    }

    #[inline]
    pub(crate) fn generation(self) -> u32 {
        u32::try_from(self.0 >> 32).unwrap_or(u32::MAX)
    }
}

/// An optional block index in four bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Link(u32);

impl Link {
    pub(crate) const NONE: Self = Self(u32::MAX);

    #[inline]
    pub(crate) fn to(block: BlockIndex) -> Self {
        Self(block.0)
    }

    #[inline]
    pub(crate) fn get(self) -> Option<BlockIndex> {
        (self != Self::NONE).then_some(BlockIndex(self.0))
    }
}

/// What a block is to the allocator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// The record belongs to no block.
    Vacant,
    /// Addresses without memory behind them.
    Unmapped,
    /// Free for the shard's own stream, on a shelf of recent frees, in no list.
    Recent,
    /// Free, and in the list of what the shard's own stream may use now.
    Ready,
    /// Free, and in the list of what still waits for uses.
    Pending,
    /// Handed out.
    Allocated,
    /// Freed by its owner, but something still holds it.
    Held,
    /// Taken out by a thread that is calling the driver.
    Reserved,
}

impl State {
    /// Whether a block may go from this state to `next`.
    pub(crate) fn may_become(self, next: Self) -> bool {
        match self {
            Self::Vacant => next == Self::Unmapped || next == Self::Reserved || next.is_free(),
            Self::Unmapped => matches!(next, Self::Reserved | Self::Vacant),
            Self::Ready | Self::Pending => {
                next.is_free() || matches!(next, Self::Allocated | Self::Reserved | Self::Vacant)
            }
            Self::Recent => matches!(next, Self::Allocated | Self::Reserved),
            Self::Allocated => {
                next.is_free() || matches!(next, Self::Recent | Self::Reserved | Self::Held)
            }
            Self::Held => next.is_free() || matches!(next, Self::Recent | Self::Reserved),
            Self::Reserved => {
                next.is_free()
                    || matches!(next, Self::Allocated | Self::Unmapped | Self::Vacant | Self::Held)
            }
        }
    }

    /// Whether the block is free memory in one of the lists.
    #[inline]
    pub(crate) fn is_free(self) -> bool {
        matches!(self, Self::Ready | Self::Pending)
    }
}

/// How one stream that is not the home uses an allocated block.
#[derive(Debug, Clone)]
pub(crate) struct UseRecord {
    /// The stream.
    pub(crate) order: StreamOrder,
    /// Exact uses: up to where the latest of them goes.
    pub(crate) point: Option<Point>,
    /// Uses that were begun and not yet made exact; each counts as the whole stream (O13).
    pub(crate) open_count: u32,
    /// `record_stream`: until everything queued there at the time of the free is done (R3).
    pub(crate) whole_stream: bool,
}

impl UseRecord {
    pub(crate) fn new(order: StreamOrder) -> Self {
        Self { order, point: None, open_count: 0, whole_stream: false }
    }

    /// The point that must pass, read at the free.
    pub(crate) fn point_at_free(&self) -> Option<Point> {
        if self.whole_stream || 0 < self.open_count {
            let now = self.order.settled_position();
            // What was the home once may have been given a later point.
            return Some(self.point.filter(|point| now.mark < point.mark).unwrap_or(now));
        }
        self.point
    }
}

/// The uses of one block; nearly always none, one or two.
pub(crate) type Uses = SmallVec<[UseRecord; 2]>;

/// What a block has only when streams other than its home have to do with it.
#[derive(Debug, Default)]
pub(crate) struct Foreign {
    /// Beyond the home point: what must be done before anyone may use the block.
    frontier: Frontier,
    /// Beyond the home stream: who used the block since it was handed out.
    uses: Uses,
    /// The point whose passing moves a pending block on; it is filed under it (see `limbo`).
    watched: Option<Point>,
}

/// What the uses of one block took up, for those of the next.
#[derive(Debug, Default)]
pub(crate) struct Spare {
    room: Option<Box<Foreign>>,
    /// The stream that used a block last.
    order: Option<StreamOrder>,
}

impl Spare {
    /// What was kept of `order`, if it was the last that used a block.
    pub(crate) fn take(&mut self, order: &StreamOrder) -> Option<StreamOrder> {
        self.order.take_if(|kept| kept.is_same(order))
    }

    /// Whether `order` was the last that used a block.
    pub(crate) fn has(&self, order: &StreamOrder) -> bool {
        self.order.as_ref().is_some_and(|kept| kept.is_same(order))
    }
}

/// What the owner of an allocated block has, as a free finds it.
///
/// A free that is to be told to an observer first differs from one that is not by this alone: so
/// the question costs a free nothing that it does not ask anyway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Handle {
    Block,
    /// It has been turned into numbers, to be taken back once.
    Raw,
    /// The same, and its free is to be told.
    ToldBlock,
    ToldRaw,
}

impl Handle {
    #[inline]
    pub(crate) fn of(is_raw: bool) -> Self {
        if is_raw { Self::Raw } else { Self::Block }
    }

    /// The same block, whose free is to be told.
    pub(crate) fn told(self) -> Self {
        match self {
            Self::Block | Self::ToldBlock => Self::ToldBlock,
            Self::Raw | Self::ToldRaw => Self::ToldRaw,
        }
    }

    /// The same block, in numbers.
    pub(crate) fn raw(self) -> Self {
        match self {
            Self::Block | Self::Raw => Self::Raw,
            Self::ToldBlock | Self::ToldRaw => Self::ToldRaw,
        }
    }

    /// The same block, in numbers no more.
    pub(crate) fn block(self) -> Self {
        match self {
            Self::Block | Self::Raw => Self::Block,
            Self::ToldBlock | Self::ToldRaw => Self::ToldBlock,
        }
    }

    #[inline]
    pub(crate) fn is_raw(self) -> bool {
        matches!(self, Self::Raw | Self::ToldRaw)
    }
}

/// One block: a range of addresses inside a segment.
///
/// Two cache lines: what a cached request and its free touch, then the links.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct BlockRecord {
    pub(crate) address: u64,
    pub(crate) size: u64,
    /// What was asked for; at most `size`.
    pub(crate) requested: u64,
    /// How much of the home stream must be done before another stream may use the block.
    pub(crate) home_mark: u64,
    /// When it was freed, counted in frees of the shard: the oldest is waited for first (R6).
    pub(crate) freed_at: u64,
    foreign: Option<Box<Foreign>>,
    /// The stream the block was last handed out for.
    pub(crate) home: StreamSlot,
    /// Told apart from earlier blocks that used the same record.
    pub(crate) generation: u32,
    /// How many holds keep the block from being reused (R1).
    pub(crate) hold_count: u32,
    pub(crate) state: State,
    /// The pool its segment serves.
    pub(crate) kind: PoolKind,
    /// What its owner has, and whether somebody is to be told of its free.
    pub(crate) handle: Handle,
    /// Which regulars of the shard use it, if it has no list of uses.
    pub(crate) regulars: RegularSet,
    pub(crate) segment: u32,
    /// Neighbours by address, inside the segment.
    pub(crate) previous: Link,
    pub(crate) next: Link,
    /// Neighbours in the free list's bin.
    pub(crate) bin_previous: Link,
    pub(crate) bin_next: Link,
}

const _: () = assert!(size_of::<BlockRecord>() == 128, "a record is two cache lines");

impl BlockRecord {
    /// A record of no block.
    pub(crate) fn vacant(home: StreamSlot) -> Self {
        Self {
            address: 0,
            size: 0,
            requested: 0,
            home_mark: 0,
            freed_at: 0,
            foreign: None,
            home,
            generation: 0,
            hold_count: 0,
            state: State::Vacant,
            kind: PoolKind::Small,
            handle: Handle::Block,
            regulars: RegularSet::EMPTY,
            segment: 0,
            previous: Link::NONE,
            next: Link::NONE,
            bin_previous: Link::NONE,
            bin_next: Link::NONE,
        }
    }

    /// Whether no stream but the home, and the regulars, has anything to do with the block.
    #[inline]
    pub(crate) fn is_home_only(&self) -> bool {
        self.foreign.is_none()
    }

    /// Forgets what streams other than the home had to do with the block.
    #[inline]
    pub(crate) fn forget_foreign(&mut self) {
        if self.foreign.is_some() {
            self.drop_foreign();
        }
    }

    #[cold]
    fn drop_foreign(&mut self) {
        self.foreign = None;
    }

    /// The points beyond the home point that must be done before anyone may use the block.
    pub(crate) fn frontier(&self) -> impl Iterator<Item = Point> + '_ {
        self.foreign.iter().flat_map(|foreign| foreign.frontier.iter())
    }

    /// The same, to keep.
    pub(crate) fn copy_frontier(&self) -> Frontier {
        self.foreign.as_ref().map_or_else(Frontier::new, |foreign| foreign.frontier.clone())
    }

    /// The same, taken away.
    pub(crate) fn take_frontier(&mut self) -> Frontier {
        let taken = self.foreign.as_mut().map(|foreign| std::mem::take(&mut foreign.frontier));
        self.shed();
        taken.unwrap_or_default()
    }

    /// Adds a point to the frontier.
    pub(crate) fn require(&mut self, point: Point) {
        self.foreign_mut().frontier.insert(point);
    }

    /// Gives the block another frontier.
    pub(crate) fn set_frontier(&mut self, frontier: Frontier) {
        if !frontier.is_empty() || self.foreign.is_some() {
            self.foreign_mut().frontier = frontier;
            self.shed();
        }
    }

    /// Who used the block, to add to; room for it comes from `spare` if there is any.
    pub(crate) fn uses_mut(&mut self, spare: &mut Spare) -> &mut Uses {
        let foreign = &mut self.foreign;
        &mut foreign.get_or_insert_with(|| spare.room.take().unwrap_or_default()).uses
    }

    /// Who used the block.
    pub(crate) fn uses(&self) -> &[UseRecord] {
        self.foreign.as_ref().map_or(&[], |foreign| &foreign.uses)
    }

    /// Forgets the uses, all of which are over; what they took up is kept in `spare`.
    pub(crate) fn end_uses(&mut self, spare: &mut Spare) {
        let Some(mut foreign) = self.foreign.take() else { return };
        spare.order = foreign.uses.pop().map(|used| used.order);
        foreign.uses.clear();
        foreign.frontier = Frontier::new();
        foreign.watched = None;
        spare.room = Some(foreign);
    }

    /// Who used the block, to keep.
    pub(crate) fn copy_uses(&self) -> Uses {
        self.foreign.as_ref().map_or_else(Uses::new, |foreign| foreign.uses.clone())
    }

    /// Who used the block, taken away.
    pub(crate) fn take_uses(&mut self) -> Uses {
        let taken = self.foreign.as_mut().map(|foreign| std::mem::take(&mut foreign.uses));
        self.shed();
        taken.unwrap_or_default()
    }

    /// Notes the point that the block is filed under.
    pub(crate) fn watch(&mut self, point: Point) {
        self.foreign_mut().watched = Some(point);
    }

    /// The point that the block was filed under.
    pub(crate) fn take_watched(&mut self) -> Option<Point> {
        let watched = self.foreign.as_mut()?.watched.take();
        self.shed();
        watched
    }

    fn foreign_mut(&mut self) -> &mut Foreign {
        self.foreign.get_or_insert_default()
    }

    /// Lets go of what says nothing any more.
    fn shed(&mut self) {
        let is_idle = |foreign: &Foreign| {
            foreign.frontier.is_empty() && foreign.uses.is_empty() && foreign.watched.is_none()
        };
        if self.foreign.as_deref().is_some_and(is_idle) {
            self.foreign = None;
        }
    }

    /// The home point: part of what must come before the block's next use.
    #[inline]
    pub(crate) fn home_point(&self) -> Point {
        Point { stream: self.home, mark: self.home_mark }
    }

    /// The end of the block's addresses.
    #[inline]
    pub(crate) fn end(&self) -> u64 {
        self.address + self.size
    }

    /// Moves to `next`, which the table of states must allow.
    #[inline]
    pub(crate) fn set_state(&mut self, next: State) {
        debug_assert!(
            self.state.may_become(next),
            "a block at {:#x} cannot go from {:?} to {next:?}",
            self.address,
            self.state,
        );
        self.state = next;
    }
}
