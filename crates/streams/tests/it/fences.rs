//! Fences, polling, host waits: what is asked, and how often.

use streams::{Error, StreamOptions};

use crate::rig::Rig;

#[test]
fn o2_a_fence_is_shared_until_something_is_submitted() {
    let rig = Rig::lazy();
    let ([a, b], block, other) = (rig.streams(), rig.block(), rig.block());
    rig.use_on(&a, &block);
    let first = a.order().fence_now().unwrap();
    let calls = rig.machine.call_count();
    let again = a.order().fence_now().unwrap();
    assert_eq!(again.point(), first.point());
    assert_eq!(rig.machine.call_count(), calls, "sharing makes no call");
    rig.use_on(&b, &other);
    a.wait_stream(&b).unwrap();
    let later = a.order().fence_now().unwrap();
    assert!(first.point() < later.point(), "a wait is a submission");
}

#[test]
fn o2_a_handle_given_out_makes_every_position_new() {
    let rig = Rig::lazy();
    let a = rig.stream();
    let before = a.order().position();
    assert_eq!(a.order().position(), before);
    assert!(!a.order().is_shared());
    let _raw = a.as_raw();
    assert!(a.order().is_shared());
    let fence = a.order().fence_now().unwrap();
    assert!(before < fence.point());
    assert!(fence.point() < a.order().fence_now().unwrap().point());
}

#[test]
fn o3_known_order_makes_no_call() {
    let rig = Rig::lazy();
    let ([a, b], block) = (rig.streams(), rig.block());
    let used = rig.use_on(&a, &block);
    b.wait_stream(&a).unwrap();
    let fence = a.order().fence_now().unwrap();
    let calls = rig.machine.call_count();
    assert!(b.order().knows(used));
    assert!(b.order().knows_all(fence.frontier()));
    b.order().wait_fence(&fence).unwrap();
    assert!(!b.order().is_complete(used));
    assert_eq!(rig.machine.call_count(), calls);
}

#[test]
fn r5_an_exact_fence_is_one_recorded_before_more_was_queued() {
    let rig = Rig::lazy();
    let (a, block) = (rig.stream(), rig.block());
    let early = rig.use_on(&a, &block);
    let fence = a.order().fence_now().unwrap();
    let late = rig.use_on(&a, &block);
    let later = a.order().fence_now().unwrap();
    assert_eq!(a.order().fence_exactly(early).unwrap().point(), fence.point());
    assert_eq!(a.order().fence_exactly(late).unwrap().point(), later.point());
    let unfenced = rig.use_on(&a, &block);
    assert!(a.order().fence_exactly(unfenced).is_none());
    let more = rig.use_on(&a, &block);
    a.order().fence_now().unwrap();
    assert!(a.order().fence_exactly(unfenced).is_none(), "that one covers more");
    assert!(a.order().fence_exactly(more).is_some());
    assert!(a.order().fence_covering(unfenced).is_some());
}

#[test]
fn polling_without_news_makes_no_call() {
    let rig = Rig::lazy();
    let (a, block) = (rig.stream(), rig.block());
    let calls = rig.machine.call_count();
    a.order().poll().unwrap();
    assert_eq!(rig.machine.call_count(), calls, "a stream that was never used has no news");
    let used = rig.use_on(&a, &block);
    a.synchronize().unwrap();
    assert!(a.order().is_complete(used));
    let calls = rig.machine.call_count();
    a.order().poll().unwrap();
    assert_eq!(rig.machine.call_count(), calls, "nor has one that is known to be idle");
}

#[test]
fn polling_asks_fences_oldest_first_and_stops_at_the_first_no() {
    let rig = Rig::lazy();
    let (a, block) = (rig.stream(), rig.block());
    let points: Vec<_> = (0..8)
        .map(|_| {
            let used = rig.use_on(&a, &block);
            a.order().fence_now().unwrap();
            used
        })
        .collect();
    let asked = rig.calls("cuEventQuery");
    a.order().poll().unwrap();
    assert_eq!(rig.calls("cuEventQuery"), asked + 1, "the device has not begun");
    assert_eq!(rig.calls("cuStreamQuery"), 0);
    for round in 0.. {
        assert!(round < 1000, "polling ends");
        if a.order().is_complete(points[7]) {
            break;
        }
        a.order().poll().unwrap();
    }
    assert!(points.iter().all(|&point| a.order().is_complete(point)));
}

