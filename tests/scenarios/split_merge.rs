//! Blocks that are split and joined: each part and each whole remembers who used it (R7).

use allocator::Config;

use super::rig::{BLOCK, Rig, WHOLE, take, without_calls};

/// A frees X, B frees its neighbour Y; a third stream may take memory over both only when it is
/// after both (L10), and then does, without a call.
pub fn a_joined_block_is_after_all_its_parts(rig: &dyn Rig) {
    let desk = rig.desk();
    let allocator = desk.allocator(Config::default());
    let [a, b, c] = desk.streams();
    let x = take(rig, &allocator, &a, WHOLE);
    let y = take(rig, &allocator, &a, WHOLE);
    assert_eq!(x.address() + WHOLE, y.address(), "neighbours");
    // Y goes over to B.
    y.give_back();
    b.wait_stream(&a).expect("a wait");
    let y = take(rig, &allocator, &b, WHOLE);
    assert_eq!(x.address() + WHOLE, y.address(), "the same neighbour");
    let gates = [desk.hold(&a), desk.hold(&b)];
    x.fill(&a, 1);
    y.fill(&b, 2);
    let start = x.free();
    y.give_back();
    let z = take(rig, &allocator, &c, 2 * WHOLE);
    assert_ne!(z.address(), start, "neither stream has ended");
    z.fill(&c, 3);
    c.wait_stream(&a).expect("a wait");
    let z = take(rig, &allocator, &c, 2 * WHOLE);
    assert_ne!(z.address(), start, "the second stream has not ended");
    z.fill(&c, 3);
    c.wait_stream(&b).expect("a wait");
    let merges = allocator.stats().cross_stream_merges;
    let z = without_calls(rig, || take(rig, &allocator, &c, 2 * WHOLE));
    assert_eq!(z.address(), start, "after both, and not joined");
    assert_eq!(allocator.stats().cross_stream_merges, merges + 1);
    z.fill(&c, 4);
    z.check(&c, 4);
    drop(gates);
}

/// The middle of two joined blocks of different streams needs both as well (L10).
pub fn the_middle_of_a_joined_block_is_after_both_parts(rig: &dyn Rig) {
    let desk = rig.desk();
    let allocator = desk.allocator(Config::default());
    let [a, b, c] = desk.streams();
    let x = take(rig, &allocator, &a, WHOLE);
    let y = take(rig, &allocator, &a, WHOLE);
    y.give_back();
    b.wait_stream(&a).expect("a wait");
    let y = take(rig, &allocator, &b, WHOLE);
    let gates = [desk.hold(&a), desk.hold(&b)];
    x.fill(&a, 1);
    y.fill(&b, 2);
    let start = x.free();
    y.give_back();
    c.wait_stream(&a).expect("a wait");
    c.wait_stream(&b).expect("a wait");
    let front = take(rig, &allocator, &c, WHOLE / 2 + BLOCK);
    let middle = take(rig, &allocator, &c, WHOLE);
    let inside = |address: u64| start <= address && address < start + 2 * WHOLE;
    assert!(inside(front.address()) && inside(middle.address()), "known memory was left");
    front.fill(&c, 3);
    middle.fill(&c, 4);
    front.check(&c, 3);
    middle.check(&c, 4);
    drop(gates);
}

/// B takes the front of a block of A's; A takes the rest at once and uses it anew; a third stream
/// that is after B alone gets neither (L11).
pub fn a_split_block_gives_each_part_its_own_history(rig: &dyn Rig) {
    let desk = rig.desk();
    let allocator = desk.allocator(Config::default());
    let [a, b, c] = desk.streams();
    let x = take(rig, &allocator, &a, 2 * WHOLE);
    x.fill(&a, 1);
    let start = x.free();
    b.wait_stream(&a).expect("a wait");
    let stolen = without_calls(rig, || take(rig, &allocator, &b, WHOLE));
    assert_eq!(stolen.address(), start);
    let rest = without_calls(rig, || take(rig, &allocator, &a, WHOLE));
    assert_eq!(rest.address(), start + WHOLE, "what a thief leaves stays with its stream");
    let gates = [desk.hold(&a), desk.hold(&b)];
    stolen.fill(&b, 2);
    rest.fill(&a, 3);
    let freed = [stolen.free(), rest.free()];
    c.wait_stream(&b).expect("a wait");
    let taken = [0, 1].map(|_| take(rig, &allocator, &c, WHOLE));
    assert_eq!(taken[0].address(), freed[0], "after the thief, and not reused");
    assert_ne!(taken[1].address(), freed[1], "the first stream uses the rest again");
    taken.iter().for_each(|block| block.fill(&c, 4));
    drop(gates);
}

