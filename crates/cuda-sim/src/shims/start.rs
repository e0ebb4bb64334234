//! Start and errors: the calls that work before anything else does.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

use cuda_sys::{CUdriverProcAddressQueryResult as Found, CUresult, Table, cuuint64_t};

use super::shims;
use crate::error_text;

shims! {
    "cuInit" init(call, flags: c_uint) {
        if flags != 0 {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        if call.devices.is_empty() {
            return Err(CUresult::CUDA_ERROR_NO_DEVICE);
        }
        call.initialized = true;
        Ok(())
    }

    "cuDriverGetVersion" driver_get_version(call, out: *mut c_int) {
        out.put(i32::try_from(call.driver_version()).unwrap_or(i32::MAX))
    }

    "cuGetErrorName" get_error_name(_call, code: CUresult, out: *mut *const c_char) {
        put_text(out, error_text::name(code))
    }

    "cuGetErrorString" get_error_string(_call, code: CUresult, out: *mut *const c_char) {
        put_text(out, error_text::description(code))
    }

    "cuGetProcAddress" get_proc_address(
        call,
        name: *const c_char,
        out: *mut *mut c_void,
        version: c_int,
        flags: cuuint64_t,
        status: *mut Found,
    ) {
        let name = name.text()?;
        let asked = u32::try_from(version).map_err(|_| CUresult::CUDA_ERROR_INVALID_VALUE)?;
        if call.driver_version() < asked {
            status.put_if_wanted(Found::CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
            out.put(std::ptr::null_mut())?;
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        let per_thread = flags & 2 != 0;
        let known = Table::ENTRY_POINTS.iter().find(|entry| entry.name == name);
        let found = known.and_then(|entry| {
            let number = crate::table::slot_number(call.slot)?;
            (entry.since <= asked && !per_thread && call.has_entry(entry)).then(|| {
                crate::table::find(number, entry.name)
            })?
        });
        let code = if found.is_some() {
            Found::CU_GET_PROC_ADDRESS_SUCCESS
        } else {
            Found::CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND
        };
        status.put_if_wanted(code);
        out.put(found.map_or(std::ptr::null_mut(), <*const c_void>::cast_mut))?;
        if found.is_some() { Ok(()) } else { Err(CUresult::CUDA_ERROR_NOT_FOUND) }
    }
}

fn put_text(
    out: super::raw::Pointer<*const c_char>,
    text: Option<&'static CStr>,
) -> crate::state::Answer {
    match text {
        Some(text) => out.put(text.as_ptr()),
        None => {
            out.put(std::ptr::null())?;
            Err(CUresult::CUDA_ERROR_INVALID_VALUE)
        }
    }
}
