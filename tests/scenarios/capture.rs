//! Graphs: memory handed out while a stream captures, and memory that a graph uses.

use allocator::Config;
use streams::CaptureMode;

use super::rig::{BLOCK, Rig, WHOLE, take};

/// Memory that is first handed out in a capture is complete, since the graph may be replayed on
/// any stream; to be known to come before is not enough (L24, R8).
pub fn memory_handed_out_in_a_capture_is_complete(rig: &dyn Rig) {
    let desk = rig.desk();
    let allocator = desk.allocator(Config::default());
    let [before, capturing] = desk.streams();
    let x = take(rig, &allocator, &before, WHOLE);
    let gate = desk.hold(&before);
    x.fill(&before, 1);
    let freed = x.free();
    capturing.wait_stream(&before).expect("a wait");
    let capture = capturing.begin_capture(CaptureMode::ThreadLocal).expect("a capture");
    let y = take(rig, &allocator, &capturing, WHOLE);
    assert_ne!(y.address(), freed, "known to come before this stream, but not complete");
    drop(capture.end().expect("a graph"));
    gate.open();
    capturing.synchronize().expect("the gate is open");
    let capture = capturing.begin_capture(CaptureMode::ThreadLocal).expect("a capture");
    let z = take(rig, &allocator, &capturing, WHOLE);
    assert_eq!(z.address(), freed, "complete, and not used");
    drop(capture.end().expect("a graph"));
}

/// What a graph uses is held by it and by what was made of it, until its last replay is done
/// (L25, C3).
pub fn a_graph_holds_what_it_uses(rig: &dyn Rig) {
    let desk = rig.desk();
    let allocator = desk.allocator(Config::default());
    let [home, replaying] = desk.streams();
    let mut x = take(rig, &allocator, &home, WHOLE);
    let capture = home.begin_capture(CaptureMode::ThreadLocal).expect("a capture");
    let _captured = desk.kernels().fill_u32(&home, x.block_mut(), 1).expect("a launch");
    let graph = capture.end().expect("a graph");
    let replay = graph.instantiate().expect("a launchable graph");
    drop(graph);
    replaying.wait_stream(&home).expect("a wait");
    let estate = x.free_while_held();
    let y = take(rig, &allocator, &home, WHOLE);
    assert_ne!(y.address(), estate.address(), "the graph uses it");
    y.fill(&home, 2);
    for _ in 0..2 {
        let _launched = replay.launch(&replaying).expect("a replay");
    }
    y.check(&home, 2);
    drop(replay);
    desk.context().synchronize().expect("the replays end");
    let freed = estate.address();
    estate.end();
    let z = take(rig, &allocator, &home, WHOLE);
    assert_eq!(z.address(), freed, "nothing holds it any more");
}

/// A free inside a capture of memory from outside keeps it from everybody until the graph is
/// gone, and the reverse works as well (L13).
pub fn memory_goes_in_and_out_of_a_capture(rig: &dyn Rig) {
    let desk = rig.desk();
    let allocator = desk.allocator(Config::default());
    let [home, other] = desk.streams();
    let mut outside = take(rig, &allocator, &home, WHOLE);
    let capture = home.begin_capture(CaptureMode::ThreadLocal).expect("a capture");
    let _first = desk.kernels().fill_u32(&home, outside.block_mut(), 1).expect("a launch");
    let outside = outside.free_while_held();
    let mut inside = take(rig, &allocator, &home, WHOLE);
    assert_ne!(inside.address(), outside.address(), "the graph uses it");
    let _second = desk.kernels().fill_u32(&home, inside.block_mut(), 2).expect("a launch");
    let graph = capture.end().expect("a graph");
    let inside = inside.free_while_held();
    let replay = graph.instantiate().expect("a launchable graph");
    let y = take(rig, &allocator, &other, WHOLE);
    assert!(![outside.address(), inside.address()].contains(&y.address()), "a graph uses it");
    y.fill(&other, 3);
    for _ in 0..2 {
        let _launched = replay.launch(&home).expect("a replay");
    }
    y.check(&other, 3);
    let freed = [outside.address(), inside.address()];
    drop((replay, graph));
    desk.context().synchronize().expect("the replays end");
    outside.end();
    inside.end();
    let both = [0, 1].map(|_| take(rig, &allocator, &home, WHOLE));
    assert!(both.iter().all(|block| freed.contains(&block.address())), "still held");
}

/// The allocator's own calls do not break somebody's capture, nor does a free whose uses lie on a
/// capturing stream (C1, C2).
pub fn the_allocator_breaks_no_capture(rig: &dyn Rig) {
    let desk = rig.desk();
    for mode in [CaptureMode::Global, CaptureMode::ThreadLocal, CaptureMode::Relaxed] {
        let allocator = desk.allocator(Config::default());
        let [home, capturing] = desk.streams();
        let x = take(rig, &allocator, &home, WHOLE);
        x.fill(&home, 1);
        capturing.wait_stream(&home).expect("a wait");
        x.check(&capturing, 1);
        let capture = capturing.begin_capture(mode).expect("a capture");
        x.block().record_stream(&capturing);
        let freed = x.free();
        // Growth, searches and questions, beside the capture and inside it.
        let y = take(rig, &allocator, &home, WHOLE);
        assert_ne!(y.address(), freed, "the capturing stream has not been seen to end");
        let z = take(rig, &allocator, &capturing, BLOCK);
        let _nothing = allocator.trim(u64::MAX).expect("nothing is complete");
        y.fill(&home, 2);
        y.give_back();
        z.give_back();
        drop(capture.end().expect("the capture is whole"));
        desk.context().synchronize().expect("all ends");
        let w = take(rig, &allocator, &home, WHOLE);
        w.fill(&home, 3);
    }
}
