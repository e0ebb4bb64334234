//! Memory and events shared between processes: refused.

use std::ffi::{c_uint, c_ulonglong, c_void};

use cuda_sys::{
    CUdeviceptr, CUevent, CUevent_st, CUipcEventHandle, CUipcMemHandle, CUmemAllocationHandleType,
    CUmemGenericAllocationHandle, CUresult,
};

use super::shims;

const REFUSED: CUresult = CUresult::CUDA_ERROR_NOT_SUPPORTED;

shims! {
    "cuIpcGetEventHandle" ipc_get_event_handle(
        _call,
        _out: *mut CUipcEventHandle,
        _event: *mut CUevent_st,
    ) {
        Err(REFUSED)
    }

    "cuIpcOpenEventHandle" ipc_open_event_handle(
        _call,
        _out: *mut CUevent,
        _handle: CUipcEventHandle,
    ) {
        Err(REFUSED)
    }

    "cuIpcGetMemHandle" ipc_get_mem_handle(
        _call,
        _out: *mut CUipcMemHandle,
        _address: CUdeviceptr,
    ) {
        Err(REFUSED)
    }

    "cuIpcOpenMemHandle" ipc_open_mem_handle(
        _call,
        _out: *mut CUdeviceptr,
        _handle: CUipcMemHandle,
        _flags: c_uint,
    ) {
        Err(REFUSED)
    }

    "cuIpcCloseMemHandle" ipc_close_mem_handle(_call, _address: CUdeviceptr) {
        Err(REFUSED)
    }

    "cuMemExportToShareableHandle" mem_export_to_shareable_handle(
        _call,
        _out: *mut c_void,
        _handle: CUmemGenericAllocationHandle,
        _kind: CUmemAllocationHandleType,
        _flags: c_ulonglong,
    ) {
        Err(REFUSED)
    }

    "cuMemImportFromShareableHandle" mem_import_from_shareable_handle(
        _call,
        _out: *mut CUmemGenericAllocationHandle,
        _os_handle: *mut c_void,
        _kind: CUmemAllocationHandleType,
    ) {
        Err(REFUSED)
    }
}
