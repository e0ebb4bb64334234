//! Bounds on memory in flight: they throttle at their figure, whom they say, and hang nobody.

use allocator::{Allocator, Bound, Config, Policy, WaitDepth};
use streams::Stream;

use super::rig::{Held, Rig, WHOLE, calls_of, take};

/// How many blocks a program frees while others use them.
const STEPS: u32 = 12;

/// Nothing but the bound keeps pending memory small: nothing is asked, and no request waits.
fn unbounded() -> Config {
    Config::default()
        .with_policy(Policy::Deterministic)
        .with_pending_max(1 << 40)
        .with_wait_depth(WaitDepth::Unbounded)
}

/// A block that `user` reads, and will be busy with for a while.
fn read_by<'rig>(
    rig: &'rig dyn Rig,
    allocator: &Allocator,
    home: &Stream,
    user: &Stream,
) -> Held<'rig> {
    let x = take(rig, allocator, home, WHOLE);
    x.fill(home, 7);
    user.wait_stream(home).expect("a wait");
    rig.desk().busy(user);
    x.check(user, 7);
    x.block().record_stream(user);
    x
}

/// Makes blocks and frees them while they are read; gives the most that was pending after a free.
fn run_ahead(rig: &dyn Rig, allocator: &Allocator, streams: &[(&Stream, &Stream)]) -> u64 {
    let mut highest = 0;
    for _ in 0..STEPS {
        for (home, user) in streams {
            read_by(rig, allocator, home, user).give_back();
            highest = highest.max(allocator.stats().pending_bytes.current);
        }
    }
    highest
}

/// The host is held up when pending memory passes the figure, and not before; without the bound
/// it runs ahead.
pub fn a_bound_holds_the_host_up_at_its_figure(rig: &dyn Rig) {
    let desk = rig.desk();
    let [home, user] = desk.streams();
    let free = desk.allocator(unbounded());
    let ahead = run_ahead(rig, &free, &[(&home, &user)]);
    assert_eq!(ahead, u64::from(STEPS) * WHOLE, "without the bound all of it is pending");
    for blocks in [0, 3] {
        let bound = Bound::on_host(blocks * WHOLE);
        let bounded = desk.allocator(unbounded().with_stream_bound(bound));
        let (ahead, waits) =
            calls_of(rig, "cuEventSynchronize", || run_ahead(rig, &bounded, &[(&home, &user)]));
        let stats = bounded.stats();
        assert_eq!(ahead, blocks * WHOLE, "it runs ahead as far as it may");
        assert_eq!(stats.pending_bytes.peak, (blocks + 1) * WHOLE, "passed by one block");
        let throttled = u64::from(STEPS) - blocks;
        assert_eq!((stats.host_throttle_total, stats.device_throttle_total), (throttled, 0));
        assert!(waits.is_none_or(|waits| 0 < waits && waits <= throttled), "{waits:?} waits");
        assert_eq!(stats.bound_passed_total, 0);
        assert!(stats.reserved_bytes.peak <= (blocks + 2) * WHOLE, "{stats:?}");
    }
}

/// On the device it is the stream whose memory it is that waits, and the host never does.
pub fn a_bound_holds_the_stream_up_at_its_figure(rig: &dyn Rig) {
    let desk = rig.desk();
    let [home, user] = desk.streams();
    for blocks in [0, 3] {
        let bound = Bound::on_device(blocks * WHOLE);
        let bounded = desk.allocator(unbounded().with_stream_bound(bound));
        let ((ahead, host_waits), device_waits) = calls_of(rig, "cuStreamWaitEvent", || {
            calls_of(rig, "cuEventSynchronize", || run_ahead(rig, &bounded, &[(&home, &user)]))
        });
        let stats = bounded.stats();
        assert_eq!(ahead, blocks * WHOLE);
        assert_eq!(stats.pending_bytes.peak, (blocks + 1) * WHOLE);
        let throttled = u64::from(STEPS) - blocks;
        assert_eq!((stats.host_throttle_total, stats.device_throttle_total), (0, throttled));
        assert!(host_waits.is_none_or(|waits| waits == 0), "the host waited");
        // One wait for each block by the user, which reads it, and one by the home at the bound.
        let expected = u64::from(STEPS) + throttled;
        assert!(device_waits.is_none_or(|waits| waits == expected), "{device_waits:?} waits");
        assert_eq!(stats.bound_passed_total, 0);
    }
}

/// A pool's bound counts all streams' memory together, one of a stream counts each alone.
pub fn a_bound_is_for_each_stream_or_for_all_together(rig: &dyn Rig) {
    let desk = rig.desk();
    let [a, b, user] = desk.streams();
    for throttle in [Bound::on_host(3 * WHOLE), Bound::on_device(3 * WHOLE)] {
        let each = desk.allocator(unbounded().with_stream_bound(throttle));
        let ahead = run_ahead(rig, &each, &[(&a, &user), (&b, &user)]);
        assert!(3 * WHOLE < ahead && ahead <= 6 * WHOLE, "{ahead} bytes on two streams");
        let all = desk.allocator(unbounded().with_pool_bound(throttle));
        let ahead = run_ahead(rig, &all, &[(&a, &user), (&b, &user)]);
        let stats = all.stats();
        assert!(ahead <= 3 * WHOLE, "{ahead} bytes in all");
        assert_eq!(stats.pending_bytes.peak, 4 * WHOLE);
        assert!(0 < stats.host_throttle_total + stats.device_throttle_total);
    }
}

