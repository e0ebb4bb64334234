//! Default streams, borrowed streams, borrowed events, borrowed contexts.
#![expect(unsafe_code, reason = "borrowing is the unsafe door")]

use std::ptr;

use cuda_sim::{DeviceProfile, Schedule};
use cuda_sys::CUevent;
use streams::{BorrowPromises, CaptureMode, Error, Stream};

use crate::rig::Rig;

#[test]
fn o8_a_stream_borrowed_twice_is_one_stream() {
    let rig = Rig::lazy();
    let owner = rig.stream();
    // SAFETY: `owner` outlives both.
    let one = unsafe { rig.context.borrow_stream(owner.as_raw()) }.unwrap();
    // SAFETY: as above.
    let two = unsafe { rig.context.borrow_stream(owner.as_raw()) }.unwrap();
    assert_eq!(one.order().slot(), two.order().slot());
    assert_eq!(one.order().slot(), owner.order().slot());
    assert!(one.order().is_shared());
    assert_eq!(one.id(), owner.id());
}

#[test]
fn o8_a_capturing_stream_is_not_borrowed_and_its_capture_lives_on() {
    let rig = Rig::lazy();
    let (owner, block) = (rig.stream(), rig.block());
    let other = Rig::on(rig.machine.clone());
    let capture = owner.begin_capture(CaptureMode::Global).unwrap();
    owner.fill_bytes(&block.span, 0, 1, 1).unwrap();
    // SAFETY: `owner` outlives the call.
    let refused = unsafe { other.context.borrow_stream(owner.as_raw()) };
    assert!(matches!(refused, Err(Error::ContextCapturing { .. })));
    capture.end().unwrap();
    // SAFETY: `owner` outlives the stream.
    let borrowed = unsafe { other.context.borrow_stream(owner.as_raw()) }.unwrap();
    assert_eq!(borrowed.id(), owner.id());
}

#[test]
fn o8_borrowing_needs_ids() {
    let rig = Rig::with(Schedule::Lazy, DeviceProfile::h200().without("cuStreamGetId"));
    let owner = rig.stream();
    // SAFETY: `owner` outlives the call.
    let refused = unsafe { rig.context.borrow_stream(owner.as_raw()) };
    assert!(matches!(refused, Err(Error::MissingEntryPoint(_))));
    let rig = Rig::with(Schedule::Lazy, DeviceProfile::h200().without("cuCtxGetId"));
    // SAFETY: the rig keeps the context.
    let refused = unsafe { rig.driver.borrow_context(rig.context.as_raw()) };
    assert!(matches!(refused, Err(Error::MissingEntryPoint(_))));
}

#[test]
fn c4_a_stream_of_our_own_is_never_asked_whether_it_captures() {
    let rig = Rig::lazy();
    let ([a, b], block) = (rig.streams(), rig.block());
    rig.use_on(&a, &block);
    b.wait_stream(&a).unwrap();
    b.order().poll().unwrap();
    let capture = a.begin_capture(CaptureMode::Global).unwrap();
    assert!(a.order().is_capturing());
    capture.end().unwrap();
    rig.context.synchronize().unwrap();
    assert_eq!(rig.calls("cuStreamIsCapturing"), 0);
    let _raw = a.as_raw();
    assert!(!a.order().is_capturing());
    assert_eq!(rig.calls("cuStreamIsCapturing"), 1, "others have its handle");
}

#[test]
fn o5_a_borrowed_event_carries_nothing_until_it_is_recorded_here() {
    let rig = Rig::lazy();
    let ([a, b, c], block) = (rig.streams(), rig.block());
    let owner = rig.context.create_event().unwrap();
    let used = rig.use_on(&a, &block);
    a.record(&owner).unwrap();
    // SAFETY: `owner` outlives the borrowed event.
    let event = unsafe { rig.context.borrow_event(owner.as_raw()) };
    b.wait_event(&event).unwrap();
    assert!(!b.order().knows(used), "it is ordered, but not by anything we saw");
    assert!(b.order().is_gated(), "who knows what it waits for");
    a.record(&event).unwrap();
    c.wait_event(&event).unwrap();
    rig.assert_known(&c, used, &block, true);
}

#[test]
fn o5_an_event_recorded_behind_our_back_can_be_forgotten() {
    let rig = Rig::lazy();
    let ([a, b], block) = (rig.streams(), rig.block());
    let used = rig.use_on(&a, &block);
    let event = a.record_event().unwrap();
    event.forget_record();
    b.wait_event(&event).unwrap();
    assert!(!b.order().knows(used));
}

