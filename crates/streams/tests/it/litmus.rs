//! Orderings that allocators got wrong. What the stream is said to know is compared with the
//! checker, which sees the whole graph; each case has its dual with the edge present.

use cuda_sim::FaultPlan;
use cuda_sys::CUresult;
use streams::Error;

use crate::rig::{BYTES, Rig};

#[test]
fn l17_an_event_recorded_before_the_use_does_not_cover_it() {
    for recorded_after in [false, true] {
        let rig = Rig::lazy();
        let ([a, b], block) = (rig.streams(), rig.block());
        let event = rig.context.create_event().unwrap();
        a.record(&event).unwrap();
        let used = rig.use_on(&a, &block);
        if recorded_after {
            a.record(&event).unwrap();
        }
        b.wait_event(&event).unwrap();
        rig.assert_known(&b, used, &block, recorded_after);
    }
}

#[test]
fn l18_an_event_recorded_before_the_wait_does_not_carry_it_on() {
    for recorded_after in [false, true] {
        let rig = Rig::lazy();
        let ([a, b, c], block) = (rig.streams(), rig.block());
        let used = rig.use_on(&a, &block);
        let of_a = a.record_event().unwrap();
        let of_b = rig.context.create_event().unwrap();
        b.record(&of_b).unwrap();
        b.wait_event(&of_a).unwrap();
        if recorded_after {
            b.record(&of_b).unwrap();
        }
        c.wait_event(&of_b).unwrap();
        rig.assert_known(&c, used, &block, recorded_after);
    }
}

#[test]
fn l19_a_wait_is_for_the_last_record_only() {
    let rig = Rig::lazy();
    let ([a, b, c], on_a, on_b) = (rig.streams(), rig.block(), rig.block());
    let event = rig.context.create_event().unwrap();
    let used_on_a = rig.use_on(&a, &on_a);
    a.record(&event).unwrap();
    let used_on_b = rig.use_on(&b, &on_b);
    b.record(&event).unwrap();
    c.wait_event(&event).unwrap();
    rig.assert_known(&c, used_on_a, &on_a, false);
    rig.assert_known(&c, used_on_b, &on_b, true);
}

#[test]
fn l20_synchronizing_an_event_completes_what_it_was_recorded_for_and_no_more() {
    let rig = Rig::lazy();
    let [a] = rig.streams();
    let block = rig.block();
    let event = rig.context.create_event().unwrap();
    let first = rig.use_on(&a, &block);
    a.record(&event).unwrap();
    let second = rig.use_on(&a, &block);
    event.synchronize().unwrap();
    assert!(a.order().is_complete(first));
    assert!(!a.order().is_complete(second));
    a.record(&event).unwrap();
    assert!(!a.order().is_complete(second), "a record is not yet a completion");
    event.synchronize().unwrap();
    assert!(a.order().is_complete(second));
}

#[test]
fn l21_a_wait_is_a_submission_so_the_free_after_it_is_not_an_older_mark() {
    let rig = Rig::lazy();
    let ([a, s, t], block) = (rig.streams(), rig.block());
    let other = rig.block();
    rig.use_on(&s, &other);
    let older = s.order().fence_now().unwrap();
    let used = rig.use_on(&a, &block);
    s.wait_stream(&a).unwrap();
    let freed = s.order().position();
    older.synchronize().unwrap();
    assert!(older.point() < freed);
    assert!(!t.order().knows(freed));
    rig.assert_known(&t, used, &block, false);
    t.wait_stream(&s).unwrap();
    assert!(t.order().knows(freed));
    rig.assert_known(&t, used, &block, true);
}

#[test]
fn l22_the_per_thread_stream_of_another_thread_is_fenced_by_that_thread_only() {
    let rig = Rig::lazy();
    let mine = rig.context.per_thread_stream().unwrap();
    let order = mine.order().clone();
    let block = rig.block();
    let used = rig.use_on(&mine, &block);
    std::thread::scope(|scope| {
        let elsewhere = scope.spawn(|| {
            let refused = order.fence_now().unwrap_err();
            assert_eq!(refused, Error::WrongThread { stream: order.id() });
            order.poll().unwrap();
            assert!(!order.is_complete(used), "nobody here can find out");
        });
        elsewhere.join().unwrap();
    });
    let fence = mine.order().fence_now().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| fence.synchronize().unwrap());
    });
    assert!(order.is_complete(used));
}

#[test]
fn l26_a_wait_that_fails_adds_nothing() {
    let rig = Rig::lazy();
    let ([a, b], block) = (rig.streams(), rig.block());
    let used = rig.use_on(&a, &block);
    let event = a.record_event().unwrap();
    rig.machine.fail(FaultPlan::next("cuStreamWaitEvent", CUresult::CUDA_ERROR_INVALID_VALUE));
    assert!(b.wait_event(&event).is_err());
    rig.assert_known(&b, used, &block, false);
    b.wait_event(&event).unwrap();
    rig.assert_known(&b, used, &block, true);
}

#[test]
fn l26_a_record_that_fails_adds_nothing() {
    let rig = Rig::lazy();
    let ([a, b], block) = (rig.streams(), rig.block());
    let event = a.record_event().unwrap();
    let used = rig.use_on(&a, &block);
    rig.machine.fail(FaultPlan::next("cuEventRecord", CUresult::CUDA_ERROR_INVALID_VALUE));
    assert!(a.record(&event).is_err());
    b.wait_event(&event).unwrap();
    rig.assert_known(&b, used, &block, false);
    rig.machine.fail(FaultPlan::next("cuEventRecord", CUresult::CUDA_ERROR_INVALID_VALUE));
    assert!(a.order().fence_now().is_err());
    assert!(a.order().fence_covering(used).is_none());
    a.record(&event).unwrap();
    b.wait_event(&event).unwrap();
    rig.assert_known(&b, used, &block, true);
}

#[test]
fn l28_a_synchronous_copy_is_not_the_completion_of_other_streams() {
    let rig = Rig::lazy();
    let ([a, b], block, other) = (rig.streams(), rig.block(), rig.block());
    let used = rig.use_on(&a, &block);
    let copied = b.copy_to_device(&other.span, 0, &[7; 64]).unwrap();
    assert!(b.order().is_complete(copied.point()), "its own work is done");
    assert!(!b.order().is_complete(used));
    rig.assert_known(&b, used, &block, false);
    a.synchronize().unwrap();
    rig.assert_known(&b, used, &block, true);
}

#[test]
fn l28_dual_order_passes_through_a_stream_that_waited() {
    let rig = Rig::lazy();
    let ([a, b, c], block) = (rig.streams(), rig.block());
    let used = rig.use_on(&a, &block);
    b.wait_stream(&a).unwrap();
    let mut host = [0; 64];
    b.copy_to_host(&mut host, &block.span, 0).unwrap();
    assert!(c.order().is_complete(used), "the copy came after it and is done");
    rig.assert_known(&c, used, &block, true);
    assert_eq!(host, [1; 64]);
    assert_eq!(BYTES, block.span.span().bytes);
}
