//! Bytes are real, addresses are the same in every run, and untouched memory costs nothing.

use std::ptr;

use cuda_sim::{DeviceProfile, Machine, Schedule};
use cuda_sys::CUresult;

use crate::lifetimes::{GRANULE, on_device_0};
use crate::rig::Rig;
use crate::{cu, ok};

#[test]
fn copies_and_fills_move_bytes() {
    for schedule in [Schedule::Seeded(9), Schedule::Eager, Schedule::Lazy, Schedule::Timed] {
        let rig = Rig::new(schedule);
        let a = rig.stream();
        let (first, second) = (rig.alloc(10_000), rig.alloc(10_000));
        let source: Vec<u8> = (0..=255).cycle().take(10_000).collect();
        let mut target = vec![0_u8; 10_000];
        ok!(rig, memcpy_htod_async(first, source.as_ptr().cast(), 10_000, a));
        ok!(rig, memset_d8_async(first + 100, 0xee, 3_000, a));
        ok!(rig, memset_d32_async(first + 4_000, 0x0403_0201, 700, a));
        ok!(rig, memcpy_dtod_async(second, first, 10_000, a));
        ok!(rig, memcpy_dtoh_async(target.as_mut_ptr().cast(), second, 10_000, a));
        let mut expected = source.clone();
        expected[100..3_100].fill(0xee);
        for (byte, value) in expected[4_000..6_800].iter_mut().zip((1..=4).cycle()) {
            *byte = value;
        }
        assert!(target == expected, "a copy to pageable memory is done when the call returns");
        rig.assert_no_hazards();
    }
}

#[test]
fn addresses_are_the_same_in_every_run() {
    let addresses = || {
        let rig = Rig::new(Schedule::Seeded(1));
        [rig.alloc(1), rig.alloc(4 << 20), rig.alloc(100), rig.reservation(8)]
    };
    let first = addresses();
    assert_eq!(first, addresses());
    assert!(first[..3].iter().all(|address| address % 512 == 0));
}

#[test]
fn memory_that_is_not_touched_costs_nothing_and_pages_come_back() {
    let rig = Rig::new(Schedule::Eager);
    let a = rig.stream();
    let bytes = 22_usize << 30;
    let block = rig.alloc(bytes);
    assert_eq!(rig.machine.resident_bytes(), 0);
    for offset in (0..22_u64 << 30).step_by(1 << 20) {
        ok!(rig, memset_d32_async(block + offset, 0xabcd, 1, a));
    }
    assert!(rig.machine.resident_bytes() < 1 << 30);
    ok!(rig, stream_synchronize(a));
    assert_eq!(rig.peek(block + (21 << 30)), 0xabcd);
    ok!(rig, mem_free(block));
    assert_eq!(rig.machine.resident_bytes(), 0);
    rig.assert_no_hazards();
}

#[test]
fn a_whole_fill_costs_little() {
    let rig = Rig::new(Schedule::Eager);
    let a = rig.stream();
    let block = rig.alloc(1 << 30);
    ok!(rig, memset_d8_async(block, 0x5a, 1 << 30, a));
    assert!(rig.machine.resident_bytes() < 32 << 20);
    assert_eq!(rig.peek(block + (1 << 29) + 4), 0x5a5a_5a5a);
}

#[test]
fn capacity_is_a_limit_that_can_be_moved() {
    let rig = Rig::build(Machine::builder().device(DeviceProfile::small(64 << 20)));
    let out_of_memory = CUresult::CUDA_ERROR_OUT_OF_MEMORY;
    let mut address = 0;
    assert_eq!(cu!(rig, mem_alloc(&raw mut address, 65 << 20)), out_of_memory);
    let block = rig.alloc(40 << 20);
    let (mut free, mut total) = (0, 0);
    ok!(rig, mem_get_info(&raw mut free, &raw mut total));
    assert_eq!((free, total), (24 << 20, 64 << 20));
    rig.machine.set_capacity(42 << 20);
    let (properties, _) = on_device_0();
    let mut handle = 0;
    let create =
        |handle: *mut u64| cu!(rig, mem_create?(handle, 2 * GRANULE, &raw const properties, 0));
    assert_eq!(create(&raw mut handle), out_of_memory);
    ok!(rig, mem_free(block));
    assert_eq!(create(&raw mut handle), crate::rig::SUCCESS);
    for wanted in [1 << 50, usize::MAX] {
        assert_eq!(cu!(rig, mem_alloc(&raw mut address, wanted)), out_of_memory);
    }
}

