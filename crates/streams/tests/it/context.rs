//! Contexts: one at a time, several, failed.

use cuda_sim::{DeviceProfile, FaultPlan, Machine, Schedule};
use cuda_sys::CUresult;
use streams::memory::{AddressRange, DeviceMemory, PhysicalMemory};
use streams::{Code, Driver, DriverError, Error, StreamOptions};

use crate::rig::Rig;

fn two_devices() -> Rig {
    let machine = Machine::builder()
        .device(DeviceProfile::h200())
        .device(DeviceProfile::h200())
        .schedule(Schedule::Lazy)
        .build();
    Rig::on(machine)
}

#[test]
fn a_primary_context_opened_twice_is_one_context() {
    let rig = Rig::lazy();
    let again = rig.driver.device(0).unwrap().primary_context().unwrap();
    assert_eq!(again.id(), rig.context.id());
    let refused = rig.driver.device(7).unwrap_err();
    assert_eq!(refused, Error::NoDevice { ordinal: 7, count: 1 });
}

#[test]
fn l27_a_synchronization_of_one_context_completes_nothing_of_another() {
    let rig = two_devices();
    let other = rig.driver.device(1).unwrap().primary_context().unwrap();
    let here = rig.context.legacy_stream().unwrap();
    let there = other.legacy_stream().unwrap();
    assert_ne!(here.order().slot(), there.order().slot(), "two default streams are two streams");
    let block = rig.block();
    let memory = DeviceMemory::allocate(&other, 64).unwrap();
    // SAFETY: everything is synchronized below, before the memory goes.
    let span = unsafe { streams::RawSpan::from_raw(memory.address(), 64) };
    let used_here = rig.use_on(&here, &block);
    let used_there = there.fill_bytes(&span, 0, 64, 1).unwrap().point();
    rig.context.synchronize().unwrap();
    assert!(here.order().is_complete(used_here));
    assert!(!here.order().is_complete(used_there));
    rig.driver.synchronize_all().unwrap();
    assert!(here.order().is_complete(used_there), "all means all");
}

#[test]
fn o7_points_of_a_stream_that_left_no_fence_complete_with_the_context() {
    let rig = Rig::lazy();
    let (a, block) = (rig.stream(), rig.block());
    let used = rig.use_on(&a, &block);
    let order = a.order().clone();
    rig.machine.fail(FaultPlan::next("cuEventRecord", CUresult::CUDA_ERROR_INVALID_VALUE));
    drop(a);
    assert!(order.fence_now().is_err());
    order.poll().unwrap();
    assert!(!order.is_complete(used));
    rig.context.synchronize().unwrap();
    assert!(order.is_complete(used));
}

#[test]
fn l14_a_synchronization_completes_what_was_there_when_it_began() {
    let rig = Rig::lazy();
    let ([a, b], block) = (rig.streams(), rig.block());
    let early = rig.use_on(&a, &block);
    rig.context.device().synchronize().unwrap();
    let late = rig.use_on(&b, &block);
    assert!(a.order().is_complete(early));
    assert!(!a.order().is_complete(late));
}

#[test]
fn no_call_leaves_a_context_current() {
    let rig = Rig::lazy();
    let pushes = || (rig.calls("cuCtxPushCurrent"), rig.calls("cuCtxPopCurrent"));
    let a = rig.stream();
    rig.context.memory_info().unwrap();
    drop(rig.block());
    a.record_event().unwrap();
    let (pushed, popped) = pushes();
    assert!(0 < pushed);
    assert_eq!(pushed, popped);
}

