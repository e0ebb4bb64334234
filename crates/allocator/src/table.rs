//! Finds the shard of a stream slot without a lock.
//!
//! Shards are made when a slot is first seen and stay where they are. The first chunk lies in the
//! table itself, so that a reader needs one acquire load there; a later chunk needs one more.

use streams::StreamOrder;
use streams::order::StreamSlot;

use crate::seat::Seat;
use crate::shard::{Shard, ShardSetup};
use crate::sync::{AtomicU64, OnceLock, Ordering};

/// Shards to a chunk.
const CHUNK: usize = 64;
/// Chunks: as many slots as the order registry has.
const CHUNK_COUNT: usize = 1024;

type Chunk = Box<[Cell]>;
type Cell = OnceLock<Seat>;

/// All shards of an allocator, by stream slot.
#[derive(Debug)]
pub(crate) struct ShardTable {
    near: [Cell; CHUNK],
    /// The first stays empty: what would be in it is near.
    chunks: Box<[OnceLock<Chunk>]>,
    /// One more than the highest slot seen.
    end: AtomicU64,
}

impl ShardTable {
    pub(crate) fn new() -> Self {
        let chunks = (0..CHUNK_COUNT).map(|_| OnceLock::new()).collect();
        Self { near: std::array::from_fn(|_| Cell::new()), chunks, end: AtomicU64::new(0) }
    }

    /// The shard of a slot that has been seen.
    #[inline]
    pub(crate) fn get(&self, slot: StreamSlot) -> Option<&Seat> {
        self.at(place(slot))
    }

    /// The shard of the slot with this number, if it has been seen.
    #[inline]
    pub(crate) fn at(&self, index: usize) -> Option<&Seat> {
        let cell = match self.near.get(index) {
            Some(near) => near,
            None => self.far(index)?,
        };
        cell.get()
    }

    #[cold]
    fn far(&self, index: usize) -> Option<&Cell> {
        self.chunks.get(index / CHUNK)?.get()?.get(index % CHUNK)
    }

    /// The shard of a stream, made if it is the first in its slot.
    #[inline]
    pub(crate) fn get_or_make(&self, order: &StreamOrder, setup: &ShardSetup) -> &Seat {
        match self.get(order.slot()) {
            Some(shard) => shard,
            None => self.make(order, setup),
        }
    }

    #[cold]
    fn make(&self, order: &StreamOrder, setup: &ShardSetup) -> &Seat {
        let index = place(order.slot());
        let cell = self.near.get(index).unwrap_or_else(|| {
            let chunk = self.chunks.get(index / CHUNK).expect("the registry has as many slots");
            let chunk = chunk.get_or_init(|| (0..CHUNK).map(|_| Cell::new()).collect());
            chunk.get(index % CHUNK).expect("a remainder is below the chunk's length")
        });
        let shard = cell.get_or_init(|| Seat::take(order, setup));
        let end = u64::try_from(index).unwrap_or(u64::MAX).saturating_add(1);
        self.end.fetch_max(end, Ordering::AcqRel);
        shard
    }

    /// Every shard made so far, with its slot's number.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, &Shard)> {
        self.seats().map(|(index, seat)| (index, &**seat))
    }

    fn seats(&self) -> impl Iterator<Item = (usize, &Seat)> {
        let end = usize::try_from(self.end.load(Ordering::Acquire)).unwrap_or(usize::MAX);
        let chunks = self.chunks.iter().skip(1).take_while(|chunk| chunk.get().is_some());
        let far = chunks.flat_map(|chunk| chunk.get().into_iter().flatten());
        let cells = self.near.iter().chain(far).enumerate().take(end);
        cells.filter_map(|(index, cell)| Some((index, cell.get()?)))
    }
}

impl Drop for ShardTable {
    /// The allocator has ended, and with it who kept it through these.
    fn drop(&mut self) {
        self.seats().for_each(|(_, seat)| seat.leave());
    }
}

/// A slot's place in the table.
#[inline]
pub(crate) fn place(slot: StreamSlot) -> usize {
    usize::try_from(slot.index()).unwrap_or(usize::MAX)
}
