//! Memory that is of no use to whoever asks: how much, why, and that it comes free by asking the
//! device; and the caches of streams that have ended.

use allocator::{Allocator, Config, Policy, StrandedCause};
use streams::Stream;

use super::rig::{BLOCK, Held, Rig, WHOLE, take, without_calls};

/// How often the device is asked before a test gives up.
const POLLS_MAX: usize = 2_000;

/// Asks the device until nothing is stranded; the bytes that came free meanwhile.
fn poll_until_free(rig: &dyn Rig, allocator: &Allocator) -> u64 {
    let mut freed = 0;
    for _ in 0..POLLS_MAX {
        freed += allocator.poll();
        if allocator.stats().stranded_bytes == 0 {
            return freed;
        }
        rig.pause();
    }
    panic!("{} after {POLLS_MAX} polls", allocator.stranded());
}

/// Takes a block for `home`, lets `user` read it, and frees it.
fn free_while_read(rig: &dyn Rig, allocator: &Allocator, home: &Stream, user: &Stream) -> u64 {
    let x = take(rig, allocator, home, WHOLE);
    x.fill(home, 1);
    user.wait_stream(home).expect("a wait");
    x.check(user, 1);
    x.block().record_stream(user);
    x.free()
}

/// A poll waits for nothing, frees what is done, says how much that was, and makes no call where
/// there is no news.
pub fn a_poll_frees_what_is_done_and_says_how_much(rig: &dyn Rig) {
    let desk = rig.desk();
    let allocator = desk.allocator(Config::default());
    let [home, user] = desk.streams();
    let x = take(rig, &allocator, &home, WHOLE);
    x.fill(&home, 1);
    user.wait_stream(&home).expect("a wait");
    let gate = desk.hold(&user);
    x.check(&user, 1);
    x.block().record_stream(&user);
    x.give_back();
    assert_eq!(allocator.poll(), 0, "the gate is closed");
    let stranded = allocator.stranded();
    assert_eq!(stranded.bytes_of(StrandedCause::GatedStream), WHOLE);
    assert_eq!(stranded.total_bytes(), allocator.stats().stranded_bytes);
    assert_eq!(stranded.parts[0].stream_id, Some(user.id()));
    gate.open();
    assert_eq!(poll_until_free(rig, &allocator), WHOLE);
    assert_eq!(allocator.stats().pending_bytes.current, 0);
    home.synchronize().expect("the home ends");
    user.synchronize().expect("the user ends");
    assert_eq!(without_calls(rig, || allocator.poll()), 0);
}

/// Where the policy asks nothing, a poll takes in what the program's own calls taught.
pub fn a_poll_asks_nothing_where_the_policy_forbids_it(rig: &dyn Rig) {
    let desk = rig.desk();
    let allocator = desk.allocator(Config::default().with_policy(Policy::Deterministic));
    let [home, user] = desk.streams();
    free_while_read(rig, &allocator, &home, &user);
    rig.pause();
    assert_eq!(without_calls(rig, || allocator.poll()), 0);
    assert_eq!(allocator.stats().stranded_bytes, WHOLE);
    user.synchronize().expect("the user ends");
    assert_eq!(without_calls(rig, || allocator.poll()), WHOLE);
    assert_eq!(allocator.stats().stranded_bytes, 0);
}

/// Memory that its own stream could use at once is not stranded, however busy the device is; what
/// its stream waited for is not either.
pub fn memory_that_its_stream_may_use_is_not_stranded(rig: &dyn Rig) {
    let desk = rig.desk();
    let allocator = desk.allocator(Config::default().with_policy(Policy::Deterministic));
    let [home, user] = desk.streams();
    let x = take(rig, &allocator, &home, WHOLE);
    x.fill(&home, 1);
    desk.busy(&home);
    x.give_back();
    assert_eq!(allocator.stats().stranded_bytes, 0, "its home may use it");
    free_while_read(rig, &allocator, &home, &user);
    assert_eq!(allocator.stats().stranded_bytes, WHOLE);
    home.wait_stream(&user).expect("a wait");
    assert_eq!(allocator.stats().stranded_bytes, 0, "its home comes after the use now");
}

