//! Which streams' shards have ever owned memory: a bit each.
//!
//! Most searches over all shards ask for free blocks, and only a shard that has opened a segment
//! can have one. A program of tens of thousands of streams has few of those, as streams are served
//! from each other's memory. So a search costs a look at so many bits, a word for 64 streams, and
//! at the shards that own memory. A bit is set before the shard's first block is published and
//! stays; it changes no answer, so nobody waits for it.

use crate::allocator::Inner;
use crate::shard::Shard;
use crate::sync::{AtomicU64, Ordering};

const BITS: usize = 64;
/// As many slots as the order registry has.
const WORD_COUNT: usize = 1024;

/// A bit for each slot.
#[derive(Debug)]
pub(crate) struct Owners {
    words: Box<[AtomicU64]>,
    /// One more than the last word with a bit.
    end: AtomicU64,
}

impl Owners {
    /// Nobody owns memory yet.
    pub(crate) fn new() -> Self {
        let words = (0..WORD_COUNT).map(|_| AtomicU64::new(0)).collect();
        Self { words, end: AtomicU64::new(0) }
    }

    /// The slot at this index owns memory from now on.
    pub(crate) fn add(&self, index: usize) {
        let place = index / BITS;
        if let Some(word) = self.words.get(place) {
            word.fetch_or(1 << (index % BITS), Ordering::Release);
            let end = u64::try_from(place + 1).unwrap_or(u64::MAX);
            self.end.fetch_max(end, Ordering::Release);
        }
    }

    /// Those that own memory or did, from the lowest.
    pub(crate) fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        let end = usize::try_from(self.end.load(Ordering::Acquire)).unwrap_or(usize::MAX);
        let words = self.words.iter().take(end).enumerate();
        words.flat_map(|(place, word)| {
            let mut rest = word.load(Ordering::Acquire);
            std::iter::from_fn(move || {
                let bit = usize::try_from(rest.trailing_zeros()).ok().filter(|bit| *bit < BITS)?;
                rest &= rest - 1;
                Some(place * BITS + bit)
            })
        })
    }
}

impl Inner {
    /// The shards that own memory or did, with their slots' numbers.
    pub(crate) fn owning_shards(&self) -> impl Iterator<Item = (usize, &Shard)> {
        self.owners.iter().filter_map(|index| {
            let shard: &Shard = self.shards.at(index)?;
            Some((index, shard))
        })
    }
}

#[cfg(all(test, not(loom)))]
#[allow(clippy::unwrap_used, reason = "a test that panics has failed")]
mod tests {
    use cuda_sim::{Machine, Schedule};
    use streams::{Driver, StreamOptions};

    use super::Owners;
    use crate::{Allocator, Config, Policy};

    #[test]
    fn those_that_were_added_are_found_in_order() {
        let owners = Owners::new();
        assert_eq!(owners.iter().count(), 0);
        for index in [65_535, 64, 0, 63, 64, 1000] {
            owners.add(index);
        }
        assert_eq!(owners.iter().collect::<Vec<_>>(), [0, 63, 64, 1000, 65_535]);
    }

    /// Was: a request that found nothing at home looked at the shard of every other stream.
    #[test]
    fn streams_that_live_on_the_memory_of_others_are_not_searched() {
        let machine = Machine::builder().schedule(Schedule::Eager).build();
        let driver = Driver::from_table(machine.table()).unwrap();
        let context = driver.device(0).unwrap().primary_context().unwrap();
        for (policy, owners) in [(Policy::Default, 1), (Policy::PyTorch, 500)] {
            let allocator =
                Allocator::new(&context, Config::default().with_policy(policy)).unwrap();
            let stream = || context.create_stream(StreamOptions::default()).unwrap();
            let streams: Vec<_> = (0..500).map(|_| stream()).collect();
            let take = |stream| allocator.allocate(stream, 512).unwrap();
            let blocks: Vec<_> = streams.iter().map(take).collect();
            let inner = &allocator.inner;
            assert_eq!(inner.shards.iter().count(), 500);
            assert_eq!(inner.owning_shards().count(), owners, "{policy:?}");
            let peak = allocator.stats().allocated_bytes.peak;
            assert_eq!(peak, 500 * 512, "{policy:?}");
            drop(blocks);
        }
    }
}
