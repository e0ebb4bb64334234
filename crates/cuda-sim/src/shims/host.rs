//! Modules, kernel launches and host functions.

use std::ffi::{c_char, c_int, c_uint, c_void};

use cuda_sys::{
    CUfunc_st, CUfunction, CUfunction_attribute, CUhostFn, CUlaunchAttributeID, CUlaunchConfig,
    CUmod_st, CUmodule, CUresult, CUstream_st,
};

use super::raw::{HostCall, Pointer, Raw, parameters};
use super::shims;

shims! {
    "cuModuleLoadData" module_load_data(call, out: *mut CUmodule, image: *const c_void) {
        let text = image.as_text()?;
        let handle = call.load_module(&text)?;
        out.put(std::ptr::without_provenance_mut(handle))
    }

    "cuModuleUnload" module_unload(call, module: *mut CUmod_st) {
        call.unload_module(module.address())
    }

    "cuModuleGetFunction" module_get_function(
        call,
        out: *mut CUfunction,
        module: *mut CUmod_st,
        name: *const c_char,
    ) {
        let handle = call.function(module.address(), &name.text()?)?;
        out.put(std::ptr::without_provenance_mut(handle))
    }

    "cuFuncGetAttribute" func_get_attribute(
        call,
        out: *mut c_int,
        attribute: CUfunction_attribute,
        function: *mut CUfunc_st,
    ) {
        call.entry_of(function.address())?;
        out.put(match attribute {
            CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK => 1024,
            CUfunction_attribute::CU_FUNC_ATTRIBUTE_NUM_REGS => 16,
            CUfunction_attribute::CU_FUNC_ATTRIBUTE_PTX_VERSION
            | CUfunction_attribute::CU_FUNC_ATTRIBUTE_BINARY_VERSION => 90,
            _ => 0,
        })
    }

    "cuFuncGetParamInfo" func_get_param_info(
        call,
        function: *mut CUfunc_st,
        index: usize,
        offset: *mut usize,
        bytes: *mut usize,
    ) {
        let entry = call.entry_of(function.address())?;
        let mut at = 0_usize;
        for (number, &length) in entry.parameters.iter().enumerate() {
            at = at.next_multiple_of(length.next_power_of_two().min(8));
            if number == index {
                bytes.put_if_wanted(length);
                return offset.put(at);
            }
            at += length;
        }
        Err(CUresult::CUDA_ERROR_INVALID_VALUE)
    }

    "cuLaunchKernel" launch_kernel(
        call,
        function: *mut CUfunc_st,
        grid_x: c_uint,
        grid_y: c_uint,
        grid_z: c_uint,
        block_x: c_uint,
        block_y: c_uint,
        block_z: c_uint,
        _shared_bytes: c_uint,
        stream: *mut CUstream_st,
        values: *mut *mut c_void,
        extra: *mut *mut c_void,
    ) {
        let timeline = call.timeline(stream)?;
        let entry = call.entry_of(function.address())?;
        if !extra.is_null() {
            return Err(CUresult::CUDA_ERROR_NOT_SUPPORTED);
        }
        let values = parameters(values, &entry.parameters)?;
        let (grid, block) = ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]);
        call.launch(timeline, &entry, values, grid, block)
    }

    "cuLaunchKernelEx" launch_kernel_ex(
        call,
        config: *const CUlaunchConfig,
        function: *mut CUfunc_st,
        values: *mut *mut c_void,
        extra: *mut *mut c_void,
    ) {
        let config = config.get()?;
        // SAFETY: the stream and the attributes are part of what the caller handed over.
        let stream: Pointer<CUstream_st> = unsafe { config.hStream.cook() };
        // SAFETY: as above.
        let attributes = unsafe { config.attrs.cook() };
        let timeline = call.timeline(stream)?;
        let entry = call.entry_of(function.address())?;
        for index in 0..crate::state::index(config.numAttrs) {
            if attributes.get_at(index)?.id != CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_IGNORE {
                return Err(CUresult::CUDA_ERROR_NOT_SUPPORTED);
            }
        }
        if !extra.is_null() {
            return Err(CUresult::CUDA_ERROR_NOT_SUPPORTED);
        }
        let values = parameters(values, &entry.parameters)?;
        let grid = [config.gridDimX, config.gridDimY, config.gridDimZ];
        let block = [config.blockDimX, config.blockDimY, config.blockDimZ];
        call.launch(timeline, &entry, values, grid, block)
    }

    "cuLaunchHostFunc" launch_host_func(
        call,
        stream: *mut CUstream_st,
        function: CUhostFn,
        argument: *mut c_void,
    ) {
        let timeline = call.timeline(stream)?;
        let function = HostCall::new(function, argument)?;
        call.launch_host_function(timeline, function)
    }
}
