//! In a forked child every lock may be held for ever, by a thread that is not there: each call
//! answers without one, and without a driver call.

use std::cell::Cell;

use cuda_sim::{Machine, Schedule, in_forked_child};
use streams::{Context, Driver, Error, Stream, StreamOptions};

use crate::pool::Pool;
use crate::sync::Arc;
use crate::{AllocError, Allocator, Block, Config, FreeError, Hold, RawBlock};

const BYTES: u64 = 2 << 20;

/// What the parent has when it forks. The machine goes last.
struct Rig {
    block: Block,
    moved: Block,
    nothing: Block,
    numbers: RawBlock,
    hold: Hold,
    pool: Pool,
    unused: Allocator,
    allocator: Allocator,
    streams: [Stream; 2],
    _context: Context,
    machine: Machine,
}

impl Rig {
    fn new() -> Self {
        let machine = Machine::builder().schedule(Schedule::Eager).build();
        let driver = Driver::from_table(machine.table()).unwrap();
        let context = driver.device(0).unwrap().primary_context().unwrap();
        let allocator = Allocator::new(&context, Config::default()).unwrap();
        let streams = [0, 1].map(|_| context.create_stream(StreamOptions::default()).unwrap());
        let take = |bytes| allocator.allocate(&streams[0], bytes).unwrap();
        let [block, moved, nothing] = [take(BYTES), take(BYTES), take(0)];
        Self {
            hold: block.hold(),
            numbers: allocator.allocate_raw(&streams[0], BYTES).unwrap(),
            pool: allocator.create_pool(Config::default()),
            unused: Allocator::new(&context, Config::default()).unwrap(),
            block,
            moved,
            nothing,
            allocator,
            streams,
            _context: context,
            machine,
        }
    }

    /// What `call` says in a child that was forked while another thread, this one, held every lock.
    fn answer_in_a_child(self, call: fn(Self) -> bool) -> Option<u8> {
        let machine = self.machine.clone();
        let before = machine.call_count();
        let inner = Arc::clone(&self.allocator.inner);
        let family = Arc::clone(&self.unused.inner.family);
        let shard = *inner.shards.get(self.streams[0].order().slot()).unwrap();
        // The child has a copy of it.
        let rig = Cell::new(Some(self));
        let in_child = || {
            let answered = rig.take().is_some_and(call);
            u8::from(!answered) + 2 * u8::from(machine.call_count() != before)
        };
        let locks = (inner.group_count.lock(), inner.settling.lock(), inner.orders.lock());
        let forks = || shard.with_at_once(|_| in_forked_child(in_child));
        let ended = inner.family.with_lock(|| family.with_lock(forks));
        drop(locks);
        ended
    }
}

fn refused<T>(outcome: Result<T, AllocError>) -> bool {
    matches!(outcome, Err(AllocError::Driver(Error::Forked)))
}

/// A call, and whether it answers as it should.
type Call = (&'static str, fn(Rig) -> bool);

const OF_BLOCKS: [Call; 11] = [
    ("Block::record_stream", |rig| {
        rig.block.record_stream(&rig.streams[1]);
        true
    }),
    ("Block::record_use", |rig| {
        let _use = rig.block.record_use(&rig.streams[1]);
        true
    }),
    ("Block::begin_use", |rig| {
        let _use = rig.block.begin_use(&rig.streams[1]).unwrap().sharpen();
        rig.block.begin_use(&rig.streams[1]).unwrap().cancel();
        true
    }),
    ("Block::check_stream", |rig| rig.block.check_stream(&rig.streams[1]) == Err(Error::Forked)),
    ("Block::move_to", |mut rig| {
        let to = &rig.streams[1];
        refused(rig.moved.move_to(to)) && refused(rig.nothing.move_to(to))
    }),
    ("Block::wait_all_users", |rig| {
        rig.block.wait_all_users(&rig.streams[1]) == Err(Error::Forked)
    }),
    ("Block::hold", |rig| {
        drop(rig.block.hold());
        drop(rig.nothing.hold());
        true
    }),
    ("Block::free", |rig| rig.block.free() == Ok(()) && rig.nothing.free() == Ok(())),
    ("Block::into_raw", |rig| {
        let address = rig.block.address();
        let raw = rig.block.into_raw();
        let missing = Err(FreeError::Forked { address });
        raw.address == address && rig.allocator.from_raw(raw).map(drop) == missing
    }),
    ("Block::drop", |rig| {
        drop((rig.block, rig.moved, rig.nothing));
        true
    }),
    ("Hold::drop", |rig| {
        drop(rig.hold);
        true
    }),
];

const OF_ALLOCATORS: [Call; 13] = [
    ("Allocator::allocate", |rig| {
        let home = &rig.streams[0];
        refused(rig.allocator.allocate(home, BYTES))
            && refused(rig.allocator.allocate_raw(home, BYTES))
            && refused(rig.pool.allocate(home, BYTES))
    }),
    ("Allocator::free_raw", |rig| rig.allocator.free_raw(rig.numbers) == Ok(())),
    ("Allocator::from_raw", |rig| {
        let missing = Err(FreeError::Forked { address: rig.numbers.address });
        rig.allocator.from_raw(rig.numbers).map(drop) == missing
    }),
    ("Allocator::record_stream_raw", |rig| {
        rig.allocator.record_stream_raw(rig.numbers, &rig.streams[1]) == Ok(())
    }),
    ("Allocator::poll", |rig| rig.allocator.poll() == 0),
    ("Allocator::trim and empty_cache", |rig| {
        refused(rig.allocator.trim(u64::MAX)) && refused(rig.allocator.empty_cache())
    }),
    ("Allocator::set_limit", |rig| {
        rig.allocator.set_limit(BYTES);
        true
    }),
    ("Allocator::stats, wait_depth and reset_peaks", |rig| {
        rig.allocator.reset_peaks();
        let depth = rig.allocator.wait_depth(&rig.streams[0]);
        rig.allocator.stats().allocated_bytes.current == 0 && depth.is_none()
    }),
    ("Allocator::snapshot", |rig| rig.allocator.snapshot().segments.is_empty()),
    ("Allocator::stranded", |rig| {
        let for_one = rig.allocator.stranded_for(&rig.streams[0], BYTES);
        rig.allocator.stranded().total_bytes() + for_one.total_bytes() == 0
    }),
    ("Allocator::create_pool and pools", |rig| {
        let pool = rig.allocator.create_pool(Config::default());
        pool.is_of(&rig.allocator) && rig.allocator.pools().is_empty()
    }),
    ("Allocator::drop", |rig| {
        drop((rig.allocator.clone(), rig.allocator, rig.pool, rig.unused));
        true
    }),
    ("drops of everything", |rig| {
        drop(rig);
        true
    }),
];

/// Was: a move, a wait for all users, a hold, the way to numbers and back, and the figures took the
/// shard's lock, a look at the pools the family's.
#[test]
fn no_call_in_a_forked_child_waits_for_a_lock_that_its_parent_held() {
    for (name, call) in OF_BLOCKS.into_iter().chain(OF_ALLOCATORS) {
        let ended = Rig::new().answer_in_a_child(call);
        assert!(ended.is_some(), "{name} hung or panicked");
        assert_eq!(ended, Some(0), "{name}: 1 is a wrong answer, 2 a driver call, 3 both");
    }
}
