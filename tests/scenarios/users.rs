//! Waiting on the device for every stream that has used a block.

use allocator::{Config, Policy};
use streams::{DeviceSpan, Stream};

use super::rig::{Held, Rig, WHOLE, calls_of, take, without_calls};

/// A policy that never asks, so that nothing is found complete by luck.
fn never_asks() -> Config {
    Config::default().with_policy(Policy::Deterministic)
}

/// One half of a block.
fn half(block: &Held<'_>, index: u64) -> DeviceSpan {
    let whole = block.range();
    DeviceSpan { address: whole.address + index * whole.bytes / 2, bytes: whole.bytes / 2 }
}

fn fill_half(rig: &dyn Rig, block: &Held<'_>, stream: &Stream, index: u64, word: u32) {
    rig.desk().busy(stream);
    rig.desk().fill(stream, half(block, index), word);
    block.block().record_stream(stream);
}

/// A bucket is filled by several streams, and reduced on another one, which waits for all of them
/// by one call and names none.
pub fn a_stream_waits_for_everybody_who_used_a_block(rig: &dyn Rig) {
    let desk = rig.desk();
    let allocator = desk.allocator(Config::default());
    let [home, one, two, reducer] = desk.streams();
    for word in 1..4 {
        let bucket = take(rig, &allocator, &home, WHOLE);
        for user in [&one, &two] {
            user.wait_stream(&home).expect("a wait");
        }
        fill_half(rig, &bucket, &one, 0, word);
        fill_half(rig, &bucket, &two, 1, word + 10);
        bucket.block().wait_all_users(&reducer).expect("a wait for all");
        desk.check(&reducer, half(&bucket, 0), word);
        desk.check(&reducer, half(&bucket, 1), word + 10);
        bucket.fill(&reducer, word + 20);
        bucket.block().record_stream(&reducer);
        bucket.give_back();
    }
}

/// One wait for each stream that is not known to come before, and none the second time.
pub fn a_wait_for_users_costs_a_call_only_for_what_is_not_known(rig: &dyn Rig) {
    let desk = rig.desk();
    let allocator = desk.allocator(never_asks());
    let [home, one, two, reducer] = desk.streams();
    let x = take(rig, &allocator, &home, WHOLE);
    x.fill(&home, 1);
    for user in [&one, &two] {
        user.wait_stream(&home).expect("a wait");
    }
    fill_half(rig, &x, &one, 0, 2);
    fill_half(rig, &x, &two, 1, 3);
    reducer.wait_stream(&one).expect("a wait");
    // The home and the first user are known by that wait; the second user is not.
    let wait = || x.block().wait_all_users(&reducer).expect("a wait for all");
    let ((), waits) = calls_of(rig, "cuStreamWaitEvent", wait);
    assert!(waits.is_none_or(|waits| waits == 1), "{waits:?} waits for one stream");
    without_calls(rig, wait);
    x.fill(&reducer, 4);
    x.block().record_stream(&reducer);
    let empty = allocator.allocate(&home, 0).expect("a block of nothing");
    without_calls(rig, || empty.wait_all_users(&reducer).expect("nobody used it"));
}

/// An exact use that was fenced is waited for; what its stream does behind it, even behind a gate,
/// is not.
pub fn an_exact_use_is_waited_for_and_nothing_behind_it(rig: &dyn Rig) {
    let desk = rig.desk();
    let allocator = desk.allocator(never_asks());
    let [home, user, reducer] = desk.streams();
    let x = take(rig, &allocator, &home, WHOLE);
    x.fill(&home, 1);
    user.wait_stream(&home).expect("a wait");
    x.check(&user, 1);
    let _use = x.block().record_use(&user);
    let _fenced = user.order().fence_now().expect("a fence");
    let gate = desk.hold(&user);
    x.block().wait_all_users(&reducer).expect("a wait for all");
    x.fill(&reducer, 2);
    x.block().record_stream(&reducer);
    reducer.synchronize().expect("the reducer ends before the gate opens");
    gate.open();
}

/// A stream that has ended left its last fence.
pub fn a_user_that_has_ended_is_waited_for_by_its_last_fence(rig: &dyn Rig) {
    let desk = rig.desk();
    let allocator = desk.allocator(never_asks());
    let [home, reducer] = desk.streams();
    let x = take(rig, &allocator, &home, WHOLE);
    x.fill(&home, 1);
    let user = desk.stream();
    user.wait_stream(&home).expect("a wait");
    desk.busy(&user);
    x.check(&user, 1);
    x.block().record_stream(&user);
    drop(user);
    x.block().wait_all_users(&reducer).expect("a wait for all");
    x.fill(&reducer, 2);
    x.block().record_stream(&reducer);
}

/// When its home has waited for all users, a free knows that all is in order.
pub fn a_block_that_was_waited_for_is_freed_without_a_call(rig: &dyn Rig) {
    let desk = rig.desk();
    let allocator = desk.allocator(never_asks());
    let [home, one, two] = desk.streams();
    let x = take(rig, &allocator, &home, WHOLE);
    x.fill(&home, 1);
    for user in [&one, &two] {
        user.wait_stream(&home).expect("a wait");
        desk.busy(user);
        x.check(user, 1);
        let _use = x.block().record_use(user);
    }
    x.block().wait_all_users(&home).expect("a wait for all");
    let freed = without_calls(rig, || x.free());
    let y = without_calls(rig, || take(rig, &allocator, &home, WHOLE));
    assert_eq!(y.address(), freed);
    y.fill(&home, 2);
    y.check(&home, 2);
}
