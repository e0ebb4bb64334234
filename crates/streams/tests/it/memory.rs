//! Owners of memory.

use cuda_sim::{DeviceProfile, Schedule};
use streams::memory::{AddressRange, DeviceMemory, PhysicalMemory, PinnedMemory};
use streams::{Error, RawSpan};

use crate::rig::Rig;

const PAGE: u64 = 2 << 20;

#[test]
fn plain_memory_is_what_the_driver_says() {
    let rig = Rig::lazy();
    let memory = DeviceMemory::allocate(&rig.context, 1).unwrap();
    assert_eq!(memory.address() % 512, 0);
    assert_eq!(memory.bytes(), 1);
    memory.release().unwrap();
    assert!(DeviceMemory::allocate(&rig.context, 0).is_err());
    for bytes in [1 << 50, u64::MAX] {
        let refused = DeviceMemory::allocate(&rig.context, bytes).unwrap_err();
        assert!(refused.is_out_of_memory(), "{refused}");
    }
    let (free, total) = rig.context.memory_info().unwrap();
    assert!(0 < free && free <= total);
}

#[test]
fn mappings_are_made_and_undone_whole() {
    let rig = Rig::lazy();
    assert_eq!(PhysicalMemory::granularity(&rig.context).unwrap(), PAGE);
    let range = AddressRange::reserve(&rig.context, 4 * PAGE, 0).unwrap();
    let first = PhysicalMemory::create(&rig.context, PAGE).unwrap();
    let second = PhysicalMemory::create(&rig.context, 2 * PAGE).unwrap();
    range.map(0, &first).unwrap();
    range.map(PAGE, &second).unwrap();
    assert_eq!(range.mapped_bytes(), 3 * PAGE);
    range.set_access(0, 3 * PAGE).unwrap();
    let stream = rig.stream();
    // SAFETY: the copy to the host below waits for the fill, and then the range is unmapped.
    let span = unsafe { RawSpan::from_raw(range.address(), 3 * PAGE) };
    stream.fill_bytes(&span, PAGE - 8, 16, 9).unwrap();
    let mut bytes = [0; 16];
    stream.copy_to_host(&mut bytes, &span, PAGE - 8).unwrap();
    assert_eq!(bytes, [9; 16]);
    for (offset, bytes) in [(0, PAGE / 2), (PAGE, PAGE), (0, 4 * PAGE), (3 * PAGE, PAGE), (0, 0)] {
        let refused = Error::NotMapped { offset, bytes };
        assert_eq!(range.unmap(offset, bytes), Err(refused.clone()));
        assert_eq!(range.set_access(offset, bytes), Err(refused));
    }
    let outside = Error::OutOfRange { offset: 3 * PAGE, bytes: 2 * PAGE, length: 4 * PAGE };
    assert_eq!(range.map(3 * PAGE, &second), Err(outside));
    first.release().unwrap();
    range.unmap(0, PAGE).unwrap();
    assert_eq!(range.mapped_bytes(), 2 * PAGE);
    range.release().unwrap();
    assert_eq!(rig.calls("cuMemUnmap"), 2);
    assert_eq!(rig.calls("cuMemAddressFree"), 1);
}

#[test]
fn a_range_dropped_is_unmapped_and_given_back() {
    let rig = Rig::lazy();
    let range = AddressRange::reserve(&rig.context, PAGE, 0).unwrap();
    range.map(0, &PhysicalMemory::create(&rig.context, PAGE).unwrap()).unwrap();
    drop(range);
    let names = ["cuMemUnmap", "cuMemAddressFree", "cuMemRelease"];
    assert_eq!(names.map(|name| rig.calls(name)), [1, 1, 1]);
    assert_eq!(rig.context.silent_errors(), 0);
}

#[test]
fn a_device_without_virtual_memory_says_so() {
    let rig = Rig::with(Schedule::Lazy, DeviceProfile::without_vmm());
    assert!(!rig.context.device().has_virtual_memory());
    assert!(Rig::lazy().context.device().has_virtual_memory());
}

