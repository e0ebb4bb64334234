//! Memory that ends while it is in use, and handles that are used after their end.

use cuda_sim::{DeviceProfile, HandleReuse, Machine, Schedule};
use cuda_sys::{CUmemAccessDesc, CUmemAllocationProp, CUresult};

use crate::rig::Rig;
use crate::{cu, ok};

/// Properties and an access description for memory of device 0.
pub(crate) fn on_device_0() -> (CUmemAllocationProp, CUmemAccessDesc) {
    use cuda_sys::{CUmemAccess_flags, CUmemAllocationType, CUmemLocationType};
    let mut properties = CUmemAllocationProp {
        type_: CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED,
        ..Default::default()
    };
    properties.location.type_ = CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE;
    let access = CUmemAccessDesc {
        location: properties.location,
        flags: CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
    };
    (properties, access)
}

pub(crate) const GRANULE: usize = 2 << 20;

impl Rig {
    /// New physical memory of one granule.
    pub(crate) fn physical(&self) -> u64 {
        let (properties, _) = on_device_0();
        let mut handle = 0;
        ok!(self, mem_create?(&raw mut handle, GRANULE, &raw const properties, 0));
        handle
    }

    pub(crate) fn reservation(&self, granules: usize) -> u64 {
        let mut address = 0;
        ok!(self, mem_address_reserve?(&raw mut address, granules * GRANULE, 0, 0, 0));
        address
    }

    pub(crate) fn map(&self, address: u64, handle: u64) {
        let (_, access) = on_device_0();
        ok!(self, mem_map?(address, GRANULE, 0, handle, 0));
        ok!(self, mem_set_access?(address, GRANULE, &raw const access, 1));
    }
}

#[test]
fn a_free_with_work_unseen_is_reported_and_a_free_after_a_wait_is_not() {
    let rig = Rig::new(Schedule::Seeded(1));
    let a = rig.stream();
    let block = rig.alloc(64);
    rig.put(a, block, 1);
    ok!(rig, mem_free(block));
    assert_eq!(
        rig.hazard_texts(),
        [format!(
            "the allocation of 64 bytes at {block:#x} was freed in use: kernel put (operation 1 on \
             stream 3) uses it; missing edge: the host has not seen operation 1 complete"
        )]
    );
    let block = rig.alloc(64);
    rig.put(a, block, 1);
    ok!(rig, stream_synchronize(a));
    ok!(rig, mem_free(block));
    rig.assert_no_hazards();
}

#[test]
fn an_unmap_in_use_is_reported_and_the_queued_work_breaks_the_context() {
    let rig = Rig::new(Schedule::Lazy);
    let a = rig.stream();
    let (handle, address) = (rig.physical(), rig.reservation(1));
    rig.map(address, handle);
    ok!(rig, memset_d8_async(address, 1, GRANULE, a));
    ok!(rig, mem_unmap?(address, GRANULE));
    let illegal = CUresult::CUDA_ERROR_ILLEGAL_ADDRESS;
    assert_eq!(cu!(rig, stream_synchronize(a)), illegal);
    assert_eq!(cu!(rig, mem_free(0)), illegal, "the error is sticky");
    let texts = rig.hazard_texts();
    assert_eq!(texts.len(), 2);
    assert!(texts[0].contains("was unmapped in use: fill (operation 1 on stream 3)"), "{texts:?}");
    assert_eq!(
        texts[1],
        format!(
            "illegal address: fill (operation 1 on stream 3) uses {address:#x}, which means nothing"
        )
    );
}

#[test]
fn two_mappings_share_their_bytes_and_their_races() {
    let rig = Rig::new(Schedule::Seeded(4));
    let (a, b) = (rig.stream(), rig.stream());
    let (handle, address) = (rig.physical(), rig.reservation(4));
    let other = address + 2 * (2 << 20);
    rig.map(address, handle);
    rig.map(other, handle);
    let out = rig.alloc(64);
    rig.put(a, address + 8, 77);
    rig.get(a, other + 8, out);
    ok!(rig, stream_synchronize(a));
    assert_eq!(rig.peek(out), 77);
    // Only the mapping in use must not be unmapped.
    rig.get(a, other + 8, out);
    ok!(rig, mem_unmap?(address, GRANULE));
    rig.assert_no_hazards();
    rig.put(b, other + 8, 1);
    assert_eq!(rig.machine.take_hazards().len(), 1, "a race through the other name");
    ok!(rig, ctx_synchronize());
    ok!(rig, mem_unmap?(other, GRANULE));
    ok!(rig, mem_release?(handle));
    ok!(rig, mem_address_free?(address, 4 * GRANULE));
    rig.assert_no_hazards();
    assert_eq!(rig.machine.used_bytes(), 512, "only `out` is left");
}

