//! Captures, graphs and user objects.

use std::ffi::{c_uint, c_ulonglong, c_void};

use cuda_sys::{
    CUgraph, CUgraph_st, CUgraphEdgeData, CUgraphExec, CUgraphExec_st, CUgraphNode, CUhostFn,
    CUresult, CUstream_st, CUstreamCaptureMode, CUstreamCaptureStatus, CUuserObject,
    CUuserObject_st, cuuint64_t,
};

use super::raw::HostCall;
use super::shims;
use crate::call::Call;
use crate::graph::{Graph, RELAXED, UserObject};
use crate::state::Answer;

/// Whether the status of a stream's capture, for the calls that are always safe.
fn status(call: &Call, timeline: u32) -> CUstreamCaptureStatus {
    match call.live(timeline).capture.map(|number| call.check_capture(number)) {
        None => CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE,
        Some(Ok(())) => CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_ACTIVE,
        Some(Err(_)) => CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_INVALIDATED,
    }
}

/// The timeline of a stream whose capture is asked about.
fn asked(call: &mut Call, stream: super::raw::Pointer<CUstream_st>) -> Answer<u32> {
    let broken = call.current(call.thread).is_some_and(|context| {
        call.context(context).alive && call.context(context).broken.is_some()
    });
    if broken && stream.is_null() {
        return Err(CUresult::CUDA_ERROR_INVALID_HANDLE);
    }
    let timeline = call.timeline(stream)?;
    if !call.implicit_captures(timeline).is_empty() {
        return Err(CUresult::CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    }
    Ok(timeline)
}

fn object(call: &mut Call, handle: super::raw::Pointer<CUuserObject_st>) -> Answer<usize> {
    let handle = handle.address();
    match call.user_objects.get(handle) {
        Ok(_) => Ok(handle),
        Err(unfit) => Err(call.stale(unfit, handle)),
    }
}

/// The handle, if it names a graph that no capture is filling.
fn graph(call: &mut Call, handle: super::raw::Pointer<CUgraph_st>) -> Answer<usize> {
    let handle = handle.address();
    match call.graphs.get(handle) {
        Ok(_) => Ok(handle),
        Err(unfit) => {
            call.stale(unfit, handle);
            Err(CUresult::CUDA_ERROR_INVALID_VALUE)
        }
    }
}

shims! {
    "cuStreamIsCapturing" stream_is_capturing(
        call,
        stream: *mut CUstream_st,
        out: *mut CUstreamCaptureStatus,
    ) {
        let timeline = asked(call, stream)?;
        out.put(status(call, timeline))
    }

    "cuStreamBeginCapture" stream_begin_capture(
        call,
        stream: *mut CUstream_st,
        mode: CUstreamCaptureMode,
    ) {
        let timeline = call.timeline(stream)?;
        let thread = call.thread;
        call.begin_capture(timeline, mode.0, thread)
    }

    "cuStreamEndCapture" stream_end_capture(
        call,
        stream: *mut CUstream_st,
        out: *mut CUgraph,
    ) {
        let timeline = call.timeline(stream)?;
        out.put_if_wanted(std::ptr::null_mut());
        let thread = call.thread;
        let graph = call.end_capture(timeline, thread)?;
        out.put(std::ptr::without_provenance_mut(graph))
    }

    "cuStreamGetCaptureInfo" stream_get_capture_info(
        call,
        stream: *mut CUstream_st,
        out: *mut CUstreamCaptureStatus,
        id: *mut cuuint64_t,
        graph: *mut CUgraph,
        dependencies: *mut *const CUgraphNode,
        edges: *mut *const CUgraphEdgeData,
        dependency_count: *mut usize,
    ) {
        let timeline = asked(call, stream)?;
        if !dependencies.is_null() || !edges.is_null() {
            return Err(CUresult::CUDA_ERROR_NOT_SUPPORTED);
        }
        if let Some(number) = call.live(timeline).capture
            && let Some(capture) = call.capture(number)
        {
            id.put_if_wanted(capture.id);
            graph.put_if_wanted(std::ptr::without_provenance_mut(capture.graph));
        }
        dependency_count.put_if_wanted(call.live(timeline).capture_tail.len());
        out.put(status(call, timeline))
    }

    "cuThreadExchangeStreamCaptureMode" thread_exchange_stream_capture_mode(
        call,
        mode: *mut CUstreamCaptureMode,
    ) {
        let new = mode.get()?.0;
        if RELAXED < new {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        let thread = call.thread;
        let thread = call.threads.get_mut(thread);
        let old = thread.map(|thread| std::mem::replace(&mut thread.capture_mode, new));
        mode.put(CUstreamCaptureMode(old.unwrap_or(0)))
    }

    "cuGraphCreate" graph_create(call, out: *mut CUgraph, flags: c_uint) {
        call.usable(call.thread)?;
        if flags != 0 {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        let handle = call.graphs.insert(Graph::default());
        out.put(std::ptr::without_provenance_mut(handle))
    }

    "cuGraphDestroy" graph_destroy(call, handle: *mut CUgraph_st) {
        let graph = graph(call, handle)?;
        call.remove_graph(graph)?;
        call.start_host_jobs();
        Ok(())
    }

    "cuGraphInstantiateWithFlags" graph_instantiate_with_flags(
        call,
        out: *mut CUgraphExec,
        handle: *mut CUgraph_st,
        _flags: c_ulonglong,
    ) {
        let context = call.usable(call.thread)?;
        let graph = graph(call, handle)?;
        let exec = call.instantiate(graph, context)?;
        out.put(std::ptr::without_provenance_mut(exec))
    }

    "cuGraphLaunch" graph_launch(
        call,
        exec: *mut CUgraphExec_st,
        stream: *mut CUstream_st,
    ) {
        let timeline = call.timeline(stream)?;
        call.launch_graph(exec.address(), timeline)
    }

    "cuGraphUpload" graph_upload(
        call,
        exec: *mut CUgraphExec_st,
        stream: *mut CUstream_st,
    ) {
        call.timeline(stream)?;
        match call.execs.get(exec.address()) {
            Ok(_) => Ok(()),
            Err(unfit) => Err(call.stale(unfit, exec.address())),
        }
    }

    "cuGraphExecDestroy" graph_exec_destroy(call, exec: *mut CUgraphExec_st) {
        if let Err(unfit) = call.execs.get(exec.address()) {
            return Err(call.stale(unfit, exec.address()));
        }
        call.remove_exec(exec.address())?;
        call.start_host_jobs();
        Ok(())
    }

    "cuGraphGetNodes" graph_get_nodes(
        call,
        handle: *mut CUgraph_st,
        nodes: *mut CUgraphNode,
        count: *mut usize,
    ) {
        let graph = graph(call, handle)?;
        let length = call.graphs.get(graph)?.nodes.len();
        if nodes.is_null() {
            return count.put(length);
        }
        let written = length.min(count.get()?);
        for index in 0..written {
            nodes.put_at(index, std::ptr::without_provenance_mut(graph + 1 + index));
        }
        count.put(written)
    }

    "cuUserObjectCreate" user_object_create(
        call,
        out: *mut CUuserObject,
        argument: *mut c_void,
        destroy: CUhostFn,
        references: c_uint,
        flags: c_uint,
    ) {
        if references == 0 || flags != 1 {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        let destroy = HostCall::new(destroy, argument)?;
        let handle = call.user_objects.insert(UserObject { destroy, references });
        out.put(std::ptr::without_provenance_mut(handle))
    }

    "cuUserObjectRelease" user_object_release(
        call,
        handle: *mut CUuserObject_st,
        count: c_uint,
    ) {
        let object = object(call, handle)?;
        call.release_object(object, count);
        call.start_host_jobs();
        Ok(())
    }

    "cuGraphRetainUserObject" graph_retain_user_object(
        call,
        handle: *mut CUgraph_st,
        user_object: *mut CUuserObject_st,
        count: c_uint,
        flags: c_uint,
    ) {
        let graph = graph(call, handle)?;
        let object = object(call, user_object)?;
        if flags & 1 == 0 {
            call.user_objects.get_mut(object)?.references += count;
        }
        call.graphs.get_mut(graph)?.objects.push((object, count));
        Ok(())
    }
}
