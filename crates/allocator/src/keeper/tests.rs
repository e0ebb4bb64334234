//! Odd orders in which what keeps an allocator goes.

use cuda_sim::{Machine, Schedule};
use streams::{Context, Driver, Stream, StreamOptions};

use crate::allocator::Inner;
use crate::sync::{Arc, Weak, scope};
use crate::{Allocator, Block, Config};

const BYTES: u64 = 2 << 20;

/// The machine goes last: its place among the machines is taken by another one at once.
struct Rig {
    allocator: Allocator,
    streams: [Stream; 2],
    _context: Context,
    machine: Machine,
}

impl Rig {
    fn new() -> Self {
        Self::on(Schedule::Eager)
    }

    fn on(schedule: Schedule) -> Self {
        let machine = Machine::builder().schedule(schedule).build();
        let driver = Driver::from_table(machine.table()).unwrap();
        let context = driver.device(0).unwrap().primary_context().unwrap();
        let allocator = Allocator::new(&context, Config::default()).unwrap();
        let streams = [0, 1].map(|_| context.create_stream(StreamOptions::default()).unwrap());
        Self { allocator, streams, _context: context, machine }
    }

    fn take(&self, at: usize) -> Block {
        self.allocator.allocate(&self.streams[at], BYTES).unwrap()
    }

    /// Drops the allocator's only handle.
    fn without_handles(self) -> Ended {
        let Self { allocator, streams, _context, machine } = self;
        let inner = Arc::downgrade(&allocator.inner);
        drop(allocator);
        Ended { inner, streams, _context, machine }
    }
}

/// A rig whose allocator has no handles.
struct Ended {
    inner: Weak<Inner>,
    streams: [Stream; 2],
    _context: Context,
    machine: Machine,
}

impl Ended {
    fn is_kept(&self) -> bool {
        let is_kept = self.inner.upgrade().is_some();
        assert_eq!(is_kept, 0 < self.machine.used_bytes(), "it goes with its memory");
        is_kept
    }
}

fn keepers(inner: &Inner) -> Vec<u64> {
    inner.shards.iter().map(|(_, shard)| shard.with_uses(|state| state.keeper_count)).collect()
}

#[test]
fn blocks_of_two_streams_write_no_count_in_common() {
    let rig = Rig::new();
    let inner = &rig.allocator.inner;
    drop([0, 1].map(|at| rig.take(at)));
    let counts = || (Arc::strong_count(inner), keepers(inner));
    let (references, handles_only) = counts();
    assert_eq!(handles_only, [1, 1]);
    let blocks = [0, 1].map(|at| rig.take(at));
    assert_eq!(counts(), (references, vec![2, 2]));
    drop(blocks);
    assert_eq!(counts(), (references, vec![1, 1]));
}

#[test]
fn the_last_blocks_to_go_end_their_allocator_once_on_any_thread() {
    let rig = Rig::new();
    let blocks = [0, 1].map(|at| rig.take(at));
    let hold = blocks[0].hold();
    let ended = rig.without_handles();
    assert!(ended.is_kept());
    scope(|threads| blocks.into_iter().for_each(|block| drop(threads.spawn(|| drop(block)))));
    assert!(ended.is_kept(), "a hold keeps the allocator, too");
    drop(hold);
    assert!(!ended.is_kept());
}

#[test]
fn a_free_that_records_a_fence_is_the_last_to_let_go() {
    let rig = Rig::on(Schedule::Lazy);
    let block = rig.take(0);
    rig.streams[1].fill_bytes(&block, 0, BYTES, 1).unwrap();
    block.record_stream(&rig.streams[1]);
    let ended = rig.without_handles();
    assert!(ended.is_kept());
    block.free().unwrap();
    assert!(!ended.is_kept());
    assert_eq!(ended.machine.hazards(), []);
}

#[test]
fn a_block_without_handles_can_do_all_it_could() {
    let rig = Rig::new();
    let mut block = rig.take(0);
    let ended = rig.without_handles();
    let [home, other] = &ended.streams;
    block.check_stream(other).unwrap();
    assert!(block.record_use(other).is_over());
    let _use = block.begin_use(other).unwrap().sharpen();
    block.record_stream(home);
    block.move_to(other).unwrap();
    block.wait_all_users(home).unwrap();
    home.fill_bytes(&block, 0, BYTES, 1).unwrap();
    drop(block.hold());
    assert!(ended.is_kept());
    drop(block);
    assert!(!ended.is_kept());
}

#[test]
fn a_forgotten_block_keeps_its_allocator_for_ever() {
    let rig = Rig::new();
    let forgotten = Box::leak(Box::new(rig.take(0)));
    let ended = rig.without_handles();
    assert!(ended.is_kept());
    assert_eq!(forgotten.size(), BYTES);
    assert!(ended.is_kept());
}

#[test]
fn a_block_of_zero_bytes_keeps_its_allocator() {
    let rig = Rig::new();
    let nothing = rig.allocator.allocate(&rig.streams[0], 0).unwrap();
    let hold = nothing.hold();
    let ended = rig.without_handles();
    drop(nothing);
    assert!(ended.inner.upgrade().is_some());
    drop(hold);
    assert!(ended.inner.upgrade().is_none());
}

#[test]
fn numbers_keep_no_allocator() {
    let rig = Rig::new();
    let [raw, block] = [0, 1].map(|_| rig.take(0)).map(Block::into_raw);
    assert_eq!(keepers(&rig.allocator.inner), [1]);
    let block = rig.allocator.from_raw(block).unwrap();
    assert!(rig.allocator.from_raw(block.into_raw()).is_ok_and(|block| block.size() == BYTES));
    assert_eq!(keepers(&rig.allocator.inner), [1]);
    let block = rig.take(1);
    let ended = rig.without_handles();
    assert!(ended.inner.upgrade().is_some());
    // The last that keeps it becomes numbers.
    let last = block.into_raw();
    assert!(ended.inner.upgrade().is_none());
    assert_ne!(last.address, raw.address);
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

#[test]
fn a_pool_that_nobody_has_is_kept_by_whoever_finds_it_again() {
    let rig = Rig::new();
    let pool = rig.allocator.create_pool(Config::default());
    let block = pool.allocate(&rig.streams[0], BYTES).unwrap();
    let inner = Arc::downgrade(&pool.allocator().inner);
    let count = |shards: &[u64]| assert_eq!(keepers(&inner.upgrade().unwrap()), shards);
    count(&[2]);
    drop(pool);
    count(&[1]);
    for _ in 0..3 {
        let [found, again] = [0, 1].map(|_| rig.allocator.pools().remove(0));
        count(&[2]);
        drop(found);
        count(&[2]);
        drop(again);
        count(&[1]);
    }
    let found = rig.allocator.pools().remove(0);
    let other = found.allocate(&rig.streams[1], BYTES).unwrap();
    drop(block);
    count(&[1, 2]);
    drop(found);
    count(&[0, 1]);
    drop(other);
    count(&[0, 0]);
    rig.allocator.empty_cache().unwrap();
    assert!(inner.upgrade().is_none());
}
