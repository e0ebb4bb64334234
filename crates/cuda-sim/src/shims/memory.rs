//! Plain, pinned and registered memory.

use std::ffi::{c_uint, c_void};

use cuda_sys::{CUdeviceptr, CUmemorytype_enum, CUpointer_attribute, CUresult};

use super::raw::Pointer;
use super::shims;
use crate::memory::{MappingKind, size};

shims! {
    "cuMemAlloc" mem_alloc(call, out: *mut CUdeviceptr, bytes: usize) {
        let address = call.allocate(bytes)?;
        out.put(address)
    }

    "cuMemFree" mem_free(call, address: CUdeviceptr) {
        call.free(address)
    }

    "cuMemGetInfo" mem_get_info(call, free: *mut usize, total: *mut usize) {
        let context = call.usable(call.thread)?;
        let (free_bytes, total_bytes) = call.memory_info(context);
        free.put(free_bytes)?;
        total.put(total_bytes)
    }

    "cuMemGetAddressRange" mem_get_address_range(
        call,
        base: *mut CUdeviceptr,
        bytes: *mut usize,
        address: CUdeviceptr,
    ) {
        let (start, mapping) =
            call.memory.mapping_at(address).ok_or(CUresult::CUDA_ERROR_NOT_FOUND)?;
        base.put_if_wanted(start);
        bytes.put_if_wanted(crate::memory::host(mapping.bytes));
        Ok(())
    }

    "cuMemAllocManaged" mem_alloc_managed(
        _call,
        _out: *mut CUdeviceptr,
        _bytes: usize,
        _flags: c_uint,
    ) {
        Err(CUresult::CUDA_ERROR_NOT_SUPPORTED)
    }

    "cuMemHostAlloc" mem_host_alloc(call, out: *mut *mut c_void, bytes: usize, _flags: c_uint) {
        let address = call.allocate_pinned(bytes)?;
        out.put(std::ptr::with_exposed_provenance_mut(crate::memory::host(address)))
    }

    "cuMemFreeHost" mem_free_host(call, pointer: *mut c_void) {
        call.free_pinned(size(pointer.address()))
    }

    "cuMemHostRegister" mem_host_register(
        call,
        pointer: *mut c_void,
        bytes: usize,
        _flags: c_uint,
    ) {
        call.register(pointer.place(bytes))
    }

    "cuMemHostUnregister" mem_host_unregister(call, pointer: *mut c_void) {
        call.unregister(size(pointer.address()))
    }

    "cuMemHostGetDevicePointer" mem_host_get_device_pointer(
        call,
        out: *mut CUdeviceptr,
        pointer: *mut c_void,
        _flags: c_uint,
    ) {
        let address = size(pointer.address());
        let pinned = call.memory.mapping_at(address).is_some_and(|(_, mapping)| {
            matches!(mapping.kind, MappingKind::Pinned | MappingKind::Registered)
        });
        if pinned { out.put(address) } else { Err(CUresult::CUDA_ERROR_INVALID_VALUE) }
    }

    "cuPointerGetAttribute" pointer_get_attribute(
        call,
        out: *mut c_void,
        attribute: CUpointer_attribute,
        address: CUdeviceptr,
    ) {
        let invalid = CUresult::CUDA_ERROR_INVALID_VALUE;
        if out.is_null() {
            return Err(invalid);
        }
        let (start, mapping) = call.memory.mapping_at(address).ok_or(invalid)?;
        let on_host = matches!(mapping.kind, MappingKind::Pinned | MappingKind::Registered);
        match attribute {
            CUpointer_attribute::CU_POINTER_ATTRIBUTE_CONTEXT => {
                let context = mapping.context;
                let known = context != usize::MAX && call.context(context).alive;
                let handle = if known { call.context(context).handle } else { 0 };
                put(out, &handle.to_ne_bytes());
            }
            CUpointer_attribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE => {
                let kind = if on_host {
                    CUmemorytype_enum::CU_MEMORYTYPE_HOST
                } else {
                    CUmemorytype_enum::CU_MEMORYTYPE_DEVICE
                };
                put(out, &kind.0.to_ne_bytes());
            }
            CUpointer_attribute::CU_POINTER_ATTRIBUTE_DEVICE_POINTER => {
                put(out, &address.to_ne_bytes());
            }
            CUpointer_attribute::CU_POINTER_ATTRIBUTE_HOST_POINTER if on_host => {
                put(out, &address.to_ne_bytes());
            }
            CUpointer_attribute::CU_POINTER_ATTRIBUTE_IS_MANAGED => {
                put(out, &0_u32.to_ne_bytes());
            }
            CUpointer_attribute::CU_POINTER_ATTRIBUTE_MAPPED => {
                put(out, &1_u32.to_ne_bytes());
            }
            CUpointer_attribute::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL => {
                let device = i32::try_from(mapping.device).unwrap_or(i32::MAX);
                put(out, &device.to_ne_bytes());
            }
            CUpointer_attribute::CU_POINTER_ATTRIBUTE_RANGE_START_ADDR => {
                put(out, &start.to_ne_bytes());
            }
            CUpointer_attribute::CU_POINTER_ATTRIBUTE_RANGE_SIZE => {
                put(out, &mapping.bytes.to_ne_bytes());
            }
            _ => return Err(CUresult::CUDA_ERROR_NOT_SUPPORTED),
        }
        Ok(())
    }
}

fn put(out: Pointer<c_void>, bytes: &[u8]) {
    out.place(bytes.len()).write(0, bytes);
}
