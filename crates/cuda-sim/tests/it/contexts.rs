//! Contexts: what is current, what ends with them, and errors that stay.

use std::ptr;

use cuda_sim::{DeviceProfile, Machine, Schedule};
use cuda_sys::CUresult;

use crate::rig::{Argument, Rig, SUCCESS};
use crate::{cu, ok};

#[test]
fn nothing_works_before_init() {
    let machine = Machine::builder().build();
    let table = machine.table();
    struct Bare {
        table: std::sync::Arc<cuda_sys::Table>,
    }
    let bare = Bare { table };
    let mut count = 0;
    let code = cu!(bare, device_get_count(&raw mut count));
    assert_eq!(code, CUresult::CUDA_ERROR_NOT_INITIALIZED);
    assert_eq!(cu!(bare, init(1)), CUresult::CUDA_ERROR_INVALID_VALUE);
    ok!(bare, init(0));
    ok!(bare, device_get_count(&raw mut count));
    assert_eq!(count, 1);
    drop(machine);
    let code = cu!(bare, device_get_count(&raw mut count));
    assert_eq!(code, CUresult::CUDA_ERROR_DEINITIALIZED);
}

#[test]
fn a_thread_without_a_context_may_use_handles_but_make_nothing() {
    let rig = Rig::new(Schedule::Seeded(1));
    let (stream, event) = (rig.stream(), rig.event());
    ok!(rig, event_record(event, stream));
    let block = rig.alloc(512);
    let (stream, event) = (stream.expose_provenance(), event.expose_provenance());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let stream = ptr::with_exposed_provenance_mut(stream);
            let event = ptr::with_exposed_provenance_mut(event);
            let invalid = CUresult::CUDA_ERROR_INVALID_CONTEXT;
            let (mut current, mut address) = (ptr::dangling_mut(), 0);
            let mut made = ptr::null_mut();
            ok!(rig, ctx_get_current(&raw mut current));
            assert!(current.is_null());
            assert_eq!(cu!(rig, mem_alloc(&raw mut address, 512)), invalid);
            assert_eq!(cu!(rig, stream_create(&raw mut made, 0)), invalid);
            assert_eq!(cu!(rig, ctx_synchronize()), invalid);
            ok!(rig, stream_synchronize(stream));
            ok!(rig, event_query(event));
            ok!(rig, stream_wait_event(stream, event, 0));
            let code = cu!(rig, mem_free_async?(block, stream));
            assert_eq!(code, CUresult::CUDA_ERROR_INVALID_VALUE);
            ok!(rig, mem_free(block));
            ok!(rig, event_destroy(event));
            ok!(rig, stream_destroy(stream));
        });
    });
}

#[test]
fn the_stack_of_contexts_is_a_threads_own() {
    let rig = Rig::new(Schedule::Seeded(1));
    let mut second = ptr::null_mut();
    ok!(rig, ctx_create?(&raw mut second, ptr::null_mut(), 0, 0));
    let mut current = ptr::null_mut();
    ok!(rig, ctx_get_current(&raw mut current));
    assert_eq!(current, second);
    let (mut first_id, mut second_id) = (0, 0);
    ok!(rig, ctx_get_id?(rig.context, &raw mut first_id));
    ok!(rig, ctx_get_id?(second, &raw mut second_id));
    assert_ne!(first_id, second_id);
    ok!(rig, ctx_pop_current(&raw mut current));
    ok!(rig, ctx_get_current(&raw mut current));
    assert_eq!(current, rig.context);
    ok!(rig, ctx_destroy(second));
}

#[test]
fn l27_default_streams_of_two_contexts_are_two_streams() {
    let rig = Rig::new(Schedule::Lazy);
    let block = rig.alloc(64);
    rig.put(ptr::null_mut(), block, 1);
    let mut second = ptr::null_mut();
    ok!(rig, ctx_create?(&raw mut second, ptr::null_mut(), 0, 0));
    ok!(rig, ctx_synchronize());
    ok!(rig, memset_d8_async(block, 0, 4, ptr::null_mut()));
    let texts = rig.hazard_texts();
    assert_eq!(texts.len(), 1);
    assert!(texts[0].contains("on the legacy stream of context 1"), "{texts:?}");
    ok!(rig, ctx_pop_current(&raw mut second));
    ok!(rig, ctx_synchronize());
}

#[test]
fn teardown_takes_everything_along() {
    let rig = Rig::new(Schedule::Lazy);
    let (stream, event, block) = (rig.stream(), rig.event(), rig.alloc(512));
    rig.put(stream, block, 1);
    ok!(rig, device_primary_ctx_release(0));
    let gone = CUresult::CUDA_ERROR_CONTEXT_IS_DESTROYED;
    assert_eq!(cu!(rig, mem_free(block)), gone);
    assert_eq!(cu!(rig, event_destroy(event)), gone);
    rig.assert_no_hazards();
    assert_eq!(cu!(rig, stream_destroy(stream)), gone);
    assert_eq!(rig.machine.take_hazards().len(), 1, "the real driver crashes here");
    assert_eq!(rig.machine.used_bytes(), 0);
}