#[test]
fn polling_a_stream_that_is_far_ahead_catches_up_in_few_calls() {
    let rig = Rig::eager();
    let (a, block) = (rig.stream(), rig.block());
    let points: Vec<_> = (0..1000)
        .map(|_| {
            let used = rig.use_on(&a, &block);
            drop(a.order().fence_now().unwrap());
            used
        })
        .collect();
    a.order().poll().unwrap();
    assert!(points.iter().all(|&point| a.order().is_complete(point)));
    assert!(rig.calls("cuEventQuery") <= 12, "{} queries", rig.calls("cuEventQuery"));
}

#[test]
fn polling_a_busy_stream_without_a_fence_leaves_one_for_the_next_poll() {
    let rig = Rig::lazy();
    let (a, block) = (rig.stream(), rig.block());
    let used = rig.use_on(&a, &block);
    a.order().poll().unwrap();
    assert_eq!((rig.calls("cuStreamQuery"), rig.calls("cuEventRecord")), (1, 1));
    rig.use_on(&a, &block);
    for round in 0.. {
        assert!(round < 1000, "the fence is found to have passed");
        if a.order().is_complete(used) {
            break;
        }
        a.order().poll().unwrap();
    }
}

#[test]
fn synchronizing_a_point_uses_the_oldest_fence_that_covers_it() {
    let rig = Rig::lazy();
    let (a, block) = (rig.stream(), rig.block());
    let early = rig.use_on(&a, &block);
    a.order().fence_now().unwrap();
    let late = rig.use_on(&a, &block);
    a.order().synchronize_point(early).unwrap();
    assert!(a.order().is_complete(early));
    assert!(!a.order().is_complete(late), "later work was not waited for");
    a.order().synchronize_point(late).unwrap();
    assert!(a.order().is_complete(late), "a fence was made where there was none");
    let calls = rig.machine.call_count();
    a.order().synchronize_point(early).unwrap();
    assert_eq!(rig.machine.call_count(), calls);
}

#[test]
fn o12_events_are_pooled_and_as_many_as_fences_lived_at_once() {
    let rig = Rig::eager();
    let (a, block) = (rig.stream(), rig.block());
    for _ in 0..1000 {
        rig.use_on(&a, &block);
        let fence = a.order().fence_now().unwrap();
        fence.synchronize().unwrap();
        a.order().poll().unwrap();
    }
    assert!(rig.calls("cuEventCreate") <= 4, "{} events", rig.calls("cuEventCreate"));
    assert_eq!(rig.calls("cuEventRecord"), 1000);
}

#[test]
fn o12_fences_that_nobody_polls_are_thinned_and_still_cover() {
    let rig = Rig::lazy();
    let (a, block) = (rig.stream(), rig.block());
    let points: Vec<_> = (0..9000)
        .map(|_| {
            let used = rig.use_on(&a, &block);
            drop(a.order().fence_now().unwrap());
            used
        })
        .collect();
    assert!(rig.calls("cuEventCreate") <= 4100, "{} events", rig.calls("cuEventCreate"));
    assert!(points.iter().all(|&point| a.order().fence_covering(point).is_some()));
    a.order().synchronize_point(points[8999]).unwrap();
    assert!(points.iter().all(|&point| a.order().is_complete(point)));
}

#[test]
fn a_host_far_ahead_still_finds_each_fence_exactly() {
    let rig = Rig::lazy();
    let (a, block) = (rig.stream(), rig.block());
    let points: Vec<_> = (0..1_000)
        .map(|_| {
            let used = rig.use_on(&a, &block);
            drop(a.order().fence_now().unwrap());
            used
        })
        .collect();
    assert!(points.iter().all(|&point| a.order().fence_exactly(point).is_some()));
}

#[test]
fn a_fence_held_is_not_recorded_anew() {
    let rig = Rig::lazy();
    let ([a, b], block, other) = (rig.streams(), rig.block(), rig.block());
    let used = rig.use_on(&a, &block);
    let held = a.order().fence_now().unwrap();
    for _ in 0..200 {
        rig.use_on(&a, &other);
        drop(a.order().fence_now().unwrap());
    }
    b.order().wait_fence(&held).unwrap();
    rig.assert_known(&b, used, &block, true);
    held.synchronize().unwrap();
    assert!(held.is_known_complete());
    assert!(!a.order().is_complete(a.order().position()));
}

