//! Streams, events and time.

use std::ptr;

use cuda_sim::{Machine, Schedule};
use cuda_sys::CUresult;

use crate::rig::{Argument, NOT_READY, Rig, SUCCESS};
use crate::{cu, ok};

#[test]
fn timed_runs_answer_as_a_quiet_device_does() {
    let rig = Rig::new(Schedule::Timed);
    let a = rig.stream();
    let (start, end) = (rig.event_with(0), rig.event_with(0));
    ok!(rig, event_record(start, a));
    rig.launch(a, "spin", &[Argument::U64(2_000_000)]);
    ok!(rig, event_record(end, a));
    let mut milliseconds = 0.0;
    let elapsed = |out: &mut f32| cu!(rig, event_elapsed_time(&raw mut *out, start, end));
    assert_eq!(cu!(rig, event_query(end)), NOT_READY);
    assert_eq!(cu!(rig, stream_query(a)), NOT_READY);
    assert_eq!(elapsed(&mut milliseconds), NOT_READY);
    rig.machine.advance(3_000_000);
    assert_eq!(cu!(rig, event_query(end)), SUCCESS);
    assert_eq!(elapsed(&mut milliseconds), SUCCESS);
    assert!((1.99..2.01).contains(&milliseconds), "{milliseconds}");
}

#[test]
fn unrecorded_and_untimed_events() {
    let rig = Rig::new(Schedule::Seeded(1));
    let a = rig.stream();
    let (untimed, timed) = (rig.event(), rig.event_with(0));
    ok!(rig, event_query(untimed));
    ok!(rig, event_synchronize(untimed));
    ok!(rig, stream_wait_event(a, untimed, 0));
    let mut milliseconds = 0.0;
    let invalid = CUresult::CUDA_ERROR_INVALID_HANDLE;
    assert_eq!(cu!(rig, event_elapsed_time(&raw mut milliseconds, timed, timed)), invalid);
    ok!(rig, event_record(untimed, a));
    ok!(rig, event_record(timed, a));
    ok!(rig, stream_synchronize(a));
    assert_eq!(cu!(rig, event_elapsed_time(&raw mut milliseconds, untimed, timed)), invalid);
    ok!(rig, event_elapsed_time(&raw mut milliseconds, timed, timed));
    assert_eq!(cu!(rig, stream_wait_event(a, ptr::null_mut(), 0)), invalid);
}

#[test]
fn a_waiter_keeps_the_record_it_was_told_of() {
    let rig = Rig::new(Schedule::Timed);
    let (a, b) = (rig.stream(), rig.stream());
    let event = rig.event();
    rig.launch(a, "spin", &[Argument::U64(1_000_000)]);
    ok!(rig, event_record(event, a));
    ok!(rig, stream_wait_event(b, event, 0));
    rig.launch(a, "spin", &[Argument::U64(50_000_000)]);
    ok!(rig, event_record(event, a));
    rig.machine.advance(2_000_000);
    assert_eq!(cu!(rig, stream_query(b)), SUCCESS);
    assert_eq!(cu!(rig, event_query(event)), NOT_READY);
}

#[test]
fn a_stream_far_behind_is_not_held_up_by_when_the_other_came_later() {
    let rig = Rig::new(Schedule::Timed);
    let (ahead, behind) = (rig.stream(), rig.stream());
    let (start, end) = (rig.event_with(0), rig.event_with(0));
    ok!(rig, event_record(start, ahead));
    for _ in 0..400 {
        rig.launch(ahead, "spin", &[Argument::U64(100_000)]);
        rig.order(ahead, behind);
        rig.launch(behind, "spin", &[Argument::U64(100_000)]);
    }
    ok!(rig, event_record(end, behind));
    ok!(rig, stream_synchronize(ahead));
    ok!(rig, stream_synchronize(behind));
    let mut milliseconds = 0.0;
    ok!(rig, event_elapsed_time(&raw mut milliseconds, start, end));
    assert!((40.0..40.5).contains(&milliseconds), "both at once take 40.1 ms: {milliseconds}");
}