/// What a library does that has the raw handle of an event: records it, on a stream of its choice.
fn record_as_others_do(rig: &Rig, event: CUevent, stream: &Stream) {
    let library = Rig::on(rig.machine.clone());
    // SAFETY: the caller holds the event, and nobody here waits for the borrowed one.
    let event = unsafe { library.context.borrow_event(event) };
    // SAFETY: the caller holds the stream.
    let stream = unsafe { library.context.borrow_stream(stream.as_raw()) }.unwrap();
    stream.record(&event).unwrap();
}

#[test]
fn o5_an_event_recorded_behind_our_back_through_its_handle_carries_no_order() {
    for behind_our_back in [false, true] {
        let rig = Rig::lazy();
        let ([a, idle, b], block) = (rig.streams(), rig.block());
        let used = rig.use_on(&a, &block);
        let event = a.record_event().unwrap();
        if behind_our_back {
            record_as_others_do(&rig, event.as_raw(), &idle);
        }
        b.wait_event(&event).unwrap();
        // Unless recorded anew, the edge is there and known; else it is neither.
        rig.assert_known(&b, used, &block, !behind_our_back);
        assert_eq!(b.order().is_gated(), behind_our_back, "who knows what it waits for");
    }
}

#[test]
fn o5_an_answer_of_an_event_recorded_behind_our_back_completes_nothing() {
    for behind_our_back in [false, true] {
        let rig = Rig::lazy();
        let ([a, idle], block) = (rig.streams(), rig.block());
        let used = rig.use_on(&a, &block);
        let event = a.record_event().unwrap();
        if behind_our_back {
            record_as_others_do(&rig, event.as_raw(), &idle);
        }
        event.synchronize().unwrap();
        assert!(event.query().unwrap());
        assert_eq!(a.order().is_complete(used), !behind_our_back);
    }
}

#[test]
fn o5_a_record_of_ours_does_not_take_a_handle_back() {
    let rig = Rig::lazy();
    let ([a, idle, b], block) = (rig.streams(), rig.block());
    let event = rig.context.create_event().unwrap();
    let raw = event.as_raw();
    let used = rig.use_on(&a, &block);
    a.record(&event.clone()).unwrap();
    record_as_others_do(&rig, raw, &idle);
    b.wait_event(&event).unwrap();
    rig.assert_known(&b, used, &block, false);
    event.synchronize().unwrap();
    assert!(!a.order().is_complete(used));
    let second = a.record_event().unwrap();
    b.wait_event(&second).unwrap();
    rig.assert_known(&b, used, &block, true);
}

#[test]
fn o5_an_event_whose_handle_is_out_brings_no_stream_into_a_capture() {
    for handle_is_out in [false, true] {
        let rig = Rig::lazy();
        let ([a, b], event) = (rig.streams(), rig.context.create_event().unwrap());
        let capture = a.begin_capture(CaptureMode::ThreadLocal).unwrap();
        a.record(&event).unwrap();
        if handle_is_out {
            let _raw = event.as_raw();
        }
        let waited = b.wait_event(&event);
        assert_eq!(waited, if handle_is_out { Err(Error::CapturedEvent) } else { Ok(()) });
        assert_eq!(b.order().is_capturing(), !handle_is_out);
        if !handle_is_out {
            a.wait_stream(&b).unwrap();
        }
        capture.end().unwrap();
    }
}

#[test]
fn o9_a_null_handle_is_the_legacy_stream_of_its_context() {
    let rig = Rig::lazy();
    let legacy = rig.context.legacy_stream().unwrap();
    // SAFETY: the null handle names the legacy stream, which lives as long as its context.
    let null = unsafe { rig.context.borrow_stream(ptr::null_mut()) }.unwrap();
    assert_eq!(null.order().slot(), legacy.order().slot());
    assert!(!null.as_raw().is_null());
    let block = rig.block();
    let used = rig.use_on(&null, &block);
    legacy.synchronize().unwrap();
    assert!(legacy.order().is_complete(used));
}

#[test]
fn o9_implicit_legacy_order_is_not_knowledge_and_no_wait_goes_on_it() {
    let rig = Rig::lazy();
    let block = rig.block();
    let blocking = streams::StreamOptions { non_blocking: false, ..Default::default() };
    let a = rig.context.create_stream(blocking).unwrap();
    let legacy = rig.context.legacy_stream().unwrap();
    let used = rig.use_on(&a, &block);
    assert!(!legacy.order().knows(used));
    let fence = a.order().fence_now().unwrap();
    let context = rig.context.id();
    assert_eq!(legacy.order().wait_fence(&fence), Err(Error::LegacyWait { context }));
    assert!(!legacy.order().may_wait());
    legacy.wait_stream(&a).unwrap();
    assert!(legacy.order().knows(used), "a wait the user asked for is one");
}

