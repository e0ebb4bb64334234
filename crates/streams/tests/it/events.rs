//! Events of the user's own.

use streams::Error;

use crate::rig::Rig;

#[test]
fn an_event_never_recorded_has_passed_and_nobody_waits_for_it() {
    let rig = Rig::lazy();
    let ([a, b], block) = (rig.streams(), rig.block());
    let event = rig.context.create_event().unwrap();
    assert!(event.query().unwrap());
    event.synchronize().unwrap();
    let used = rig.use_on(&a, &block);
    assert_eq!(b.wait_event(&event), Err(Error::NeverRecorded), "the wait would do nothing");
    rig.assert_known(&b, used, &block, false);
    a.record(&event).unwrap();
    b.wait_event(&event).unwrap();
    rig.assert_known(&b, used, &block, true);
}

#[test]
fn o1_a_query_that_says_yes_completes_the_recorded_point() {
    let rig = Rig::eager();
    let (a, block) = (rig.stream(), rig.block());
    let used = rig.use_on(&a, &block);
    let event = a.record_event().unwrap();
    let late = rig.use_on(&a, &block);
    assert!(!a.order().is_complete(used), "nobody asked yet");
    assert!(event.query().unwrap());
    assert!(a.order().is_complete(used));
    assert!(!a.order().is_complete(late));
}

#[test]
fn o1_completion_passes_through_what_the_stream_waited_for() {
    let rig = Rig::lazy();
    let ([a, b, c], block) = (rig.streams(), rig.block());
    let used = rig.use_on(&a, &block);
    b.wait_stream(&a).unwrap();
    c.wait_stream(&b).unwrap();
    let event = c.record_event().unwrap();
    event.synchronize().unwrap();
    assert!(a.order().is_complete(used));
}

#[test]
fn o4_a_record_that_failed_leaves_the_event_without_credit() {
    use cuda_sim::FaultPlan;
    use cuda_sys::CUresult;
    let rig = Rig::eager();
    let (a, block) = (rig.stream(), rig.block());
    let used = rig.use_on(&a, &block);
    let event = a.record_event().unwrap();
    rig.machine.fail(FaultPlan::next("cuEventRecord", CUresult::CUDA_ERROR_INVALID_VALUE));
    assert!(a.record(&event).is_err());
    assert!(event.query().unwrap());
    assert!(!a.order().is_complete(used), "which record was asked about is unknown");
}

#[test]
fn o4_threads_that_record_and_wait_on_one_event_are_never_over_credited() {
    let rig = Rig::eager();
    let [a, b, c] = rig.streams();
    let blocks = [rig.block(), rig.block()];
    let event = rig.context.create_event().unwrap();
    // Never recorded, it could not be waited for.
    c.record(&event).unwrap();
    std::thread::scope(|scope| {
        for (stream, block) in [&a, &b].into_iter().zip(&blocks) {
            let (rig, event) = (&rig, &event);
            scope.spawn(move || {
                for _ in 0..200 {
                    rig.use_on(stream, block);
                    stream.record(event).unwrap();
                }
            });
        }
        scope.spawn(|| {
            for _ in 0..200 {
                c.wait_event(&event).unwrap();
            }
        });
    });
    for (stream, block) in [&a, &b].into_iter().zip(&blocks) {
        let last = stream.order().position();
        let raw = rig.machine.stream_with_id(c.id()).unwrap();
        if c.order().knows(last) {
            let edge = rig.machine.probe(block.span.span().address, block.span.span().bytes, raw);
            assert!(edge.is_ok(), "credited with an edge that is not there");
        }
    }
}

#[test]
fn an_event_belongs_to_its_context() {
    use cuda_sim::{DeviceProfile, Machine, Schedule};
    let machine = Machine::builder()
        .device(DeviceProfile::h200())
        .device(DeviceProfile::h200())
        .schedule(Schedule::Lazy)
        .build();
    let rig = Rig::on(machine);
    let other = rig.driver.device(1).unwrap().primary_context().unwrap();
    let event = other.create_event().unwrap();
    let refused = rig.stream().record(&event).unwrap_err();
    assert_eq!(refused, Error::OtherContext { expected: rig.context.id(), found: other.id() });
}

#[test]
fn timing_events_measure_and_others_do_not() {
    let rig = Rig::lazy();
    let (a, block) = (rig.stream(), rig.block());
    let start = rig.context.create_timing_event().unwrap();
    let end = rig.context.create_timing_event().unwrap();
    assert_eq!(end.elapsed_since(&start), Err(Error::NeverRecorded));
    a.record(&start).unwrap();
    rig.use_on(&a, &block);
    a.record(&end).unwrap();
    assert_eq!(end.elapsed_since(&start), Err(Error::NotReady));
    a.synchronize().unwrap();
    assert!(!end.elapsed_since(&start).unwrap().is_zero());
    let plain = a.record_event().unwrap();
    a.synchronize().unwrap();
    assert_eq!(plain.elapsed_since(&start), Err(Error::NoTiming));
}

#[test]
fn an_interprocess_event_orders_like_any_other() {
    let rig = Rig::lazy();
    let ([a, b], block) = (rig.streams(), rig.block());
    let event = rig.context.create_interprocess_event().unwrap();
    let used = rig.use_on(&a, &block);
    a.record(&event).unwrap();
    b.wait_event(&event).unwrap();
    rig.assert_known(&b, used, &block, true);
}

#[test]
fn l3_a_future_ends_by_completion() {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};
    let rig = Rig::lazy();
    let (a, block) = (rig.stream(), rig.block());
    let used = rig.use_on(&a, &block);
    let mut future = pin!(a.record_event().unwrap().into_future());
    let mut context = Context::from_waker(Waker::noop());
    let mut polls = 0;
    while future.as_mut().poll(&mut context) == Poll::Pending {
        polls += 1;
        assert!(polls < 1000);
    }
    assert!(0 < polls, "the device had not begun");
    assert!(a.order().is_complete(used));
}

#[test]
fn l3_a_future_ends_by_the_failure_of_its_context() {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use cuda_sim::FaultPlan;
    use cuda_sys::CUresult;
    let rig = Rig::lazy();
    let (a, block) = (rig.stream(), rig.block());
    rig.use_on(&a, &block);
    let mut future = pin!(a.order().fence_now().unwrap().into_future());
    let mut context = Context::from_waker(Waker::noop());
    assert_eq!(future.as_mut().poll(&mut context), Poll::Pending);
    let code = CUresult::CUDA_ERROR_LAUNCH_FAILED;
    rig.machine.fail(FaultPlan { call: "cuEventQuery", nth: 1, code, sticky: true });
    assert!(matches!(future.as_mut().poll(&mut context), Poll::Ready(Err(Error::Driver(_)))));
    let late = a.order().fence_now().unwrap().into_future();
    assert!(matches!(pin!(late).poll(&mut context), Poll::Ready(Err(Error::ContextFailed { .. }))));
}
