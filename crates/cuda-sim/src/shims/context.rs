//! Devices and contexts.

use std::ffi::{c_char, c_int, c_uint, c_ulonglong};

use cuda_sys::{
    CUcontext, CUctx_st, CUctxCreateParams, CUdevice, CUdevice_attribute, CUevent_st, CUresult,
    CUuuid,
};

use super::raw::Pointer;
use super::shims;
use crate::call::Call;
use crate::state::Answer;

/// A handle as C has it.
fn raw(handle: usize) -> CUcontext {
    std::ptr::without_provenance_mut(handle)
}

/// The number of a context handle; null is none.
fn named(call: &mut Call, handle: Pointer<CUctx_st>) -> Answer<Option<usize>> {
    if handle.is_null() {
        return Ok(None);
    }
    let found = call.context_handles.get(handle.address()).copied();
    found.map(Some).map_err(|_| CUresult::CUDA_ERROR_INVALID_CONTEXT)
}

shims! {
    "cuDeviceGet" device_get(call, out: *mut CUdevice, ordinal: c_int) {
        call.device(ordinal)?;
        out.put(ordinal)
    }

    "cuDeviceGetCount" device_get_count(call, out: *mut c_int) {
        out.put(c_int::try_from(call.devices.len()).unwrap_or(c_int::MAX))
    }

    "cuDeviceGetName" device_get_name(call, out: *mut c_char, room: c_int, device: CUdevice) {
        let device = call.device(device)?;
        let name = call.device_mut(device).profile.name.clone();
        out.put_text(&name, room)
    }

    "cuDeviceGetUuid" device_get_uuid(call, out: *mut CUuuid, device: CUdevice) {
        let number = u8::try_from(call.device(device)?).unwrap_or(u8::MAX);
        let mut uuid = CUuuid { bytes: [0x5a; 16] };
        if let Some(last) = uuid.bytes.last_mut() {
            *last = c_char::from_ne_bytes([number]);
        }
        out.put(uuid)
    }

    "cuDeviceTotalMem" device_total_mem(call, out: *mut usize, device: CUdevice) {
        let device = call.device(device)?;
        out.put(crate::memory::host(call.device_mut(device).profile.total_bytes))
    }

    "cuDeviceGetAttribute" device_get_attribute(
        call,
        out: *mut c_int,
        attribute: CUdevice_attribute,
        device: CUdevice,
    ) {
        let device = call.device(device)?;
        let value = call.device_mut(device).profile.attribute(attribute);
        out.put(value.ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?)
    }

    "cuDeviceGetPCIBusId" device_get_pci_bus_id(
        call,
        out: *mut c_char,
        room: c_int,
        device: CUdevice,
    ) {
        let number = call.device(device)?;
        out.put_text(&format!("0000:{:02x}:00.0", number + 1), room)
    }

    "cuDevicePrimaryCtxRetain" device_primary_ctx_retain(call, out: *mut CUcontext, device: CUdevice) {
        let device = call.device(device)?;
        if let Some(code) = call.device_mut(device).broken {
            return Err(code);
        }
        let context = call.retain_primary(device);
        let handle = call.context(context).handle;
        out.put(raw(handle))
    }

    "cuDevicePrimaryCtxRelease" device_primary_ctx_release(call, device: CUdevice) {
        let device = call.device(device)?;
        call.release_primary(device)
    }

    "cuDevicePrimaryCtxReset" device_primary_ctx_reset(call, device: CUdevice) {
        let device = call.device(device)?;
        if let Some(context) = call.device_mut(device).primary {
            call.destroy_context(context);
        }
        Ok(())
    }

    "cuDevicePrimaryCtxSetFlags" device_primary_ctx_set_flags(call, device: CUdevice, flags: c_uint) {
        let device = call.device(device)?;
        call.device_mut(device).primary_flags = flags;
        Ok(())
    }

    "cuDevicePrimaryCtxGetState" device_primary_ctx_get_state(
        call,
        device: CUdevice,
        flags: *mut c_uint,
        active: *mut c_int,
    ) {
        let device = call.device(device)?;
        let device = call.device_mut(device);
        flags.put(device.primary_flags)?;
        active.put(c_int::from(device.primary.is_some()))
    }

    "cuCtxCreate" ctx_create(
        call,
        out: *mut CUcontext,
        _parameters: *mut CUctxCreateParams,
        _flags: c_uint,
        device: CUdevice,
    ) {
        let device = call.device(device)?;
        if let Some(code) = call.device_mut(device).broken {
            return Err(code);
        }
        let context = call.new_context(device);
        let thread = call.thread;
        call.push_context(thread, Some(context));
        out.put(raw(call.context(context).handle))
    }

    "cuCtxDestroy" ctx_destroy(call, context: *mut CUctx_st) {
        let context = named(call, context)?.ok_or(CUresult::CUDA_ERROR_INVALID_CONTEXT)?;
        let device = call.context(context).device;
        if call.device_mut(device).primary == Some(context) {
            return Err(CUresult::CUDA_ERROR_INVALID_CONTEXT);
        }
        call.destroy_context(context);
        let thread = call.thread;
        if call.current(thread) == Some(context) {
            call.pop_context(thread);
        }
        Ok(())
    }

    "cuCtxPushCurrent" ctx_push_current(call, context: *mut CUctx_st) {
        let context = named(call, context)?.ok_or(CUresult::CUDA_ERROR_INVALID_CONTEXT)?;
        let thread = call.thread;
        call.push_context(thread, Some(context));
        Ok(())
    }

    "cuCtxPopCurrent" ctx_pop_current(call, out: *mut CUcontext) {
        let thread = call.thread;
        let popped = call.current(thread).ok_or(CUresult::CUDA_ERROR_INVALID_CONTEXT)?;
        call.pop_context(thread);
        out.put_if_wanted(raw(call.context(popped).handle));
        Ok(())
    }

    "cuCtxSetCurrent" ctx_set_current(call, context: *mut CUctx_st) {
        let context = named(call, context)?;
        let thread = call.thread;
        call.pop_context(thread);
        if context.is_some() {
            call.push_context(thread, context);
        }
        Ok(())
    }

    "cuCtxGetCurrent" ctx_get_current(call, out: *mut CUcontext) {
        let current = call.current(call.thread);
        out.put(current.map_or(std::ptr::null_mut(), |number| raw(call.context(number).handle)))
    }

    "cuCtxGetDevice" ctx_get_device(call, out: *mut CUdevice) {
        let current = call.current(call.thread).ok_or(CUresult::CUDA_ERROR_INVALID_CONTEXT)?;
        out.put(c_int::try_from(call.context(current).device).unwrap_or(c_int::MAX))
    }

    "cuCtxGetId" ctx_get_id(call, context: *mut CUctx_st, out: *mut c_ulonglong) {
        let current = call.current(call.thread);
        let number = named(call, context)?.or(current);
        let number = number.ok_or(CUresult::CUDA_ERROR_INVALID_CONTEXT)?;
        if !call.context(number).alive {
            return Err(CUresult::CUDA_ERROR_CONTEXT_IS_DESTROYED);
        }
        out.put(call.context(number).id)
    }

    "cuCtxSynchronize" ctx_synchronize(call) {
        let context = call.usable(call.thread)?;
        call.refuse_capture_in(context)?;
        call.synchronize_context(context)
    }

    "cuCtxGetStreamPriorityRange" ctx_get_stream_priority_range(
        call,
        least: *mut c_int,
        greatest: *mut c_int,
    ) {
        call.usable(call.thread)?;
        least.put_if_wanted(0);
        greatest.put_if_wanted(crate::stream::GREATEST_PRIORITY);
        Ok(())
    }

    "cuCtxRecordEvent" ctx_record_event(call, context: *mut CUctx_st, event: *mut CUevent_st) {
        let context = named(call, context)?.ok_or(CUresult::CUDA_ERROR_INVALID_CONTEXT)?;
        call.check_context(context)?;
        call.refuse_capture_in(context)?;
        call.record_context(context, event.address())
    }

    "cuCtxWaitEvent" ctx_wait_event(call, context: *mut CUctx_st, event: *mut CUevent_st) {
        let context = named(call, context)?.ok_or(CUresult::CUDA_ERROR_INVALID_CONTEXT)?;
        call.check_context(context)?;
        call.refuse_capture_in(context)?;
        call.wait_in_context(context, event.address())
    }
}
