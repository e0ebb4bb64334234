//! Blocks used on streams other than their home: until when they are kept, and that they are not
//! kept a call longer.
//!
//! Each scenario shows both sides: without the edge the block is not handed out, with it it is.

use allocator::{Config, Policy};

use super::rig::{BLOCK, Rig, WHOLE, calls_of, served, take, without_calls};

/// `record_stream` keeps a block until what the other stream had queued at the free is done (R3).
pub fn record_stream_keeps_a_block_until_its_use_is_over(rig: &dyn Rig) {
    let desk = rig.desk();
    let allocator = desk.allocator(Config::default());
    let [home, user] = desk.streams();
    let x = take(rig, &allocator, &home, BLOCK);
    x.fill(&home, 1);
    user.wait_stream(&home).expect("a wait");
    let gate = desk.hold(&user);
    x.block().record_stream(&user);
    x.check(&user, 1);
    let freed = x.free();
    assert_eq!(allocator.stats().pending_bytes.current, BLOCK);
    let y = take(rig, &allocator, &home, BLOCK);
    assert_ne!(y.address(), freed, "handed out while the other stream reads it");
    y.fill(&home, 2);
    gate.open();
    user.synchronize().expect("the user ends");
    let z = without_calls(rig, || take(rig, &allocator, &home, BLOCK));
    assert_eq!(z.address(), freed, "kept although its use is over");
    assert_eq!(allocator.stats().pending_bytes.current, 0);
    z.fill(&home, 3);
    z.check(&home, 3);
}

/// The dual: the home stream waits for the user before the free, so neither free nor reuse needs
/// a call, and the block comes back while its user has not even begun.
pub fn a_use_that_the_home_waited_for_costs_nothing(rig: &dyn Rig) {
    let desk = rig.desk();
    let allocator = desk.allocator(Config::default());
    let [home, user] = desk.streams();
    let x = take(rig, &allocator, &home, BLOCK);
    x.fill(&home, 1);
    user.wait_stream(&home).expect("a wait");
    let gate = desk.hold(&user);
    x.check(&user, 1);
    x.block().record_stream(&user);
    home.wait_stream(&user).expect("a wait");
    let y = without_calls(rig, || {
        let freed = x.free();
        let y = take(rig, &allocator, &home, BLOCK);
        assert_eq!(y.address(), freed, "kept although its use is known to come before");
        y
    });
    assert_eq!(allocator.stats().deferred_free_total, 0);
    y.fill(&home, 2);
    y.check(&home, 2);
    gate.open();
}

/// `record_use` ends with what was queued when it was called, `record_stream` with what is queued
/// at the free (L4).
pub fn an_exact_use_ends_before_what_was_queued_later(rig: &dyn Rig) {
    let desk = rig.desk();
    for exact in [true, false] {
        let allocator = desk.allocator(Config::default());
        let [home, user] = desk.streams();
        let x = take(rig, &allocator, &home, BLOCK);
        x.fill(&home, 1);
        user.wait_stream(&home).expect("a wait");
        x.check(&user, 1);
        if exact {
            let _use = x.block().record_use(&user);
        } else {
            x.block().record_stream(&user);
        }
        let used = user.record_event().expect("an event");
        let gate = desk.hold(&user);
        used.synchronize().expect("the use ends");
        if exact {
            let y = without_calls(rig, || {
                let freed = x.free();
                let y = take(rig, &allocator, &home, BLOCK);
                assert_eq!(y.address(), freed, "kept for work that does not use it");
                y
            });
            y.fill(&home, 2);
        } else {
            let freed = x.free();
            let y = take(rig, &allocator, &home, BLOCK);
            assert_ne!(y.address(), freed, "a whole stream is used until it is done");
            y.fill(&home, 2);
        }
        gate.open();
    }
}

