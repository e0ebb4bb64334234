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

    /// Chunks may be missing between others: slots come as earlier streams of the process have left
    /// them.
    fn seats(&self) -> impl Iterator<Item = (usize, &Seat)> {
        let end = usize::try_from(self.end.load(Ordering::Acquire)).unwrap_or(usize::MAX);
        let chunks = self.chunks.iter().take(end.div_ceil(CHUNK)).zip((0..).step_by(CHUNK));
        let far = chunks.flat_map(|(chunk, first)| {
            let cells = chunk.get().into_iter().flatten();
            cells.zip(first..)
        });
        let cells = self.near.iter().zip(0..).chain(far);
        cells.filter_map(|(cell, index)| Some((index, cell.get()?)))
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

#[cfg(all(test, not(loom)))]
#[allow(clippy::unwrap_used, reason = "a test that panics has failed")]
mod tests {
    use cuda_sim::Machine;
    use streams::{Driver, Stream, StreamOptions};

    use crate::{Allocator, Config};

    const BYTES: u64 = 2 << 20;

    /// Was: shards were looked at up to the first 64 slots of which this allocator had met none. So
    /// where earlier streams of the process had left only high slots, its figures lacked the rest,
    /// and what lay there was never given back to the device, not even at the end.
    #[test]
    fn memory_of_streams_in_high_slots_is_found_where_no_stream_has_the_lower_ones() {
        let machine = Machine::builder().build();
        let driver = Driver::from_table(machine.table()).unwrap();
        let context = driver.device(0).unwrap().primary_context().unwrap();
        let stream = || context.create_stream(StreamOptions::default()).unwrap();
        let earlier: Vec<Stream> = (0..300).map(|_| stream()).collect();
        let used = machine.used_bytes();
        for chosen in [&[200][..], &[299, 130], &[0, 64, 190, 256]] {
            let allocator = Allocator::new(&context, Config::default()).unwrap();
            let streams: Vec<&Stream> = chosen.iter().map(|index| &earlier[*index]).collect();
            let of_slot = |stream: &&Stream| crate::table::place(stream.order().slot());
            let mut slots: Vec<usize> = streams.iter().map(of_slot).collect();
            let take = |stream: &&Stream| allocator.allocate(stream, BYTES).unwrap();
            let blocks: Vec<_> = streams.iter().map(take).collect();
            slots.sort_unstable();
            let found = || allocator.inner.shards.iter().map(|(index, _)| index);
            assert_eq!(found().collect::<Vec<_>>(), slots);
            let count = u64::try_from(chosen.len()).unwrap();
            assert_eq!(allocator.stats().allocated_bytes.current, count * BYTES);
            assert_eq!(allocator.snapshot().check(&allocator.stats()), Ok(()));
            drop(blocks);
            drop(allocator);
            assert_eq!(machine.used_bytes(), used, "{chosen:?}");
        }
    }
}
