//! Blocks that go from one stream to another in known order, and the orders that only look so.

use allocator::Config;
use streams::Stream;

use super::rig::{Rig, WHOLE, served, take, without_calls};

/// Whether a block that was freed on `home` goes to `next`; made known by `order`.
fn goes_over(rig: &dyn Rig, order: impl FnOnce(&Stream, &Stream), expected: bool) {
    let desk = rig.desk();
    let allocator = desk.allocator(Config::default());
    let [home, next] = desk.streams();
    let x = take(rig, &allocator, &home, WHOLE);
    let gate = desk.hold(&home);
    x.fill(&home, 1);
    let freed = x.free();
    order(&home, &next);
    let y = if expected {
        without_calls(rig, || take(rig, &allocator, &next, WHOLE))
    } else {
        take(rig, &allocator, &next, WHOLE)
    };
    assert_eq!(y.address() == freed, expected);
    assert_eq!(served(&allocator).known_order, u64::from(expected));
    y.fill(&next, 2);
    y.check(&next, 2);
    gate.open();
}

/// Without order a block stays with its stream; with `wait_stream` it goes over without a call.
pub fn a_block_goes_to_a_stream_that_waited_for_its_home(rig: &dyn Rig) {
    goes_over(rig, |_, _| {}, false);
    goes_over(rig, |home, next| next.wait_stream(home).expect("a wait"), true);
    goes_over(rig, |home, next| home.wait_stream(next).expect("a wait"), false);
}

/// The same by an event.
pub fn a_block_goes_to_a_stream_that_waited_for_an_event(rig: &dyn Rig) {
    goes_over(
        rig,
        |home, next| next.wait_event(&home.record_event().expect("an event")).expect("a wait"),
        true,
    );
    goes_over(rig, |home, _| drop(home.record_event().expect("an event")), false);
}

/// The stamp that counts is that of the free, not that of an earlier event (L5).
pub fn an_event_before_the_last_use_is_not_enough(rig: &dyn Rig) {
    let desk = rig.desk();
    let allocator = desk.allocator(Config::default());
    let [home, next] = desk.streams();
    let x = take(rig, &allocator, &home, WHOLE);
    x.fill(&home, 1);
    next.wait_event(&home.record_event().expect("an event")).expect("a wait");
    let gate = desk.hold(&home);
    x.check(&home, 1);
    let freed = x.free();
    let y = take(rig, &allocator, &next, WHOLE);
    assert_ne!(y.address(), freed, "the home used it again after the event");
    y.fill(&next, 2);
    next.wait_stream(&home).expect("a wait");
    let z = without_calls(rig, || take(rig, &allocator, &next, WHOLE));
    assert_eq!(z.address(), freed);
    z.fill(&next, 3);
    gate.open();
}

/// Order is handed on only by events recorded after the wait (L18).
pub fn order_is_handed_on_only_from_after_the_wait(rig: &dyn Rig) {
    for late in [false, true] {
        let desk = rig.desk();
        let allocator = desk.allocator(Config::default());
        let [a, b, c] = desk.streams();
        let x = take(rig, &allocator, &a, WHOLE);
        let gate = desk.hold(&a);
        x.fill(&a, 1);
        let freed = x.free();
        let from_a = a.record_event().expect("an event");
        let early = b.record_event().expect("an event");
        b.wait_event(&from_a).expect("a wait");
        let from_b = if late { b.record_event().expect("an event") } else { early };
        c.wait_event(&from_b).expect("a wait");
        let y = take(rig, &allocator, &c, WHOLE);
        assert_eq!(y.address() == freed, late);
        y.fill(&c, 2);
        gate.open();
    }
}

/// An event recorded again stands for its last record alone (L19).
pub fn an_event_stands_for_its_last_record(rig: &dyn Rig) {
    let desk = rig.desk();
    let allocator = desk.allocator(Config::default());
    let [a, b, c] = desk.streams();
    let on_a = take(rig, &allocator, &a, WHOLE);
    let on_b = take(rig, &allocator, &b, WHOLE);
    let gates = [desk.hold(&a), desk.hold(&b)];
    on_a.fill(&a, 1);
    on_b.fill(&b, 1);
    let (from_a, from_b) = (on_a.free(), on_b.free());
    let event = a.record_event().expect("an event");
    b.record(&event).expect("a record");
    c.wait_event(&event).expect("a wait");
    let y = take(rig, &allocator, &c, WHOLE);
    assert_eq!(y.address(), from_b, "the last record was made on the other stream");
    let z = take(rig, &allocator, &c, WHOLE);
    assert_ne!(z.address(), from_a, "the first record no longer counts");
    y.fill(&c, 2);
    z.fill(&c, 2);
    drop(gates);
}

/// A wait is a submission: what a stream knew to be complete before it says nothing of what it
/// waits for (L21).
pub fn a_wait_is_a_submission(rig: &dyn Rig) {
    let desk = rig.desk();
    let allocator = desk.allocator(Config::default());
    let [a, s, t] = desk.streams();
    let x = take(rig, &allocator, &a, WHOLE);
    let gate = desk.hold(&a);
    x.fill(&a, 1);
    let freed = x.free();
    let early = s.record_event().expect("an event");
    early.synchronize().expect("nothing is queued");
    s.wait_stream(&a).expect("a wait");
    let passed_on = take(rig, &allocator, &s, WHOLE);
    assert_eq!(passed_on.address(), freed);
    passed_on.give_back();
    let y = take(rig, &allocator, &t, WHOLE);
    assert_ne!(y.address(), freed, "the first stream still writes it");
    y.fill(&t, 2);
    t.wait_stream(&s).expect("a wait");
    let z = without_calls(rig, || take(rig, &allocator, &t, WHOLE));
    assert_eq!(z.address(), freed, "after the stream that waited for it");
    z.fill(&t, 3);
    gate.open();
}

