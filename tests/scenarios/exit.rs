//! The end: allocators, streams and contexts that go while work is queued.

use allocator::Config;

use super::rig::{BLOCK, Rig, WHOLE, take};

/// An allocator that goes with blocks pending waits for their uses, and gives all memory back.
pub fn an_allocator_may_go_while_blocks_are_pending(rig: &dyn Rig) {
    let desk = rig.desk();
    for source in desk.sources() {
        let before = rig.used_bytes();
        let allocator = desk.try_allocator(Config::default(), Some(source));
        let allocator = allocator.expect("an allocator");
        let [home, user] = desk.streams();
        let blocks = [BLOCK, WHOLE, 3 * WHOLE].map(|bytes| take(rig, &allocator, &home, bytes));
        blocks.iter().for_each(|block| block.fill(&home, 1));
        user.wait_stream(&home).expect("a wait");
        desk.busy(&user);
        for block in &blocks {
            block.check(&user, 1);
            block.block().record_stream(&user);
        }
        blocks.into_iter().for_each(|block| block.give_back());
        drop(allocator);
        assert_eq!(rig.used_bytes(), before, "memory stayed behind");
    }
}

/// Streams may go before the allocator, with work queued on them.
pub fn streams_may_go_before_the_allocator(rig: &dyn Rig) {
    let desk = rig.desk();
    for source in desk.sources() {
        let before = rig.used_bytes();
        let allocator = desk.try_allocator(Config::default(), Some(source));
        let allocator = allocator.expect("an allocator");
        let [home, user] = desk.streams();
        let x = take(rig, &allocator, &home, WHOLE);
        x.fill(&home, 1);
        user.wait_stream(&home).expect("a wait");
        desk.busy(&user);
        x.check(&user, 1);
        x.block().record_stream(&user);
        drop((home, user));
        x.give_back();
        drop(allocator);
        assert_eq!(rig.used_bytes(), before, "memory stayed behind");
    }
}

/// Memory for order is bounded by what lives: streams that come and go leave no slots, events or
/// shards behind (O12).
pub fn streams_that_come_and_go_leave_nothing_behind(rig: &dyn Rig) {
    let desk = rig.desk();
    let allocator = desk.allocator(Config::default());
    let home = desk.stream();
    let mut events_after_ten = 0;
    for round in 0..40 {
        let user = desk.stream();
        let x = take(rig, &allocator, &home, BLOCK);
        x.fill(&home, 1);
        user.wait_stream(&home).expect("a wait");
        x.check(&user, 1);
        x.block().record_stream(&user);
        let y = take(rig, &allocator, &user, BLOCK);
        y.fill(&user, 2);
        x.give_back();
        y.give_back();
        drop(user);
        desk.context().synchronize().expect("all ends");
        if round == 10 {
            events_after_ten = desk.context().pooled_events();
        }
    }
    assert!(desk.context().pooled_events() <= events_after_ten + 2, "events pile up");
    assert!(allocator.stats().segment_count <= 4, "a segment for each stream that ever was");
}