#[test]
fn o9_a_per_thread_stream_is_one_a_thread() {
    let rig = Rig::lazy();
    let one = rig.context.per_thread_stream().unwrap();
    let two = rig.context.per_thread_stream().unwrap();
    assert_eq!(one.order().slot(), two.order().slot());
    let escaped = (*one).clone();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let theirs = rig.context.per_thread_stream().unwrap();
            assert_ne!(theirs.order().slot(), escaped.order().slot());
            let wrong = Error::WrongThread { stream: escaped.id() };
            assert_eq!(escaped.synchronize(), Err(wrong.clone()));
            assert_eq!(escaped.query(), Err(wrong.clone()));
            assert_eq!(escaped.record_event().unwrap_err(), wrong);
            assert!(!escaped.order().may_wait());
        });
    });
    one.synchronize().unwrap();
}

#[test]
fn c4_a_stream_that_others_capture_is_asked_and_refused() {
    let rig = Rig::lazy();
    let (owner, block) = (rig.stream(), rig.block());
    let other = Rig::on(rig.machine.clone());
    // SAFETY: `owner` outlives the borrowed stream.
    let borrowed = unsafe { other.context.borrow_stream(owner.as_raw()) }.unwrap();
    let capture = owner.begin_capture(CaptureMode::Relaxed).unwrap();
    assert!(borrowed.order().is_capturing());
    let refused = Error::Capturing { stream: borrowed.id() };
    assert_eq!(borrowed.fill_bytes(&block.span, 0, 1, 1).unwrap_err(), refused);
    assert_eq!(borrowed.order().fence_now().unwrap_err(), refused);
    borrowed.order().poll().unwrap();
    assert!(other.context.synchronize().is_err());
    capture.end().unwrap();
    assert!(!borrowed.order().is_capturing());
}

#[test]
fn r5_promises_lift_the_gate_of_a_borrowed_stream() {
    let rig = Rig::lazy();
    let owner = rig.stream();
    let other = Rig::on(rig.machine.clone());
    let promises = BorrowPromises {
        announces_captures: true,
        announces_gates: true,
        ..BorrowPromises::default()
    };
    // SAFETY: `owner` outlives the borrowed stream, and nobody uses it otherwise.
    let borrowed = unsafe { other.context.borrow_stream_with(owner.as_raw(), promises) }.unwrap();
    let asked = rig.calls("cuStreamIsCapturing");
    assert!(!borrowed.order().is_gated());
    assert!(borrowed.order().may_be_waited_on());
    assert_eq!(rig.calls("cuStreamIsCapturing"), asked);
    assert!(borrowed.order().position() < borrowed.order().position(), "still not ours alone");
}

#[test]
fn o6_a_borrowed_stream_is_fenced_when_it_is_retired_and_not_destroyed() {
    let rig = Rig::lazy();
    let (owner, block) = (rig.stream(), rig.block());
    let other = Rig::on(rig.machine.clone());
    // SAFETY: `owner` outlives the borrowed stream.
    let borrowed = unsafe { other.context.borrow_stream(owner.as_raw()) }.unwrap();
    let used = other.use_on(&borrowed, &block);
    let order = borrowed.order().clone();
    borrowed.retire();
    assert_eq!(order.position(), order.position(), "a retired stream has one last position");
    order.synchronize_point(order.position()).unwrap();
    assert!(order.is_complete(used));
    drop(borrowed);
    assert_eq!(rig.calls("cuStreamDestroy"), 0);
    owner.synchronize().unwrap();
}

#[test]
fn a_borrowed_context_is_the_context_it_is() {
    let rig = Rig::lazy();
    // SAFETY: the rig keeps the context.
    let same = unsafe { rig.driver.borrow_context(rig.context.as_raw()) }.unwrap();
    assert_eq!(same.id(), rig.context.id());
    let other = Rig::on(rig.machine.clone());
    // SAFETY: as above.
    let borrowed = unsafe { other.driver.borrow_context(rig.context.as_raw()) }.unwrap();
    assert_eq!(borrowed.device().ordinal(), 0);
    let stream = borrowed.create_stream(streams::StreamOptions::default()).unwrap();
    stream.synchronize().unwrap();
}
