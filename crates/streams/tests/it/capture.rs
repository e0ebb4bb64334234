//! Capture and replay (C1 to C4).

use std::sync::Arc;

use streams::{CaptureMode, Error, Event};

use crate::rig::{BYTES, Rig};

#[test]
fn c1_our_calls_break_nobody_s_capture() {
    let rig = Rig::lazy();
    let ([capturing, other], block) = (rig.streams(), rig.block());
    rig.use_on(&other, &block);
    let event = other.record_event().unwrap();
    for mode in [CaptureMode::Global, CaptureMode::ThreadLocal, CaptureMode::Relaxed] {
        let capture = capturing.begin_capture(mode).unwrap();
        event.query().unwrap();
        other.query().unwrap();
        other.order().poll().unwrap();
        rig.use_on(&other, &block);
        other.order().fence_now().unwrap().synchronize().unwrap();
        other.synchronize().unwrap();
        drop(rig.block());
        rig.context.memory_info().unwrap();
        drop(streams::memory::PinnedMemory::allocate(&rig.context, 64).unwrap());
        capture.end().unwrap();
    }
}

#[test]
fn c2_calls_on_a_capturing_stream_add_nothing_to_its_clock() {
    let rig = Rig::lazy();
    let ([a, b], block, other) = (rig.streams(), rig.block(), rig.block());
    let before = a.order().position();
    let capture = a.begin_capture(CaptureMode::Global).unwrap();
    assert!(a.order().is_capturing());
    let queued = a.fill_bytes(&block.span, 0, BYTES, 1).unwrap();
    assert!(queued.is_captured());
    assert!(queued.query().is_err());
    assert_eq!(a.order().position(), before);
    let stream = a.id();
    assert_eq!(a.order().fence_now().unwrap_err(), Error::Capturing { stream });
    assert_eq!(a.synchronize(), Err(Error::Capturing { stream }));
    assert_eq!(a.query(), Err(Error::Capturing { stream }));
    assert!(!a.order().may_wait());
    assert!(!a.order().may_be_waited_on());
    let outside = b.record_event().unwrap();
    assert_eq!(a.wait_event(&outside), Err(Error::Capturing { stream }));
    let fence = {
        rig.use_on(&b, &other);
        b.order().fence_now().unwrap()
    };
    assert_eq!(a.order().wait_fence(&fence), Err(Error::Capturing { stream }));
    capture.end().unwrap();
    assert!(!a.order().is_capturing());
}

#[test]
fn c2_an_event_recorded_in_a_capture_is_void_until_it_is_recorded_anew() {
    let rig = Rig::lazy();
    let ([a, b], block) = (rig.streams(), rig.block());
    let event = a.record_event().unwrap();
    let capture = a.begin_capture(CaptureMode::Global).unwrap();
    a.fill_bytes(&block.span, 0, BYTES, 1).unwrap();
    a.record(&event).unwrap();
    let void = |event: &Event| {
        assert_eq!(event.query(), Err(Error::CapturedEvent));
        assert_eq!(event.synchronize(), Err(Error::CapturedEvent));
    };
    void(&event);
    capture.end().unwrap();
    void(&event);
    assert_eq!(b.wait_event(&event), Err(Error::CapturedEvent));
    let used = rig.use_on(&a, &block);
    a.record(&event).unwrap();
    b.wait_event(&event).unwrap();
    rig.assert_known(&b, used, &block, true);
}

#[test]
fn c2_a_stream_that_waits_for_a_captured_event_takes_part() {
    let rig = Rig::lazy();
    let ([a, b], block, other) = (rig.streams(), rig.block(), rig.block());
    let capture = a.begin_capture(CaptureMode::Global).unwrap();
    a.fill_bytes(&block.span, 0, BYTES, 1).unwrap();
    b.wait_stream(&a).unwrap();
    assert!(b.order().is_capturing());
    assert!(b.fill_bytes(&other.span, 0, BYTES, 2).unwrap().is_captured());
    a.wait_stream(&b).unwrap();
    let graph = capture.end().unwrap();
    assert!(!b.order().is_capturing());
    let exec = graph.instantiate().unwrap();
    let replay = exec.launch(&a).unwrap();
    replay.wait().unwrap();
    let mut bytes = [0; 2];
    a.copy_to_host(&mut bytes[..1], &block.span, 0).unwrap();
    a.copy_to_host(&mut bytes[1..], &other.span, 0).unwrap();
    assert_eq!(bytes, [1, 2]);
}

