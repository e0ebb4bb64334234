//! Slots of streams that are gone: used again while the old streams are still held.

use cuda_sim::{FaultPlan, Schedule};
use cuda_sys::CUresult;
use streams::{CurrentStream, Error, Stream};

use crate::rig::{Block, Rig};

/// A stream that has the slot of `old`, which must be free. What comes before it is kept.
fn next_in_slot(rig: &Rig, old: &streams::StreamOrder) -> (Stream, Vec<Stream>) {
    let mut others = Vec::new();
    for _ in 0..16 {
        let stream = rig.stream();
        if stream.order().slot() == old.slot() {
            return (stream, others);
        }
        others.push(stream);
    }
    panic!("slot {} is not given out again", old.slot().index());
}

/// A stream that was used, synchronized and dropped, and its last point.
fn used_and_gone(rig: &Rig, block: &Block) -> (streams::StreamOrder, streams::Point) {
    let stream = rig.stream();
    let order = stream.order().clone();
    let used = rig.use_on(&stream, block);
    stream.synchronize().unwrap();
    (order, used)
}

#[test]
fn o12_slots_are_used_again_while_the_order_of_every_old_stream_is_held() {
    let rig = Rig::eager();
    let block = rig.block();
    let mut orders = Vec::new();
    for round in 0..3 * 65_536 {
        let (order, used) = used_and_gone(&rig, &block);
        assert!(order.slot().index() < 4, "slot {} in round {round}", order.slot().index());
        assert_eq!(order.position(), used);
        orders.push(order);
    }
    assert!(orders.iter().all(|order| order.is_retired() && order.is_complete(order.position())));
    assert!(orders.windows(2).all(|two| two[0].position() < two[1].position()));
}

#[test]
fn o12_slots_of_streams_nobody_synchronized_are_found_to_be_free() {
    let rig = Rig::eager();
    let block = rig.block();
    let mut orders = Vec::new();
    for _ in 0..1_000 {
        let stream = rig.stream();
        rig.use_on(&stream, &block);
        orders.push(stream.order().clone());
    }
    let highest = orders.iter().map(|order| order.slot().index()).max();
    assert!(highest < Some(16), "slot {highest:?} for one stream at a time");
}

#[test]
fn o12_a_point_of_a_dead_stream_stays_complete_and_the_next_streams_do_not_become_so() {
    let rig = Rig::lazy();
    let (block, other) = (rig.block(), rig.block());
    let (dead, old) = used_and_gone(&rig, &block);
    let (next, _others) = next_in_slot(&rig, &dead);
    assert!(next.order().knows(old) && next.order().is_complete(old));
    let new = rig.use_on(&next, &other);
    assert_eq!(new.stream, old.stream);
    assert!(old < new, "marks go on");
    assert!(dead.is_complete(old));
    assert!(!dead.is_complete(new) && !next.order().is_complete(new));
    let stranger = rig.stream();
    rig.assert_known(&stranger, old, &block, true);
    rig.assert_known(&stranger, new, &other, false);
}

#[test]
fn o12_a_pending_point_of_a_dead_stream_keeps_its_slot() {
    for complete in [false, true] {
        let rig = Rig::lazy();
        let (a, block, other) = (rig.stream(), rig.block(), rig.block());
        let dead = a.order().clone();
        let pending = rig.use_on(&a, &block);
        drop(a);
        if complete {
            dead.synchronize_point(pending).unwrap();
        }
        // Making it asks the old stream's last fence once: the device has not begun.
        let next = rig.stream();
        let reused = next.order().slot() == dead.slot();
        assert_eq!(reused, complete, "only what is complete is used again");
        let further = (0..4).map(|_| rig.use_on(&next, &other)).max().unwrap();
        next.synchronize().unwrap();
        assert!(next.order().is_complete(further) && pending.mark < further.mark);
        rig.assert_known(&next, pending, &block, complete);
        assert_eq!(dead.is_complete(pending), complete);
    }
}

#[test]
fn o12_a_dead_stream_without_a_fence_keeps_its_slot_until_its_context_is_synchronized() {
    let rig = Rig::lazy();
    let (a, block) = (rig.stream(), rig.block());
    let dead = a.order().clone();
    rig.use_on(&a, &block);
    rig.machine.fail(FaultPlan::next("cuEventRecord", CUresult::CUDA_ERROR_INVALID_VALUE));
    drop(a);
    let others: Vec<_> = (0..8).map(|_| rig.stream()).collect();
    assert!(others.iter().all(|stream| stream.order().slot() != dead.slot()));
    rig.context.synchronize().unwrap();
    next_in_slot(&rig, &dead);
}

