//! Requests, frees and completions, one by one.

use crate::block::{Block, BlockIndex, BlockState, Blocks};
use crate::driver::Driver;
use crate::event::Event;
use crate::expandable::Expandable;
use crate::figures::Figures;
use crate::pool::{FreeKey, PoolIndex, Pools};
use crate::settings::Settings;
use crate::sizes::{self, GRAIN_BYTES, SMALL_REQUEST_BYTES_MAX};

/// What a caller calls a block: a number of its own, from 0 up, used for one block at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockNumber(pub u32);

/// A pool as PyTorch names it: (0, 0) is the default, (0, n) a user's, (n, 0) a graph's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PoolId(pub u64, pub u64);

impl PoolId {
    /// The pool of everything that was not asked for within another one.
    pub const DEFAULT: Self = Self(0, 0);
}

/// Which of several free blocks of one size is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ties {
    /// The one with the lowest address: PyTorch up to 2.11.
    #[default]
    Address,
    /// The one that was made first: later versions.
    Creation,
}

/// How much there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The device's memory, of which the driver gives no more. Address space of expandable
    /// segments is taken in proportion to it.
    pub device_bytes: u64,
    /// What `set_per_process_memory_fraction` leaves, if it was called. Garbage collection looks
    /// at nothing else.
    pub fraction_bytes: Option<u64>,
}

/// A call that asks for memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// How many bytes, at least 1.
    pub bytes: u64,
    /// The handle of the stream.
    pub stream: u64,
    /// The pool that the calling thread allocates from.
    pub pool: PoolId,
}

/// Where a block lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Placed {
    /// Its first byte.
    pub address: u64,
    /// Its length, which is what was asked for or more.
    pub bytes: u64,
}

/// Nothing helped: a request failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the driver was asked for {wanted_bytes} B with {reserved_bytes} B of {limit_bytes} B reserved"
)]
#[non_exhaustive]
pub struct OutOfMemory {
    /// What the driver was asked for.
    pub wanted_bytes: u64,
    /// What stayed reserved.
    pub reserved_bytes: u64,
    /// What may be reserved.
    pub limit_bytes: u64,
}

/// PyTorch's allocator for one device.
///
/// An allocation and its free cost a search each in a tree of free blocks.
#[derive(Debug)]
pub struct Model<D> {
    pub(crate) settings: Settings,
    pub(crate) limits: Limits,
    pub(crate) driver: D,
    pub(crate) blocks: Blocks,
    pub(crate) pools: Pools,
    pub(crate) expandables: Vec<Expandable>,
    pub(crate) figures: Figures,
    /// The block of each number, while it is handed out or pending.
    numbers: Vec<Option<BlockIndex>>,
    /// What is pending, the oldest first.
    pending: Vec<BlockNumber>,
    events: Option<Vec<Event>>,
}

impl<D: Driver> Model<D> {
    /// An allocator that holds nothing yet.
    pub fn new(settings: Settings, limits: Limits, ties: Ties, driver: D) -> Self {
        Self {
            settings,
            limits,
            driver,
            blocks: Blocks::default(),
            pools: Pools::new(ties),
            expandables: Vec::new(),
            figures: Figures::default(),
            numbers: Vec::new(),
            pending: Vec::new(),
            events: None,
        }
    }

    /// Keeps what it does with the driver from now on, for [`Model::take_events`].
    pub fn keep_events(&mut self) {
        self.events.get_or_insert_default();
    }