/// A block that another stream merged into its own is still ordered after the first (L1).
pub fn a_block_that_was_passed_on_keeps_all_its_history(rig: &dyn Rig) {
    let desk = rig.desk();
    let allocator = desk.allocator(Config::default());
    let [a, b, c] = desk.streams();
    let x = take(rig, &allocator, &a, WHOLE);
    let gate = desk.hold(&a);
    x.fill(&a, 1);
    let freed = x.free();
    b.wait_stream(&a).expect("a wait");
    let lent = take(rig, &allocator, &b, WHOLE);
    assert_eq!(lent.address(), freed);
    lent.fill(&b, 2);
    lent.give_back();
    let y = take(rig, &allocator, &c, WHOLE);
    assert_ne!(y.address(), freed, "the third stream is after neither");
    y.fill(&c, 3);
    // Back to the first stream: it is not after the second.
    let w = take(rig, &allocator, &a, WHOLE);
    assert_ne!(w.address(), freed, "the second stream still writes it");
    w.fill(&a, 4);
    a.wait_stream(&b).expect("a wait");
    let z = without_calls(rig, || take(rig, &allocator, &a, WHOLE));
    assert_eq!(z.address(), freed, "a lent block returns when order allows");
    z.fill(&a, 5);
    gate.open();
}

/// After a synchronisation of the whole context every earlier free is complete (L14).
pub fn a_context_synchronisation_completes_every_free(rig: &dyn Rig) {
    let desk = rig.desk();
    let allocator = desk.allocator(Config::default());
    let [a, b, c] = desk.streams();
    let blocks = [(&a, 1), (&b, 2)].map(|(stream, word)| {
        let block = take(rig, &allocator, stream, WHOLE);
        block.fill(stream, word);
        block.block().record_stream(&c);
        block
    });
    desk.busy(&c);
    let freed = blocks.map(|block| block.free());
    desk.context().synchronize().expect("all ends");
    let taken = without_calls(rig, || [0, 1].map(|_| take(rig, &allocator, &a, WHOLE)));
    for block in &taken {
        assert!(freed.contains(&block.address()), "a free before it is not taken for complete");
        block.fill(&a, 3);
    }
}

/// What the legacy stream orders by itself is never taken for knowledge (L15, O9).
pub fn implicit_order_of_the_legacy_stream_is_no_knowledge(rig: &dyn Rig) {
    let desk = rig.desk();
    let allocator = desk.allocator(Config::default());
    let legacy = desk.context().legacy_stream().expect("the legacy stream");
    let [next] = desk.streams();
    let x = take(rig, &allocator, &legacy, WHOLE);
    desk.busy(&legacy);
    x.fill(&legacy, 1);
    let freed = x.free();
    let before = served(&allocator);
    let y = take(rig, &allocator, &next, WHOLE);
    let completed = served(&allocator).completion - before.completion;
    assert!(y.address() != freed || completed == 1, "taken in an order nobody made known");
    y.fill(&next, 2);
    y.give_back();
    next.wait_stream(&legacy).expect("a wait");
    let z = take(rig, &allocator, &legacy, WHOLE);
    z.fill(&legacy, 3);
}

/// A synchronous copy that has returned completes nothing of other streams (L28).
pub fn a_synchronous_copy_says_nothing_of_other_streams(rig: &dyn Rig) {
    let desk = rig.desk();
    let allocator = desk.allocator(Config::default());
    let [a, b] = desk.streams();
    let x = take(rig, &allocator, &a, WHOLE);
    let source = take(rig, &allocator, &b, WHOLE);
    source.fill(&b, 7);
    let gate = desk.hold(&a);
    x.fill(&a, 1);
    let freed = x.free();
    let mut host = vec![0; 512];
    let _copied = b.copy_to_host(&mut host, source.block(), 0).expect("a copy");
    assert!(host.starts_with(&7_u32.to_le_bytes()));
    let y = take(rig, &allocator, &b, WHOLE);
    assert_ne!(y.address(), freed, "the other stream still writes it");
    y.fill(&b, 2);
    gate.open();
}

/// A stream that was destroyed and a new one in its place have nothing in common (L3).
pub fn a_new_stream_does_not_inherit_the_order_of_an_old_one(rig: &dyn Rig) {
    let desk = rig.desk();
    let allocator = desk.allocator(Config::default());
    let [home, old] = desk.streams();
    let x = take(rig, &allocator, &home, WHOLE);
    x.fill(&home, 1);
    old.wait_stream(&home).expect("a wait");
    let gate = desk.hold(&old);
    x.check(&old, 1);
    x.block().record_stream(&old);
    let freed = x.free();
    drop(old);
    let new = desk.stream();
    home.wait_stream(&new).expect("a wait");
    let y = take(rig, &allocator, &home, WHOLE);
    assert_ne!(y.address(), freed, "the old stream still reads it");
    y.fill(&home, 2);
    let z = take(rig, &allocator, &new, WHOLE);
    assert_ne!(z.address(), freed, "the old stream still reads it");
    z.fill(&new, 3);
    gate.open();
    desk.context().synchronize().expect("all ends");
    let w = without_calls(rig, || take(rig, &allocator, &home, WHOLE));
    assert_eq!(w.address(), freed);
}