#[test]
fn o6_the_last_handle_leaves_a_fence_behind() {
    let rig = Rig::lazy();
    let (a, block) = (rig.stream(), rig.block());
    let order = a.order().clone();
    let used = rig.use_on(&a, &block);
    drop(a);
    assert!(order.is_retired());
    assert!(order.stream().is_none());
    assert!(order.position() >= used);
    assert!(!order.is_complete(used));
    let fence = order.fence_now().unwrap();
    let b = rig.stream();
    b.order().wait_fence(&fence).unwrap();
    rig.assert_known(&b, used, &block, true);
    assert_eq!(order.wait_fence(&fence), Err(Error::StreamGone { stream: order.id() }));
    order.synchronize_point(order.position()).unwrap();
    assert!(order.is_complete(used));
}

#[test]
fn o6_retiring_refuses_new_work_on_every_clone() {
    let rig = Rig::lazy();
    let (a, block) = (rig.stream(), rig.block());
    let clone = a.clone();
    let used = rig.use_on(&a, &block);
    a.retire();
    let gone = Error::StreamGone { stream: a.id() };
    assert_eq!(clone.fill_bytes(&block.span, 0, 1, 0).unwrap_err(), gone);
    assert_eq!(clone.synchronize().unwrap_err(), gone);
    clone.order().synchronize_point(used).unwrap();
    drop((a, clone));
    assert_eq!(rig.calls("cuStreamDestroy"), 1);
}

#[test]
fn o8_a_recycled_handle_is_another_stream() {
    let rig = Rig::lazy();
    let (a, block) = (rig.stream(), rig.block());
    let (raw, id) = (a.as_raw(), a.id());
    let used = rig.use_on(&a, &block);
    let order = a.order().clone();
    drop(a);
    let b = rig.stream();
    assert_eq!(b.as_raw(), raw, "the driver hands the handle out again at once");
    assert_ne!(b.id(), id);
    assert_ne!(b.order().slot(), order.slot(), "the old stream is not complete");
    rig.assert_known(&b, used, &block, false);
    b.order().wait_fence(&order.fence_now().unwrap()).unwrap();
    rig.assert_known(&b, used, &block, true);
}

#[test]
fn o12_streams_made_and_dropped_use_their_slots_again() {
    let rig = Rig::eager();
    let block = rig.block();
    let mut highest = 0;
    for _ in 0..200 {
        let stream = rig.stream();
        rig.use_on(&stream, &block);
        stream.order().fence_now().unwrap();
        highest = highest.max(stream.order().slot().index());
        drop(stream);
    }
    assert!(highest < 8, "slot {highest} for one stream at a time");
}

#[test]
fn a_stream_says_what_it_is() {
    let rig = Rig::lazy();
    let (least, greatest) = rig.context.priority_range().unwrap();
    assert!(greatest < least);
    let options = StreamOptions { non_blocking: false, priority: greatest, never_wait_on: true };
    let stream = rig.context.create_stream(options).unwrap();
    assert_eq!(stream.priority(), greatest);
    assert!(!stream.is_non_blocking());
    assert!(!stream.order().may_be_waited_on());
    assert!(rig.stream().order().may_be_waited_on());
    assert!(rig.stream().is_non_blocking());
    assert_eq!(stream.device().ordinal(), 0);
}

/// Fences keep time once they are told to, also those of events that were pooled before.
#[test]
fn fences_keep_time_from_when_they_are_told_to() {
    let rig = Rig::eager();
    let [first, second] = rig.streams();
    let block = rig.block();
    let both = || {
        rig.use_on(&first, &block);
        let start = first.order().fence_now().unwrap();
        rig.use_on(&first, &block);
        let end = first.order().fence_now().unwrap();
        first.synchronize().unwrap();
        [start, end]
    };
    let [start, end] = both();
    assert_eq!(end.time_since(&start).unwrap(), None, "nobody asked for times");
    let timer = rig.context.time_fences();
    drop(end);
    rig.use_on(&second, &rig.block());
    let pending = second.order().fence_now().unwrap();
    let [start, end] = both();
    assert!(std::time::Duration::ZERO < end.time_since(&start).unwrap().unwrap());
    assert_eq!(start.time_since(&end).unwrap(), Some(std::time::Duration::ZERO));
    // What is not known to have passed is not asked for its time.
    assert_eq!(pending.is_known_complete(), end.time_since(&pending).unwrap().is_some());
    drop(timer);
    let [start, end] = both();
    assert_eq!(end.time_since(&start).unwrap(), None, "nobody asks for times any more");
}
