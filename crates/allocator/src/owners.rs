//! Which streams' shards have ever owned memory, in the order in which they first did.
//!
//! Most searches over all shards ask for free blocks, and only a shard that has opened a segment
//! can have one. A program of tens of thousands of streams has few of those, as streams are served
//! from each other's memory. So a search costs a look at the shards that own memory. One is added
//! before its first block is published and stays; it changes no answer, so nobody waits for it.
//!
//! The order is the allocator's own: slots are given to streams as earlier ones of the process left
//! them, and `deterministic` is to find the same memory whichever they are (R9).

use std::collections::BTreeSet;

use streams::order::SlotKeeper;

use crate::allocator::Inner;
use crate::shard::Shard;
use crate::sync::{Arc, Mutex};

/// The slots that own memory. Its lock is taken last, and held for a look only.
#[derive(Debug, Default)]
pub(crate) struct Owners {
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    all: BTreeSet<usize>,
    /// Shared with the searches that are under way.
    in_order: Arc<Vec<usize>>,
    /// Where no other stream may come into the slots.
    keepers: Vec<SlotKeeper>,
}

impl Owners {
    /// The slot at this index owns memory from now on; what keeps it, if anything is to.
    pub(crate) fn add(&self, index: usize, keep_slot: impl FnOnce() -> Option<SlotKeeper>) {
        let mut known = self.known.lock();
        if known.all.insert(index) {
            known.keepers.extend(keep_slot());
            Arc::make_mut(&mut known.in_order).push(index);
        }
    }

    /// Those that own memory or did, from the first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = usize> {
        let in_order = Arc::clone(&self.known.lock().in_order);
        (0..in_order.len()).filter_map(move |place| in_order.get(place).copied())
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
        let owners = Owners::default();
        assert_eq!(owners.iter().count(), 0);
        for index in [65_535, 64, 0, 63, 64, 1000] {
            owners.add(index, || None);
        }
        assert_eq!(owners.iter().collect::<Vec<_>>(), [65_535, 64, 0, 63, 1000]);
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
