//! Stream-ordered pools.

use std::ffi::c_void;

use cuda_sys::{
    CUdevice, CUdeviceptr, CUmemAccessDesc, CUmemPool_attribute, CUmemPoolHandle_st,
    CUmemPoolProps, CUmemoryPool, CUresult, CUstream_st,
};

use super::shims;
use crate::call::Call;
use crate::pool::Pool;
use crate::state::Answer;

const INVALID: CUresult = CUresult::CUDA_ERROR_INVALID_VALUE;

fn pool(call: &mut Call, handle: super::raw::Pointer<CUmemPoolHandle_st>) -> Answer<usize> {
    let handle = handle.address();
    match call.pools.get(handle) {
        Ok(_) => Ok(handle),
        Err(unfit) => {
            call.stale(unfit, handle);
            Err(INVALID)
        }
    }
}

fn raw(handle: usize) -> CUmemoryPool {
    std::ptr::without_provenance_mut(handle)
}

shims! {
    "cuMemAllocAsync" mem_alloc_async(
        call,
        out: *mut CUdeviceptr,
        bytes: usize,
        stream: *mut CUstream_st,
    ) {
        let timeline = call.timeline(stream)?;
        let device = call.context(call.live(timeline).context).device;
        let pool = call.current_pool(device)?;
        let address = call.allocate_from(pool, bytes, timeline)?;
        out.put(address)
    }

    "cuMemAllocFromPoolAsync" mem_alloc_from_pool_async(
        call,
        out: *mut CUdeviceptr,
        bytes: usize,
        handle: *mut CUmemPoolHandle_st,
        stream: *mut CUstream_st,
    ) {
        let timeline = call.timeline(stream)?;
        let pool = pool(call, handle)?;
        let address = call.allocate_from(pool, bytes, timeline)?;
        out.put(address)
    }

    "cuMemFreeAsync" mem_free_async(call, address: CUdeviceptr, stream: *mut CUstream_st) {
        if call.current(call.thread).is_none() {
            return Err(INVALID);
        }
        let timeline = call.timeline(stream)?;
        call.free_async(address, timeline)
    }

    "cuMemPoolCreate" mem_pool_create(
        call,
        out: *mut CUmemoryPool,
        properties: *const CUmemPoolProps,
    ) {
        let device = call.device(properties.get()?.location.id)?;
        call.pools_supported(device)?;
        let handle = call.pools.insert(Pool::new(device, false));
        out.put(raw(handle))
    }

    "cuMemPoolDestroy" mem_pool_destroy(call, handle: *mut CUmemPoolHandle_st) {
        let pool = pool(call, handle)?;
        if call.pools.get(pool)?.is_default {
            return Err(INVALID);
        }
        let device = call.pools.remove(pool)?.device;
        let device = call.device_mut(device);
        if device.current_pool == Some(pool) {
            device.current_pool = device.default_pool;
        }
        Ok(())
    }

    "cuMemPoolGetAttribute" mem_pool_get_attribute(
        call,
        handle: *mut CUmemPoolHandle_st,
        attribute: CUmemPool_attribute,
        out: *mut c_void,
    ) {
        let pool = pool(call, handle)?;
        if out.is_null() {
            return Err(INVALID);
        }
        let value = call.pools.get(pool)?.attribute(attribute.0).ok_or(INVALID)?;
        if attribute.0 <= 3 {
            let switch = u32::try_from(value).unwrap_or(u32::MAX);
            out.place(4).write(0, &switch.to_ne_bytes());
        } else {
            out.place(8).write(0, &value.to_ne_bytes());
        }
        Ok(())
    }

    "cuMemPoolSetAttribute" mem_pool_set_attribute(
        call,
        handle: *mut CUmemPoolHandle_st,
        attribute: CUmemPool_attribute,
        value: *mut c_void,
    ) {
        let pool = pool(call, handle)?;
        if value.is_null() {
            return Err(INVALID);
        }
        let value = if attribute.0 <= 3 {
            let mut bytes = [0; 4];
            value.place(4).read(0, &mut bytes);
            u64::from(u32::from_ne_bytes(bytes))
        } else {
            let mut bytes = [0; 8];
            value.place(8).read(0, &mut bytes);
            u64::from_ne_bytes(bytes)
        };
        let pool = call.pools.get_mut(pool)?;
        if pool.set_attribute(attribute.0, value) { Ok(()) } else { Err(INVALID) }
    }

    "cuMemPoolTrimTo" mem_pool_trim_to(
        call,
        handle: *mut CUmemPoolHandle_st,
        _keep: usize,
    ) {
        // Nothing is kept: a freed block goes back to the device at once.
        pool(call, handle)?;
        Ok(())
    }

    "cuMemPoolSetAccess" mem_pool_set_access(
        call,
        handle: *mut CUmemPoolHandle_st,
        _descriptions: *const CUmemAccessDesc,
        _count: usize,
    ) {
        pool(call, handle)?;
        Ok(())
    }

    "cuDeviceGetDefaultMemPool" device_get_default_mem_pool(
        call,
        out: *mut CUmemoryPool,
        device: CUdevice,
    ) {
        let device = call.device(device)?;
        let pool = call.default_pool(device)?;
        out.put(raw(pool))
    }

    "cuDeviceGetMemPool" device_get_mem_pool(call, out: *mut CUmemoryPool, device: CUdevice) {
        let device = call.device(device)?;
        let pool = call.current_pool(device)?;
        out.put(raw(pool))
    }

    "cuDeviceSetMemPool" device_set_mem_pool(
        call,
        device: CUdevice,
        handle: *mut CUmemPoolHandle_st,
    ) {
        let device = call.device(device)?;
        let pool = pool(call, handle)?;
        call.device_mut(device).current_pool = Some(pool);
        Ok(())
    }
}
