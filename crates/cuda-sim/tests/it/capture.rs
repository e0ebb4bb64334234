//! Captures, graphs and their replays.

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

use cuda_sim::Schedule;
use cuda_sys::{CUgraph, CUgraphExec, CUresult, CUstream, CUstreamCaptureMode};

use crate::rig::{Rig, SUCCESS};
use crate::{cu, ok};

const GLOBAL: CUstreamCaptureMode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL;
const RELAXED: CUstreamCaptureMode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
const UNSUPPORTED: CUresult = CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
const INVALIDATED: CUresult = CUresult::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;

impl Rig {
    fn end(&self, stream: CUstream) -> (CUresult, CUgraph) {
        let mut graph = ptr::null_mut();
        (cu!(self, stream_end_capture(stream, &raw mut graph)), graph)
    }

    fn capture(&self, stream: CUstream, body: impl FnOnce()) -> CUgraphExec {
        ok!(self, stream_begin_capture(stream, RELAXED));
        body();
        let (code, graph) = self.end(stream);
        assert_eq!(code, SUCCESS);
        let mut exec = ptr::null_mut();
        ok!(self, graph_instantiate_with_flags?(&raw mut exec, graph, 0));
        ok!(self, graph_destroy(graph));
        exec
    }
}

#[test]
fn a_replay_does_the_work_each_time_and_the_capture_none() {
    let rig = Rig::new(Schedule::Seeded(2));
    let a = rig.stream();
    let (block, out) = (rig.alloc(4), rig.alloc(4));
    let exec = rig.capture(a, || rig.get(a, block, out));
    assert_eq!(rig.machine.pending_operations(), 0);
    for value in 1..4 {
        rig.put(a, block, value);
        ok!(rig, graph_launch(exec, a));
        ok!(rig, stream_synchronize(a));
        assert_eq!(rig.peek(out), value);
    }
    ok!(rig, graph_exec_destroy(exec));
    rig.assert_no_hazards();
}

#[test]
fn a_fork_joins_or_the_capture_fails() {
    let rig = Rig::new(Schedule::Seeded(2));
    let (a, b) = (rig.stream(), rig.stream());
    let block = rig.alloc(8);
    for join in [true, false] {
        ok!(rig, stream_begin_capture(a, RELAXED));
        rig.order(a, b);
        rig.put(b, block, 1);
        rig.put(a, block + 4, 1);
        if join {
            rig.order(b, a);
        }
        let (code, graph) = rig.end(a);
        assert_eq!(graph.is_null(), !join);
        let unjoined = CUresult::CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
        assert_eq!(code, if join { SUCCESS } else { unjoined });
    }
}

#[test]
fn branches_of_a_graph_are_compared_with_each_other() {
    for second in [4, 0] {
        let rig = Rig::new(Schedule::Seeded(2));
        let (a, b) = (rig.stream(), rig.stream());
        let block = rig.alloc(8);
        let exec = rig.capture(a, || {
            rig.order(a, b);
            rig.put(a, block, 1);
            rig.put(b, block + second, 1);
            rig.order(b, a);
        });
        ok!(rig, graph_launch(exec, a));
        ok!(rig, stream_synchronize(a));
        let texts = rig.hazard_texts();
        assert_eq!(texts.is_empty(), second == 4, "{texts:?}");
        assert!(texts.iter().all(|text| text.contains("on graph lane")));
    }
}

#[test]
fn a_replay_is_ordered_by_its_stream_and_not_by_others() {
    let rig = Rig::new(Schedule::Seeded(2));
    let (a, b) = (rig.stream(), rig.stream());
    let block = rig.alloc(4);
    let exec = rig.capture(a, || rig.put(a, block, 1));
    ok!(rig, graph_launch(exec, a));
    rig.put(a, block, 2);
    ok!(rig, graph_launch(exec, a));
    rig.assert_no_hazards();
    rig.put(b, block, 3);
    assert_eq!(rig.machine.take_hazards().len(), 1);
    ok!(rig, ctx_synchronize());
    // Replays of one exec never overlap, whatever their streams.
    ok!(rig, graph_launch(exec, a));
    ok!(rig, graph_launch(exec, b));
    ok!(rig, graph_exec_destroy(exec));
    ok!(rig, ctx_synchronize());
    rig.assert_no_hazards();
}

