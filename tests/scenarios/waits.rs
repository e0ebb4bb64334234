//! Step 4: a stream is made to wait on the device for a block that others still use, rather than
//! that memory grows; and when it never is.

use std::sync::mpsc;

use allocator::{Config, Policy};
use streams::StreamOptions;

use super::rig::{Rig, WHOLE, calls_of, served, take};

/// A policy that never asks, so that nothing is found complete by luck, with a bound that is
/// always passed.
fn waits_at_once() -> Config {
    Config::default().with_policy(Policy::Deterministic).with_pending_max(0)
}

/// Above the bound on pending memory the stream waits on the device, by one call, and not the
/// host; below it memory grows.
pub fn above_the_pending_bound_a_stream_waits_on_the_device(rig: &dyn Rig) {
    let desk = rig.desk();
    for (pending_max, waits) in [(0, true), (1 << 30, false)] {
        let allocator = desk.allocator(waits_at_once().with_pending_max(pending_max));
        let [home, user] = desk.streams();
        let x = take(rig, &allocator, &home, WHOLE);
        x.fill(&home, 1);
        user.wait_stream(&home).expect("a wait");
        desk.busy(&user);
        x.check(&user, 1);
        x.block().record_stream(&user);
        let freed = x.free();
        let again = || take(rig, &allocator, &home, WHOLE);
        let (y, calls) = calls_of(rig, "cuStreamWaitEvent", again);
        assert_eq!(y.address() == freed, waits);
        assert_eq!(served(&allocator).device_wait, u64::from(waits));
        assert!(calls.is_none_or(|calls| calls == u64::from(waits)), "{calls:?} waits");
        y.fill(&home, 2);
        y.check(&home, 2);
    }
}

/// A block that is pending on two streams takes two waits; the one pending on one stream, and
/// longest, goes first (R6).
pub fn the_block_with_the_fewest_and_oldest_fences_goes_first(rig: &dyn Rig) {
    let desk = rig.desk();
    let allocator = desk.allocator(waits_at_once());
    let [home, one, two] = desk.streams();
    let blocks = [0, 1, 2].map(|_| take(rig, &allocator, &home, WHOLE));
    blocks.iter().for_each(|block| block.fill(&home, 1));
    for user in [&one, &two] {
        user.wait_stream(&home).expect("a wait");
        desk.busy(user);
    }
    let [on_both, first, second] = blocks;
    for (block, users) in [(&on_both, [&one, &two]), (&first, [&one, &one]), (&second, [&two; 2])] {
        for user in users {
            block.check(user, 1);
            block.block().record_stream(user);
        }
    }
    let freed = [on_both.free(), first.free(), second.free()];
    let taken = [0, 1, 2].map(|_| {
        let block = take(rig, &allocator, &home, WHOLE);
        block.fill(&home, 2);
        block
    });
    let order = [taken[0].address(), taken[1].address(), taken[2].address()];
    assert_eq!(order[0], freed[1], "the oldest of those with one fence");
    // After the waits for the first, the others may be known too; nothing grows.
    assert!(freed.iter().all(|address| order.contains(address)), "{order:?} of {freed:?}");
    taken.iter().for_each(|block| block.check(&home, 2));
}

/// No stream is made to wait for one that the host may be holding: the host that waits for the
/// first and then opens the gate gets through (L23, R5).
pub fn no_stream_waits_for_a_gate_of_the_host(rig: &dyn Rig) {
    let desk = rig.desk();
    let allocator = desk.allocator(waits_at_once());
    let [home, user, behind] = desk.streams();
    let blocks = [0, 1].map(|_| take(rig, &allocator, &home, WHOLE));
    blocks.iter().for_each(|block| block.fill(&home, 1));
    user.wait_stream(&home).expect("a wait");
    let gate = desk.hold(&user);
    // A stream that waits for a gated one is gated too.
    behind.wait_stream(&user).expect("a wait");
    let freed: Vec<u64> = blocks
        .into_iter()
        .zip([&user, &behind])
        .map(|(block, stream)| {
            block.check(stream, 1);
            block.block().record_stream(stream);
            block.free()
        })
        .collect();
    let y = take(rig, &allocator, &home, WHOLE);
    assert!(!freed.contains(&y.address()), "waits for a gate");
    y.fill(&home, 2);
    home.synchronize().expect("the home ends before the gate opens");
    gate.open();
}