#[test]
fn virtual_memory_answers_as_the_driver_does() {
    let rig = Rig::new(Schedule::Seeded(0));
    let (properties, access) = on_device_0();
    let invalid = CUresult::CUDA_ERROR_INVALID_VALUE;
    let refused = CUresult::CUDA_ERROR_NOT_SUPPORTED;
    let granule = u64::try_from(GRANULE).unwrap();
    let (mut handle, mut ignored) = (0, 0);
    let properties = &raw const properties;
    let access = &raw const access;
    assert_eq!(cu!(rig, mem_create?(&raw mut ignored, 1, properties, 0)), invalid);
    assert_eq!(cu!(rig, mem_create?(&raw mut ignored, 3 << 20, properties, 0)), invalid);
    ok!(rig, mem_create?(&raw mut handle, 4 * GRANULE, properties, 0));
    assert_eq!(cu!(rig, mem_address_reserve?(&raw mut ignored, 1, 0, 0, 0)), invalid);
    assert_eq!(cu!(rig, mem_address_reserve?(&raw mut ignored, 0, 0, 0, 0)), invalid);
    let huge = cu!(rig, mem_address_reserve?(&raw mut ignored, 100 << 40, 0, 0, 0));
    assert_eq!(huge, CUresult::CUDA_ERROR_OUT_OF_MEMORY);
    let at = rig.reservation(32);
    ok!(rig, mem_map?(at, 4 * GRANULE, 0, handle, 0));
    assert_eq!(cu!(rig, mem_map?(at, 4 * GRANULE, 0, handle, 0)), invalid);
    assert_eq!(cu!(rig, mem_map?(at + 8 * granule, 2 * GRANULE, 0, handle, 0)), refused);
    assert_eq!(cu!(rig, mem_map?(at + 12 * granule, 2 * GRANULE, GRANULE, handle, 0)), refused);
    assert_eq!(cu!(rig, mem_map?(at + 20 * granule + 4096, 4 * GRANULE, 0, handle, 0)), invalid);
    assert_eq!(cu!(rig, memset_d8(at, 1, GRANULE)), invalid, "no access yet");
    assert_eq!(cu!(rig, mem_set_access?(at, 2 * GRANULE, access, 1)), invalid);
    assert_eq!(cu!(rig, mem_set_access?(at + 16 * granule, GRANULE, access, 1)), invalid);
    ok!(rig, mem_set_access?(at, 4 * GRANULE, access, 1));
    ok!(rig, memset_d8(at, 1, 4 * GRANULE));
    assert_eq!(cu!(rig, mem_unmap?(at, 2 * GRANULE)), invalid);
    ok!(rig, mem_release?(handle));
    assert_eq!(cu!(rig, mem_release?(handle)), invalid);
    ok!(rig, memset_d8(at, 2, 4 * GRANULE));
    assert_eq!(cu!(rig, mem_address_free?(at, 32 * GRANULE)), invalid);
    ok!(rig, ctx_synchronize());
    ok!(rig, mem_unmap?(at, 4 * GRANULE));
    ok!(rig, mem_unmap?(at, 4 * GRANULE));
    assert_eq!(cu!(rig, memset_d8(at, 2, GRANULE)), invalid);
    assert_eq!(cu!(rig, mem_free(at)), invalid);
    assert_eq!(cu!(rig, mem_address_free?(at, GRANULE)), invalid);
    ok!(rig, mem_address_free?(at, 32 * GRANULE));
    assert_eq!(cu!(rig, mem_address_free?(at, 32 * GRANULE)), invalid);
    assert_eq!(rig.machine.used_bytes(), 0);
    rig.assert_no_hazards();
}

#[test]
fn a_range_may_span_neighbouring_mappings() {
    let rig = Rig::new(Schedule::Seeded(0));
    let at = rig.reservation(3);
    let granule = u64::try_from(GRANULE).unwrap();
    for index in 0..3 {
        let handle = rig.physical();
        rig.map(at + index * granule, handle);
    }
    let mut bytes = vec![3_u8; 2 * GRANULE];
    ok!(rig, memcpy_htod(at + granule / 2, bytes.as_ptr().cast(), bytes.len()));
    bytes.fill(0);
    ok!(rig, memcpy_dtoh(bytes.as_mut_ptr().cast(), at + granule / 2, bytes.len()));
    assert!(bytes.iter().all(|byte| *byte == 3));
    let mut past = 0;
    ok!(rig, mem_get_address_range(&raw mut past, ptr::null_mut(), at + granule + 5));
    assert_eq!(past, at + granule);
}

#[test]
fn s9_a_pageable_source_is_read_at_the_call_or_later() {
    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..20 {
        let schedule = Schedule::Seeded(seed);
        let rig = Rig::build(Machine::builder().schedule(schedule).late_pageable_reads(true));
        let (a, block) = (rig.stream(), rig.alloc(4));
        let source = std::cell::UnsafeCell::new(1_u32);
        ok!(rig, memcpy_htod_async(block, source.get().cast(), 4, a));
        // SAFETY: this is the only thread, and nothing else borrows the word.
        unsafe { source.get().write(2) };
        ok!(rig, stream_synchronize(a));
        seen.insert(rig.peek(block));
    }
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), [1, 2]);
}

#[test]
fn pinned_memory_is_one_address_for_both_sides() {
    let rig = Rig::new(Schedule::Lazy);
    let a = rig.stream();
    let word = rig.pinned(8);
    let address = u64::try_from(word.expose_provenance()).unwrap();
    let mut device = 0;
    ok!(rig, mem_host_get_device_pointer?(&raw mut device, word, 0));
    assert_eq!(device, address);
    rig.put(a, device, 99);
    ok!(rig, stream_synchronize(a));
    // SAFETY: the word is pinned memory of this test.
    assert_eq!(unsafe { word.cast::<u32>().read() }, 99);
    ok!(rig, mem_free_host(word));
    assert_eq!(cu!(rig, mem_free_host(word)), CUresult::CUDA_ERROR_INVALID_VALUE);
}