#[test]
fn c3_a_graph_holds_what_it_uses_until_its_last_replay_is_done() {
    let rig = Rig::lazy();
    let (a, block) = (rig.stream(), rig.block());
    let held = Arc::new(());
    let capture = a.begin_capture(CaptureMode::Global).unwrap();
    a.fill_bytes(&block.span, 0, BYTES, 1).unwrap();
    capture.hold(Box::new(Arc::clone(&held)));
    let graph = capture.end().unwrap();
    assert!(0 < graph.hold_count());
    let exec = graph.instantiate().unwrap();
    drop(graph);
    assert_eq!(Arc::strong_count(&held), 2);
    let replay = exec.launch(&a).unwrap();
    drop(exec);
    assert_eq!(Arc::strong_count(&held), 2, "the replay has not run");
    replay.wait().unwrap();
    assert_eq!(Arc::strong_count(&held), 1);
}

#[test]
fn c3_a_graph_never_launched_lets_go_at_once() {
    let rig = Rig::lazy();
    let a = rig.stream();
    let held = Arc::new(());
    let capture = a.begin_capture(CaptureMode::Relaxed).unwrap();
    capture.hold(Box::new(Arc::clone(&held)));
    let exec = capture.end().unwrap().instantiate().unwrap();
    drop(exec);
    assert_eq!(Arc::strong_count(&held), 1);
}

#[test]
fn c3_each_replay_is_a_submission_of_the_launching_stream() {
    let rig = Rig::lazy();
    let ([a, b, c], block) = (rig.streams(), rig.block());
    let capture = a.begin_capture(CaptureMode::Global).unwrap();
    a.fill_bytes(&block.span, 0, BYTES, 1).unwrap();
    let exec = capture.end().unwrap().instantiate().unwrap();
    let replayed = exec.launch(&b).unwrap();
    rig.assert_known(&c, replayed.point(), &block, false);
    c.wait_submission(&replayed).unwrap();
    rig.assert_known(&c, replayed.point(), &block, true);
}

#[test]
fn a_capture_dropped_is_ended() {
    let rig = Rig::lazy();
    let (a, block) = (rig.stream(), rig.block());
    drop(a.begin_capture(CaptureMode::Global).unwrap());
    assert!(!a.order().is_capturing());
    assert!(!a.fill_bytes(&block.span, 0, 1, 1).unwrap().is_captured());
    let again = a.begin_capture(CaptureMode::Global).unwrap();
    assert!(a.begin_capture(CaptureMode::Global).is_err());
    again.end().unwrap();
}

#[test]
fn what_cannot_be_replayed_is_refused_in_a_capture() {
    let rig = Rig::lazy();
    let (a, block) = (rig.stream(), rig.block());
    let capture = a.begin_capture(CaptureMode::Global).unwrap();
    let refused = Error::Capturing { stream: a.id() };
    assert_eq!(a.copy_to_device(&block.span, 0, &[1]).unwrap_err(), refused);
    assert_eq!(a.copy_to_host(&mut [0], &block.span, 0).unwrap_err(), refused);
    assert_eq!(a.launch_host_function(|| ()).unwrap_err(), refused);
    capture.end().unwrap();
}

#[test]
fn o10_a_context_is_not_synchronized_while_a_stream_of_it_captures() {
    let rig = Rig::lazy();
    let a = rig.stream();
    let capture = a.begin_capture(CaptureMode::Relaxed).unwrap();
    let refused = Error::ContextCapturing { context: rig.context.id() };
    assert_eq!(rig.context.synchronize(), Err(refused.clone()));
    assert_eq!(rig.driver.synchronize_all(), Err(refused));
    assert_eq!(rig.calls("cuCtxSynchronize"), 0);
    capture.end().unwrap();
    rig.driver.synchronize_all().unwrap();
    assert_eq!(rig.calls("cuCtxSynchronize"), 1);
}