/// The same for a host function that waits for the host.
pub fn no_stream_waits_for_a_host_function(rig: &dyn Rig) {
    let desk = rig.desk();
    let allocator = desk.allocator(waits_at_once());
    let [home, user] = desk.streams();
    let x = take(rig, &allocator, &home, WHOLE);
    x.fill(&home, 1);
    user.wait_stream(&home).expect("a wait");
    let (open, opened) = mpsc::channel::<()>();
    // It ends when the sender goes, also when this test fails.
    let wait = move || {
        let _gone = opened.recv();
    };
    let _queued = user.launch_host_function(wait).expect("a host function");
    x.check(&user, 1);
    x.block().record_stream(&user);
    let freed = x.free();
    let y = take(rig, &allocator, &home, WHOLE);
    assert_ne!(y.address(), freed, "waits for a host function");
    y.fill(&home, 2);
    home.synchronize().expect("the home ends before the host function does");
    drop(open);
    user.synchronize().expect("the user ends");
    let z = take(rig, &allocator, &home, WHOLE);
    assert_eq!(z.address(), freed);
}

/// A stream that was created never to be waited for is not; nor does a policy wait that says so.
pub fn nobody_waits_where_it_was_forbidden(rig: &dyn Rig) {
    let desk = rig.desk();
    let pytorch = waits_at_once().with_policy(Policy::PyTorch);
    let options = |never_wait_on| StreamOptions { never_wait_on, ..StreamOptions::default() };
    for (config, never_wait_on) in [(waits_at_once(), true), (pytorch, false)] {
        let allocator = desk.allocator(config);
        let home = desk.stream();
        let user = desk.context().create_stream(options(never_wait_on)).expect("a stream");
        let x = take(rig, &allocator, &home, WHOLE);
        x.fill(&home, 1);
        user.wait_stream(&home).expect("a wait");
        let gate = desk.hold(&user);
        x.check(&user, 1);
        x.block().record_stream(&user);
        let freed = x.free();
        let y = take(rig, &allocator, &home, WHOLE);
        assert_ne!(y.address(), freed);
        assert_eq!(served(&allocator).device_wait, 0);
        y.fill(&home, 2);
        gate.open();
    }
}

/// A device-side wait is knowledge: what was waited for once is not waited for again.
pub fn what_was_waited_for_is_known_from_then_on(rig: &dyn Rig) {
    let desk = rig.desk();
    let allocator = desk.allocator(waits_at_once());
    let [home, user] = desk.streams();
    let blocks = [0, 1].map(|_| take(rig, &allocator, &home, WHOLE));
    blocks.iter().for_each(|block| block.fill(&home, 1));
    user.wait_stream(&home).expect("a wait");
    desk.busy(&user);
    for block in &blocks {
        block.check(&user, 1);
        block.block().record_stream(&user);
    }
    let freed = blocks.map(|block| block.free());
    let again = || [0, 1].map(|_| take(rig, &allocator, &home, WHOLE));
    let (taken, calls) = calls_of(rig, "cuStreamWaitEvent", again);
    for block in &taken {
        assert!(freed.contains(&block.address()), "grew beside known memory");
        block.fill(&home, 2);
    }
    assert!(calls.is_none_or(|calls| calls == 1), "{calls:?} waits for one stream");
    assert_eq!(served(&allocator).device_wait, 1);
}

/// A stream of high priority is not held up by one of lower priority, unless the alternative is
/// failure (R5).
pub fn a_high_priority_waits_for_a_lower_one_only_at_the_limit(rig: &dyn Rig) {
    let desk = rig.desk();
    let (_, greatest) = desk.context().priority_range().expect("a range");
    let options = StreamOptions { priority: greatest, ..StreamOptions::default() };
    for at_the_limit in [false, true] {
        let config = if at_the_limit { waits_at_once().with_limit(WHOLE) } else { waits_at_once() };
        let allocator = desk.allocator(config);
        let home = desk.context().create_stream(options).expect("a stream");
        let user = desk.stream();
        let x = take(rig, &allocator, &home, WHOLE);
        x.fill(&home, 1);
        user.wait_stream(&home).expect("a wait");
        desk.busy(&user);
        x.check(&user, 1);
        x.block().record_stream(&user);
        let freed = x.free();
        let y = take(rig, &allocator, &home, WHOLE);
        if at_the_limit {
            assert_eq!(y.address(), freed, "there is nothing else to give");
        } else {
            assert_eq!(served(&allocator).device_wait, 0);
        }
        y.fill(&home, 2);
        y.check(&home, 2);
    }
}