#[test]
fn s4_handles_are_given_out_again_at_once_and_ids_never() {
    let rig = Rig::new(Schedule::Seeded(1));
    let first = rig.stream();
    let mut ids = [0, 0];
    ok!(rig, stream_get_id?(first, &raw mut ids[0]));
    rig.launch(first, "spin", &[crate::rig::Argument::U64(1_000_000)]);
    ok!(rig, stream_destroy(first));
    let second = rig.stream();
    ok!(rig, stream_get_id?(second, &raw mut ids[1]));
    assert_eq!(first, second);
    assert_ne!(ids[0], ids[1]);
}

#[test]
fn s4_work_of_a_destroyed_stream_is_not_ordered_before_its_handles_next_owner() {
    let rig = Rig::new(Schedule::Seeded(1));
    let first = rig.stream();
    let block = rig.alloc(64);
    rig.put(first, block, 1);
    ok!(rig, stream_destroy(first));
    let second = rig.stream();
    assert_eq!(first, second);
    rig.put(second, block, 2);
    assert_eq!(rig.machine.take_hazards().len(), 1);
    rig.put(second, block, 3);
    ok!(rig, ctx_synchronize());
    rig.put(rig.stream(), block, 4);
    rig.assert_no_hazards();
}

#[test]
fn s4_addresses_are_given_out_again_last_in_first_out_or_never() {
    for reuse in [HandleReuse::LastInFirstOut, HandleReuse::Never] {
        let profile = DeviceProfile::h200().with_reuse(reuse);
        let rig = Rig::build(Machine::builder().device(profile));
        let (first, second) = (rig.alloc(4096), rig.alloc(4096));
        ok!(rig, mem_free(first));
        ok!(rig, mem_free(second));
        let again = rig.alloc(4096);
        assert_eq!(again == second, reuse == HandleReuse::LastInFirstOut);
        assert_ne!(again, first);
    }
}

#[test]
fn s4_stale_handles_are_reported_where_the_real_driver_crashes() {
    let profile = DeviceProfile::h200().with_reuse(HandleReuse::Never);
    let rig = Rig::build(Machine::builder().device(profile));
    let (stream, event) = (rig.stream(), rig.event());
    ok!(rig, stream_destroy(stream));
    ok!(rig, event_destroy(event));
    let _other = (rig.stream(), rig.event());
    let invalid = CUresult::CUDA_ERROR_INVALID_HANDLE;
    assert_eq!(cu!(rig, stream_query(stream)), invalid);
    assert_eq!(cu!(rig, stream_destroy(stream)), invalid);
    assert_eq!(cu!(rig, event_query(event)), invalid);
    assert_eq!(cu!(rig, event_destroy(event)), invalid);
    assert_eq!(cu!(rig, event_synchronize(std::ptr::null_mut())), invalid);
    let texts = rig.hazard_texts();
    assert_eq!(texts.len(), 4, "null is a mistake, not a hazard: {texts:?}");
    assert_eq!(
        texts[0],
        format!("stale handle: cuStreamQuery was given {stream:p}, which names nothing alive")
    );
}

#[test]
fn a_plain_block_freed_twice_in_stream_order_is_reported() {
    let rig = Rig::new(Schedule::Lazy);
    let a = rig.stream();
    let block = rig.alloc(512);
    ok!(rig, mem_free_async?(block, a));
    ok!(rig, mem_free_async?(block, a));
    ok!(rig, stream_synchronize(a));
    assert_eq!(rig.hazard_texts(), [format!("{block:#x} was freed twice in stream order")]);
}

#[test]
fn a_stream_ordered_free_comes_after_every_use() {
    for ordered in [true, false] {
        let rig = Rig::new(Schedule::Seeded(2));
        let (a, b) = (rig.stream(), rig.stream());
        let mut block = 0;
        ok!(rig, mem_alloc_async?(&raw mut block, 512, a));
        rig.put(b, block, 1);
        if ordered {
            rig.order(b, a);
        }
        ok!(rig, mem_free_async?(block, a));
        assert_eq!(rig.hazard_texts().is_empty(), ordered);
        let code = cu!(rig, ctx_synchronize());
        assert_eq!(rig.machine.used_bytes(), 0);
        assert!(!ordered || code == crate::rig::SUCCESS);
    }
}