#[test]
fn o12_a_dead_stream_does_not_speak_for_the_next_one_in_its_slot() {
    let rig = Rig::lazy();
    let (block, other) = (rig.block(), rig.block());
    let (dead, last) = used_and_gone(&rig, &block);
    let gone = Error::StreamGone { stream: dead.id() };
    let (next, _others) = next_in_slot(&rig, &dead);
    let elsewhere = rig.stream();
    let theirs = rig.use_on(&elsewhere, &other);
    next.wait_stream(&elsewhere).unwrap();
    assert!(next.order().knows(theirs));
    assert!(!dead.knows(theirs), "that is the clock of the next stream");
    let fence = next.order().fence_now().unwrap();
    assert!(!dead.knows(fence.point()) && !dead.knows_all(fence.frontier()));
    assert!(dead.knows(last));
    assert!(dead.fence_covering(fence.point()).is_none());
    assert!(dead.fence_exactly(fence.point()).is_none());
    assert_eq!(dead.synchronize_point(fence.point()), Err(gone.clone()));
    assert_eq!(dead.wait_fence(&fence), Err(gone.clone()));
    assert_eq!(dead.fence_now().unwrap_err(), gone);
    assert!(dead.is_retired() && !next.order().is_retired());
    let calls = rig.machine.call_count();
    dead.poll().unwrap();
    assert_eq!(rig.machine.call_count(), calls, "it has no news");
    next.order().synchronize_point(fence.point()).unwrap();
}

#[test]
fn o12_a_dead_stream_is_not_shared_or_gated_and_counts_nothing_for_the_next_one() {
    let rig = Rig::lazy();
    let block = rig.block();
    let (dead, last) = used_and_gone(&rig, &block);
    let (next, _others) = next_in_slot(&rig, &dead);
    let _raw = next.as_raw();
    let submission = next.launch_host_function(|| ()).unwrap();
    assert!(next.order().is_shared() && next.order().is_known_gated());
    let before = next.order().position().mark;
    assert!(!dead.is_shared() && !dead.is_gated() && !dead.is_known_gated());
    assert!(!dead.is_capturing() && dead.may_be_waited_on() && !dead.may_wait());
    assert_eq!((dead.position(), dead.position()), (last, last));
    assert_eq!(next.order().position().mark, before + 1, "the dead stream took no position");
    submission.wait().unwrap();
}

#[test]
fn o12_calls_on_a_retired_stream_leave_the_next_one_alone() {
    let rig = Rig::lazy();
    let (a, block) = (rig.stream(), rig.block());
    rig.use_on(&a, &block);
    a.synchronize().unwrap();
    a.retire();
    let (next, _others) = next_in_slot(&rig, a.order());
    let gone = Error::StreamGone { stream: a.id() };
    let _raw = a.as_raw();
    assert!(!next.order().is_shared(), "it is not the next stream's handle that is out");
    assert_eq!(a.launch_host_function(|| ()).unwrap_err(), gone);
    assert!(!next.order().is_gated());
    rig.use_on(&next, &block);
    assert_eq!(a.wait_stream(&next), Err(gone), "they have one slot and are not one stream");
}

#[test]
fn o12_a_gate_that_a_failed_call_announced_goes_with_its_stream() {
    let rig = Rig::lazy();
    let a = rig.stream();
    rig.machine.fail(FaultPlan::next("cuLaunchHostFunc", CUresult::CUDA_ERROR_INVALID_VALUE));
    assert!(a.launch_host_function(|| ()).is_err());
    let dead = a.order().clone();
    drop(a);
    let (next, _others) = next_in_slot(&rig, &dead);
    assert!(!next.order().is_gated());
}

#[test]
fn o12_a_gated_stream_that_is_gone_stays_gated_until_it_is_complete() {
    let rig = Rig::lazy();
    let a = rig.stream();
    let order = a.order().clone();
    a.launch_host_function(|| ()).unwrap();
    drop(a);
    assert!(order.is_retired() && order.is_gated() && !order.may_be_waited_on());
    order.synchronize_point(order.position()).unwrap();
    assert!(!order.is_gated());
}

#[test]
fn o12_current_streams_are_told_apart_when_they_have_one_slot() {
    let rig = Rig::eager();
    let (a, block) = (rig.stream(), rig.block());
    rig.use_on(&a, &block);
    a.synchronize().unwrap();
    let of_a = CurrentStream::enter(&a);
    a.retire();
    let (next, _others) = next_in_slot(&rig, a.order());
    let of_next = CurrentStream::enter(&next);
    drop(of_a);
    assert_eq!(CurrentStream::get(&rig.context).map(|current| current.id()), Some(next.id()));
    drop(of_next);
    assert!(CurrentStream::get(&rig.context).is_none());
}

#[test]
fn o12_threads_that_ask_dead_streams_disturb_nobody() {
    let rig = Rig::with(Schedule::Eager, cuda_sim::DeviceProfile::h200());
    let blocks: Vec<_> = (0..2).map(|_| rig.block()).collect();
    std::thread::scope(|scope| {
        for block in &blocks {
            let rig = &rig;
            scope.spawn(move || {
                for _ in 0..200 {
                    let stream = rig.stream();
                    let order = stream.order().clone();
                    let asker = std::thread::spawn(move || {
                        let positions: Vec<_> = (0..50).map(|_| order.position()).collect();
                        (order, positions)
                    });
                    rig.use_on(&stream, block);
                    stream.synchronize().unwrap();
                    drop(stream);
                    let (order, positions) = asker.join().unwrap();
                    assert!(positions.iter().all(|&position| position <= order.position()));
                    assert!(order.is_complete(order.position()));
                }
            });
        }
    });
}
