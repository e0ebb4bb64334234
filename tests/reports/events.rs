//! Events: unrecorded, recorded twice, without timing, of another device, piling up.

use std::time::Duration;

use allocator::{Allocator, Config};
use cuda_sim::{DeviceProfile, FaultPlan, Machine, Schedule};
use cuda_sys::CUresult;
use streams::{Driver, Error, StreamOptions};

use super::{calls, under_every_schedule};
use crate::scenarios::rig::{BLOCK, Desk, Rig as _, WHOLE, take, take_used};
use crate::simulated_rig::SimulatedRig;

/// One event recorded on two streams in turn stands for the second alone: the first is still to be
/// waited for. From torch/cutorch PR #222.
#[test]
fn a_barrier_of_one_event_waits_for_the_last_stream_only() {
    under_every_schedule(|rig| {
        let desk = rig.desk();
        let [first, second, third] = desk.streams();
        let allocator = desk.allocator(Config::default());
        let x = take(rig, &allocator, &first, WHOLE);
        let gate = desk.hold(&first);
        x.fill(&first, 1);
        let event = desk.context().create_event().expect("an event");
        first.record(&event).expect("a record");
        second.record(&event).expect("a record");
        third.wait_event(&event).expect("a wait");
        let written = first.order().position();
        assert!(!third.order().knows(written), "the record on the second took its place");
        // A barrier is a wait for each.
        for stream in [&first, &second] {
            third.wait_stream(stream).expect("a wait");
        }
        assert!(third.order().knows(written));
        x.check(&third, 1);
        x.block().record_stream(&third);
        gate.open();
    });
}

/// A wait that comes before the record would wait for nothing: it is refused. From
/// sgl-project/sglang PR #14214.
#[test]
fn a_wait_before_the_record_does_not_pass_for_one() {
    under_every_schedule(|rig| {
        let desk = rig.desk();
        let [early, late] = desk.streams();
        let event = desk.context().create_event().expect("an event");
        assert!(!event.is_recorded());
        assert_eq!(event.query(), Ok(true), "the documented answer");
        assert_eq!(early.wait_event(&event), Err(Error::NeverRecorded));
        let gate = desk.hold(&late);
        late.record(&event).expect("a record");
        assert!(event.is_recorded());
        early.wait_event(&event).expect("now there is something to wait for");
        assert!(early.order().knows(late.order().position()));
        gate.open();
    });
}

/// Elapsed time tells never recorded, keeping no time and not passed apart, and "not passed" is no
/// fault of the device. From NVIDIA/cuda-python #556 and pytorch/pytorch #85796.
#[test]
fn elapsed_time_says_which_event_is_at_fault() {
    under_every_schedule(|rig| {
        let desk = rig.desk();
        let stream = desk.stream();
        let timing = || desk.context().create_timing_event().expect("an event");
        let (start, end) = (timing(), timing());
        let plain = desk.context().create_event().expect("an event");
        assert_eq!(end.elapsed_since(&start), Err(Error::NeverRecorded));
        assert_eq!(end.elapsed_since(&plain), Err(Error::NoTiming));
        stream.record(&start).expect("a record");
        let gate = desk.hold(&stream);
        stream.record(&end).expect("a record");
        assert_eq!(end.elapsed_since(&start), Err(Error::NotReady));
        assert_eq!(desk.context().first_error(), None, "nothing is wrong with the device");
        gate.open();
        end.synchronize().expect("the gate is open");
        assert!(Duration::ZERO <= end.elapsed_since(&start).expect("both have passed"));
    });
}

/// Each context has events of its own: blocks freed on two devices in turn are fenced on theirs.
/// From NVIDIA/cuCascade PR #189.
#[test]
fn an_event_of_one_device_is_not_recorded_on_another() {
    for seed in 0..super::SEEDS {
        let machine = Machine::builder()
            .device(DeviceProfile::h200())
            .device(DeviceProfile::h200())
            .schedule(Schedule::Seeded(seed))
            .build();
        kernels::simulated::register(&machine);
        let driver = Driver::from_table(machine.table()).expect("the driver starts");
        let sides = [0, 1].map(|ordinal| {
            let device = driver.device(ordinal).expect("two devices");
            let context = device.primary_context().expect("a context");
            let allocator = Allocator::new(&context, Config::default()).expect("an allocator");
            (Desk::new(&context), allocator)
        });
        for round in 0..8 {
            let (desk, allocator) = &sides[round % 2];
            let [home, user] = desk.streams();
            let mut block = allocator.allocate(&home, WHOLE).expect("memory");
            desk.fill_memory(&home, &mut block, 1);
            user.wait_stream(&home).expect("a wait");
            desk.check_memory(&user, &block, 1);
            block.free().expect("the fence is this device's own");
        }
        for (desk, allocator) in &sides {
            assert_eq!(desk.mismatches(), 0);
            assert_eq!(desk.context().silent_errors(), 0);
            assert_eq!(allocator.stats().drop_errors, 0);
        }
        drop(sides);
        assert_eq!(machine.take_hazards(), []);
    }
}

