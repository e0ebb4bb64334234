//! Buffers: what they hold, and that every operation counts its use by itself.

use cuda_sim::FaultPlan;
use cuda_sys::CUresult;
use streams::CaptureMode;

use super::Rig;
use crate::{DeviceBuffer, DeviceCopy, Error, PinnedBuffer};

fn check_round_trip<T: DeviceCopy + PartialEq + std::fmt::Debug>(rig: &Rig, values: &[T]) {
    let mut buffer = DeviceBuffer::from_slice(&rig.runtime, &rig.home, values).unwrap();
    assert_eq!(buffer.to_vec(&rig.home).unwrap(), values);
    assert_eq!(buffer.len(), values.len());
    assert_eq!(buffer.bytes(), u64::try_from(size_of_val(values)).unwrap());

    let mut copy = DeviceBuffer::zeroed(&rig.runtime, &rig.home, values.len()).unwrap();
    assert_eq!(copy.to_vec(&rig.home).unwrap(), vec![T::zeroed(); values.len()]);
    let _queued = copy.copy_from(&rig.home, &buffer).unwrap();
    assert_eq!(copy.to_vec(&rig.home).unwrap(), values);

    let Some(&value) = values.last() else { return };
    let _queued = buffer.fill(&rig.home, value).unwrap();
    assert_eq!(buffer.to_vec(&rig.home).unwrap(), vec![value; values.len()]);
}

#[test]
fn values_come_back_as_they_went() {
    let rig = Rig::new();
    check_round_trip(&rig, &[1_u8, 2, 3]);
    check_round_trip(&rig, &[-1_i16, 300, 7]);
    check_round_trip(&rig, &[0.5_f32, -2.25]);
    check_round_trip(&rig, &[1.1_f64, -2.2, 3.3]);
    check_round_trip(&rig, &[[1_u8, 2, 3], [4, 5, 6]]);
    check_round_trip(&rig, &(0..100_000_u64).collect::<Vec<_>>());
    check_round_trip::<u32>(&rig, &[]);
}

#[test]
fn an_empty_buffer_has_no_memory_and_every_operation() {
    let rig = Rig::new();
    let mut empty = DeviceBuffer::<f32>::new(&rig.runtime, &rig.home, 0).unwrap();
    let mut pinned = PinnedBuffer::<f32>::new(&rig.runtime, 0).unwrap();
    assert!(empty.is_empty() && pinned.is_empty());
    assert_eq!((empty.address(), empty.bytes()), (0, 0));
    empty.fill(&rig.home, 1.0).unwrap().wait().unwrap();
    empty.copy_from_pinned(&rig.home, &pinned).unwrap().wait().unwrap();
    empty.copy_to_pinned(&rig.home, &mut pinned).unwrap().wait().unwrap();
    assert_eq!(pinned.as_slice().unwrap(), [0.0; 0]);
    assert_eq!(rig.runtime.stats().reserved_bytes.peak, 0);
}

#[test]
fn other_lengths_are_refused_before_any_call() {
    let rig = Rig::new();
    let mut buffer = DeviceBuffer::<u32>::zeroed(&rig.runtime, &rig.home, 4).unwrap();
    let longer = DeviceBuffer::<u32>::zeroed(&rig.runtime, &rig.home, 5).unwrap();
    let calls = rig.runtime.machine().unwrap().call_count();
    let refused = Err(Error::Length { expected: 4, found: 3 });
    assert_eq!(buffer.copy_from_slice(&rig.home, &[1; 3]), refused);
    assert_eq!(buffer.copy_to_slice(&rig.home, &mut [1; 3]), refused);
    let error = buffer.copy_from(&rig.home, &longer).unwrap_err();
    assert_eq!(error, Error::Length { expected: 4, found: 5 });
    let error = DeviceBuffer::<u64>::new(&rig.runtime, &rig.home, usize::MAX).unwrap_err();
    assert_eq!(error, Error::TooLong { len: usize::MAX, element_bytes: 8 });
    assert_eq!(rig.runtime.machine().unwrap().call_count(), calls);
}