#[test]
fn calls_that_break_a_capture() {
    let rig = Rig::new(Schedule::Seeded(2));
    let other = rig.stream();
    let event = rig.event();
    ok!(rig, event_record(event, other));
    ok!(rig, stream_synchronize(other));
    let breaks = |mode, call: &dyn Fn(CUstream) -> CUresult| {
        let stream = rig.stream();
        ok!(rig, stream_begin_capture(stream, mode));
        let answer = call(stream);
        (answer, rig.end(stream).0)
    };
    let query = |_: CUstream| cu!(rig, event_query(event));
    assert_eq!(breaks(GLOBAL, &query), (UNSUPPORTED, INVALIDATED));
    assert_eq!(breaks(RELAXED, &query), (SUCCESS, SUCCESS));
    let id = |stream: CUstream| {
        let mut id = 0;
        cu!(rig, stream_get_id?(stream, &raw mut id))
    };
    assert_eq!(breaks(RELAXED, &id), (UNSUPPORTED, INVALIDATED));
    let isolation = CUresult::CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
    let wait = |stream: CUstream| cu!(rig, stream_wait_event(stream, event, 0));
    assert_eq!(breaks(RELAXED, &wait), (isolation, INVALIDATED));
    let captured = |stream: CUstream| {
        let event = rig.event();
        ok!(rig, event_record(event, stream));
        cu!(rig, event_query(event))
    };
    let code = CUresult::CUDA_ERROR_CAPTURED_EVENT;
    assert_eq!(breaks(RELAXED, &captured), (code, INVALIDATED));
    let exchanged = |_: CUstream| {
        let mut mode = RELAXED;
        ok!(rig, thread_exchange_stream_capture_mode(&raw mut mode));
        let mut address = 0;
        let answer = cu!(rig, mem_alloc(&raw mut address, 512));
        ok!(rig, thread_exchange_stream_capture_mode(&raw mut mode));
        assert_eq!(mode, RELAXED);
        answer
    };
    assert_eq!(breaks(GLOBAL, &exchanged), (SUCCESS, SUCCESS));
}

#[test]
fn the_legacy_stream_and_captures() {
    let rig = Rig::new(Schedule::Seeded(2));
    let legacy = ptr::null_mut();
    assert_eq!(cu!(rig, stream_begin_capture(legacy, RELAXED)), UNSUPPORTED);
    let block = rig.alloc(4);
    for (flags, answer, end) in
        [(1, SUCCESS, SUCCESS), (0, CUresult::CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, INVALIDATED)]
    {
        let stream = rig.stream_with(flags);
        ok!(rig, stream_begin_capture(stream, GLOBAL));
        assert_eq!(cu!(rig, memset_d8_async(block, 0, 4, legacy)), answer);
        assert_eq!(rig.end(stream).0, end);
    }
    let stream = rig.stream();
    let illegal = CUresult::CUDA_ERROR_ILLEGAL_STATE;
    assert_eq!(rig.end(stream).0, illegal);
    ok!(rig, stream_begin_capture(stream, GLOBAL));
    assert_eq!(cu!(rig, stream_begin_capture(stream, GLOBAL)), illegal);
    ok!(rig, stream_destroy(stream));
    let _block = rig.alloc(4);
}

unsafe extern "C" fn count(argument: *mut c_void) {
    // SAFETY: the test hands over an atomic that outlives the call.
    let counter = unsafe { AtomicU32::from_ptr(argument.cast()) };
    counter.fetch_add(1, Ordering::Release);
}

#[test]
fn a_user_object_lives_as_long_as_the_last_replay() {
    let rig = Rig::new(Schedule::Lazy);
    let a = rig.stream();
    let destroyed = AtomicU32::new(0);
    let mut object = ptr::null_mut();
    let argument = destroyed.as_ptr().cast();
    ok!(rig, user_object_create?(&raw mut object, argument, Some(count), 1, 1));
    ok!(rig, stream_begin_capture(a, RELAXED));
    let block = rig.alloc(4);
    rig.put(a, block, 1);
    let (_, graph) = rig.end(a);
    ok!(rig, graph_retain_user_object?(graph, object, 1, 1));
    let mut exec = ptr::null_mut();
    ok!(rig, graph_instantiate_with_flags?(&raw mut exec, graph, 0));
    ok!(rig, graph_destroy(graph));
    ok!(rig, graph_launch(exec, a));
    ok!(rig, graph_exec_destroy(exec));
    std::thread::sleep(std::time::Duration::from_millis(10));
    assert_eq!(destroyed.load(Ordering::Acquire), 0, "the replay is still queued");
    ok!(rig, ctx_synchronize());
    let begun = std::time::Instant::now();
    while destroyed.load(Ordering::Acquire) == 0 {
        assert!(begun.elapsed().as_secs() < 60);
        std::thread::yield_now();
    }
    assert_eq!(rig.peek(block), 1);
}