#[test]
fn an_entry_point_that_is_missing_is_named() {
    let profile = DeviceProfile::h200().without("cuMemAddressReserve");
    let rig = Rig::with(Schedule::Lazy, profile);
    assert!(!rig.context.device().has_virtual_memory());
    let refused = AddressRange::reserve(&rig.context, PAGE, 0).unwrap_err();
    assert!(matches!(&refused, Error::MissingEntryPoint(missing)
        if missing.name == "cuMemAddressReserve"));
    assert!(refused.to_string().contains("cuMemAddressReserve"));
}

#[test]
fn pinned_memory_waits_for_the_copies_that_use_it() {
    let rig = Rig::lazy();
    let (a, block) = (rig.stream(), rig.block());
    let mut pinned = PinnedMemory::allocate(&rig.context, 128).unwrap();
    assert_eq!(pinned.as_slice().unwrap(), [0; 128]);
    pinned.as_mut_slice().unwrap()[..64].fill(5);
    let there = a.copy_from_pinned(&block.span, 0, &pinned, 0..64).unwrap();
    assert!(!a.order().is_complete(there.point()), "the host ran ahead");
    assert_eq!(pinned.as_slice().unwrap()[0], 5, "reading beside a reader needs no wait");
    assert!(!a.order().is_complete(there.point()));
    pinned.as_mut_slice().unwrap().fill(6);
    assert!(a.order().is_complete(there.point()), "writing waits for it");
    let back = a.copy_to_pinned(&mut pinned, 64..128, &block.span, 0).unwrap();
    assert!(!a.order().is_complete(back.point()));
    assert_eq!(pinned.as_slice().unwrap()[64..], [5; 64]);
    assert!(a.order().is_complete(back.point()));
    let last = a.copy_to_pinned(&mut pinned, 0..64, &block.span, 0).unwrap();
    drop(pinned);
    assert!(a.order().is_complete(last.point()), "so does freeing");
}

#[test]
fn parts_outside_are_refused_without_a_call() {
    let rig = Rig::lazy();
    let (a, block) = (rig.stream(), rig.block());
    let pinned = PinnedMemory::allocate(&rig.context, 16).unwrap();
    let calls = rig.machine.call_count();
    assert!(a.fill_bytes(&block.span, 4090, 7, 0).is_err());
    assert!(a.fill_words(&block.span, 0, u64::MAX, 0).is_err());
    assert!(a.copy_to_device(&block.span, u64::MAX, &[0; 2]).is_err());
    assert!(a.copy_from_pinned(&block.span, 0, &pinned, 8..17).is_err());
    assert!(a.copy_on_device(&block.span, 0, &block.span, 4096, 1).is_err());
    assert_eq!(rig.machine.call_count(), calls);
}

/// Was: memory that was given back by name in a host function was lost.
#[test]
fn l3_memory_released_in_a_host_function_is_freed_by_the_next_call() {
    let rig = Rig::lazy();
    let stream = rig.stream();
    let memory = DeviceMemory::allocate(&rig.context, PAGE).unwrap();
    let physical = PhysicalMemory::create(&rig.context, PAGE).unwrap();
    let range = AddressRange::reserve(&rig.context, PAGE, 0).unwrap();
    let (sender, receiver) = std::sync::mpsc::channel();
    let release =
        move || sender.send([memory.release(), physical.release(), range.release()]).unwrap();
    stream.launch_host_function(release).unwrap();
    stream.synchronize().unwrap();
    assert_eq!(receiver.recv().unwrap(), [Ok(()), Ok(()), Ok(())]);
    rig.context.memory_info().unwrap();
    assert_eq!(rig.machine.used_bytes(), 0);
    assert_eq!(rig.calls("cuMemAddressFree"), 1);
    assert_eq!(rig.context.silent_errors(), 0);
}
