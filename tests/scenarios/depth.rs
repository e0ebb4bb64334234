//! Step 4 below the bound on pending memory: a stream waits on the device where that costs
//! nothing, because the streams it waits for have more to do behind the use; and what exactly it
//! waits for.

use allocator::{Config, Policy, WaitDepth};
use streams::Stream;

use super::rig::{Held, Rig, WHOLE, calls_of, served, take};

/// How many blocks a producer hands over.
const STEPS: u64 = 12;
/// A block of which four fill a piece of memory.
const QUARTER: u64 = WHOLE / 4;

/// A policy that never asks, so that nothing is found complete by luck, far below its bound.
fn waits_at(depth: WaitDepth) -> Config {
    Config::default()
        .with_policy(Policy::Deterministic)
        .with_pending_max(1 << 40)
        .with_wait_depth(depth)
}

/// A block that `home` wrote and `users` read, and that is freed with `record_stream` alone.
fn hand_over(rig: &dyn Rig, block: Held<'_>, home: &Stream, users: &[&Stream]) -> u64 {
    block.fill(home, 1);
    for user in users {
        user.wait_stream(home).expect("a wait");
        rig.desk().busy(user);
        block.check(user, 1);
        block.block().record_stream(user);
    }
    block.free()
}

/// A producer keeps so many blocks in flight as its consumers need to go on meanwhile, and no
/// more; without a depth memory grows with every step.
pub fn a_producer_keeps_as_many_blocks_as_its_depth(rig: &dyn Rig) {
    let desk = rig.desk();
    let depths = [
        (WaitDepth::Fixed(0), 2),
        (WaitDepth::Fixed(1), 2),
        (WaitDepth::Fixed(3), 4),
        (WaitDepth::Learned, u64::from(WaitDepth::FIRST) + 1),
        (WaitDepth::Unbounded, STEPS),
    ];
    for (depth, blocks) in depths {
        let allocator = desk.allocator(waits_at(depth));
        let [home, one, two] = desk.streams();
        for _ in 0..STEPS {
            let block = take(rig, &allocator, &home, WHOLE);
            hand_over(rig, block, &home, &[&one, &two]);
        }
        assert_eq!(served(&allocator).growth, blocks, "{depth:?}");
        assert_eq!(allocator.stats().device_waits(), STEPS - blocks, "{depth:?}");
    }
}

/// Was: cached memory was used up before anybody was waited for, so as much stayed in use as had
/// ever been reserved, and not what the program needed. A stream that has more pending than it
/// needs in stock is made to wait for it where that costs nothing, and is then served from the
/// cache: nothing that fits is passed by (R10).
pub fn cached_memory_does_not_pile_up_as_pending(rig: &dyn Rig) {
    let desk = rig.desk();
    let depths =
        [(WaitDepth::Fixed(1), 2), (WaitDepth::Fixed(3), 4), (WaitDepth::Unbounded, STEPS)];
    for (depth, blocks) in depths {
        let allocator = desk.allocator(waits_at(depth));
        let [home, one, two] = desk.streams();
        let cached: Vec<_> = (0..STEPS).map(|_| take(rig, &allocator, &home, WHOLE)).collect();
        for block in cached {
            block.free();
        }
        allocator.reset_peaks();
        for _ in 0..STEPS {
            let block = take(rig, &allocator, &home, WHOLE);
            hand_over(rig, block, &home, &[&one, &two]);
        }
        let (stats, served) = (allocator.stats(), served(&allocator));
        assert_eq!(stats.active_bytes.peak, blocks * WHOLE, "{depth:?}");
        assert_eq!((served.growth, served.device_wait), (STEPS, 0), "{depth:?}: R10");
    }
}

/// Work that a stream has behind the use is work of frees: a stream that only one block was used
/// on has nothing to go on with, and is not waited for, however much else it was given.
pub fn a_stream_without_bursts_behind_the_use_is_not_waited_for(rig: &dyn Rig) {
    let desk = rig.desk();
    let allocator = desk.allocator(waits_at(WaitDepth::Fixed(1)));
    let [home, busy, once] = desk.streams();
    let block = take(rig, &allocator, &home, WHOLE);
    let freed = hand_over(rig, block, &home, &[&busy, &once]);
    for _ in 0..STEPS {
        let block = take(rig, &allocator, &home, WHOLE);
        assert_ne!(block.address(), freed, "waits for a stream that has nothing else");
        hand_over(rig, block, &home, &[&busy]);
    }
    assert_eq!(served(&allocator).growth, 3);
}

/// A stream behind a gate of the host is not waited for, at whatever depth (R5).
pub fn a_gate_is_not_waited_for_at_any_depth(rig: &dyn Rig) {
    let desk = rig.desk();
    let allocator = desk.allocator(waits_at(WaitDepth::Fixed(1)));
    let [home, gated] = desk.streams();
    let gate = desk.hold(&gated);
    for _ in 0..STEPS {
        let block = take(rig, &allocator, &home, WHOLE);
        hand_over(rig, block, &home, &[&gated]);
    }
    home.synchronize().expect("the home ends before the gate opens");
    assert_eq!(served(&allocator).device_wait, 0);
    gate.open();
}

