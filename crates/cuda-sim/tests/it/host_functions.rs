//! Host functions run on a thread of the driver's and may not call it.

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use cuda_sim::Schedule;
use cuda_sys::{CUresult, Table};

use crate::rig::{NOT_READY, Rig};
use crate::{cu, ok};

/// Counts in the word that it is given.
unsafe extern "C" fn count(argument: *mut c_void) {
    // SAFETY: the tests hand over an atomic that outlives the call.
    let counter = unsafe { AtomicU32::from_ptr(argument.cast()) };
    counter.fetch_add(1, Ordering::Relaxed);
}

#[test]
fn a_host_function_runs_in_stream_order() {
    for schedule in [Schedule::Seeded(3), Schedule::Eager, Schedule::Lazy, Schedule::Timed] {
        let rig = Rig::new(schedule);
        let a = rig.stream();
        let block = rig.alloc(4);
        let counter = AtomicU32::new(0);
        for _ in 0..3 {
            rig.put(a, block, 1);
            ok!(rig, launch_host_func(a, Some(count), counter.as_ptr().cast()));
        }
        ok!(rig, stream_synchronize(a));
        assert_eq!(counter.load(Ordering::Relaxed), 3);
    }
}

static CODE: AtomicU32 = AtomicU32::new(u32::MAX);
static CALLED_BACK: OnceLock<Arc<Table>> = OnceLock::new();

unsafe extern "C" fn call_the_driver(_: *mut c_void) {
    let table = CALLED_BACK.get().unwrap();
    // SAFETY: the null stream may be asked about.
    let code = unsafe { table.stream_query()(std::ptr::null_mut()) };
    CODE.store(code.0, Ordering::Relaxed);
}

#[test]
fn a_driver_call_inside_a_host_function_is_not_permitted() {
    let rig = Rig::new(Schedule::Seeded(3));
    CALLED_BACK.set(Arc::clone(&rig.table)).unwrap();
    let a = rig.stream();
    ok!(rig, launch_host_func(a, Some(call_the_driver), std::ptr::null_mut()));
    ok!(rig, stream_synchronize(a));
    assert_eq!(CODE.load(Ordering::Relaxed), CUresult::CUDA_ERROR_NOT_PERMITTED.0);
    assert_eq!(
        rig.hazard_texts(),
        ["cuStreamQuery was called inside a host function or kernel, where it may deadlock"]
    );
}

static GATE: AtomicBool = AtomicBool::new(false);

unsafe extern "C" fn wait_for_the_gate(_: *mut c_void) {
    while !GATE.load(Ordering::Acquire) {
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_host_function_that_waits_for_the_host_holds_up_its_stream_only() {
    let rig = Rig::new(Schedule::Eager);
    let (a, b) = (rig.stream(), rig.stream());
    let block = rig.alloc(8);
    ok!(rig, launch_host_func(a, Some(wait_for_the_gate), std::ptr::null_mut()));
    rig.put(a, block, 1);
    rig.put(b, block + 4, 1);
    ok!(rig, stream_synchronize(b));
    assert_eq!((rig.peek(block), rig.peek(block + 4)), (0, 1));
    assert_eq!(cu!(rig, stream_query(a)), NOT_READY);
    GATE.store(true, Ordering::Release);
    ok!(rig, stream_synchronize(a));
    assert_eq!(rig.peek(block), 1);
    rig.assert_no_hazards();
}

#[test]
fn s1_the_start_of_a_host_function_shows_that_what_came_before_is_done() {
    let rig = Rig::new(Schedule::Eager);
    let (a, b) = (rig.stream(), rig.stream());
    let block = rig.alloc(8);
    rig.put(a, block, 1);
    let counter = AtomicU32::new(0);
    ok!(rig, launch_host_func(a, Some(count), counter.as_ptr().cast()));
    rig.put(a, block + 4, 1);
    rig.put(b, block, 2);
    rig.assert_no_hazards();
    rig.put(b, block + 4, 2);
    assert_eq!(rig.machine.take_hazards().len(), 1);
}

#[test]
fn l3_host_functions_do_not_run_after_an_error() {
    let rig = Rig::new(Schedule::Lazy);
    let a = rig.stream();
    let counter = AtomicU32::new(0);
    rig.launch(a, "write_bad", &[crate::rig::Argument::U64(0x10)]);
    ok!(rig, launch_host_func(a, Some(count), counter.as_ptr().cast()));
    assert_eq!(cu!(rig, stream_synchronize(a)), CUresult::CUDA_ERROR_ILLEGAL_ADDRESS);
    ok!(rig, device_primary_ctx_release(0));
    drop(rig);
    assert_eq!(counter.load(Ordering::Relaxed), 0);
}