#[test]
fn an_illegal_address_breaks_the_context_for_good() {
    let rig = Rig::new(Schedule::Seeded(1));
    let (stream, event) = (rig.stream(), rig.event());
    let block = rig.alloc(512);
    rig.launch(stream, "write_bad", &[Argument::U64(0x10)]);
    let illegal = CUresult::CUDA_ERROR_ILLEGAL_ADDRESS;
    assert_eq!(cu!(rig, stream_synchronize(stream)), illegal);
    assert_eq!(cu!(rig, stream_synchronize(stream)), illegal);
    assert_eq!(cu!(rig, event_query(event)), illegal);
    assert_eq!(cu!(rig, event_record(event, stream)), illegal);
    assert_eq!(cu!(rig, event_destroy(event)), illegal);
    let mut address = 0;
    assert_eq!(cu!(rig, mem_alloc(&raw mut address, 4096)), illegal);
    assert_eq!(cu!(rig, mem_free(block)), illegal);
    let mut stream = ptr::dangling_mut();
    assert_eq!(cu!(rig, stream_create(&raw mut stream, 1)), illegal);
    assert_eq!(cu!(rig, stream_destroy(stream)), CUresult::CUDA_ERROR_INVALID_HANDLE);
    assert_eq!(cu!(rig, ctx_synchronize()), illegal);
    let mut current = ptr::null_mut();
    assert_eq!(cu!(rig, ctx_get_current(&raw mut current)), SUCCESS);
    let mut status = cuda_sys::CUstreamCaptureStatus(0);
    let code = cu!(rig, stream_is_capturing(stream, &raw mut status));
    assert_eq!(code, CUresult::CUDA_ERROR_INVALID_HANDLE);
    ok!(rig, device_primary_ctx_release(0));
    ok!(rig, device_primary_ctx_reset(0));
    assert_eq!(cu!(rig, device_primary_ctx_retain(&raw mut current, 0)), illegal);
    let _code = cu!(rig, ctx_set_current(rig.context));
    let code = cu!(rig, mem_alloc(&raw mut address, 4096));
    assert_eq!(code, CUresult::CUDA_ERROR_CONTEXT_IS_DESTROYED);
    assert_eq!(
        rig.hazard_texts(),
        [
            "illegal address: kernel write_bad (operation 1 on stream 3) uses 0x10, which means nothing"
        ]
    );
}

#[test]
fn several_devices_reach_each_other_where_the_profile_says_so() {
    for possible in [true, false] {
        let profile = DeviceProfile::h200().with_peer_access(possible);
        let rig = Rig::build(Machine::builder().device(profile.clone()).device(profile));
        let (mut answer, mut other) = (-1, ptr::null_mut());
        ok!(rig, device_can_access_peer(&raw mut answer, 0, 1));
        assert_eq!(answer, i32::from(possible));
        ok!(rig, device_primary_ctx_retain(&raw mut other, 1));
        let code = cu!(rig, ctx_enable_peer_access(other, 0));
        if possible {
            assert_eq!(code, SUCCESS);
            let again = cu!(rig, ctx_enable_peer_access(other, 0));
            assert_eq!(again, CUresult::CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
            ok!(rig, ctx_disable_peer_access(other));
        } else {
            assert_eq!(code, CUresult::CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
        }
    }
}

#[test]
fn a_kernel_reaches_another_devices_memory_with_peer_access_only() {
    for enabled in [true, false] {
        let builder = Machine::builder().device(DeviceProfile::h200());
        let rig = Rig::build(builder.device(DeviceProfile::h200()));
        let mut other = ptr::null_mut();
        ok!(rig, device_primary_ctx_retain(&raw mut other, 1));
        ok!(rig, ctx_push_current(other));
        let block = rig.alloc(512);
        ok!(rig, ctx_pop_current(ptr::null_mut()));
        if enabled {
            ok!(rig, ctx_enable_peer_access(other, 0));
        }
        let stream = rig.stream();
        rig.put(stream, block, 5);
        let code = cu!(rig, stream_synchronize(stream));
        let illegal = CUresult::CUDA_ERROR_ILLEGAL_ADDRESS;
        assert_eq!(code, if enabled { SUCCESS } else { illegal });
        assert_eq!(rig.peek(block), if enabled { 5 } else { 0 });
    }
}

#[test]
fn an_event_can_stand_for_a_whole_context() {
    let rig = Rig::new(Schedule::Seeded(1));
    let (a, b, outside) = (rig.stream(), rig.stream(), rig.stream());
    let block = rig.alloc(16);
    rig.put(a, block, 1);
    rig.put(b, block + 4, 1);
    let event = rig.event();
    ok!(rig, ctx_record_event?(rig.context, event));
    rig.put(a, block + 8, 1);
    ok!(rig, stream_wait_event(outside, event, 0));
    rig.put(outside, block, 2);
    rig.put(outside, block + 4, 2);
    rig.assert_no_hazards();
    rig.put(outside, block + 8, 2);
    assert_eq!(rig.machine.take_hazards().len(), 1, "this was not there yet");
    ok!(rig, event_record(event, outside));
    ok!(rig, ctx_wait_event?(rig.context, event));
    let later = rig.stream();
    for stream in [a, b, later] {
        rig.put(stream, block + 4 * 3, 3);
        rig.get(stream, block, rig.alloc(4));
        ok!(rig, stream_synchronize(stream));
    }
    rig.assert_no_hazards();
}