#[test]
fn one_busy_stream_holds_up_no_other() {
    let rig = Rig::new(Schedule::Timed);
    let streams: Vec<_> = (0..64).map(|_| rig.stream()).collect();
    let block = rig.alloc(4 * 64);
    rig.launch(streams[0], "spin", &[Argument::U64(1 << 40)]);
    for (index, &stream) in (0..).zip(&streams).skip(1) {
        rig.put(stream, block + 4 * index, 1);
    }
    rig.machine.advance(1_000_000);
    let held_up = streams.iter().filter(|&&stream| cu!(rig, stream_query(stream)) == NOT_READY);
    assert_eq!(held_up.count(), 1);
}

#[test]
fn the_legacy_stream_waits_for_blocking_streams_and_they_for_it() {
    let rig = Rig::new(Schedule::Timed);
    let (blocking, free) = (rig.stream_with(0), rig.stream());
    let legacy = ptr::null_mut();
    rig.launch(blocking, "spin", &[Argument::U64(1_000_000)]);
    rig.launch(legacy, "spin", &[Argument::U64(0)]);
    assert_eq!(cu!(rig, stream_query(legacy)), NOT_READY);
    rig.machine.advance(2_000_000);
    assert_eq!(cu!(rig, stream_query(legacy)), SUCCESS);
    rig.launch(legacy, "spin", &[Argument::U64(1_000_000)]);
    rig.launch(blocking, "spin", &[Argument::U64(0)]);
    rig.launch(free, "spin", &[Argument::U64(0)]);
    rig.machine.advance(10_000);
    assert_eq!(cu!(rig, stream_query(blocking)), NOT_READY);
    assert_eq!(cu!(rig, stream_query(free)), SUCCESS);
}

#[test]
fn s5_a_query_refuses_a_bounded_number_of_times() {
    for (schedule, refusals) in [(Schedule::Lazy, 5), (Schedule::Eager, 0)] {
        let rig = Rig::build(Machine::builder().schedule(schedule).refusals(5));
        let a = rig.stream();
        let block = rig.alloc(4);
        rig.put(a, block, 1);
        let mut refused = 0;
        while cu!(rig, stream_query(a)) == NOT_READY {
            refused += 1;
        }
        assert_eq!(refused, refusals);
    }
}

#[test]
fn s5_a_blocking_call_runs_only_what_it_needs() {
    let rig = Rig::new(Schedule::Lazy);
    let (a, b) = (rig.stream(), rig.stream());
    let block = rig.alloc(8);
    rig.put(a, block, 1);
    rig.put(b, block + 4, 1);
    ok!(rig, stream_synchronize(b));
    assert_eq!((rig.peek(block), rig.peek(block + 4)), (0, 1));
}

#[test]
fn s5_a_full_queue_makes_the_submitter_wait() {
    let rig = Rig::new(Schedule::Lazy);
    let a = rig.stream();
    let block = rig.alloc(4);
    for value in 0..5_000 {
        rig.put(a, block, value);
        assert!(rig.machine.pending_operations() <= 1024);
    }
    assert_eq!(rig.peek(block), 5_000 - 1 - 1024);
    ok!(rig, stream_synchronize(a));
    assert_eq!(rig.peek(block), 4_999);
}

#[test]
fn destroyed_streams_and_events_finish_what_was_queued() {
    let rig = Rig::new(Schedule::Lazy);
    let (a, b) = (rig.stream(), rig.stream());
    let block = rig.alloc(8);
    let event = rig.event();
    rig.put(a, block, 1);
    ok!(rig, event_record(event, a));
    ok!(rig, stream_wait_event(b, event, 0));
    ok!(rig, event_destroy(event));
    ok!(rig, stream_destroy(a));
    rig.put(b, block + 4, 1);
    ok!(rig, stream_synchronize(b));
    assert_eq!((rig.peek(block), rig.peek(block + 4)), (1, 1));
}

#[test]
fn priorities_are_clamped() {
    let rig = Rig::new(Schedule::Lazy);
    let (mut least, mut greatest, mut priority) = (1, 1, 1);
    ok!(rig, ctx_get_stream_priority_range(&raw mut least, &raw mut greatest));
    assert_eq!((least, greatest), (0, -5));
    let mut stream = ptr::null_mut();
    ok!(rig, stream_create_with_priority(&raw mut stream, 1, -100));
    ok!(rig, stream_get_priority(stream, &raw mut priority));
    assert_eq!(priority, -5);
}
