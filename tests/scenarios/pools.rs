//! Private pools: memory that is kept apart, policies and limits of their own, and pools that go.

use allocator::{AllocError, Allocator, Config, FreeError, Policy, Pool, StrandedCause};
use streams::Stream;

use super::rig::{Held, Rig, WHOLE, take};

/// How often the device is asked before a test gives up.
const POLLS_MAX: usize = 2_000;

fn take_in<'rig>(rig: &'rig dyn Rig, pool: &Pool, stream: &Stream, bytes: u64) -> Held<'rig> {
    take(rig, pool.allocator(), stream, bytes)
}

fn checked(allocator: &Allocator) -> allocator::Stats {
    let stats = allocator.stats();
    assert_eq!(allocator.snapshot().check(&stats), Ok(()));
    stats
}

/// A pool's segments serve its own requests and no others, and each has figures of its own.
pub fn a_pool_keeps_its_memory_apart(rig: &dyn Rig) {
    let desk = rig.desk();
    for source in desk.sources() {
        let allocator = Allocator::with_source(desk.context(), Config::default(), source);
        let allocator = allocator.expect("an allocator");
        let (pool, other) =
            (allocator.create_pool(Config::default()), allocator.create_pool(Config::default()));
        let home = desk.stream();
        let cached = take_in(rig, &pool, &home, WHOLE).free();
        let x = take(rig, &allocator, &home, WHOLE);
        let y = take_in(rig, &other, &home, WHOLE);
        assert!(x.address() != cached && y.address() != cached, "memory crossed pools");
        let again = take_in(rig, &pool.clone(), &home, WHOLE);
        assert_eq!(again.address(), cached, "clones are one pool");
        again.fill(&home, 1);
        again.give_back();
        for (held, word) in [(&x, 2), (&y, 3)] {
            held.fill(&home, word);
            held.check(&home, word);
        }
        let stranded = allocator.stranded_for(&home, WHOLE);
        assert!(WHOLE <= stranded.bytes_of(StrandedCause::OtherPool), "{stranded}");
        let stats = [&allocator, pool.allocator(), other.allocator()].map(checked);
        let allocated = stats.map(|stats| stats.allocated_bytes.current);
        assert_eq!(allocated, [WHOLE, 0, WHOLE]);
        let reserved: u64 = stats.iter().map(|stats| stats.reserved_bytes.current).sum();
        assert_eq!(allocator.reserved_with_pools(), reserved);
        let raw = take_in(rig, &pool, &home, WHOLE);
        let freed = raw.free_by(|block| {
            let raw = block.into_raw();
            let refused = allocator.free_raw(raw);
            assert!(matches!(refused, Err(FreeError::Foreign { .. })), "{refused:?}");
            pool.allocator().free_raw(raw)
        });
        assert_eq!(freed, Ok(()));
    }
}

/// Each pool has its policy: under one memory crosses streams by known order, under the other,
/// on the same streams, it never does.
pub fn each_pool_has_a_policy_of_its_own(rig: &dyn Rig) {
    let desk = rig.desk();
    let allocator = desk.allocator(Config::default().with_policy(Policy::PyTorch));
    for (policy, crosses) in
        [(Policy::Default, true), (Policy::Deterministic, true), (Policy::PyTorch, false)]
    {
        let pool = allocator.create_pool(Config::default().with_policy(policy));
        let [home, other] = desk.streams();
        let x = take_in(rig, &pool, &home, WHOLE);
        x.fill(&home, 1);
        let freed = x.free();
        other.wait_stream(&home).expect("a wait");
        let y = take_in(rig, &pool, &other, WHOLE);
        y.fill(&other, 2);
        assert_eq!(y.address() == freed, crosses, "{policy:?}");
        assert_eq!(pool.allocator().config().policy, policy);
    }
}

/// A pool has a limit of its own; the allocator's holds for all its pools together, and cached
/// memory of one pool makes room for another.
pub fn limits_hold_for_a_pool_and_for_all_of_them(rig: &dyn Rig) {
    let desk = rig.desk();
    let allocator = desk.allocator(Config::default().with_limit(4 * WHOLE));
    let home = desk.stream();
    let small = allocator.create_pool(Config::default().with_limit(WHOLE));
    let x = take_in(rig, &small, &home, WHOLE);
    x.fill(&home, 1);
    let refused = small.allocate(&home, WHOLE).expect_err("above the pool's limit");
    assert!(matches!(refused, AllocError::OutOfMemory(_)), "{refused:?}");
    let refused = small.allocate(&home, 2 * WHOLE).expect_err("never fits the pool");
    assert!(matches!(refused, AllocError::TooLarge { limit_bytes: WHOLE, .. }), "{refused:?}");

    let large = allocator.create_pool(Config::default());
    let refused = large.allocate(&home, 5 * WHOLE).expect_err("never fits the allocator");
    assert!(matches!(refused, AllocError::TooLarge { .. }), "{refused:?}");
    let y = take_in(rig, &large, &home, 3 * WHOLE);
    y.fill(&home, 2);
    let Err(AllocError::OutOfMemory(told)) = allocator.allocate(&home, WHOLE) else {
        panic!("the pools hold all there may be");
    };
    assert_eq!((told.reserved_bytes, told.other_pools_bytes), (0, 4 * WHOLE));
    assert_eq!(told.limit_bytes, 4 * WHOLE);

    y.give_back();
    let z = take(rig, &allocator, &home, 2 * WHOLE);
    z.fill(&home, 3);
    assert!(allocator.reserved_with_pools() <= 4 * WHOLE);
    checked(large.allocator());
    checked(&allocator);
}

