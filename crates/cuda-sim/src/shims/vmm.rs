//! Virtual memory management.

use std::ffi::{c_ulonglong, c_void};

use cuda_sys::{
    CUdeviceptr, CUmemAccess_flags, CUmemAccessDesc, CUmemAllocationGranularity_flags,
    CUmemAllocationHandleType, CUmemAllocationProp, CUmemAllocationType,
    CUmemGenericAllocationHandle, CUmemLocation, CUmemLocationType, CUresult,
};

use super::shims;
use crate::memory::{MappingKind, host, size};

shims! {
    "cuMemAddressReserve" mem_address_reserve(
        call,
        out: *mut CUdeviceptr,
        bytes: usize,
        alignment: usize,
        wanted: CUdeviceptr,
        _flags: c_ulonglong,
    ) {
        let address = call.reserve(bytes, alignment, wanted)?;
        out.put(address)
    }

    "cuMemAddressFree" mem_address_free(call, address: CUdeviceptr, bytes: usize) {
        call.free_reservation(address, bytes)
    }

    "cuMemCreate" mem_create(
        call,
        out: *mut CUmemGenericAllocationHandle,
        bytes: usize,
        properties: *const CUmemAllocationProp,
        _flags: c_ulonglong,
    ) {
        let handle = call.create_physical(bytes, &properties.get()?)?;
        out.put(handle)
    }

    "cuMemRelease" mem_release(call, handle: CUmemGenericAllocationHandle) {
        call.release_physical(handle)
    }

    "cuMemMap" mem_map(
        call,
        address: CUdeviceptr,
        bytes: usize,
        offset: usize,
        handle: CUmemGenericAllocationHandle,
        _flags: c_ulonglong,
    ) {
        call.map(address, bytes, offset, handle)
    }

    "cuMemUnmap" mem_unmap(call, address: CUdeviceptr, bytes: usize) {
        call.unmap(address, bytes)
    }

    "cuMemSetAccess" mem_set_access(
        call,
        address: CUdeviceptr,
        bytes: usize,
        descriptions: *const CUmemAccessDesc,
        count: usize,
    ) {
        if count == 0 {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        let mut accesses = Vec::with_capacity(count);
        for index in 0..count {
            let description = descriptions.get_at(index)?;
            let device = call.device(description.location.id)?;
            let none = CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_NONE;
            accesses.push((device, description.flags != none));
        }
        call.set_access(address, bytes, &accesses)
    }

    "cuMemGetAccess" mem_get_access(
        call,
        out: *mut c_ulonglong,
        _location: *const CUmemLocation,
        address: CUdeviceptr,
    ) {
        let mapping = call.memory.mapping_at(address).map(|(_, mapping)| mapping.kind);
        let flags = match mapping {
            Some(MappingKind::Virtual { devices: 0, .. }) => {
                CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_NONE
            }
            Some(_) => CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
            None => return Err(CUresult::CUDA_ERROR_INVALID_VALUE),
        };
        out.put(u64::from(flags.0))
    }

    "cuMemGetAllocationGranularity" mem_get_allocation_granularity(
        call,
        out: *mut usize,
        properties: *const CUmemAllocationProp,
        _option: CUmemAllocationGranularity_flags,
    ) {
        let device = call.device(properties.get()?.location.id)?;
        out.put(host(call.device_mut(device).profile.granularity_bytes))
    }

    "cuMemGetAllocationPropertiesFromHandle" mem_get_allocation_properties_from_handle(
        call,
        out: *mut CUmemAllocationProp,
        handle: CUmemGenericAllocationHandle,
    ) {
        let handle = call.physical_handle(handle)?;
        let physical = call.physical.get(handle)?;
        let device = i32::try_from(physical.device).unwrap_or(i32::MAX);
        out.put(CUmemAllocationProp {
            type_: CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED,
            requestedHandleTypes: CUmemAllocationHandleType(physical.handle_types),
            location: CUmemLocation {
                type_: CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE,
                id: device,
            },
            ..CUmemAllocationProp::default()
        })
    }

    "cuMemRetainAllocationHandle" mem_retain_allocation_handle(
        call,
        out: *mut CUmemGenericAllocationHandle,
        address: *mut c_void,
    ) {
        let mapping = call.memory.mapping_at(size(address.address()));
        let Some(MappingKind::Virtual { handle, .. }) = mapping.map(|(_, mapping)| mapping.kind)
        else {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        };
        call.physical.get_mut(handle)?.references += 1;
        out.put(size(handle))
    }
}