/// A fence that was recorded before a gate is not behind it: it is waited for, and the stream that
/// waits ends before the gate opens (R5). What is behind the gate is not.
pub fn what_lies_before_a_gate_is_waited_for(rig: &dyn Rig) {
    let desk = rig.desk();
    let allocator = desk.allocator(waits_at(WaitDepth::Fixed(1)));
    let [home, user] = desk.streams();
    let freed = [0, 1].map(|_| {
        let block = take(rig, &allocator, &home, WHOLE);
        hand_over(rig, block, &home, &[&user])
    });
    let gate = desk.hold(&user);
    let behind = [0, 1, 2].map(|_| {
        let block = take(rig, &allocator, &home, WHOLE);
        hand_over(rig, block, &home, &[&user])
    });
    assert_eq!(behind[0], freed[0], "grew although nothing waits for the host");
    assert_eq!(behind[1], freed[1], "grew although nothing waits for the host");
    assert!(!freed.contains(&behind[2]), "waits for what is behind the gate");
    assert_eq!(allocator.stats().device_waits(), 2);
    home.synchronize().expect("the home ends before the gate opens");
    gate.open();
}

/// Neighbors that are large enough only together are waited for together, by one wait.
pub fn neighbors_are_waited_for_together(rig: &dyn Rig) {
    let desk = rig.desk();
    let allocator = desk.allocator(waits_at(WaitDepth::Fixed(1)));
    let [home, user] = desk.streams();
    let quarters = [0; 4].map(|_| take(rig, &allocator, &home, QUARTER));
    let freed = quarters.map(|block| hand_over(rig, block, &home, &[&user]));
    let again = || take(rig, &allocator, &home, 2 * QUARTER);
    let (half, calls) = calls_of(rig, "cuStreamWaitEvent", again);
    assert_eq!(half.address(), freed[0], "the two that were freed first");
    assert_eq!(allocator.stats().device_waits(), 1);
    assert!(calls.is_none_or(|calls| calls == 1), "{calls:?} waits for one stream");
    half.fill(&home, 2);
    half.check(&home, 2);
}

/// An exact use that was followed by more work before the free is waited for by the fence of the
/// free, which the free has recorded once (O6).
pub fn an_exact_use_is_waited_for_by_the_fence_of_its_free(rig: &dyn Rig) {
    let desk = rig.desk();
    let allocator = desk.allocator(waits_at(WaitDepth::Unbounded).with_pending_max(0));
    let [home, user] = desk.streams();
    let x = take(rig, &allocator, &home, WHOLE);
    x.fill(&home, 1);
    user.wait_stream(&home).expect("a wait");
    x.check(&user, 1);
    let _use = x.block().record_use(&user);
    desk.busy(&user);
    let (freed, records) = calls_of(rig, "cuEventRecord", || x.free());
    assert!(records.is_none_or(|records| records == 1), "{records:?} records in one free");
    desk.busy(&user);
    let again = || take(rig, &allocator, &home, WHOLE);
    let (y, records) = calls_of(rig, "cuEventRecord", again);
    assert_eq!(y.address(), freed, "grew beside a block that could be waited for");
    assert_eq!(served(&allocator).device_wait, 1);
    assert!(records.is_none_or(|records| records == 0), "{records:?} records for a wait");
    y.fill(&home, 2);
    y.check(&home, 2);
}

/// Frees between two submissions share one record, also of exact uses; a free whose uses are
/// ordered makes no call.
pub fn exact_uses_of_one_burst_share_a_record(rig: &dyn Rig) {
    let desk = rig.desk();
    for is_ordered in [false, true] {
        let allocator = desk.allocator(waits_at(WaitDepth::Fixed(1)));
        let [home, user] = desk.streams();
        let blocks = [0; 3].map(|_| take(rig, &allocator, &home, QUARTER));
        blocks.iter().for_each(|block| block.fill(&home, 1));
        user.wait_stream(&home).expect("a wait");
        for block in &blocks {
            block.check(&user, 1);
            let _use = block.block().record_use(&user);
        }
        desk.busy(&user);
        if is_ordered {
            home.wait_stream(&user).expect("a wait");
        }
        let free = || blocks.map(|block| block.free());
        let before = rig.call_count();
        let (_, records) = calls_of(rig, "cuEventRecord", free);
        let expected = u64::from(!is_ordered);
        assert!(records.is_none_or(|records| records == expected), "{records:?} records");
        assert!(!is_ordered || rig.call_count() == before, "calls where order was known");
    }
}

/// A stream that others may submit to has no shared fences: each free records at most one there.
/// An exact use that the home has waited for needs none.
pub fn on_a_stream_of_others_each_free_records_once(rig: &dyn Rig) {
    let desk = rig.desk();
    for is_ordered in [false, true] {
        let allocator = desk.allocator(waits_at(WaitDepth::Fixed(1)));
        let [home, user] = desk.streams();
        let _others_have_it = user.as_raw();
        let blocks = [0; 3].map(|_| take(rig, &allocator, &home, QUARTER));
        blocks.iter().for_each(|block| block.fill(&home, 1));
        user.wait_stream(&home).expect("a wait");
        for block in &blocks {
            block.check(&user, 1);
            let _use = block.block().record_use(&user);
        }
        desk.busy(&user);
        if is_ordered {
            home.wait_stream(&user).expect("a wait");
        }
        for block in blocks {
            let (_, records) = calls_of(rig, "cuEventRecord", || block.free());
            let expected = u64::from(!is_ordered);
            assert!(records.is_none_or(|records| records == expected), "{records:?} records");
        }
    }
}
