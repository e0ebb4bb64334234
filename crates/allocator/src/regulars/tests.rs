//! Uses that are one bit each, seen through blocks: no use is lost, and none outlives its work.

use cuda_sim::{Machine, Schedule};
use streams::{Context, Driver, Stream, StreamOptions};

use super::{REGULARS_MAX, RegularSet};
use crate::device_bytes::uncounted;
use crate::{Allocator, Block, Config, FreeError, Policy};

const BYTES: u64 = 2 << 20;

/// The machine goes last: its place among the machines is taken by another one at once.
struct Rig {
    allocator: Allocator,
    home: Stream,
    context: Context,
    machine: Machine,
}

impl Rig {
    fn new() -> Self {
        Self::with(Config::default())
    }

    fn with(config: Config) -> Self {
        let machine = Machine::builder().schedule(Schedule::Lazy).build();
        let driver = Driver::from_table(machine.table()).unwrap();
        let context = driver.device(0).unwrap().primary_context().unwrap();
        let home = context.create_stream(StreamOptions::default()).unwrap();
        let allocator = Allocator::new(&context, config).unwrap();
        Self { allocator, home, context, machine }
    }

    fn stream(&self) -> Stream {
        self.context.create_stream(StreamOptions::default()).unwrap()
    }

    fn take(&self) -> Block {
        let block = self.allocator.allocate(&self.home, BYTES).unwrap();
        self.home.fill_bytes(&uncounted(&block), 0, BYTES, 1).unwrap();
        block
    }

    /// `user` writes the block, and is recorded as a whole.
    fn use_on(&self, block: &Block, user: &Stream) {
        user.wait_stream(&self.home).unwrap();
        user.fill_bytes(&uncounted(block), 0, BYTES, 2).unwrap();
        block.record_stream(user);
    }

    fn deferred(&self) -> u64 {
        self.allocator.stats().deferred_free_total
    }

    fn end(self) {
        self.context.synchronize().unwrap();
        assert_eq!(self.machine.hazards(), []);
        let stats = self.allocator.stats();
        assert_eq!(stats.pending_bytes.current, 0);
        self.allocator.snapshot().check(&stats).unwrap();
    }
}

#[test]
fn r3_what_was_ordered_at_the_last_free_says_nothing_of_new_work() {
    for policy in [Policy::Default, Policy::Deterministic] {
        let rig = Rig::with(Config::default().with_policy(policy));
        let user = rig.stream();
        for round in 0..3 {
            let block = rig.take();
            rig.use_on(&block, &user);
            rig.home.wait_stream(&user).unwrap();
            drop(block);
            assert_eq!(rig.deferred(), round, "ordered, and found so");
            let block = rig.take();
            let address = block.address();
            rig.use_on(&block, &user);
            drop(block);
            assert_eq!(rig.deferred(), round + 1, "the user went on since");
            let next = rig.take();
            assert_ne!(next.address(), address);
            rig.context.synchronize().unwrap();
        }
        rig.end();
    }
}

#[test]
fn more_users_than_places_are_all_kept() {
    let rig = Rig::new();
    let users: Vec<Stream> = (0..REGULARS_MAX + 4).map(|_| rig.stream()).collect();
    for _ in 0..2 {
        let block = rig.take();
        let address = block.address();
        for (part, user) in (0..).zip(&users) {
            user.wait_stream(&rig.home).unwrap();
            user.fill_bytes(&uncounted(&block), part * 512, 512, 2).unwrap();
            block.record_stream(user);
            block.record_stream(user);
        }
        let used_by = rig.allocator.snapshot().blocks().map(|block| block.used_by.len()).max();
        assert_eq!(used_by, Some(users.len()), "each once");
        drop(block);
        for user in &users {
            let other = rig.take();
            assert_ne!(other.address(), address, "handed out while a stream may use it");
            user.synchronize().unwrap();
        }
        let pending = rig.allocator.stats().pending_bytes.current;
        assert_eq!(pending, 0, "kept although every use is over");
        rig.context.synchronize().unwrap();
    }
    rig.end();
}

#[test]
fn a_place_is_not_given_away_while_a_block_needs_it() {
    let rig = Rig::new();
    let user = rig.stream();
    let block = rig.take();
    let address = block.address();
    rig.use_on(&block, &user);
    for _ in 0..2 * REGULARS_MAX {
        rig.take().record_stream(&rig.stream());
    }
    drop(block);
    let other = rig.take();
    assert_ne!(other.address(), address, "its user was forgotten");
    user.synchronize().unwrap();
    assert_eq!(rig.take().address(), address);
    rig.end();
}