#[test]
fn pinned_memory_is_read_after_the_copy_into_it() {
    let rig = Rig::new();
    let mut staged = PinnedBuffer::<u32>::new(&rig.runtime, 1000).unwrap();
    staged.as_mut_slice().unwrap().fill(7);
    let mut buffer = DeviceBuffer::<u32>::new(&rig.runtime, &rig.home, 1000).unwrap();
    let _copied = buffer.copy_from_pinned(&rig.home, &staged).unwrap();
    let mut back = PinnedBuffer::<u32>::new(&rig.runtime, 1000).unwrap();
    let _copied = buffer.copy_to_pinned(&rig.home, &mut back).unwrap();
    assert_eq!(rig.calls("cuEventSynchronize") + rig.calls("cuStreamSynchronize"), 0);
    assert_eq!(back.as_slice().unwrap(), [7; 1000]);
    staged.as_mut_slice().unwrap().fill(8);
    assert_eq!(buffer.to_vec(&rig.home).unwrap(), [7; 1000]);
}

/// Frees a buffer right after `use_it` queued something on the other stream, behind a gate; then
/// asks for as much again. Without a use the same memory would be given.
fn check_use_is_counted(use_it: impl Fn(&Rig, &mut DeviceBuffer<u32>)) {
    let rig = Rig::new();
    let mut buffer = DeviceBuffer::<u32>::zeroed(&rig.runtime, &rig.home, 1 << 20).unwrap();
    rig.other.wait_stream(&rig.home).unwrap();
    let gates = rig.kernels.gates(1).unwrap();
    let _closed = gates.close(&rig.other, 0).unwrap();
    use_it(&rig, &mut buffer);
    let address = buffer.address();
    drop(buffer);
    assert_eq!(rig.pending(), 4 << 20);
    let again = DeviceBuffer::<u32>::zeroed(&rig.runtime, &rig.home, 1 << 20).unwrap();
    assert_ne!(again.address(), address);

    gates.open_all();
    rig.other.synchronize().unwrap();
    let reused = DeviceBuffer::<u32>::zeroed(&rig.runtime, &rig.home, 1 << 20).unwrap();
    assert_eq!(reused.address(), address);
    assert_eq!(rig.pending(), 0);
}

#[test]
fn every_operation_on_another_stream_counts_its_use() {
    check_use_is_counted(|rig, buffer| drop(buffer.fill(&rig.other, 3).unwrap()));
    check_use_is_counted(|rig, buffer| {
        let mut target = DeviceBuffer::<u32>::new(&rig.runtime, &rig.other, 1 << 20).unwrap();
        drop(target.copy_from(&rig.other, &*buffer).unwrap());
    });
    check_use_is_counted(|rig, buffer| {
        drop(rig.kernels.fill_u32(&rig.other, buffer, 3).unwrap());
    });
    check_use_is_counted(|rig, buffer| {
        let mut counter = DeviceBuffer::<u64>::zeroed(&rig.runtime, &rig.other, 1).unwrap();
        drop(rig.kernels.check_u32(&rig.other, buffer, 0, &mut counter).unwrap());
    });
    check_use_is_counted(|rig, buffer| buffer.record_stream(&rig.other));
    check_use_is_counted(|rig, buffer| drop(buffer.record_use(&rig.other)));
}

#[test]
fn a_launch_is_a_use_until_it_is_done_and_no_longer() {
    let check = |whole_stream: bool| {
        let rig = Rig::new();
        let mut buffer = DeviceBuffer::<u32>::zeroed(&rig.runtime, &rig.home, 1 << 20).unwrap();
        rig.other.wait_stream(&rig.home).unwrap();
        let used = rig.kernels.fill_u32(&rig.other, &mut buffer, 5).unwrap();
        let gates = rig.kernels.gates(1).unwrap();
        let _closed = gates.close(&rig.other, 0).unwrap();
        if whole_stream {
            buffer.record_stream(&rig.other);
        }
        used.wait().unwrap();
        drop(buffer);
        let pending = rig.pending();
        gates.open_all();
        pending
    };
    assert_eq!(check(false), 0);
    assert_eq!(check(true), 4 << 20);
}