/// An exact use that was made known by its own event is over for the stream that waited for that
/// event, whatever else the user has queued (L4's dual).
pub fn an_exact_use_ends_with_its_own_event(rig: &dyn Rig) {
    let desk = rig.desk();
    let allocator = desk.allocator(Config::default());
    let [home, user] = desk.streams();
    let x = take(rig, &allocator, &home, BLOCK);
    x.fill(&home, 1);
    user.wait_stream(&home).expect("a wait");
    x.check(&user, 1);
    let _use = x.block().record_use(&user);
    let used = user.record_event().expect("an event");
    let gate = desk.hold(&user);
    home.wait_event(&used).expect("a wait");
    let y = without_calls(rig, || {
        let freed = x.free();
        let y = take(rig, &allocator, &home, BLOCK);
        assert_eq!(y.address(), freed);
        y
    });
    y.fill(&home, 2);
    gate.open();
}

/// Two uses on one stream, the first ended early by a wait: the second still keeps the block
/// (L16).
pub fn of_two_uses_the_later_one_counts(rig: &dyn Rig) {
    let desk = rig.desk();
    let allocator = desk.allocator(Config::default());
    let [home, user] = desk.streams();
    let x = take(rig, &allocator, &home, BLOCK);
    x.fill(&home, 1);
    user.wait_stream(&home).expect("a wait");
    x.check(&user, 1);
    let _first = x.block().record_use(&user);
    home.wait_stream(&user).expect("a wait");
    let gate = desk.hold(&user);
    x.check(&user, 1);
    let _second = x.block().record_use(&user);
    let freed = x.free();
    let y = take(rig, &allocator, &home, BLOCK);
    assert_ne!(y.address(), freed, "the second use is not over");
    y.fill(&home, 2);
    home.wait_stream(&user).expect("a wait");
    let z = without_calls(rig, || take(rig, &allocator, &home, BLOCK));
    assert_eq!(z.address(), freed, "both uses are known to come before");
    z.fill(&home, 3);
    gate.open();
}

/// An event that was recorded before the use says nothing about it (L17).
pub fn an_event_before_the_use_does_not_cover_it(rig: &dyn Rig) {
    let desk = rig.desk();
    let allocator = desk.allocator(Config::default());
    let [home, user] = desk.streams();
    let x = take(rig, &allocator, &home, BLOCK);
    x.fill(&home, 1);
    user.wait_stream(&home).expect("a wait");
    let early = user.record_event().expect("an event");
    let gate = desk.hold(&user);
    x.check(&user, 1);
    let _use = x.block().record_use(&user);
    home.wait_event(&early).expect("a wait");
    let freed = x.free();
    let y = take(rig, &allocator, &home, BLOCK);
    assert_ne!(y.address(), freed, "the event was recorded before the use");
    y.fill(&home, 2);
    gate.open();
}

/// A slow and a fast reader: both keep the block (L6).
pub fn every_reader_keeps_a_block(rig: &dyn Rig) {
    let desk = rig.desk();
    let allocator = desk.allocator(Config::default());
    let [home, slow, fast] = desk.streams();
    let x = take(rig, &allocator, &home, BLOCK);
    x.fill(&home, 1);
    for reader in [&slow, &fast] {
        reader.wait_stream(&home).expect("a wait");
        x.block().record_stream(reader);
    }
    let gate = desk.hold(&slow);
    x.check(&slow, 1);
    x.check(&fast, 1);
    let freed = x.free();
    fast.synchronize().expect("the fast reader ends");
    let y = take(rig, &allocator, &home, BLOCK);
    assert_ne!(y.address(), freed, "the slow reader has not ended");
    y.fill(&home, 2);
    gate.open();
    slow.synchronize().expect("the slow reader ends");
    let z = without_calls(rig, || take(rig, &allocator, &home, BLOCK));
    assert_eq!(z.address(), freed);
    z.fill(&home, 3);
}

