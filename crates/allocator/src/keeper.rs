//! What a block keeps its allocator alive by: a count that few threads share.
//!
//! A count of all blocks would be one word that every thread with a stream of its own writes twice
//! a block. So an allocator's handles hold a keeper for each stream, each of which counts as one
//! holder of the allocator, and a block counts as a holder of its stream's keeper. Keepers are held
//! by handles and blocks alone, never by what they keep, so that there is no cycle: the last of
//! both to go ends the allocator, on whatever thread.

use crossbeam_utils::CachePadded;

use crate::allocator::Inner;
use crate::sync::{Arc, OnceLock};

/// Keepers of an allocator. Streams beyond so many share them, which costs them time only.
const KEEPER_COUNT: usize = 64;

/// Keeps an allocator alive. In cache lines of its own, with its count of holders.
pub(crate) type Keeper = Arc<CachePadded<Kept>>;

/// What a keeper keeps.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(crate) inner: Arc<Inner>,
}

/// The keepers that the clones of one handle hold, each made when its stream first asks.
#[derive(Debug)]
pub(crate) struct Keepers {
    by_slot: [OnceLock<Keeper>; KEEPER_COUNT],
}

impl Keepers {
    pub(crate) fn new() -> Self {
        Self { by_slot: std::array::from_fn(|_| OnceLock::new()) }
    }

    /// One more holder of `inner`, counted where the stream of the shard `at` has its count.
    #[inline]
    pub(crate) fn keep(&self, inner: &Arc<Inner>, at: usize) -> Keeper {
        let keeper = self.by_slot.get(at % KEEPER_COUNT).and_then(OnceLock::get);
        keeper.map_or_else(|| self.make(inner, at), Arc::clone)
    }

    #[cold]
    fn make(&self, inner: &Arc<Inner>, at: usize) -> Keeper {
        let cell = self.by_slot.get(at % KEEPER_COUNT);
        let cell = cell.expect("a remainder is below the number of keepers");
        let make = || Arc::new(CachePadded::new(Kept { inner: Arc::clone(inner) }));
        Arc::clone(cell.get_or_init(make))
    }

    /// How many holders of the allocator its keepers are, if nothing else holds them: no block.
    pub(crate) fn unshared_count(&self) -> Option<usize> {
        let made = || self.by_slot.iter().filter_map(OnceLock::get);
        made().all(|keeper| Arc::strong_count(keeper) == 1).then(|| made().count())
    }
}

#[cfg(all(test, not(loom)))]
#[allow(clippy::unwrap_used, reason = "a test that panics has failed")]
mod tests {
    use cuda_sim::{Machine, Schedule};
    use streams::{Context, Driver, Stream, StreamOptions};

    use crate::sync::{Arc, scope};
    use crate::table::place;
    use crate::{Allocator, Config};

    const BYTES: u64 = 2 << 20;

    /// The machine goes last: its place among the machines is taken by another one at once.
    struct Rig {
        allocator: Allocator,
        streams: [Stream; 2],
        context: Context,
        machine: Machine,
    }

    impl Rig {
        fn new() -> Self {
            let machine = Machine::builder().schedule(Schedule::Eager).build();
            let driver = Driver::from_table(machine.table()).unwrap();
            let context = driver.device(0).unwrap().primary_context().unwrap();
            let allocator = Allocator::new(&context, Config::default()).unwrap();
            let streams = [0, 1].map(|_| context.create_stream(StreamOptions::default()).unwrap());
            Self { allocator, streams, context, machine }
        }
    }

    #[test]
    fn blocks_of_two_streams_write_no_count_in_common() {
        let rig = Rig::new();
        let Allocator { inner, keepers } = &rig.allocator;
        let take = |stream| rig.allocator.allocate(stream, BYTES).unwrap();
        drop(rig.streams.each_ref().map(take));
        let count = |at: usize| {
            let keeper = keepers.by_slot[place(rig.streams[at].order().slot())].get().unwrap();
            (Arc::strong_count(inner), Arc::strong_count(keeper))
        };
        let [holders, none] = [Arc::strong_count(inner), 1];
        assert_eq!([count(0), count(1)], [(holders, none); 2]);
        let blocks = [0, 0, 1].map(|at| take(&rig.streams[at]));
        assert_eq!([count(0), count(1)], [(holders, 3), (holders, 2)]);
        assert_eq!(keepers.unshared_count(), None);
        drop(blocks);
        assert_eq!([count(0), count(1)], [(holders, none); 2]);
        assert_eq!(keepers.unshared_count(), Some(2));
    }

    #[test]
    fn the_last_blocks_to_go_end_their_allocator_once_on_any_thread() {
        let Rig { allocator, streams, context, machine } = Rig::new();
        let blocks = streams.each_ref().map(|stream| allocator.allocate(stream, BYTES).unwrap());
        let hold = blocks[0].hold();
        let inner = Arc::downgrade(&allocator.inner);
        drop(allocator);
        assert!(inner.upgrade().is_some());
        scope(|threads| blocks.into_iter().for_each(|block| drop(threads.spawn(|| drop(block)))));
        assert!(inner.upgrade().is_some(), "a hold keeps the allocator, too");
        let is_reserved = || 0 < machine.used_bytes();
        assert!(is_reserved());
        drop(hold);
        assert!(inner.upgrade().is_none());
        assert!(!is_reserved());
        drop((streams, context));
    }

    #[test]
    fn a_pool_of_several_streams_gives_its_cache_back_when_its_last_handle_goes() {
        let rig = Rig::new();
        let pool = rig.allocator.create_pool(Config::default());
        drop(rig.streams.each_ref().map(|stream| pool.allocate(stream, BYTES).unwrap()));
        let clone = pool.clone();
        drop(pool);
        let reserved = rig.allocator.reserved_with_pools();
        assert!(2 * BYTES <= reserved);
        drop(clone);
        assert_eq!(rig.allocator.reserved_with_pools(), 0);
    }
}
