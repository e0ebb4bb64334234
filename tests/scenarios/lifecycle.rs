//! Odd requests, frees that should not be, and things that go in another order than they came.

use allocator::{Allocator, Config, FreeError, PlainSource, RawBlock};

use super::rig::{BLOCK, Held, Rig, WHOLE, take, without_calls};

/// A request for nothing gives a block without memory, which may be freed.
pub fn zero_bytes_are_a_block_without_memory(rig: &dyn Rig) {
    let desk = rig.desk();
    let allocator = desk.allocator(Config::default());
    let [home, user] = desk.streams();
    let empty = without_calls(rig, || take(rig, &allocator, &home, 0));
    assert_eq!((empty.address(), empty.block().size()), (0, 0));
    empty.block().record_stream(&user);
    let _hold = empty.block().hold();
    without_calls(rig, || empty.give_back());
    let raw = allocator.allocate(&home, 0).expect("nothing").into_raw();
    drop(allocator.from_raw(raw).expect("nothing comes back"));
    assert_eq!(allocator.stats().reserved_bytes.peak, 0);
}

/// A raw block works once; what comes after is told from a live one, also when the memory has
/// been handed out again.
pub fn a_raw_block_can_be_taken_back_once(rig: &dyn Rig) {
    let desk = rig.desk();
    let allocator = desk.allocator(Config::default());
    let home = desk.stream();
    let raw = allocator.allocate(&home, BLOCK).expect("memory").into_raw();
    drop(allocator.from_raw(raw).expect("it is allocated"));
    let stale = |raw: RawBlock| {
        let refused = allocator.from_raw(raw).expect_err("it was taken back");
        assert_eq!(refused, FreeError::NotAllocated { address: raw.address });
    };
    stale(raw);
    // The same memory, handed out anew: the old name does not fit it.
    let again = take(rig, &allocator, &home, BLOCK);
    assert_eq!(again.address(), raw.address);
    stale(raw);
    let renamed = RawBlock { token: [raw.token[0], raw.token[1] + 7], ..raw };
    stale(renamed);
    stale(RawBlock { address: raw.address + 512, ..raw });
    again.fill(&home, 1);
    again.check(&home, 1);
    assert_eq!(allocator.stats().allocation_count, 1);
}

/// A raw block of one allocator is refused by another one, and stays where it was.
pub fn a_raw_block_of_another_allocator_is_refused(rig: &dyn Rig) {
    let desk = rig.desk();
    let [ours, other] = [0, 1].map(|_| desk.allocator(Config::default()));
    let home = desk.stream();
    let raw = ours.allocate(&home, BLOCK).expect("memory").into_raw();
    let refused = other.from_raw(raw).expect_err("it belongs to another");
    assert_eq!(refused, FreeError::Foreign { address: raw.address });
    let text = format!("the block at {:#x} belongs to another allocator", raw.address);
    assert_eq!(refused.to_string(), text);
    let back = Held::new(rig, ours.from_raw(raw).expect("it is allocated"), &home);
    back.fill(&home, 1);
}

/// A block may be freed on any thread, with its uses.
pub fn a_block_may_be_freed_on_another_thread(rig: &dyn Rig) {
    let desk = rig.desk();
    let allocator = desk.allocator(Config::default());
    let [home, user] = desk.streams();
    let x = take(rig, &allocator, &home, WHOLE);
    x.fill(&home, 1);
    user.wait_stream(&home).expect("a wait");
    let gate = desk.hold(&user);
    x.check(&user, 1);
    x.block().record_stream(&user);
    let freed = x.address();
    let estate = x.free_by(|block| {
        std::thread::scope(|scope| scope.spawn(move || block.free()).join().expect("no panic"))
    });
    estate.expect("a free");
    let y = take(rig, &allocator, &home, WHOLE);
    assert_ne!(y.address(), freed, "the use was lost on the way");
    y.fill(&home, 2);
    gate.open();
    user.synchronize().expect("the user ends");
    let z = take(rig, &allocator, &home, WHOLE);
    assert_eq!(z.address(), freed);
}