    /// What it did with the driver since this was last called.
    pub fn take_events(&mut self) -> Vec<Event> {
        self.events.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// What is held and used.
    pub const fn figures(&self) -> &Figures {
        &self.figures
    }

    /// The driver, which may have to be told what comes next.
    pub const fn driver_mut(&mut self) -> &mut D {
        &mut self.driver
    }

    /// Changes how much there is from now on.
    pub const fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// Serves a request with a block that is called `number` until it is free again.
    ///
    /// # Errors
    /// [`OutOfMemory`] after everything that PyTorch tries has failed.
    ///
    /// # Panics
    /// If `number` is the name of a block that is handed out or pending.
    pub fn allocate(
        &mut self,
        number: BlockNumber,
        request: Request,
    ) -> Result<Placed, OutOfMemory> {
        if sizes::REQUEST_BYTES_END <= request.bytes {
            return Err(self.fail(request.bytes, request.stream));
        }
        let bytes = sizes::rounded(request.bytes, &self.settings);
        let pool = self.pools.index(request.pool, sizes::is_small(bytes));
        let found = self.find(pool, request.stream, bytes);
        let segment_bytes = sizes::segment_bytes(bytes, &self.settings);
        let wanted = Wanted { pool, stream: request.stream, bytes, segment_bytes };
        let found = match found {
            Some(found) => found,
            None => self.obtain(wanted).ok_or_else(|| self.fail(segment_bytes, request.stream))?,
        };
        let index = self.hand_out(found, bytes);
        self.name(number, index);
        let block = self.blocks.get(index);
        Ok(Placed { address: block.address, bytes: block.bytes })
    }

    /// Frees a block. If other streams still use it, it is pending until it is completed, or until
    /// memory runs out, when PyTorch waits for all of them. A number without a block is nothing.
    pub fn free(&mut self, number: BlockNumber, is_used_elsewhere: bool) {
        let Some(index) = *self.slot(number) else { return };
        let block = self.blocks.get_mut(index);
        if block.state != BlockState::Allocated {
            return;
        }
        self.figures.allocated_bytes -= block.bytes;
        if is_used_elsewhere {
            block.state = BlockState::Pending;
            self.pending.push(number);
        } else {
            self.make_free(number);
        }
    }

    /// Other streams are through with a block that was freed. A number that is not pending, as
    /// after an earlier wait for all, is nothing.
    pub fn complete(&mut self, number: BlockNumber) {
        let Some(index) = *self.slot(number) else { return };
        if self.blocks.get(index).state == BlockState::Pending {
            self.pending.retain(|pending| *pending != number);
            self.make_free(number);
        }
    }

    /// What `torch.cuda.empty_cache` does: waits for all pending blocks and gives back all that
    /// can be.
    pub fn empty_cache(&mut self) {
        self.release_cached();
    }

    /// Nobody allocates from a private pool any more, as after a graph's end or a user pool's: its
    /// whole free segments are given back with the cache. The default pool stays.
    pub fn retire(&mut self, pool: PoolId) {
        if pool != PoolId::DEFAULT {
            self.pools.retire(pool);
        }
    }

    pub(crate) fn complete_all(&mut self) {
        for number in std::mem::take(&mut self.pending) {
            self.make_free(number);
        }
    }

    pub(crate) fn note(&mut self, event: Event) {
        if let Some(events) = &mut self.events {
            events.push(event);
        }
    }

    /// What may be reserved.
    pub(crate) fn limit_bytes(&self) -> u64 {
        let fraction = self.limits.fraction_bytes.unwrap_or(u64::MAX);
        self.limits.device_bytes.min(fraction)
    }

    /// From here on `number` is the name of a block that is handed out.
    pub(crate) fn name(&mut self, number: BlockNumber, index: BlockIndex) {
        let slot = self.slot(number);
        assert!(slot.is_none(), "block {number:?} is in use");
        *slot = Some(index);
    }

    fn slot(&mut self, number: BlockNumber) -> &mut Option<BlockIndex> {
        let place = usize::try_from(number.0).unwrap_or(usize::MAX);
        if self.numbers.len() <= place {
            self.numbers.resize(place + 1, None);
        }
        self.numbers.get_mut(place).expect("it was made long enough")
    }

    fn fail(&mut self, wanted_bytes: u64, stream: u64) -> OutOfMemory {
        self.figures.out_of_memory_count += 1;
        self.note(Event::OutOfMemory { bytes: wanted_bytes, stream });
        let (reserved_bytes, limit_bytes) = (self.figures.reserved_bytes, self.limit_bytes());
        OutOfMemory { wanted_bytes, reserved_bytes, limit_bytes }
    }

    /// Takes the least free block of the stream that is large enough.
    fn find(&mut self, pool: PoolIndex, stream: u64, bytes: u64) -> Option<BlockIndex> {
        self.pools.get_mut(pool).search_count += 1;
        let key = self.best(pool, stream, bytes)?;
        let limit = self.settings.max_split_bytes;
        if bytes < limit && limit <= key.bytes {
            return None;
        }
        let above = bytes.saturating_add(self.settings.max_non_split_rounding_bytes);
        if limit <= bytes && above <= key.bytes {
            return None;
        }
        self.pools.get_mut(pool).free.remove(&key);
        Some(key.index)
    }

    fn best(&self, pool: PoolIndex, stream: u64, bytes: u64) -> Option<FreeKey> {
        let free = &self.pools.get(pool).free;
        let of_stream = free.range(FreeKey::least(stream, bytes)..);
        let mut candidates = of_stream.take_while(|key| key.stream == stream).copied().peekable();
        if self.expandables.is_empty() {
            return candidates.next();
        }
        let is_expandable = |key: &FreeKey| self.blocks.get(key.index).expandable.is_some();
        if !self.settings.expandable_segments {
            return candidates.find(|key| !is_expandable(key));
        }
        // A block with less room behind it keeps room for growth elsewhere.
        let mut best = candidates.next()?;
        while is_expandable(&best)
            && let Some(next) = candidates.peek()
            && self.room(next.index) < self.room(best.index)
        {
            best = *next;
            candidates.next();
        }
        Some(best)
    }

    /// A block's bytes and those that could be mapped right behind it.
    fn room(&self, index: BlockIndex) -> u64 {
        let block = self.blocks.get(index);
        let after = block.after.map(|after| self.blocks.get(after));
        let unmapped = after.filter(|after| after.state == BlockState::Unmapped);
        block.bytes + unmapped.map_or(0, |after| after.bytes)
    }

    /// Cuts what is not needed off a block that is in no list, and counts it as handed out.
    fn hand_out(&mut self, found: BlockIndex, bytes: u64) -> BlockIndex {
        let whole = *self.blocks.get(found);
        let mut index = found;
        if self.splits(&whole, bytes) {
            // The front is a new block; the rest stays the old one.
            let neighbors = (whole.before, Some(found));
            index = self.blocks.add_between(whole, (whole.address, bytes), neighbors);
            let rest = self.blocks.get_mut(found);
            rest.address += bytes;
            rest.bytes -= bytes;
            self.pools.insert(&mut self.blocks, found);
        }
        let block = self.blocks.get_mut(index);
        block.state = BlockState::Allocated;
        self.figures.hand_out(block.bytes);
        index
    }

    fn splits(&self, block: &Block, bytes: u64) -> bool {
        let rest = block.bytes - bytes;
        if self.pools.get(block.pool).is_small || self.settings.expandable_segments {
            GRAIN_BYTES <= rest
        } else {
            bytes < self.settings.max_split_bytes && SMALL_REQUEST_BYTES_MAX < rest
        }
    }

    fn make_free(&mut self, number: BlockNumber) {
        let Some(index) = self.slot(number).take() else { return };
        self.figures.active_bytes -= self.blocks.get(index).bytes;
        self.blocks.get_mut(index).state = BlockState::Free;
        self.join(index);
        self.pools.insert(&mut self.blocks, index);
    }

    /// Joins a block that is in no list with its neighbors, if they are free or unmapped like it.
    pub(crate) fn join(&mut self, index: BlockIndex) {
        let Block { before, after, state, .. } = *self.blocks.get(index);
        for neighbor in [before, after].into_iter().flatten() {
            if self.blocks.get(neighbor).state != state {
                continue;
            }
            if state == BlockState::Unmapped {
                self.pools.remove_unmapped(&self.blocks, neighbor);
            } else {
                self.pools.remove(&self.blocks, neighbor);
            }
            self.blocks.absorb(index, neighbor);
        }
    }
}

/// A request that no free block serves.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted {
    pub(crate) pool: PoolIndex,
    pub(crate) stream: u64,
    pub(crate) bytes: u64,
    /// What the driver is asked for.
    pub(crate) segment_bytes: u64,
}
