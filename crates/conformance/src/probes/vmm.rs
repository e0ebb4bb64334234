//! Virtual memory: what may be created, reserved, mapped, opened, unmapped and given back.

use cuda_sys::{
    CUdeviceptr, CUmemAccess_flags, CUmemAccessDesc, CUmemAllocationProp, CUmemAllocationType,
    CUmemGenericAllocationHandle, CUmemLocation, CUmemLocationType,
};

use crate::asker::{Asker, MILLISECOND};
use crate::driver::Pinned;

/// The granularity of the recorded device, as a size and as a distance between addresses.
pub(crate) const GRAIN: usize = 2 << 20;
const STEP: CUdeviceptr = 2 << 20;
const TIB: usize = 1 << 40;

fn location(ordinal: i32) -> CUmemLocation {
    CUmemLocation { type_: CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE, id: ordinal }
}

/// Memory of the device with this ordinal.
pub(crate) fn properties(ordinal: i32) -> CUmemAllocationProp {
    CUmemAllocationProp {
        type_: CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED,
        location: location(ordinal),
        ..CUmemAllocationProp::default()
    }
}

/// Reading and writing for device 0.
pub(crate) fn access() -> CUmemAccessDesc {
    let flags = CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    CUmemAccessDesc { location: location(0), flags }
}

pub(crate) fn map_and_unmap(asker: &Asker<'_>) {
    let driver = &asker.driver;
    let properties = properties(0);
    let (mut handle, mut va, mut other) = (0, 0, 0);
    asker.code("create 1 byte", driver.mem_create(&mut handle, 1, &properties));
    asker.code("create 3 MiB", driver.mem_create(&mut handle, 3 << 20, &properties));
    asker.code("create 8 MiB", driver.mem_create(&mut handle, 4 * GRAIN, &properties));
    asker.code("reserve 1 byte", driver.mem_address_reserve(&mut va, 1));
    asker.code("reserve 0", driver.mem_address_reserve(&mut va, 0));
    asker.code("reserve 64 MiB", driver.mem_address_reserve(&mut va, 32 * GRAIN));
    asker.code("reserve 1 TiB", driver.mem_address_reserve(&mut other, TIB));
    asker.code("free 1 TiB", driver.mem_address_free(other, TIB));
    asker.code("reserve 100 TiB", driver.mem_address_reserve(&mut other, 100 * TIB));
    map(asker, va, handle);
    open(asker, va);
    unmap(asker, va, handle);
}

fn map(asker: &Asker<'_>, va: CUdeviceptr, handle: CUmemGenericAllocationHandle) {
    let map = |probe, steps: CUdeviceptr, bytes, offset| {
        let code = asker.driver.mem_map(va + steps * STEP, bytes, offset, handle);
        asker.code(probe, code);
    };
    map("map whole handle", 0, 4 * GRAIN, 0);
    map("map same range again", 0, 4 * GRAIN, 0);
    map("map first half of handle elsewhere", 8, 2 * GRAIN, 0);
    map("map with offset 2 MiB", 12, 2 * GRAIN, GRAIN);
    map("map larger than handle", 16, 8 * GRAIN, 0);
    let unaligned = va + 20 * STEP + 4096;
    asker.code("map unaligned va", asker.driver.mem_map(unaligned, 4 * GRAIN, 0, handle));
}

fn open(asker: &Asker<'_>, va: CUdeviceptr) {
    let driver = &asker.driver;
    let open = |probe, bytes| asker.code(probe, driver.mem_set_access(va, bytes, &access()));
    asker.code("memset before access set", driver.memset_d8(va, 1, GRAIN));
    open("set access on half", 2 * GRAIN);
    open("set access on unaligned size", GRAIN + 1);
    open("set access on whole", 4 * GRAIN);
    open("set access over a hole", 16 * GRAIN);
    asker.code("memset after access", driver.memset_d8(va, 1, 4 * GRAIN));
}