/// What a split leaves keeps the uses of the whole.
pub fn the_rest_of_a_split_block_keeps_its_uses(rig: &dyn Rig) {
    let desk = rig.desk();
    let allocator = desk.allocator(Config::default());
    let [home, user, third] = desk.streams();
    let x = take(rig, &allocator, &home, 2 * WHOLE);
    x.fill(&home, 1);
    user.wait_stream(&home).expect("a wait");
    let gate = desk.hold(&user);
    x.check(&user, 1);
    x.block().record_stream(&user);
    let start = x.free();
    third.wait_stream(&user).expect("a wait");
    let front = without_calls(rig, || take(rig, &allocator, &third, WHOLE));
    assert_eq!(front.address(), start, "known to this stream");
    let y = take(rig, &allocator, &home, WHOLE);
    assert_ne!(y.address(), start + WHOLE, "the user still reads the rest");
    y.fill(&home, 2);
    home.wait_stream(&user).expect("a wait");
    let z = without_calls(rig, || take(rig, &allocator, &home, WHOLE));
    assert_eq!(z.address(), start + WHOLE, "the rest is known now");
    front.fill(&third, 3);
    z.fill(&home, 4);
    gate.open();
}

/// Blocks of one stream join, whatever the order of their frees, and serve a large request without
/// a call.
pub fn blocks_of_one_stream_join_without_a_call(rig: &dyn Rig) {
    let desk = rig.desk();
    let allocator = desk.allocator(Config::default());
    let stream = desk.stream();
    let blocks: Vec<_> = (0..32).map(|_| take(rig, &allocator, &stream, BLOCK)).collect();
    let gate = desk.hold(&stream);
    blocks.iter().for_each(|block| block.fill(&stream, 1));
    let start = blocks.iter().map(|block| block.address()).min().expect("there are blocks");
    without_calls(rig, || {
        let (odd, even): (Vec<_>, Vec<_>) =
            blocks.into_iter().enumerate().partition(|(index, _)| index % 2 == 1);
        for (_, block) in odd.into_iter().chain(even) {
            block.give_back();
        }
        let all = take(rig, &allocator, &stream, 16 * BLOCK);
        assert!(start <= all.address() && all.address() + 16 * BLOCK <= start + WHOLE);
    });
    gate.open();
}

/// A pending block does not make its ready neighbour wait.
pub fn a_pending_neighbour_does_not_hold_up_a_ready_block(rig: &dyn Rig) {
    let desk = rig.desk();
    let allocator = desk.allocator(Config::default());
    let [home, user] = desk.streams();
    let [ready, pending] = [0, 1].map(|_| take(rig, &allocator, &home, WHOLE));
    pending.fill(&home, 1);
    user.wait_stream(&home).expect("a wait");
    let gate = desk.hold(&user);
    pending.check(&user, 1);
    pending.block().record_stream(&user);
    let at_pending = pending.free();
    let at_ready = ready.free();
    let y = without_calls(rig, || take(rig, &allocator, &home, WHOLE));
    assert_eq!(y.address(), at_ready, "held up by its neighbour");
    y.fill(&home, 2);
    y.give_back();
    home.wait_stream(&user).expect("a wait");
    let both = without_calls(rig, || take(rig, &allocator, &home, 2 * WHOLE));
    assert_eq!(both.address(), at_ready.min(at_pending), "neighbours that are both known join");
    both.fill(&home, 3);
    gate.open();
}

/// Was: a freed block joined what nobody had used yet beside it, and a stream that was not ordered
/// after the free had to grow for what it could have had before (R10).
pub fn a_free_takes_no_memory_from_other_streams(rig: &dyn Rig) {
    let desk = rig.desk();
    let allocator = desk.allocator(Config::default());
    let [home, other] = desk.streams();
    let gate = desk.hold(&home);
    let freed = take(rig, &allocator, &home, BLOCK).free();
    let y = without_calls(rig, || take(rig, &allocator, &other, BLOCK));
    assert_eq!(y.address(), freed + BLOCK, "what nobody has used is beside the freed block");
    y.fill(&other, 1);
    y.check(&other, 1);
    gate.open();
}