/// Where the fence of a free cannot be made, the block is kept back and the error is told; that
/// holds for making the event and for recording it. From NVIDIA/cuCascade PR #189.
#[test]
fn a_block_whose_event_failed_is_not_reused() {
    for call in ["cuEventCreate", "cuEventRecord"] {
        let rig = SimulatedRig::new(Schedule::Lazy);
        let desk = rig.desk();
        let allocator = desk.allocator(Config::default());
        let [home, user] = desk.streams();
        let x = take_used(&rig, &allocator, [&home, &user]);
        // All pooled events are lent, so that the free has to make one.
        let lent: Vec<_> = std::iter::from_fn(|| {
            let pooled = 0 < desk.context().pooled_events();
            pooled.then(|| {
                let stream = desk.stream();
                desk.busy(&stream);
                stream.order().fence_now().expect("a fence")
            })
        })
        .collect();
        rig.machine().fail(FaultPlan::next(call, CUresult::CUDA_ERROR_OUT_OF_MEMORY));
        let freed = x.address();
        let told = x.try_free().expect_err("there is no fence");
        assert!(told.to_string().contains(call), "{told}");
        let y = take(&rig, &allocator, &home, WHOLE);
        assert_ne!(y.address(), freed);
        desk.context().synchronize().expect("all ends");
        assert_eq!(take(&rig, &allocator, &home, WHOLE).address(), freed, "complete now");
        drop((y, lent));
        assert_eq!(rig.take_hazards(), []);
    }
}

/// A block that one stream uses over and over needs one event at a time, not one for each use.
/// From `ros2/rosidl_buffer_backends` PR #9 and llnl/camp #71.
#[test]
fn events_do_not_pile_up_with_uses() {
    const ROUNDS: u64 = 3_000;
    let rig = SimulatedRig::new(Schedule::Lazy);
    let desk = rig.desk();
    let allocator = desk.allocator(Config::default());
    let [home, user] = desk.streams();
    let mut block = allocator.allocate(&home, BLOCK).expect("memory");
    desk.fill_memory(&home, &mut block, 1);
    user.wait_stream(&home).expect("a wait");
    let alive = || {
        let machine = rig.machine();
        calls(machine, &["cuEventCreate"]) - calls(machine, &["cuEventDestroy"])
    };
    let before = alive();
    for _ in 0..ROUNDS {
        desk.check_memory(&user, &block, 1);
        let _use = block.record_use(&user);
        block.record_stream(&user);
    }
    drop(block);
    assert!(alive() <= before + 1, "{} events for one user", alive() - before);
    // The dual: each free is a fence of its own, and all of them are lent again.
    for _ in 0..2 {
        for _ in 0..64 {
            let block = allocator.allocate(&home, BLOCK).expect("memory");
            user.wait_stream(&home).expect("a wait");
            desk.busy(&user);
            block.record_stream(&user);
        }
        desk.context().synchronize().expect("all ends");
    }
    assert!(alive() <= before + 140, "events are made anew in every round");
}

/// Work on one stream makes no event, no wait and no change of context. From chelsea0x3b/cudarc
/// #386.
#[test]
fn one_stream_needs_no_event_at_all() {
    let rig = SimulatedRig::new(Schedule::Timed);
    let desk = rig.desk();
    let allocator = desk.allocator(Config::default());
    let stream = desk.stream();
    let mut warm = allocator.allocate(&stream, BLOCK).expect("memory");
    desk.fill_memory(&stream, &mut warm, 1);
    drop(warm);
    let before = rig.machine().journal();
    let rounds = 10_000;
    for word in 0..rounds {
        let mut block = allocator.allocate(&stream, BLOCK).expect("memory");
        desk.fill_memory(&stream, &mut block, word);
    }
    let after = rig.machine().journal();
    for name in after.by_name().keys() {
        let count = after.calls(name) - before.calls(name);
        let event = name.starts_with("cuEvent") || *name == "cuStreamWaitEvent";
        assert!(!event || count == 0, "{count} of {name}");
        let switches = ["cuCtxPushCurrent", "cuCtxPopCurrent", "cuCtxSetCurrent"].contains(name);
        // A launch asks for its context by the guard that every call has; there is one each.
        assert!(!switches || count <= u64::from(rounds), "{count} of {name}");
    }
}

/// An event that was moved is dropped once, and an allocator that made none destroys none. From
/// taskflow/taskflow #546.
#[test]
fn a_moved_event_is_destroyed_once() {
    let rig = SimulatedRig::new(Schedule::Eager);
    let context = rig.desk().context();
    let before = calls(rig.machine(), &["cuEventDestroy"]);
    let event = context.create_event().expect("an event");
    let moved = Some(event);
    let clone = moved.clone();
    drop(moved);
    assert_eq!(calls(rig.machine(), &["cuEventDestroy"]), before, "a clone is left");
    drop(clone);
    assert_eq!(calls(rig.machine(), &["cuEventDestroy"]), before + 1);
    let unused = context.create_stream(StreamOptions::default()).expect("a stream");
    drop(unused);
    assert_eq!(calls(rig.machine(), &["cuEventDestroy"]), before + 1, "no event, no call");
    assert_eq!(context.silent_errors(), 0);
    assert_eq!(rig.take_hazards(), []);
}
