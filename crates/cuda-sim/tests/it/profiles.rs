//! Older drivers, lesser devices, several machines.

use cuda_sim::{DeviceProfile, Machine, Schedule};
use cuda_sys::CUresult;

use crate::rig::Rig;
use crate::{cu, ok};

#[test]
fn an_old_driver_lacks_what_later_ones_brought() {
    let builder = || Machine::builder().device(DeviceProfile::old_driver(11_040));
    let machine = builder().build();
    let table = machine.table();
    let missing = table.stream_get_id().unwrap_err();
    assert_eq!(
        missing.to_string(),
        "the driver has no cuStreamGetId, which CUDA 12.0 brought (this driver is for CUDA 11.4)"
    );
    assert!(table.mem_alloc_async().is_ok());
    let without = DeviceProfile::h200().without("cuMemCreate");
    let machine = Machine::builder().device(without).build();
    assert!(machine.table().mem_create().is_err());
}

#[test]
fn a_module_too_new_for_the_driver_is_refused() {
    let machine = Machine::builder().device(DeviceProfile::old_driver(12_080)).build();
    struct Bare {
        table: std::sync::Arc<cuda_sys::Table>,
    }
    let bare = Bare { table: machine.table() };
    ok!(bare, init(0));
    let (mut context, mut module) = (std::ptr::null_mut(), std::ptr::null_mut());
    ok!(bare, device_primary_ctx_retain(&raw mut context, 0));
    ok!(bare, ctx_set_current(context));
    let text = std::ffi::CString::new(crate::rig::MODULE).unwrap();
    let code = cu!(bare, module_load_data(&raw mut module, text.as_ptr().cast()));
    assert_eq!(code, CUresult::CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
}

#[test]
fn attributes_follow_the_profile() {
    use cuda_sys::CUdevice_attribute as Attribute;
    for (profile, expected) in [(DeviceProfile::h200(), 1), (DeviceProfile::without_vmm(), 0)] {
        let rig = Rig::build(Machine::builder().device(profile));
        for attribute in [
            Attribute::CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
            Attribute::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED,
        ] {
            let mut value = -1;
            ok!(rig, device_get_attribute(&raw mut value, attribute, 0));
            assert_eq!(value, expected);
        }
    }
}

#[test]
fn s8_machines_in_one_process_know_nothing_of_each_other() {
    let (first, second) = (Rig::new(Schedule::Seeded(1)), Rig::new(Schedule::Seeded(1)));
    assert_eq!(first.alloc(512), second.alloc(512));
    let before = second.machine.call_count();
    let _more = first.alloc(512);
    assert_eq!(second.machine.call_count(), before);
}

#[test]
fn s8_a_dropped_machine_makes_room_for_another() {
    for _ in 0..200 {
        let machine = Machine::builder().build();
        assert_eq!(machine.call_count(), 0);
    }
}

#[test]
fn entry_points_are_found_by_name_and_version() {
    use cuda_sys::CUdriverProcAddressQueryResult as Found;
    let rig = Rig::new(Schedule::Seeded(1));
    let name = c"cuStreamGetId";
    for (version, code, status) in [
        (12_000, CUresult::CUDA_SUCCESS, Found::CU_GET_PROC_ADDRESS_SUCCESS),
        (
            99_000,
            CUresult::CUDA_ERROR_INVALID_VALUE,
            Found::CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT,
        ),
    ] {
        let (mut pointer, mut found) = (std::ptr::null_mut(), Found(7));
        let out = &raw mut pointer;
        let answer = cu!(rig, get_proc_address?(name.as_ptr(), out, version, 0, &raw mut found));
        assert_eq!((answer, found), (code, status));
        assert_eq!(pointer.is_null(), code != CUresult::CUDA_SUCCESS);
    }
}

#[test]
fn l12_streams_that_share_a_hardware_queue_hold_each_other_up_and_prove_nothing() {
    let one = std::num::NonZeroU32::MIN;
    let profile = DeviceProfile::h200().with_hardware_queues(one);
    let rig = Rig::build(Machine::builder().device(profile).schedule(Schedule::Lazy));
    let (a, b) = (rig.stream(), rig.stream());
    let block = rig.alloc(4);
    rig.put(a, block, 1);
    rig.put(b, block, 2);
    ok!(rig, stream_synchronize(b));
    assert_eq!(rig.machine.pending_operations(), 0, "the first had to run first");
    assert_eq!(rig.peek(block), 2);
    assert_eq!(rig.machine.take_hazards().len(), 1, "and is still not ordered before");
}

#[test]
fn what_is_not_simulated_is_refused() {
    let rig = Rig::new(Schedule::Seeded(1));
    let mut address = 0;
    let refused = CUresult::CUDA_ERROR_NOT_SUPPORTED;
    assert_eq!(cu!(rig, mem_alloc_managed?(&raw mut address, 512, 1)), refused);
    let mut handle = cuda_sys::CUipcMemHandle::default();
    assert_eq!(cu!(rig, ipc_get_mem_handle?(&raw mut handle, address)), refused);
}

#[test]
fn every_entry_point_is_there_for_a_new_driver() {
    let machine = Machine::builder().build();
    let table = machine.table();
    let mut absent = Vec::new();
    for entry in cuda_sys::Table::ENTRY_POINTS {
        let name = std::ffi::CString::new(entry.name).unwrap();
        let (mut pointer, mut found) =
            (std::ptr::null_mut(), cuda_sys::CUdriverProcAddressQueryResult(7));
        let ask = table.get_proc_address().unwrap();
        let version = i32::try_from(entry.since).unwrap();
        // SAFETY: the name ends with a zero byte and the results are the test's.
        let code = unsafe { ask(name.as_ptr(), &raw mut pointer, version, 0, &raw mut found) };
        if code != CUresult::CUDA_SUCCESS || pointer.is_null() {
            absent.push(entry.name);
        }
    }
    assert_eq!(absent, Vec::<&str>::new());
}