/// A per-thread stream can be fenced by its own thread only: freed elsewhere, a block that it
/// uses waits until that thread has synchronised (L22, O9).
pub fn a_per_thread_stream_is_fenced_by_its_own_thread(rig: &dyn Rig) {
    let desk = rig.desk();
    let allocator = desk.allocator(Config::default());
    let home = desk.stream();
    let mine = desk.context().per_thread_stream().expect("this thread's stream");
    let x = take(rig, &allocator, &home, WHOLE);
    x.fill(&home, 1);
    mine.wait_stream(&home).expect("a wait");
    desk.busy(&mine);
    x.check(&mine, 1);
    x.block().record_stream(&mine);
    let freed = x.address();
    // Whether the fence could be recorded is told; that the block is kept is promised.
    let _told = x.free_by(|block| {
        std::thread::scope(|scope| scope.spawn(move || block.free()).join().expect("no panic"))
    });
    let before = allocator.stats().served_by.completion;
    let y = take(rig, &allocator, &home, WHOLE);
    let asked = allocator.stats().served_by.completion - before;
    assert!(y.address() != freed || asked == 1, "handed out while the thread's stream uses it");
    y.fill(&home, 2);
    y.give_back();
    mine.synchronize().expect("the stream ends");
    let both = [0, 1].map(|_| take(rig, &allocator, &home, WHOLE));
    assert!(both.iter().any(|block| block.address() == freed), "kept although its use is over");
}

/// A stream may go while blocks of it, and blocks it uses, are outstanding: they are freed and
/// reused when its work is complete.
pub fn a_stream_may_go_before_its_blocks(rig: &dyn Rig) {
    let desk = rig.desk();
    let allocator = desk.allocator(Config::default());
    let [home, user, next] = desk.streams();
    let gates = [desk.hold(&home), desk.hold(&user)];
    let of_home = take(rig, &allocator, &home, WHOLE);
    of_home.fill(&home, 1);
    let used = take(rig, &allocator, &next, WHOLE);
    user.wait_stream(&next).expect("a wait");
    used.fill(&user, 2);
    used.block().record_stream(&user);
    drop((home, user));
    let freed = [of_home.free(), used.free()];
    let y = take(rig, &allocator, &next, WHOLE);
    assert!(!freed.contains(&y.address()), "handed out while a stream that is gone uses it");
    y.fill(&next, 3);
    drop(gates);
    desk.context().synchronize().expect("all ends");
    let both = [0, 1].map(|_| take(rig, &allocator, &next, WHOLE));
    assert!(both.iter().all(|block| freed.contains(&block.address())), "lost with its stream");
    both.iter().for_each(|block| block.fill(&next, 4));
}

/// A hold keeps a block beyond its free until it is dropped (R1), and so does each of several.
pub fn a_hold_keeps_a_block_beyond_its_free(rig: &dyn Rig) {
    let desk = rig.desk();
    let allocator = desk.allocator(Config::default());
    let home = desk.stream();
    let x = take(rig, &allocator, &home, WHOLE);
    x.fill(&home, 1);
    let holds = [x.block().hold(), x.block().hold()];
    let estate = x.free_while_held();
    assert_eq!(allocator.stats().pending_bytes.current, WHOLE);
    let [first, second] = holds;
    drop(first);
    let y = take(rig, &allocator, &home, WHOLE);
    assert_ne!(y.address(), estate.address(), "one hold is left");
    y.fill(&home, 2);
    let freed = estate.address();
    estate.end();
    without_calls(rig, || drop(second));
    assert_eq!(allocator.stats().pending_bytes.current, 0);
    let z = without_calls(rig, || take(rig, &allocator, &home, WHOLE));
    assert_eq!(z.address(), freed);
}

/// Blocks keep the allocator alive; the last of them gives the memory back.
pub fn blocks_outlive_the_allocators_handle(rig: &dyn Rig) {
    let desk = rig.desk();
    let source = std::sync::Arc::new(PlainSource::new(desk.context()));
    let allocator = Allocator::with_source(desk.context(), Config::default(), source);
    let allocator = allocator.expect("an allocator");
    let home = desk.stream();
    let x = take(rig, &allocator, &home, WHOLE);
    drop(allocator);
    x.fill(&home, 1);
    x.check(&home, 1);
    x.give_back();
}

/// Was: the end waited for the gate, which nobody but its own thread would have opened. Memory of
/// the gated use is left to the context instead, in which later calls give it back.
pub fn an_allocator_may_end_behind_a_gate_that_its_thread_opens(rig: &dyn Rig) {
    let desk = rig.desk();
    let before = rig.used_bytes();
    let allocator = desk.allocator(Config::default());
    let streams = desk.streams();
    let [home, user] = streams.each_ref();
    let gate = desk.hold(user);
    let (open, held) = (take(rig, &allocator, home, WHOLE), take(rig, &allocator, home, WHOLE));
    open.fill(home, 1);
    held.fill(home, 1);
    user.wait_stream(home).expect("a wait");
    held.check(user, 1);
    held.block().record_stream(user);
    open.give_back();
    held.give_back();
    drop(allocator);
    assert_eq!(desk.context().leftover_bytes(), WHOLE, "what is not behind the gate has gone");
    gate.open();
    user.synchronize().expect("it ends");
    assert_eq!(desk.context().leftover_bytes(), 0);
    assert_eq!(rig.used_bytes(), before);
}