fn unmap(asker: &Asker<'_>, va: CUdeviceptr, handle: CUmemGenericAllocationHandle) {
    let driver = &asker.driver;
    asker.code("unmap half of a mapping", driver.mem_unmap(va, 2 * GRAIN));
    asker.code("release handle while mapped", driver.mem_release(handle));
    asker.code("release twice", driver.mem_release(handle));
    asker.code("memset after release while mapped", driver.memset_d8(va, 2, 4 * GRAIN));
    asker.code("address free while mapped", driver.mem_address_free(va, 32 * GRAIN));
    asker.code("unmap exact", driver.mem_unmap(va, 4 * GRAIN));
    asker.code("unmap again", driver.mem_unmap(va, 4 * GRAIN));
    asker.code("memset after unmap", driver.memset_d8(va, 2, GRAIN));
    asker.code("cuMemFree on a mapped va", driver.mem_free(va));
    asker.code("unmap the half mapping", driver.mem_unmap(va + 8 * STEP, 2 * GRAIN));
    asker.code("address free part", driver.mem_address_free(va, GRAIN));
    asker.code("address free whole", driver.mem_address_free(va, 32 * GRAIN));
    asker.code("address free again", driver.mem_address_free(va, 32 * GRAIN));
}

/// Two addresses for the same memory, used in stream order and then while one is taken away.
pub(crate) fn aliases(asker: &Asker<'_>) {
    let driver = &asker.driver;
    let (mut handle, mut va) = (0, 0);
    asker.code("create", driver.mem_create(&mut handle, GRAIN, &properties(0)));
    asker.code("reserve", driver.mem_address_reserve(&mut va, 8 * GRAIN));
    let alias = va + 4 * STEP;
    asker.code("map A", driver.mem_map(va, GRAIN, 0, handle));
    asker.code("map B", driver.mem_map(alias, GRAIN, 0, handle));
    asker.code("access A", driver.mem_set_access(va, GRAIN, &access()));
    asker.code("access B", driver.mem_set_access(alias, GRAIN, &access()));
    let mut seen = Pinned::default();
    driver.mem_host_alloc(&mut seen, 4096);
    let stream = asker.stream();
    let get = || driver.launch(asker.kernels.get, stream, &[alias, seen.address()]);
    let mut wrong = 0;
    for value in 1..=20_000_u32 {
        driver.launch(asker.kernels.put, stream, &[va, u64::from(value)]);
        get();
        if value.is_multiple_of(64) {
            driver.stream_synchronize(stream);
            wrong += u32::from(seen.word() != value);
        }
    }
    driver.stream_synchronize(stream);
    asker.text("write by alias A, read by alias B in the next kernel: wrong of 312", wrong);

    asker.spin(stream, 50 * MILLISECOND);
    get();
    asker.code("unmap A while B is in use", driver.mem_unmap(va, GRAIN));
    asker.code("still running", driver.stream_query(stream));
    asker.code("sync after", driver.stream_synchronize(stream));
    asker.code("unmap B", driver.mem_unmap(alias, GRAIN));
    asker.code("release", driver.mem_release(handle));
    asker.code("create with bad device", driver.mem_create(&mut handle, GRAIN, &properties(99)));
}

pub(crate) fn unmap_under_a_queued_fill(asker: &Asker<'_>) {
    let driver = &asker.driver;
    let (mut handle, mut va) = (0, 0);
    driver.mem_create(&mut handle, GRAIN, &properties(0));
    driver.mem_address_reserve(&mut va, GRAIN);
    driver.mem_map(va, GRAIN, 0, handle);
    driver.mem_set_access(va, GRAIN, &access());
    let stream = asker.stream();
    asker.spin(stream, 50 * MILLISECOND);
    driver.memset_d8_async(va, 1, GRAIN, stream);
    let unmapped = asker.name(driver.mem_unmap(va, GRAIN));
    let synchronized = asker.name(driver.stream_synchronize(stream));
    let answer = format!("unmap {unmapped}, synchronize {synchronized}");
    asker.text("unmap while a queued fill will touch it", answer);
}
