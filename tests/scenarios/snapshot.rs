//! Snapshots: what is shown of each block, and every figure found again in them.

use allocator::{BlockState, Config, Mismatch, Policy, Snapshot};

use super::rig::{BLOCK, Rig, WHOLE, take};

/// A policy that never asks, so that nothing is found complete by luck.
fn never_asks() -> Config {
    Config::default().with_policy(Policy::Deterministic)
}

fn state_at(snapshot: &Snapshot, address: u64) -> BlockState {
    let inside = |address: u64| {
        snapshot
            .blocks()
            .find(move |block| block.address <= address && address < block.address + block.size)
    };
    inside(address).expect("a block that holds the address").state
}

/// A block is shown as handed out, then as pending with the point it waits for, then as free.
pub fn a_snapshot_shows_every_block_in_its_state(rig: &dyn Rig) {
    let desk = rig.desk();
    let allocator = desk.allocator(never_asks());
    let [home, user] = desk.streams();
    let x = take(rig, &allocator, &home, WHOLE);
    let y = take(rig, &allocator, &home, WHOLE - 100);
    x.fill(&home, 1);
    user.wait_stream(&home).expect("a wait");
    x.check(&user, 1);
    x.block().record_stream(&user);
    let held = y.block().hold();
    let address = x.address();
    let shown = allocator.snapshot();
    let block = shown.blocks().find(|block| block.address == address).expect("it is shown");
    assert_eq!(block.state, BlockState::Allocated);
    assert_eq!((block.size, block.requested, block.home), (WHOLE, WHOLE, home.order().slot()));
    assert_eq!(block.used_by, [user.order().slot()]);
    assert_eq!(shown.stream_ids[&block.home], home.id());
    let other = shown.blocks().find(|block| block.address == y.address()).expect("it is shown");
    assert_eq!((other.requested, other.hold_count), (WHOLE - 100, 1));

    x.give_back();
    let estate = y.free_while_held();
    let shown = allocator.snapshot();
    let block = shown.blocks().find(|block| block.address == address).expect("it is shown");
    assert_eq!((block.state, block.requested), (BlockState::Pending, 0));
    assert!(block.waits_for.iter().any(|point| point.stream == user.order().slot()));
    assert!(!block.waits_for.iter().all(|point| home.order().knows(*point)));
    assert_eq!(state_at(&shown, estate.address()), BlockState::Held);

    desk.context().synchronize().expect("all ends");
    estate.end();
    drop(held);
    let shown = allocator.snapshot();
    assert_eq!(state_at(&shown, address), BlockState::Ready);
    assert_eq!(shown.bytes_in(BlockState::Pending) + shown.bytes_in(BlockState::Held), 0);
}

/// At every step of a life the figures are those of the snapshot; and figures of another moment
/// are not.
pub fn every_figure_is_found_again_in_a_snapshot(rig: &dyn Rig) {
    let desk = rig.desk();
    for source in desk.sources() {
        let allocator = allocator::Allocator::with_source(desk.context(), never_asks(), source);
        let allocator = allocator.expect("an allocator");
        let agree = || {
            let stats = allocator.stats();
            assert_eq!(allocator.snapshot().check(&stats), Ok(()));
            stats
        };
        let [home, user] = desk.streams();
        let empty = agree();
        let blocks = [100, BLOCK, WHOLE, 5 * WHOLE].map(|bytes| {
            let block = take(rig, &allocator, &home, bytes);
            agree();
            block
        });
        let full = agree();
        assert_ne!(full, empty);
        blocks.iter().for_each(|block| block.fill(&home, 1));
        user.wait_stream(&home).expect("a wait");
        for block in &blocks {
            block.check(&user, 1);
            block.block().record_stream(&user);
        }
        let hold = blocks[1].block().hold();
        let [a, b, c, d] = blocks;
        a.give_back();
        agree();
        let estate = b.free_while_held();
        agree();
        c.give_back();
        let stale = allocator.snapshot().check(&full);
        assert!(matches!(stale, Err(Mismatch::Figure { .. })), "a check that cannot fail");
        desk.context().synchronize().expect("all ends");
        estate.end();
        drop(hold);
        agree();
        allocator.empty_cache().expect("the cache goes");
        agree();
        d.give_back();
        agree();
    }
}

/// What fits is what is known to come before the stream's next operation, and of the right pool;
/// neighbours that are known count together.
pub fn a_snapshot_says_whether_a_request_fits(rig: &dyn Rig) {
    let desk = rig.desk();
    let allocator = desk.allocator(never_asks());
    let [home, user] = desk.streams();
    let blocks = [0, 1].map(|_| take(rig, &allocator, &home, WHOLE));
    blocks.iter().for_each(|block| block.fill(&home, 1));
    let [x, y] = blocks;
    let start = x.address().min(y.address());
    x.give_back();
    y.give_back();
    let shown = allocator.snapshot();
    assert_eq!(shown.find_fit(&home, 2 * WHOLE), Some(start));
    assert_eq!(shown.find_fit(&home, BLOCK), None, "a small request has a pool of its own");
    assert_eq!(shown.find_fit(&user, WHOLE), None, "the other stream knows nothing of the home");
    user.wait_stream(&home).expect("a wait");
    assert_eq!(shown.find_fit(&user, WHOLE), Some(start));
    let z = take(rig, &allocator, &user, WHOLE);
    assert!([start, start + WHOLE].contains(&z.address()), "what fits is taken");
    z.fill(&user, 2);
}