#[test]
fn l4_after_a_lasting_error_every_call_reports_it_and_frees_succeed() {
    let rig = Rig::lazy();
    let (a, block) = (rig.stream(), rig.block());
    let plain = DeviceMemory::allocate(&rig.context, 4096).unwrap();
    let range = AddressRange::reserve(&rig.context, 2 << 20, 0).unwrap();
    let physical = PhysicalMemory::create(&rig.context, 2 << 20).unwrap();
    range.map(0, &physical).unwrap();
    rig.use_on(&a, &block);
    let fence = a.order().fence_now().unwrap();
    let code = CUresult::CUDA_ERROR_ILLEGAL_ADDRESS;
    rig.machine.fail(FaultPlan { call: "cuStreamSynchronize", nth: 1, code, sticky: true });
    let first = DriverError { call: "cuStreamSynchronize", code: Code(700) };
    assert_eq!(a.synchronize(), Err(Error::Driver(first)));
    assert_eq!(rig.context.first_error(), Some(first));
    let calls = rig.machine.call_count();
    let failed = Error::ContextFailed { first };
    assert_eq!(a.query(), Err(failed.clone()));
    assert_eq!(fence.query(), Err(failed.clone()));
    assert_eq!(a.order().poll(), Err(failed.clone()));
    assert_eq!(rig.context.memory_info(), Err(failed.clone()));
    assert_eq!(rig.context.synchronize(), Err(failed.clone()));
    assert_eq!(DeviceMemory::allocate(&rig.context, 1).unwrap_err(), failed);
    plain.release().unwrap();
    range.unmap(0, 2 << 20).unwrap();
    range.release().unwrap();
    physical.release().unwrap();
    drop((a, block, fence));
    assert_eq!(rig.machine.call_count(), calls, "and none of it reached the driver");
}

#[test]
fn everything_made_is_destroyed_once() {
    let machine =
        Machine::builder().device(DeviceProfile::h200()).schedule(Schedule::Eager).build();
    {
        let rig = Rig::on(machine.clone());
        let ([a, b], block) = (rig.streams(), rig.block());
        rig.use_on(&a, &block);
        b.wait_stream(&a).unwrap();
        let _event = b.record_event().unwrap();
        b.synchronize().unwrap();
    }
    for (made, destroyed) in [
        ("cuStreamCreateWithPriority", "cuStreamDestroy"),
        ("cuEventCreate", "cuEventDestroy"),
        ("cuMemAlloc", "cuMemFree"),
        ("cuDevicePrimaryCtxRetain", "cuDevicePrimaryCtxRelease"),
    ] {
        assert_eq!(machine.calls(made), machine.calls(destroyed), "{made}");
        assert!(0 < machine.calls(made), "{made}");
    }
}

#[test]
fn o8_a_driver_without_ids_allows_owned_streams_only() {
    let profile = DeviceProfile::h200().without("cuStreamGetId").without("cuCtxGetId");
    let rig = Rig::with(Schedule::Lazy, profile);
    let ([a, b], block) = (rig.streams(), rig.block());
    let used = rig.use_on(&a, &block);
    b.wait_stream(&a).unwrap();
    assert!(b.order().knows(used));
    assert_ne!(a.id(), b.id());
    assert_eq!(
        rig.driver.device(0).unwrap().primary_context().unwrap().id(),
        rig.context.id(),
        "the primary context is still one context"
    );
}

#[test]
fn two_drivers_of_two_machines_know_nothing_of_each_other() {
    let (one, two) = (Rig::lazy(), Rig::lazy());
    let (block, stream) = (one.block(), one.stream());
    let used = one.use_on(&stream, &block);
    two.driver.synchronize_all().unwrap();
    assert!(!stream.order().is_complete(used));
    let again = Driver::from_table(one.machine.table()).unwrap();
    let context = again.device(0).unwrap().primary_context().unwrap();
    let stranger = context.create_stream(StreamOptions::default()).unwrap();
    let fence = stream.order().fence_now().unwrap();
    let event = stream.record_event().unwrap();
    let refused = Err(Error::OtherDriver);
    assert_eq!(stranger.order().wait_fence(&fence), refused);
    assert_eq!(stranger.wait_event(&event), refused);
    assert_eq!(stranger.record(&event), refused);
    assert_eq!(stranger.wait_stream(&stream), refused);
}