/// Frees between two submissions of the used stream share one fence.
pub fn a_burst_of_frees_records_once_for_a_used_stream(rig: &dyn Rig) {
    let desk = rig.desk();
    let allocator = desk.allocator(Config::default());
    let [home, user, other] = desk.streams();
    let blocks: Vec<_> = (0..16).map(|_| take(rig, &allocator, &home, BLOCK)).collect();
    let gates = [desk.hold(&user), desk.hold(&other)];
    for block in &blocks {
        block.block().record_stream(&user);
        block.block().record_stream(&other);
    }
    let free_all = || blocks.into_iter().for_each(|block| block.give_back());
    let ((), records) = calls_of(rig, "cuEventRecord", free_all);
    assert!(records.is_none_or(|records| records == 2), "{records:?} records for two streams");
    assert_eq!(allocator.stats().pending_bytes.current, 16 * BLOCK);
    drop(gates);
    desk.context().synchronize().expect("all ends");
    assert_eq!(allocator.stats().pending_bytes.current, 0);
}

/// A use that was announced and whose guard was forgotten protects the block as long as the whole
/// stream would (L29, O13).
pub fn a_forgotten_guard_still_protects_the_block(rig: &dyn Rig) {
    let desk = rig.desk();
    let allocator = desk.allocator(Config::default());
    let [home, user] = desk.streams();
    let x = take(rig, &allocator, &home, BLOCK);
    x.fill(&home, 1);
    user.wait_stream(&home).expect("a wait");
    let _forgotten =
        std::mem::ManuallyDrop::new(x.block().begin_use(&user).expect("a living stream"));
    let gate = desk.hold(&user);
    x.check(&user, 1);
    let freed = x.free();
    let y = take(rig, &allocator, &home, BLOCK);
    assert_ne!(y.address(), freed, "the announced use was lost with its guard");
    y.fill(&home, 2);
    gate.open();
    user.synchronize().expect("the user ends");
    let z = take(rig, &allocator, &home, BLOCK);
    assert_eq!(z.address(), freed);
}

/// A use that was announced and made exact ends with its work; a cancelled one is none.
pub fn an_announced_use_is_sharpened_or_cancelled(rig: &dyn Rig) {
    let desk = rig.desk();
    let allocator = desk.allocator(Config::default());
    let [home, user, never] = desk.streams();
    let x = take(rig, &allocator, &home, BLOCK);
    x.fill(&home, 1);
    user.wait_stream(&home).expect("a wait");
    let open = x.block().begin_use(&user).expect("a living stream");
    x.check(&user, 1);
    let used = open.sharpen();
    x.block().begin_use(&never).expect("a living stream").cancel();
    let gates = [desk.hold(&never)];
    let done = user.record_event().expect("an event");
    let later = desk.hold(&user);
    done.synchronize().expect("the use ends");
    assert!(used.is_over());
    let y = without_calls(rig, || {
        let freed = x.free();
        let y = take(rig, &allocator, &home, BLOCK);
        assert_eq!(y.address(), freed);
        y
    });
    y.fill(&home, 2);
    drop((gates, later));
}

/// A launch that is given the block itself records its use, exactly.
pub fn a_launch_records_its_use_by_itself(rig: &dyn Rig) {
    let desk = rig.desk();
    let allocator = desk.allocator(Config::default());
    let [home, user] = desk.streams();
    let mut x = take(rig, &allocator, &home, BLOCK);
    x.fill(&home, 1);
    user.wait_stream(&home).expect("a wait");
    let gate = desk.hold(&user);
    let _write = desk.kernels().fill_u32(&user, x.block_mut(), 2).expect("a launch");
    let freed = x.free();
    let y = take(rig, &allocator, &home, BLOCK);
    assert_ne!(y.address(), freed, "the launch did not record its use");
    y.fill(&home, 3);
    gate.open();
    user.synchronize().expect("the user ends");
    let z = take(rig, &allocator, &home, BLOCK);
    assert_eq!(z.address(), freed);
    z.fill(&home, 4);
}