/// A request is told what it could not use, each part with its cause.
pub fn a_request_is_told_why_it_cannot_use_what_is_there(rig: &dyn Rig) {
    let desk = rig.desk();
    let allocator = desk.allocator(Config::default().with_policy(Policy::Deterministic));
    let [home, user, gated, other] = desk.streams();
    let ended = desk.stream();
    let read_by = |stream: &Stream| {
        let x = take(rig, &allocator, &home, WHOLE);
        x.fill(&home, 1);
        stream.wait_stream(&home).expect("a wait");
        desk.busy(stream);
        x
    };
    let give_back = |x: Held<'_>, stream: &Stream| {
        x.check(stream, 1);
        x.block().record_stream(stream);
        x.give_back();
    };
    let blocks = [&user, &gated, &ended].map(read_by);
    let kept = take(rig, &allocator, &home, WHOLE);
    let (usable, between) =
        (take(rig, &allocator, &home, WHOLE), take(rig, &allocator, &home, WHOLE));
    let small = take(rig, &allocator, &home, BLOCK);
    let gate = desk.hold(&gated);
    for (block, stream) in blocks.into_iter().zip([&user, &gated, &ended]) {
        give_back(block, stream);
    }
    let ended_id = ended.id();
    drop(ended);
    let hold = kept.block().hold();
    let estate = kept.free_while_held();
    usable.fill(&home, 1);
    usable.give_back();
    small.give_back();
    let stranded = allocator.stranded_for(&home, 2 * WHOLE);
    let part_of = |cause| {
        let part = stranded.parts.iter().find(|part| part.cause == cause);
        let part = part.unwrap_or_else(|| panic!("no {cause:?} in {stranded}"));
        (part.bytes, part.stream_id)
    };
    assert_eq!(part_of(StrandedCause::RunningStream), (WHOLE, Some(user.id())));
    assert_eq!(part_of(StrandedCause::GatedStream), (WHOLE, Some(gated.id())));
    assert_eq!(part_of(StrandedCause::RetiredStream), (WHOLE, Some(ended_id)));
    assert_eq!(part_of(StrandedCause::Hold), (WHOLE, None));
    assert!(WHOLE <= part_of(StrandedCause::Fragmentation).0, "{stranded}");
    assert!(BLOCK <= part_of(StrandedCause::SizeKind).0, "{stranded}");
    // The block itself would do for a smaller request, and is no use to a stream without order.
    let stranded = allocator.stranded_for(&home, WHOLE);
    assert_eq!(stranded.bytes_of(StrandedCause::Fragmentation), 0, "{stranded}");
    let stranded = allocator.stranded_for(&other, WHOLE);
    assert!(WHOLE <= stranded.bytes_of(StrandedCause::RunningStream), "{stranded}");
    gate.open();
    desk.context().synchronize().expect("all ends");
    estate.end();
    drop(hold);
    between.give_back();
    assert_eq!(allocator.stats().stranded_bytes, 0, "{}", allocator.stranded());
}

/// The cache of a stream that has ended is everyone's, without a call, once its work is known
/// complete.
pub fn a_retired_streams_cache_becomes_everyones(rig: &dyn Rig) {
    let desk = rig.desk();
    for policy in [Policy::Default, Policy::Deterministic] {
        let allocator = desk.allocator(Config::default().with_policy(policy));
        let [ended, other] = desk.streams();
        let gate = desk.hold(&ended);
        let x = take(rig, &allocator, &ended, WHOLE);
        x.fill(&ended, 1);
        let cached = x.free();
        assert_eq!(allocator.stats().stranded_bytes, 0, "its own stream lives");
        let y = take(rig, &allocator, &other, WHOLE);
        assert_ne!(y.address(), cached, "the work there is not over");
        y.fill(&other, 1);
        drop(ended);
        let stranded = allocator.stranded();
        assert!(WHOLE <= stranded.bytes_of(StrandedCause::GatedStream), "{policy:?}: {stranded}");
        gate.open();
        if policy == Policy::Deterministic {
            desk.context().synchronize().expect("all ends");
        }
        poll_until_free(rig, &allocator);
        let z = without_calls(rig, || take(rig, &allocator, &other, WHOLE));
        assert_eq!(z.address(), cached);
        z.fill(&other, 2);
    }
}

/// Under the PyTorch policy memory never crosses streams: the cache of a stream that has ended
/// goes to the next stream in its place, or back to the device.
pub fn under_the_pytorch_policy_a_retired_cache_is_inherited_or_given_back(rig: &dyn Rig) {
    let desk = rig.desk();
    let allocator = desk.allocator(Config::default().with_policy(Policy::PyTorch));
    let [ended, other] = desk.streams();
    let x = take(rig, &allocator, &ended, WHOLE);
    x.fill(&ended, 1);
    let cached = x.free();
    let place = ended.order().slot();
    drop(ended);
    desk.context().synchronize().expect("all ends");
    let stranded = allocator.stranded();
    assert!(WHOLE <= stranded.bytes_of(StrandedCause::Policy), "{stranded}");
    let heir = desk.stream();
    if heir.order().slot() == place {
        assert_eq!(without_calls(rig, || take(rig, &allocator, &heir, WHOLE)).free(), cached);
    }
    drop(heir);
    let y = take(rig, &allocator, &other, WHOLE);
    assert_ne!(y.address(), cached, "crossed streams");
    y.fill(&other, 1);
    desk.context().synchronize().expect("all ends");
    allocator.trim(u64::MAX).expect("the cache goes");
    assert_eq!(allocator.stranded().total_bytes(), 0);
}