#[test]
fn a_refused_operation_is_no_use() {
    let rig = Rig::new();
    let mut buffer = DeviceBuffer::<u32>::zeroed(&rig.runtime, &rig.home, 1024).unwrap();
    let machine = rig.runtime.machine().unwrap();
    machine.fail(FaultPlan::next("cuMemsetD32Async", CUresult::CUDA_ERROR_INVALID_VALUE));
    let error = buffer.fill(&rig.other, 0x0102_0304).unwrap_err();
    assert!(error.to_string().contains("cuMemsetD32Async"), "{error}");
    drop(buffer);
    assert_eq!(rig.runtime.stats().deferred_free_total, 0);
    assert_eq!(rig.pending(), 0);
}

#[test]
fn c3_a_graph_keeps_the_buffers_it_uses() {
    let rig = Rig::new();
    let mut total = DeviceBuffer::<u32>::zeroed(&rig.runtime, &rig.home, 1 << 20).unwrap();
    let mut scratch = DeviceBuffer::<u32>::zeroed(&rig.runtime, &rig.home, 1 << 20).unwrap();
    let address = scratch.address();
    let capture = rig.home.begin_capture(CaptureMode::ThreadLocal).unwrap();
    let _captured = scratch.fill(&rig.home, 9).unwrap();
    let _captured = total.copy_from(&rig.home, &scratch).unwrap();
    let exec = capture.end().unwrap().instantiate().unwrap();
    drop(scratch);
    let other = DeviceBuffer::<u32>::new(&rig.runtime, &rig.home, 1 << 20).unwrap();
    assert_ne!(other.address(), address);

    let _replayed = exec.launch(&rig.home).unwrap();
    assert_eq!(total.to_vec(&rig.home).unwrap(), vec![9; 1 << 20]);
    assert_eq!(rig.pending(), 4 << 20);
    drop(exec);
    rig.runtime.synchronize().unwrap();
    assert_eq!(rig.pending(), 0);
    let reused = DeviceBuffer::<u32>::new(&rig.runtime, &rig.home, 1 << 20).unwrap();
    assert_eq!(reused.address(), address);
}

#[test]
fn a_free_on_its_home_stream_makes_no_call_and_is_served_again() {
    let rig = Rig::new();
    let make = || DeviceBuffer::<u32>::new(&rig.runtime, &rig.home, 1000).unwrap();
    let address = make().address();
    let calls = rig.runtime.machine().unwrap().call_count();
    for _ in 0..100 {
        assert_eq!(make().address(), address);
    }
    assert_eq!(rig.runtime.machine().unwrap().call_count(), calls);
}

#[test]
fn a_buffer_outlives_its_stream_and_is_freed_on_any_thread() {
    let rig = Rig::new();
    let stream = rig.runtime.create_stream().unwrap();
    let buffer = DeviceBuffer::<u32>::zeroed(&rig.runtime, &stream, 1000).unwrap();
    drop(stream);
    assert!(buffer.home().stream().is_none());
    std::thread::scope(|scope| scope.spawn(move || buffer.free().unwrap()).join()).unwrap();
    assert_eq!(rig.runtime.stats().allocated_bytes.current, 0);
}

#[test]
fn a_graph_dropped_while_it_replays_keeps_nothing_for_good() {
    let rig = Rig::new();
    let machine = rig.runtime.machine().unwrap().clone();
    let mut buffer = DeviceBuffer::<u32>::zeroed(&rig.runtime, &rig.home, 1 << 20).unwrap();
    let capture = rig.home.begin_capture(CaptureMode::ThreadLocal).unwrap();
    let _captured = buffer.fill(&rig.home, 9).unwrap();
    let exec = capture.end().unwrap().instantiate().unwrap();
    let _replayed = exec.launch(&rig.home).unwrap();
    drop((exec, buffer));
    drop(rig);
    assert_eq!(machine.used_bytes(), 0);
}