/// A pool that decides from its own calls alone keeps its cache, whatever another pool needs (R9).
pub fn a_deterministic_pool_is_left_as_it_is(rig: &dyn Rig) {
    let desk = rig.desk();
    let allocator = desk.allocator(Config::default().with_limit(2 * WHOLE));
    let pool = allocator.create_pool(Config::default().with_policy(Policy::Deterministic));
    let home = desk.stream();
    let x = take_in(rig, &pool, &home, WHOLE);
    x.fill(&home, 1);
    let cached = x.free();
    desk.context().synchronize().expect("all ends");
    let refused = allocator.allocate(&home, 2 * WHOLE).expect_err("the pool keeps its cache");
    assert!(matches!(refused, AllocError::OutOfMemory(_)), "{refused:?}");
    assert_eq!(take_in(rig, &pool, &home, WHOLE).address(), cached);
    pool.allocator().empty_cache().expect("the cache goes");
    assert_eq!(allocator.allocate(&home, 2 * WHOLE).expect("there is room now").size(), 2 * WHOLE);
}

/// A block keeps its pool beyond its handles; what the pool has goes back to the device when the
/// last block is complete, and nobody waits for that.
pub fn a_dropped_pool_goes_when_its_last_block_is_complete(rig: &dyn Rig) {
    let desk = rig.desk();
    for source in desk.sources() {
        let allocator = Allocator::with_source(desk.context(), Config::default(), source);
        let allocator = allocator.expect("an allocator");
        let before = rig.used_bytes();
        let [home, user] = desk.streams();
        let pool = allocator.create_pool(Config::default());
        let x = take_in(rig, &pool, &home, WHOLE);
        drop(pool);
        assert_eq!(allocator.pools().len(), 1, "the block keeps it");
        x.fill(&home, 1);
        user.wait_stream(&home).expect("a wait");
        let gate = desk.hold(&user);
        x.check(&user, 1);
        x.block().record_stream(&user);
        // Neither this nor the poll waits: the gate is still closed.
        x.give_back();
        allocator.poll();
        assert!(WHOLE <= allocator.reserved_with_pools(), "given back while it is read");
        gate.open();
        let left = (0..POLLS_MAX).find(|_| {
            allocator.poll();
            rig.pause();
            allocator.pools().is_empty()
        });
        assert!(left.is_some(), "the pool never goes");
        assert_eq!((allocator.reserved_with_pools(), rig.used_bytes()), (0, before));
    }
}

/// The last handle of a pool gives back at once what is complete.
pub fn a_complete_pool_goes_with_its_last_handle(rig: &dyn Rig) {
    let desk = rig.desk();
    let allocator = desk.allocator(Config::default());
    let before = rig.used_bytes();
    let home = desk.stream();
    let pool = allocator.create_pool(Config::default());
    let clone = pool.clone();
    take_in(rig, &pool, &home, 3 * WHOLE).give_back();
    home.synchronize().expect("the home ends");
    drop(pool);
    assert_ne!(allocator.reserved_with_pools(), 0, "another handle is left");
    drop(clone);
    assert_eq!((allocator.reserved_with_pools(), rig.used_bytes()), (0, before));
}

/// A pool outlives its allocator, and cleans up after itself then.
pub fn a_pool_outlives_its_allocator(rig: &dyn Rig) {
    let desk = rig.desk();
    let before = rig.used_bytes();
    let allocator = desk.allocator(Config::default());
    let [home, user] = desk.streams();
    let (kept, left) =
        (allocator.create_pool(Config::default()), allocator.create_pool(Config::default()));
    let y = take_in(rig, &left, &home, WHOLE);
    y.fill(&home, 1);
    drop(left);
    drop(allocator);
    let x = take_in(rig, &kept, &home, WHOLE);
    x.fill(&home, 1);
    user.wait_stream(&home).expect("a wait");
    desk.busy(&user);
    for block in [&x, &y] {
        block.check(&user, 1);
        block.block().record_stream(&user);
    }
    drop(kept);
    x.give_back();
    y.give_back();
    assert_eq!(rig.used_bytes(), before, "memory stayed behind");
}