#[test]
fn a_place_comes_free_with_the_last_block_that_needed_it() {
    let rig = Rig::new();
    let is_regular = |stream: &Stream| {
        let shard = rig.allocator.inner.shards.get(rig.home.order().slot()).unwrap();
        shard.with(|state| {
            let mut set = RegularSet::EMPTY;
            let is_one = state.regulars.join(stream.order(), &mut set);
            state.regulars.leave(set);
            is_one
        })
    };
    // Freed early, freed ordered, with a second user, made a list, and freed when a hold ends.
    let ends: [fn(&Rig, Block, &Stream); 5] = [
        |_, block, _| drop(block),
        |rig, block, user| {
            rig.home.wait_stream(user).unwrap();
            drop(block);
        },
        |rig, block, user| {
            let second = rig.stream();
            second.wait_stream(user).unwrap();
            rig.use_on(&block, &second);
            rig.home.wait_stream(&second).unwrap();
            drop(block);
        },
        |_, block, user| drop(block.record_use(user)),
        |_, block, _| {
            let hold = block.hold();
            drop(block);
            drop(hold);
        },
    ];
    for end in ends {
        for _ in 0..2 * REGULARS_MAX {
            let (block, user) = (rig.take(), rig.stream());
            rig.use_on(&block, &user);
            assert!(is_regular(&user), "no place came free");
            end(&rig, block, &user);
            rig.context.synchronize().unwrap();
        }
    }
    rig.end();
}

#[test]
fn a_whole_use_and_an_exact_one_of_a_stream_are_one_use() {
    for exact_first in [true, false] {
        let rig = Rig::new();
        let user = rig.stream();
        drop({
            let block = rig.take();
            rig.use_on(&block, &user);
            block
        });
        let block = rig.take();
        let address = block.address();
        if exact_first {
            let _use = block.record_use(&user);
        }
        rig.use_on(&block, &user);
        if !exact_first {
            let _use = block.record_use(&user);
        }
        // After the exact use, before the free: it counts, as the whole stream is used.
        let _late = user.fill_bytes(&uncounted(&block), 0, BYTES, 3).unwrap();
        let records = || rig.machine.calls("cuEventRecord");
        let before = records();
        drop(block);
        assert_eq!(records(), before + 1, "one fence for one stream");
        assert_ne!(rig.take().address(), address);
        rig.end();
    }
}

#[test]
fn a_new_home_keeps_the_uses_of_the_old_one() {
    let rig = Rig::new();
    let [user, home] = [rig.stream(), rig.stream()];
    let mut block = rig.take();
    let address = block.address();
    rig.use_on(&block, &user);
    block.move_to(&home).unwrap();
    home.wait_stream(&user).unwrap();
    user.wait_stream(&home).unwrap();
    let _late = user.fill_bytes(&uncounted(&block), 0, BYTES, 3).unwrap();
    drop(block);
    let next = rig.allocator.allocate(&home, BYTES).unwrap();
    assert_ne!(next.address(), address, "handed out while the user may write it");
    rig.end();
}

#[test]
fn the_uses_of_a_block_in_numbers_count() {
    let rig = Rig::new();
    let user = rig.stream();
    for _ in 0..2 {
        let block = rig.take();
        user.wait_stream(&rig.home).unwrap();
        let raw = user.fill_bytes(&uncounted(&block), 0, BYTES, 2).map(|_| block.into_raw());
        let raw = raw.unwrap();
        rig.allocator.record_stream_raw(raw, &user).unwrap();
        rig.allocator.free_raw(raw).unwrap();
        let other = rig.take();
        assert_ne!(other.address(), raw.address, "handed out while the user may write it");
        let stale = rig.allocator.record_stream_raw(raw, &user).unwrap_err();
        assert_eq!(stale, FreeError::NotAllocated { address: raw.address });
        user.synchronize().unwrap();
        assert_eq!(rig.take().address(), raw.address);
    }
    let other = Allocator::new(&rig.context, Config::default()).unwrap();
    let raw = rig.take().into_raw();
    let refused = other.record_stream_raw(raw, &user).unwrap_err();
    assert_eq!(refused, FreeError::Foreign { address: raw.address });
    let block = rig.allocator.from_raw(raw).unwrap();
    let refused = rig.allocator.record_stream_raw(raw, &user).unwrap_err();
    assert_eq!(refused, FreeError::NotAllocated { address: raw.address });
    drop(block);
    rig.end();
}
