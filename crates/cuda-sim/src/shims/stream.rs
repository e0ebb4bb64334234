//! Streams.

use std::ffi::{c_int, c_uint, c_ulonglong};

use cuda_sys::{CUcontext, CUdeviceptr, CUevent_st, CUresult, CUstream, CUstream_st, cuuint64_t};

use super::raw::Pointer;
use super::shims;
use crate::stream::Work;

fn put(out: Pointer<CUstream>, made: crate::state::Answer<usize>) -> crate::state::Answer {
    match made {
        Ok(handle) => out.put(std::ptr::without_provenance_mut(handle)),
        Err(code) => {
            out.put_if_wanted(std::ptr::null_mut());
            Err(code)
        }
    }
}

shims! {
    "cuStreamCreate" stream_create(call, out: *mut CUstream, flags: c_uint) {
        put(out, call.create_stream(flags, 0))
    }

    "cuStreamCreateWithPriority" stream_create_with_priority(
        call,
        out: *mut CUstream,
        flags: c_uint,
        priority: c_int,
    ) {
        put(out, call.create_stream(flags, priority))
    }

    "cuStreamDestroy" stream_destroy(call, stream: *mut CUstream_st) {
        call.destroy_stream(stream)
    }

    "cuStreamQuery" stream_query(call, stream: *mut CUstream_st) {
        let timeline = call.timeline(stream)?;
        call.query_stream(timeline)
    }

    "cuStreamSynchronize" stream_synchronize(call, stream: *mut CUstream_st) {
        let timeline = call.timeline(stream)?;
        call.synchronize_stream(timeline)
    }

    "cuStreamWaitEvent" stream_wait_event(
        call,
        stream: *mut CUstream_st,
        event: *mut CUevent_st,
        flags: c_uint,
    ) {
        let timeline = call.timeline(stream)?;
        if flags != 0 {
            return Err(CUresult::CUDA_ERROR_NOT_SUPPORTED);
        }
        call.wait_event(timeline, event.address())
    }

    "cuStreamGetId" stream_get_id(call, stream: *mut CUstream_st, out: *mut c_ulonglong) {
        let timeline = call.timeline(stream)?;
        call.refuse_capturing_stream(timeline)?;
        out.put(call.live(timeline).id)
    }

    "cuStreamGetCtx" stream_get_ctx(call, stream: *mut CUstream_st, out: *mut CUcontext) {
        let timeline = call.timeline(stream)?;
        let handle = call.context(call.live(timeline).context).handle;
        out.put(std::ptr::without_provenance_mut(handle))
    }

    "cuStreamGetFlags" stream_get_flags(call, stream: *mut CUstream_st, out: *mut c_uint) {
        let timeline = call.timeline(stream)?;
        out.put(call.live(timeline).flags)
    }

    "cuStreamGetPriority" stream_get_priority(call, stream: *mut CUstream_st, out: *mut c_int) {
        let timeline = call.timeline(stream)?;
        out.put(call.live(timeline).priority)
    }

    "cuStreamWaitValue64" stream_wait_value64(
        call,
        stream: *mut CUstream_st,
        address: CUdeviceptr,
        value: cuuint64_t,
        flags: c_uint,
    ) {
        let timeline = call.timeline(stream)?;
        check_word(call, address)?;
        call.enqueue(timeline, Work::WaitValue { address, value, flags })
    }

    "cuStreamWriteValue64" stream_write_value64(
        call,
        stream: *mut CUstream_st,
        address: CUdeviceptr,
        value: cuuint64_t,
        _flags: c_uint,
    ) {
        let timeline = call.timeline(stream)?;
        check_word(call, address)?;
        call.enqueue(timeline, Work::WriteValue { address, value })
    }
}

fn check_word(call: &crate::call::Call, address: u64) -> crate::state::Answer {
    let valid = address.is_multiple_of(8) && call.memory.pieces(address, 8).is_some();
    if valid { Ok(()) } else { Err(CUresult::CUDA_ERROR_INVALID_VALUE) }
}