/// A private pool has bounds of its own; beside it the allocator runs ahead.
pub fn a_pool_has_a_bound_of_its_own(rig: &dyn Rig) {
    let desk = rig.desk();
    let [home, user] = desk.streams();
    let allocator = desk.allocator(unbounded());
    let pool = allocator.create_pool(unbounded().with_pool_bound(Bound::on_host(WHOLE)));
    assert_eq!(run_ahead(rig, &allocator, &[(&home, &user)]), u64::from(STEPS) * WHOLE);
    assert_eq!(run_ahead(rig, pool.allocator(), &[(&home, &user)]), WHOLE);
}

/// Nobody waits for a gate that the host has yet to open (R5): the program goes on above the bound,
/// which is counted, and comes below it again afterwards.
pub fn a_bound_hangs_nobody_before_a_gate(rig: &dyn Rig) {
    let desk = rig.desk();
    for bound in [Bound::on_host(WHOLE), Bound::on_device(WHOLE)] {
        for per_pool in [false, true] {
            let [home, user, other] = desk.streams();
            let config = unbounded();
            let config = if per_pool {
                config.with_pool_bound(bound)
            } else {
                config.with_stream_bound(bound)
            };
            let allocator = desk.allocator(config);
            let blocks = [0, 1, 2].map(|_| read_by(rig, &allocator, &home, &user));
            let gate = desk.hold(&user);
            for block in blocks {
                block.check(&user, 7);
                block.give_back();
            }
            let stats = allocator.stats();
            assert_eq!(stats.pending_bytes.current, 3 * WHOLE, "{bound:?}");
            assert_eq!(stats.bound_passed_total, 2, "{bound:?}");
            assert_eq!((stats.host_throttle_total, stats.device_throttle_total), (0, 0));
            // What a stream without a gate reads is still waited for.
            read_by(rig, &allocator, &home, &other).give_back();
            let stats = allocator.stats();
            assert_eq!(stats.pending_bytes.current, 3 * WHOLE, "{bound:?}");
            assert_eq!(stats.host_throttle_total + stats.device_throttle_total, 1, "{bound:?}");
            gate.open();
            desk.context().synchronize().expect("all ends");
            allocator.poll();
            assert_eq!(allocator.stats().stranded_bytes, 0);
        }
    }
}

/// A bound on all memory in flight makes room before a request; what the program itself holds it
/// does not wait for.
pub fn a_bound_on_memory_in_flight_makes_room_for_a_request(rig: &dyn Rig) {
    let desk = rig.desk();
    let [home, user] = desk.streams();
    let bound = Bound::on_host(4 * WHOLE).with_allocated();
    let allocator = desk.allocator(unbounded().with_stream_bound(bound));
    let held = [0, 1].map(|_| read_by(rig, &allocator, &home, &user));
    for _ in 0..2 {
        read_by(rig, &allocator, &home, &user).give_back();
    }
    assert_eq!(allocator.stats().pending_bytes.current, 2 * WHOLE);
    assert_eq!(allocator.stats().host_throttle_total, 0, "four blocks are within the bound");
    let fifth = read_by(rig, &allocator, &home, &user);
    let stats = allocator.stats();
    assert_eq!(stats.host_throttle_total, 1);
    assert!(stats.pending_bytes.current + stats.allocated_bytes.current <= 4 * WHOLE, "{stats:?}");
    let more = [0, 1, 2].map(|_| read_by(rig, &allocator, &home, &user));
    let stats = allocator.stats();
    assert_eq!(stats.allocated_bytes.current, 6 * WHOLE, "a program may hold what it likes");
    assert_eq!((stats.pending_bytes.current, stats.bound_passed_total), (0, 0));
    held.into_iter().chain([fifth]).chain(more).for_each(Held::give_back);
}

/// Where the policy never waits on the device a bound there holds nobody up, and says so; on the
/// host it does.
pub fn a_bound_on_the_device_needs_a_policy_that_waits(rig: &dyn Rig) {
    let desk = rig.desk();
    let [home, user] = desk.streams();
    let pytorch = unbounded().with_policy(Policy::PyTorch);
    let allocator = desk.allocator(pytorch.clone().with_stream_bound(Bound::on_device(0)));
    let gate = desk.hold(&user);
    read_by(rig, &allocator, &home, &user).give_back();
    gate.open();
    let stats = allocator.stats();
    assert_eq!((stats.device_throttle_total, stats.bound_passed_total), (0, 1));
    let [home, user] = desk.streams();
    let allocator = desk.allocator(pytorch.with_stream_bound(Bound::on_host(0)));
    read_by(rig, &allocator, &home, &user).give_back();
    let stats = allocator.stats();
    assert_eq!((stats.pending_bytes.current, stats.bound_passed_total), (0, 0));
}

/// What a hold keeps is not counted, as nobody could wait for it.
pub fn a_bound_does_not_count_what_a_hold_keeps(rig: &dyn Rig) {
    let desk = rig.desk();
    let [home, user] = desk.streams();
    let allocator = desk.allocator(unbounded().with_stream_bound(Bound::on_host(WHOLE)));
    let x = take(rig, &allocator, &home, 2 * WHOLE);
    let hold = x.block().hold();
    let estate = x.free_while_held();
    read_by(rig, &allocator, &home, &user).give_back();
    let stats = allocator.stats();
    assert_eq!(stats.pending_bytes.current, 3 * WHOLE);
    assert_eq!((stats.host_throttle_total, stats.bound_passed_total), (0, 0));
    estate.end();
    drop(hold);
}