/// A block whose use ended is found by asking the device, under every policy that asks.
pub fn completion_is_found_by_asking(rig: &dyn Rig) {
    let desk = rig.desk();
    for policy in [Policy::Default, Policy::PyTorch] {
        let allocator = desk.allocator(Config::default().with_policy(policy));
        let [home, user] = desk.streams();
        let x = take(rig, &allocator, &home, WHOLE);
        x.fill(&home, 1);
        user.wait_stream(&home).expect("a wait");
        x.check(&user, 1);
        x.block().record_stream(&user);
        let freed = x.free();
        let mut taken = Vec::new();
        let found = (0..100).any(|_| {
            rig.pause();
            let y = take(rig, &allocator, &home, WHOLE);
            y.fill(&home, 2);
            let found = y.address() == freed;
            taken.push(y);
            found
        });
        assert!(found, "{policy:?} never noticed that the use is over");
    }
}

/// `deterministic` never asks the device: completion that nobody waited for is no knowledge (R9).
pub fn deterministic_never_asks_the_device(rig: &dyn Rig) {
    let desk = rig.desk();
    let allocator = desk.allocator(Config::default().with_policy(Policy::Deterministic));
    let [home, user] = desk.streams();
    let x = take(rig, &allocator, &home, BLOCK);
    x.fill(&home, 1);
    user.wait_stream(&home).expect("a wait");
    x.check(&user, 1);
    x.block().record_stream(&user);
    let freed = x.free();
    rig.pause();
    let asked = || {
        let queries = |name| rig.calls_of(name).unwrap_or(0);
        queries("cuEventQuery") + queries("cuStreamQuery")
    };
    let before = asked();
    let y = take(rig, &allocator, &home, BLOCK);
    assert_ne!(y.address(), freed, "a policy that never asks cannot know this");
    assert_eq!(asked(), before, "the device was asked");
    user.synchronize().expect("the user ends");
    let z = without_calls(rig, || take(rig, &allocator, &home, BLOCK));
    assert_eq!(z.address(), freed, "a synchronisation by the host is knowledge");
}

/// `pytorch` never hands a block to another stream, even in known order.
pub fn pytorch_never_crosses_streams(rig: &dyn Rig) {
    let desk = rig.desk();
    for (policy, crosses) in [(Policy::PyTorch, false), (Policy::Default, true)] {
        let allocator = desk.allocator(Config::default().with_policy(policy));
        let [home, next] = desk.streams();
        let x = take(rig, &allocator, &home, BLOCK);
        x.fill(&home, 1);
        let freed = x.free();
        next.wait_stream(&home).expect("a wait");
        let y = take(rig, &allocator, &next, BLOCK);
        assert_eq!(y.address() == freed, crosses, "{policy:?}");
        assert_eq!(served(&allocator).known_order, u64::from(crosses));
        y.fill(&next, 2);
    }
}

/// A steady state on one stream makes no driver call.
pub fn steady_reuse_on_one_stream_makes_no_call(rig: &dyn Rig) {
    let desk = rig.desk();
    for source in desk.sources() {
        let config = Config::default();
        let allocator = allocator::Allocator::with_source(desk.context(), config, source);
        let allocator = allocator.expect("an allocator");
        let stream = desk.stream();
        let sizes = [512, 4 << 10, 60_000, BLOCK, 1 << 20, 3 << 20];
        let round = || {
            let blocks = sizes.map(|bytes| take(rig, &allocator, &stream, bytes));
            blocks.into_iter().for_each(|block| block.give_back());
        };
        round();
        let work = take(rig, &allocator, &stream, BLOCK);
        let gate = desk.hold(&stream);
        work.fill(&stream, 1);
        without_calls(rig, || (0..8).for_each(|_| round()));
        gate.open();
        stream.synchronize().expect("the stream ends");
    }
}
