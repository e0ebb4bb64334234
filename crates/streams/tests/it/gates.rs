//! Streams that may wait for the host (R5), and host functions.

use std::sync::mpsc;

use cuda_sim::FaultPlan;
use cuda_sys::CUresult;
use streams::{BorrowPromises, Error, Stream, in_host_function};

use crate::rig::Rig;

#[test]
fn r5_a_stream_is_gated_from_its_host_function_until_that_is_done() {
    let rig = Rig::lazy();
    let [a, b, c] = rig.streams();
    let (open, opened) = mpsc::channel();
    assert!(!a.order().is_gated());
    a.launch_host_function(move || open.send(()).unwrap()).unwrap();
    assert!(a.order().is_gated());
    assert!(!a.order().may_be_waited_on());
    b.wait_stream(&a).unwrap();
    c.wait_stream(&b).unwrap();
    assert!(c.order().is_gated(), "and who waits for it, through two waits");
    let fence = c.order().fence_now().unwrap();
    assert!(fence.is_gated());
    c.synchronize().unwrap();
    opened.try_recv().unwrap();
    assert!(!fence.is_gated());
    for stream in [&a, &b, &c] {
        assert!(!stream.order().is_gated());
        assert!(stream.order().may_be_waited_on());
    }
}

/// Was: what had been queued behind a gate stayed unwaitable until it was done itself, though the
/// gate had been passed long before: memory grew while the stream worked that off.
#[test]
fn r5_what_is_queued_behind_a_gate_may_be_waited_for_once_the_gate_is_passed() {
    let rig = Rig::lazy();
    let ([a, b], block) = (rig.streams(), rig.block());
    a.launch_host_function(|| ()).unwrap();
    let passed = a.record_event().unwrap();
    rig.use_on(&a, &block);
    let fence = a.order().fence_now().unwrap();
    assert!(fence.is_gated() && !a.order().may_be_waited_on_until(&fence));
    passed.synchronize().unwrap();
    assert!(!fence.is_known_complete(), "there is work behind the gate");
    assert!(!fence.is_gated() && a.order().may_be_waited_on_until(&fence));
    b.order().wait_fence(&fence).unwrap();
    assert!(!b.order().is_gated(), "nobody who waits now waits for the host");
}

/// Was: a wait for a gated stream was told of only when its call had returned. A record that
/// another thread made between could follow the wait and be taken for one before every gate. A call
/// that fails leaves what was said before it.
#[test]
fn r5_a_wait_for_a_gated_stream_is_announced_before_its_call() {
    let rig = Rig::lazy();
    let ([a, b, c], blocks) = (rig.streams(), [rig.block(), rig.block()]);
    a.launch_host_function(|| ()).unwrap();
    let (event, fence) = (a.record_event().unwrap(), a.order().fence_now().unwrap());
    for (waiter, block, by_event) in [(&b, &blocks[0], true), (&c, &blocks[1], false)] {
        rig.use_on(waiter, block);
        rig.machine.fail(FaultPlan::next("cuStreamWaitEvent", CUresult::CUDA_ERROR_INVALID_VALUE));
        let waited =
            if by_event { waiter.wait_event(&event) } else { waiter.order().wait_fence(&fence) };
        waited.unwrap_err();
        assert!(waiter.order().is_gated());
        assert!(waiter.order().fence_now().unwrap().is_gated());
    }
}

/// Was: the fence of a token that was held when a gate was closed was taken for one behind it.
#[test]
fn r5_an_operation_before_a_gate_is_not_behind_it_while_its_token_is_held() {
    let rig = Rig::lazy();
    let ([a, b, c], blocks) = (rig.streams(), [rig.block(), rig.block()]);
    a.launch_host_function(|| ()).unwrap();
    let gated = a.record_event().unwrap();
    let used = [(&b, &blocks[0]), (&c, &blocks[1])];
    let tokens = used.map(|(stream, block)| stream.fill_bytes(&block.span, 0, 4, 1).unwrap());
    b.launch_host_function(|| ()).unwrap();
    c.wait_event(&gated).unwrap();
    for token in tokens {
        let fence = token.fence().unwrap();
        assert!(token.order().is_gated() && !fence.is_gated());
    }
}

