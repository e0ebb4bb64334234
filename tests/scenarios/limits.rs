//! Limits, the ladder before an out-of-memory error, the error itself, and giving memory back.

use allocator::{AllocError, Allocator, Config, PlainSource, Policy};

use super::rig::{Rig, WHOLE, served, take, try_take};

/// A request above the limit can never be served, and says so; so do requests near 2^64.
pub fn a_request_above_the_limit_says_that_it_can_never_fit(rig: &dyn Rig) {
    let desk = rig.desk();
    let allocator = desk.allocator(Config::default().with_limit(4 * WHOLE));
    let stream = desk.stream();
    for bytes in [4 * WHOLE + 1, 1 << 61, u64::MAX - 511, u64::MAX] {
        let refused = allocator.allocate(&stream, bytes).expect_err("more than the limit");
        let text = format!("{bytes} bytes can never fit: the limit is {} bytes", 4 * WHOLE);
        assert_eq!(refused.to_string(), text);
    }
    assert_eq!(allocator.stats().reserved_bytes.peak, 0);
    let x = take(rig, &allocator, &stream, WHOLE);
    x.fill(&stream, 1);
}

/// An out-of-memory error names the request, the limit, and what each stream holds; after a free
/// the same request succeeds.
pub fn an_out_of_memory_error_says_who_holds_what(rig: &dyn Rig) {
    let desk = rig.desk();
    let allocator = desk.allocator(Config::default().with_limit(4 * WHOLE));
    let [a, b] = desk.streams();
    let mut on_a: Vec<_> = (0..3).map(|_| take(rig, &allocator, &a, WHOLE)).collect();
    let on_b = take(rig, &allocator, &b, WHOLE);
    let refused = match try_take(rig, &allocator, &b, WHOLE) {
        Err(AllocError::OutOfMemory(refused)) => refused,
        Err(other) => panic!("another error: {other}"),
        Ok(_) => panic!("more than the limit was served"),
    };
    assert_eq!(refused.wanted_bytes, WHOLE);
    assert_eq!(refused.stream_id, b.id());
    assert_eq!(refused.limit_bytes, 4 * WHOLE);
    assert_eq!(refused.reserved_bytes, 4 * WHOLE);
    assert_eq!(refused.allocated_bytes, 4 * WHOLE);
    assert_eq!(refused.pending_bytes, 0);
    let text = refused.to_string();
    let begin = format!(
        "out of memory: 2.0 MiB wanted on stream {}, the largest free block is 0 bytes; 8.0 MiB \
         reserved of a limit of 8.0 MiB, 8.0 MiB allocated, 0 bytes pending",
        b.id()
    );
    assert!(text.starts_with(&begin), "{text}");
    let of_a = format!("stream {} holds 6.0 MiB allocated, 0 bytes free, 0 bytes pending", a.id());
    let of_b = format!("stream {} holds 2.0 MiB allocated, 0 bytes free, 0 bytes pending", b.id());
    assert!(text.contains(&of_a) && text.contains(&of_b), "{text}");
    assert_eq!(allocator.stats().num_ooms, 1);
    on_a.pop().expect("there are three").give_back();
    let again = take(rig, &allocator, &b, WHOLE);
    again.fill(&b, 1);
    on_b.fill(&b, 2);
}

/// At the limit, a stream waits on the device rather than fail, whatever the pending bound says.
pub fn at_the_limit_a_stream_waits_on_the_device(rig: &dyn Rig) {
    let desk = rig.desk();
    for policy in [Policy::Deterministic, Policy::Default] {
        let allocator = desk.allocator(Config::default().with_policy(policy).with_limit(WHOLE));
        let [home, user] = desk.streams();
        let x = take(rig, &allocator, &home, WHOLE);
        x.fill(&home, 1);
        user.wait_stream(&home).expect("a wait");
        desk.busy(&user);
        x.check(&user, 1);
        x.block().record_stream(&user);
        let freed = x.free();
        let y = take(rig, &allocator, &home, WHOLE);
        if policy == Policy::Deterministic {
            assert_eq!(y.address(), freed);
            assert_eq!(served(&allocator).device_wait, 1);
        }
        assert_eq!(allocator.stats().reserved_bytes.peak, WHOLE);
        y.fill(&home, 2);
        y.check(&home, 2);
        assert_eq!(allocator.stats().num_ooms, 0);
    }
}

/// Where no stream may be made to wait, the host does.
pub fn at_the_limit_the_host_waits_where_streams_may_not(rig: &dyn Rig) {
    let desk = rig.desk();
    let config = Config::default().with_policy(Policy::PyTorch).with_limit(WHOLE);
    let allocator = desk.allocator(config);
    let [home, user] = desk.streams();
    let x = take(rig, &allocator, &home, WHOLE);
    x.fill(&home, 1);
    user.wait_stream(&home).expect("a wait");
    desk.busy(&user);
    x.check(&user, 1);
    x.block().record_stream(&user);
    x.give_back();
    let y = take(rig, &allocator, &home, WHOLE);
    assert_eq!(served(&allocator).device_wait, 0);
    assert_eq!(allocator.stats().reserved_bytes.peak, WHOLE);
    y.fill(&home, 2);
}

