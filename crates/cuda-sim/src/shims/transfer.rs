//! Copies and fills.

use std::ffi::{c_uchar, c_uint, c_void};

use cuda_sys::{CUctx_st, CUdeviceptr, CUresult, CUstream_st};

use super::shims;
use crate::memory::size;

/// Four equal bytes.
fn repeated(byte: u8) -> u32 {
    u32::from_ne_bytes([byte; 4])
}

/// The bytes of a fill by words, whose address must be a word's.
fn word_bytes(address: u64, count: usize) -> Result<u64, CUresult> {
    let bytes = size(count).checked_mul(4);
    bytes.filter(|_| address.is_multiple_of(4)).ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)
}

shims! {
    "cuMemcpyHtoD" memcpy_htod(call, to: CUdeviceptr, from: *const c_void, bytes: usize) {
        call.copy_to_device_now(to, from.place(bytes))
    }

    "cuMemcpyDtoH" memcpy_dtoh(call, to: *mut c_void, from: CUdeviceptr, bytes: usize) {
        if to.is_null() && 0 < bytes {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        call.copy_to_host_now(to.place(bytes), from)
    }

    "cuMemcpyDtoD" memcpy_dtod(call, to: CUdeviceptr, from: CUdeviceptr, bytes: usize) {
        let timeline = call.legacy()?;
        call.copy_in_device(timeline, to, from, size(bytes))
    }

    "cuMemcpyHtoDAsync" memcpy_htod_async(
        call,
        to: CUdeviceptr,
        from: *const c_void,
        bytes: usize,
        stream: *mut CUstream_st,
    ) {
        let timeline = call.timeline(stream)?;
        call.copy_to_device(timeline, to, from.place(bytes))
    }

    "cuMemcpyDtoHAsync" memcpy_dtoh_async(
        call,
        to: *mut c_void,
        from: CUdeviceptr,
        bytes: usize,
        stream: *mut CUstream_st,
    ) {
        let timeline = call.timeline(stream)?;
        if to.is_null() && 0 < bytes {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        call.copy_to_host(timeline, to.place(bytes), from)
    }

    "cuMemcpyDtoDAsync" memcpy_dtod_async(
        call,
        to: CUdeviceptr,
        from: CUdeviceptr,
        bytes: usize,
        stream: *mut CUstream_st,
    ) {
        let timeline = call.timeline(stream)?;
        call.copy_in_device(timeline, to, from, size(bytes))
    }

    "cuMemcpyPeerAsync" memcpy_peer_async(
        call,
        to: CUdeviceptr,
        _to_context: *mut CUctx_st,
        from: CUdeviceptr,
        _from_context: *mut CUctx_st,
        bytes: usize,
        stream: *mut CUstream_st,
    ) {
        let timeline = call.timeline(stream)?;
        call.copy_in_device(timeline, to, from, size(bytes))
    }

    "cuMemsetD8" memset_d8(call, to: CUdeviceptr, value: c_uchar, count: usize) {
        let timeline = call.legacy()?;
        call.fill(timeline, to, size(count), repeated(value))
    }

    "cuMemsetD32" memset_d32(call, to: CUdeviceptr, value: c_uint, count: usize) {
        let timeline = call.legacy()?;
        call.fill(timeline, to, word_bytes(to, count)?, value)
    }

    "cuMemsetD8Async" memset_d8_async(
        call,
        to: CUdeviceptr,
        value: c_uchar,
        count: usize,
        stream: *mut CUstream_st,
    ) {
        let timeline = call.timeline(stream)?;
        call.fill(timeline, to, size(count), repeated(value))
    }

    "cuMemsetD32Async" memset_d32_async(
        call,
        to: CUdeviceptr,
        value: c_uint,
        count: usize,
        stream: *mut CUstream_st,
    ) {
        let timeline = call.timeline(stream)?;
        call.fill(timeline, to, word_bytes(to, count)?, value)
    }
}
