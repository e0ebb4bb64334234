//! Events.

use std::ffi::c_uint;

use cuda_sys::{CUevent, CUevent_st, CUresult, CUstream_st};

use super::shims;

shims! {
    "cuEventCreate" event_create(call, out: *mut CUevent, flags: c_uint) {
        let handle = call.create_event(flags)?;
        out.put(std::ptr::without_provenance_mut(handle))
    }

    "cuEventDestroy" event_destroy(call, event: *mut CUevent_st) {
        call.destroy_event(event.address())
    }

    "cuEventRecord" event_record(call, event: *mut CUevent_st, stream: *mut CUstream_st) {
        let timeline = call.timeline(stream)?;
        call.record_event(timeline, event.address())
    }

    "cuEventRecordWithFlags" event_record_with_flags(
        call,
        event: *mut CUevent_st,
        stream: *mut CUstream_st,
        flags: c_uint,
    ) {
        let timeline = call.timeline(stream)?;
        if flags != 0 {
            return Err(CUresult::CUDA_ERROR_NOT_SUPPORTED);
        }
        call.record_event(timeline, event.address())
    }

    "cuEventQuery" event_query(call, event: *mut CUevent_st) {
        call.query_event(event.address())
    }

    "cuEventSynchronize" event_synchronize(call, event: *mut CUevent_st) {
        call.synchronize_event(event.address())
    }

    "cuEventElapsedTime" event_elapsed_time(
        call,
        out: *mut f32,
        start: *mut CUevent_st,
        end: *mut CUevent_st,
    ) {
        let milliseconds = call.elapsed(start.address(), end.address())?;
        out.put(milliseconds)
    }
}