#[test]
fn r5_waiting_for_a_stream_without_a_gate_makes_no_gate() {
    let rig = Rig::lazy();
    let ([a, b], block) = (rig.streams(), rig.block());
    rig.use_on(&a, &block);
    b.wait_stream(&a).unwrap();
    assert!(!b.order().is_gated());
    assert!(b.order().may_be_waited_on());
}

#[test]
fn r5_a_stream_that_others_use_is_gated_unless_they_promised() {
    let rig = Rig::lazy();
    let a = rig.stream();
    let raw = a.as_raw();
    assert!(a.order().is_gated());
    let legacy = rig.context.legacy_stream().unwrap();
    assert!(legacy.order().is_gated());
    assert!(!raw.is_null());
    let _ = BorrowPromises::default();
}

#[test]
fn l3_a_host_function_may_call_nothing() {
    let rig = Rig::lazy();
    let ([a, b], block) = (rig.streams(), rig.block());
    let (tell, told) = mpsc::channel();
    let (other, context, span) = (b.clone(), rig.context.clone(), block.span);
    assert!(!in_host_function());
    a.launch_host_function(move || {
        tell.send(in_host_function()).unwrap();
        let refused = [
            other.fill_bytes(&span, 0, 1, 0).map(|_| ()),
            other.synchronize(),
            other.order().fence_now().map(|_| ()),
            context.memory_info().map(|_| ()),
            context.synchronize(),
        ];
        let all = refused.iter().all(|refused| *refused == Err(Error::InsideHostFunction));
        tell.send(all).unwrap();
    })
    .unwrap();
    a.synchronize().unwrap();
    assert_eq!(told.try_iter().collect::<Vec<_>>(), [true, true]);
    assert!(!in_host_function());
}

#[test]
fn l3_what_is_dropped_in_a_host_function_is_destroyed_after_it() {
    let rig = Rig::lazy();
    let [a, b] = rig.streams();
    let event = rig.context.create_event().unwrap();
    let memory = streams::memory::DeviceMemory::allocate(&rig.context, 4096).unwrap();
    a.launch_host_function(move || drop((b, event, memory))).unwrap();
    a.synchronize().unwrap();
    let destroyed = ["cuStreamDestroy", "cuEventDestroy", "cuMemFree"];
    rig.context.memory_info().unwrap();
    assert_eq!(destroyed.map(|name| rig.calls(name)), [1, 1, 1]);
    assert_eq!(rig.context.silent_errors(), 0);
}

#[test]
fn l3_a_panic_in_a_host_function_ends_there() {
    let rig = Rig::lazy();
    let (a, block) = (rig.stream(), rig.block());
    a.launch_host_function(|| panic!("a test's own panic")).unwrap();
    let used = rig.use_on(&a, &block);
    a.synchronize().unwrap();
    assert!(a.order().is_complete(used));
}

#[test]
fn l3_a_host_function_that_will_not_run_is_dropped() {
    use cuda_sim::FaultPlan;
    use cuda_sys::CUresult;
    let rig = Rig::lazy();
    let a = rig.stream();
    let (held, dropped) = mpsc::channel::<()>();
    a.launch_host_function(move || drop(held)).unwrap();
    let code = CUresult::CUDA_ERROR_ILLEGAL_ADDRESS;
    rig.machine.fail(FaultPlan { call: "cuStreamSynchronize", nth: 1, code, sticky: true });
    assert!(a.synchronize().is_err());
    assert!(matches!(a.synchronize(), Err(Error::ContextFailed { .. })));
    assert_eq!(dropped.try_recv(), Err(mpsc::TryRecvError::Disconnected));
}

/// Was: what a function owns that could not be launched went while the call still counted as under
/// way, and waited for ever for the stream to be retired.
#[test]
fn a_function_that_is_not_launched_may_own_the_end_of_its_stream() {
    struct Retires(Stream);
    impl Drop for Retires {
        fn drop(&mut self) {
            self.0.retire();
        }
    }
    for code in [CUresult::CUDA_ERROR_INVALID_VALUE, CUresult::CUDA_ERROR_ILLEGAL_ADDRESS] {
        let rig = Rig::lazy();
        let stream = rig.stream();
        let owned = Retires(stream.clone());
        rig.machine.fail(FaultPlan::next("cuLaunchHostFunc", code));
        stream.launch_host_function(move || drop(owned)).unwrap_err();
        assert!(stream.order().is_retired());
    }
}