/// The host does not wait for a stream that only the host lets go on: it gets an error instead,
/// opens its gate, and asks again.
pub fn the_host_is_not_made_to_wait_for_its_own_gate(rig: &dyn Rig) {
    let desk = rig.desk();
    for policy in [Policy::Default, Policy::Deterministic, Policy::PyTorch] {
        let allocator = desk.allocator(Config::default().with_policy(policy).with_limit(WHOLE));
        let [home, user] = desk.streams();
        let x = take(rig, &allocator, &home, WHOLE);
        x.fill(&home, 1);
        user.wait_stream(&home).expect("a wait");
        let gate = desk.hold(&user);
        x.check(&user, 1);
        x.block().record_stream(&user);
        x.give_back();
        let refused = try_take(rig, &allocator, &home, WHOLE).err();
        let Some(AllocError::OutOfMemory(refused)) = refused else {
            panic!("{policy:?}: {refused:?}");
        };
        assert_eq!(refused.pending_bytes, WHOLE);
        gate.open();
        user.synchronize().expect("the gate is open");
        let y = take(rig, &allocator, &home, WHOLE);
        y.fill(&home, 2);
    }
}

/// Cached memory goes back to the device to make room for what it is too scattered to serve.
pub fn cached_memory_makes_room_for_growth(rig: &dyn Rig) {
    let desk = rig.desk();
    let source = std::sync::Arc::new(PlainSource::new(desk.context()));
    let config = Config::default().with_limit(20 * WHOLE);
    let allocator = Allocator::with_source(desk.context(), config, source).expect("an allocator");
    let stream = desk.stream();
    let halves = [0, 1].map(|_| take(rig, &allocator, &stream, 10 * WHOLE));
    halves.iter().for_each(|half| half.fill(&stream, 1));
    halves.into_iter().for_each(|half| half.give_back());
    stream.synchronize().expect("the stream ends");
    let whole = take(rig, &allocator, &stream, 20 * WHOLE);
    whole.fill(&stream, 2);
    let stats = allocator.stats();
    assert_eq!((stats.served_by.ladder, stats.num_device_free), (1, 2));
    assert_eq!(stats.reserved_bytes.current, 20 * WHOLE);
    assert_eq!((stats.num_alloc_retries, stats.num_ooms), (1, 0));
}

/// Memory goes back to the device only when it is complete; to be known to come before is not
/// enough (R8).
pub fn memory_goes_back_only_when_it_is_complete(rig: &dyn Rig) {
    let desk = rig.desk();
    for source in desk.sources() {
        let config = Config::default();
        let allocator = Allocator::with_source(desk.context(), config, source);
        let allocator = allocator.expect("an allocator");
        let [home, next] = desk.streams();
        let x = take(rig, &allocator, &home, 10 * WHOLE);
        let gate = desk.hold(&home);
        x.fill(&home, 1);
        x.give_back();
        next.wait_stream(&home).expect("a wait");
        assert_eq!(allocator.trim(u64::MAX).expect("nothing to give"), 0);
        assert_eq!(allocator.stats().reserved_bytes.current, 10 * WHOLE);
        gate.open();
        home.synchronize().expect("the home ends");
        assert_eq!(allocator.trim(u64::MAX).expect("all of it"), 10 * WHOLE);
        assert_eq!(allocator.stats().reserved_bytes.current, 0);
        let y = take(rig, &allocator, &home, 10 * WHOLE);
        y.fill(&home, 2);
        y.check(&home, 2);
    }
}

/// `empty_cache` waits for what is still in use and then gives back everything that is free.
pub fn empty_cache_waits_and_gives_everything_back(rig: &dyn Rig) {
    let desk = rig.desk();
    for source in desk.sources() {
        let config = Config::default();
        let allocator = Allocator::with_source(desk.context(), config, source);
        let allocator = allocator.expect("an allocator");
        let [home, user] = desk.streams();
        let kept = take(rig, &allocator, &user, 10 * WHOLE);
        let x = take(rig, &allocator, &home, 10 * WHOLE);
        x.fill(&home, 1);
        user.wait_stream(&home).expect("a wait");
        desk.busy(&user);
        x.check(&user, 1);
        x.block().record_stream(&user);
        x.give_back();
        assert_eq!(allocator.empty_cache().expect("all of it"), 10 * WHOLE);
        assert_eq!(allocator.stats().reserved_bytes.current, 10 * WHOLE);
        kept.fill(&user, 2);
        kept.check(&user, 2);
    }
}

/// The limit holds whatever the sizes, for every source, and can be lowered and raised.
pub fn the_limit_is_kept(rig: &dyn Rig) {
    let desk = rig.desk();
    for source in desk.sources() {
        let config = Config::default().with_limit(24 * WHOLE);
        let allocator = Allocator::with_source(desk.context(), config, source);
        let allocator = allocator.expect("an allocator");
        let [a, b] = desk.streams();
        let mut held = Vec::new();
        let sizes = [WHOLE, 512, 3 * WHOLE, 1 << 20, 70_000];
        for (bytes, stream) in sizes.into_iter().cycle().zip([&a, &b].into_iter().cycle()) {
            let Ok(block) = try_take(rig, &allocator, stream, bytes) else { break };
            held.push(block);
            assert!(allocator.stats().reserved_bytes.current <= 24 * WHOLE);
        }
        assert!(2 < held.len(), "{} blocks before the limit", held.len());
        allocator.set_limit(48 * WHOLE);
        let more = take(rig, &allocator, &a, 3 * WHOLE);
        more.fill(&a, 1);
        assert!(allocator.stats().reserved_bytes.current <= 48 * WHOLE);
    }
}
