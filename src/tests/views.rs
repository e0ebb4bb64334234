//! Views, moves and loans: what they hold, and that none of them lets memory go too early.

use streams::CaptureMode;

use super::Rig;
use crate::{AllocError, DeviceBuffer, Error, PinnedBuffer, simulated};

const LEN: usize = 1 << 20;

fn numbers(rig: &Rig, len: u32) -> DeviceBuffer<u32> {
    let values: Vec<u32> = (0..len).collect();
    DeviceBuffer::from_slice(&rig.runtime, &rig.home, &values).unwrap()
}

#[test]
fn a_view_is_its_part_of_the_buffer() {
    let rig = Rig::new();
    let mut buffer = numbers(&rig, 10);
    assert_eq!(buffer.view(..).unwrap().to_vec(&rig.home).unwrap().len(), 10);
    assert_eq!(buffer.view(2..=4).unwrap().to_vec(&rig.home).unwrap(), [2, 3, 4]);
    let inner = buffer.view(2..8).unwrap().view(1..3).unwrap();
    assert_eq!(inner.to_vec(&rig.home).unwrap(), [3, 4]);
    assert_eq!(inner.address(), buffer.address() + 12);
    let (low, high) = buffer.as_view().split_at(9).unwrap();
    assert_eq!((low.len(), high.len(), high.bytes()), (9, 1, 4));
    let mut part = buffer.view_mut(1..3).unwrap();
    part.copy_from_slice(&rig.home, &[70, 71]).unwrap();
    let (mut low, mut high) = buffer.split_at_mut(5).unwrap();
    low.fill(&rig.home, 1).unwrap();
    high.copy_from(&rig.home, &low).unwrap();
    low.reborrow().view_mut(0..1).unwrap().fill(&rig.home, 9).unwrap();
    assert_eq!(low.as_view().to_vec(&rig.home).unwrap(), [9, 1, 1, 1, 1]);
    assert_eq!(buffer.to_vec(&rig.home).unwrap(), [9, 1, 1, 1, 1, 1, 1, 1, 1, 1]);
}

#[test]
fn a_range_beyond_the_end_is_refused_and_named() {
    let rig = Rig::new();
    let mut buffer = numbers(&rig, 4);
    let refused = |start, end| Error::OutOfBounds { start, end, len: 4 };
    assert_eq!(buffer.view(3..5).unwrap_err(), refused(3, 5));
    assert_eq!(buffer.view_mut(5..).unwrap_err(), refused(5, 4));
    assert_eq!(buffer.split_at_mut(9).unwrap_err(), refused(0, 9));
    assert_eq!(buffer.view(0..=usize::MAX).unwrap_err(), refused(0, usize::MAX));
    assert!(buffer.view(4..).unwrap().is_empty());
}

#[test]
fn bytes_are_taken_for_another_type_only_where_they_are_whole() {
    let rig = Rig::new();
    let mut buffer = DeviceBuffer::from_slice(&rig.runtime, &rig.home, &[1_u16, 0, 2, 0]).unwrap();
    assert_eq!(buffer.as_view().cast::<u32>().unwrap().to_vec(&rig.home).unwrap(), [1, 2]);
    let mut words = buffer.as_view_mut().cast_mut::<u32>().unwrap();
    words.fill(&rig.home, 0x0003_0004).unwrap();
    assert_eq!(buffer.to_vec(&rig.home).unwrap(), [4, 3, 4, 3]);
    let odd = buffer.view(1..3).unwrap();
    let (address, alignment) = (odd.address(), 4);
    let refused = Error::Cast { address, bytes: 4, element_bytes: 4, alignment };
    assert_eq!(odd.cast::<u32>().unwrap_err(), refused);
    let long = buffer.view(..3).unwrap().cast::<u32>().unwrap_err();
    assert!(matches!(long, Error::Cast { bytes: 6, .. }), "{long}");
    assert_eq!(buffer.view(..3).unwrap().cast::<u8>().unwrap().len(), 6);
    assert!(buffer.as_view().cast::<()>().is_err(), "no number of nothings has bytes");
}

#[test]
fn a_fill_of_a_view_stays_inside_it() {
    let rig = Rig::new();
    for (from, to) in [(0, 5), (1, 2), (1, 4), (2, 5), (0, 4), (3, 5)] {
        let mut buffer = DeviceBuffer::<u16>::zeroed(&rig.runtime, &rig.home, 5).unwrap();
        buffer.view_mut(from..to).unwrap().fill(&rig.home, 0x0102).unwrap();
        let expected = (0..5).map(|at| if (from..to).contains(&at) { 0x0102 } else { 0 });
        assert!(buffer.to_vec(&rig.home).unwrap().into_iter().eq(expected), "{from}..{to}");
    }
}

#[test]
fn pinned_memory_and_kernels_take_views() {
    let rig = Rig::new();
    let mut buffer = DeviceBuffer::<u32>::zeroed(&rig.runtime, &rig.home, 8).unwrap();
    let mut pinned = PinnedBuffer::<u32>::new(&rig.runtime, 3).unwrap();
    pinned.as_mut_slice().unwrap().copy_from_slice(&[5, 6, 7]);
    buffer.view_mut(2..5).unwrap().copy_from_pinned(&rig.home, &pinned).unwrap();
    buffer.view(1..4).unwrap().copy_to_pinned(&rig.home, &mut pinned).unwrap();
    assert_eq!(pinned.as_slice().unwrap(), [0, 5, 6]);
    rig.kernels.fill_u32(&rig.home, &mut buffer.view_mut(6..).unwrap(), 3).unwrap();
    let (mut low, high) = buffer.split_at_mut(4).unwrap();
    rig.kernels.copy_u32(&rig.home, &mut low, &high).unwrap();
    assert_eq!(buffer.to_vec(&rig.home).unwrap(), [7, 0, 3, 3, 7, 0, 3, 3]);
}

/// Queues something on the other stream behind a gate by `use_it`, then frees the buffer and asks
/// for as much; true if the same memory was given while the gate was closed.
fn is_reused_too_early(use_it: impl FnOnce(&Rig, DeviceBuffer<u32>)) -> bool {
    let rig = Rig::new();
    let buffer = DeviceBuffer::<u32>::zeroed(&rig.runtime, &rig.home, LEN).unwrap();
    rig.other.wait_stream(&rig.home).unwrap();
    let gates = rig.kernels.gates(1).unwrap();
    let _closed = gates.close(&rig.other, 0).unwrap();
    let address = buffer.address();
    use_it(&rig, buffer);
    let again = DeviceBuffer::<u32>::new(&rig.runtime, &rig.home, LEN).unwrap();
    let reused = again.address() == address;
    gates.open_all();
    rig.runtime.synchronize().unwrap();
    reused
}

#[test]
fn a_use_of_a_view_is_a_use_of_the_whole_block() {
    assert!(is_reused_too_early(|_, buffer| drop(buffer)), "the control: nobody used it");
    assert!(!is_reused_too_early(|rig, mut buffer| {
        buffer.view_mut(7..9).unwrap().fill(&rig.other, 3).unwrap();
    }));
    assert!(!is_reused_too_early(|rig, buffer| {
        let mut target = DeviceBuffer::<u32>::new(&rig.runtime, &rig.other, 2).unwrap();
        target.copy_from(&rig.other, buffer.view(7..9).unwrap()).unwrap();
    }));
    assert!(!is_reused_too_early(|rig, buffer| buffer
        .view(..1)
        .unwrap()
        .record_stream(&rig.other)));
    assert!(!is_reused_too_early(|rig, buffer| {
        drop(buffer.view(..1).unwrap().record_use(&rig.other));
    }));
}

#[test]
fn o13_a_loan_is_a_use_until_it_ends_and_a_forgotten_one_until_the_free() {
    let end_early = |rig: &Rig, buffer: DeviceBuffer<u32>| drop(buffer.lend(&rig.other).unwrap());
    assert!(!is_reused_too_early(end_early));
    assert!(!is_reused_too_early(|rig, mut buffer| {
        #[expect(clippy::mem_forget, reason = "what a program may do")]
        std::mem::forget(buffer.lend_mut(&rig.other).unwrap());
    }));
    let check = |forgotten: bool| {
        let rig = Rig::new();
        let buffer = DeviceBuffer::<u32>::zeroed(&rig.runtime, &rig.home, LEN).unwrap();
        let lent = buffer.lend(&rig.other).unwrap();
        if forgotten {
            #[expect(clippy::mem_forget, reason = "what a program may do")]
            std::mem::forget(lent);
        } else {
            drop(lent);
        }
        let gates = rig.kernels.gates(1).unwrap();
        let _closed = gates.close(&rig.other, 0).unwrap();
        drop(buffer);
        let pending = rig.pending();
        gates.open_all();
        pending
    };
    assert_eq!(check(false), 0, "what came after the loan has nothing to do with it");
    assert_eq!(check(true), 4 << 20, "time is lost, and nothing else");
}

/// Was: a loan was given, and a block moved, to a stream that takes no more work, where a wait for
/// its users was refused.
#[test]
fn a_retired_stream_takes_no_loan_no_buffer_and_no_wait() {
    let rig = Rig::new();
    let mut buffer = DeviceBuffer::<u32>::zeroed(&rig.runtime, &rig.home, LEN).unwrap();
    let gone = streams::Error::StreamGone { stream: rig.other.id() };
    drop(buffer.view(..).unwrap().lend(&rig.other).unwrap());
    rig.other.synchronize().unwrap();
    rig.other.retire();
    let told = |refused: Error| refused.to_string().contains(&gone.to_string());
    assert!(told(buffer.view(..).unwrap().lend(&rig.other).unwrap_err()));
    assert!(told(buffer.view_mut(..).unwrap().lend_mut(&rig.other).unwrap_err()));
    assert_eq!(buffer.block().begin_use(&rig.other).unwrap_err(), gone);
    assert!(told(buffer.wait_all_users(&rig.other).unwrap_err()));
    rig.home.synchronize().unwrap();
    assert!(told(buffer.move_to(&rig.other).unwrap_err()), "though nothing is to be waited for");
    drop(buffer);
    assert_eq!(rig.runtime.stats().pending_bytes.current, 0, "a refused loan kept the memory");
}

#[test]
#[expect(clippy::mem_forget, reason = "what a program may do")]
fn l29_whatever_guard_is_forgotten_the_memory_is_not_reused_early() {
    // A hold that is never dropped keeps the block for good.
    assert!(!is_reused_too_early(|_, buffer| std::mem::forget(buffer.hold())));
    // A use that was announced and never made exact is the whole stream.
    assert!(!is_reused_too_early(|rig, buffer| {
        std::mem::forget(buffer.block().begin_use(&rig.other).unwrap());
    }));
    // Tokens, views and exact uses guard nothing.
    assert!(!is_reused_too_early(|rig, mut buffer| {
        std::mem::forget(buffer.view_mut(..2).unwrap().fill(&rig.other, 1).unwrap());
    }));
    assert!(!is_reused_too_early(|rig, buffer| std::mem::forget(buffer.record_use(&rig.other))));
    // A buffer that is forgotten is never freed.
    assert!(!is_reused_too_early(|_, buffer| std::mem::forget(buffer)));
}

#[test]
#[expect(clippy::mem_forget, reason = "what a program may do")]
fn l29_a_forgotten_capture_or_graph_keeps_what_it_uses() {
    let rig = Rig::new();
    let stream = rig.runtime.create_stream().unwrap();
    let mut buffer = DeviceBuffer::<u32>::zeroed(&rig.runtime, &rig.home, LEN).unwrap();
    stream.wait_stream(&rig.home).unwrap();
    let address = buffer.address();
    let capture = stream.begin_capture(CaptureMode::Relaxed).unwrap();
    buffer.fill(&stream, 1).unwrap();
    std::mem::forget(capture.end().unwrap().instantiate().unwrap());
    drop(buffer);
    rig.runtime.synchronize().unwrap();
    let other = DeviceBuffer::<u32>::zeroed(&rig.runtime, &rig.home, LEN).unwrap();
    assert_ne!(other.address(), address);
}

#[test]
#[expect(clippy::mem_forget, reason = "what a program may do")]
fn l29_a_capture_that_is_forgotten_before_its_end_keeps_what_it_uses() {
    let rig = Rig::new();
    let stream = rig.runtime.create_stream().unwrap();
    let mut buffer = DeviceBuffer::<u32>::zeroed(&rig.runtime, &rig.home, LEN).unwrap();
    rig.home.synchronize().unwrap();
    let address = buffer.address();
    let capture = stream.begin_capture(CaptureMode::Relaxed).unwrap();
    buffer.fill(&stream, 1).unwrap();
    std::mem::forget(capture);
    drop(buffer);
    let other = DeviceBuffer::<u32>::new(&rig.runtime, &rig.home, LEN).unwrap();
    assert_ne!(other.address(), address);
    assert_eq!(rig.pending(), 4 << 20, "held by a capture that goes on");
}

#[test]
#[expect(clippy::mem_forget, reason = "what a program may do")]
fn l29_forgotten_pinned_memory_is_never_given_back_under_a_copy() {
    let rig = Rig::new();
    let mut buffer = DeviceBuffer::<u32>::zeroed(&rig.runtime, &rig.home, LEN).unwrap();
    let mut pinned = PinnedBuffer::<u32>::new(&rig.runtime, LEN).unwrap();
    pinned.as_mut_slice().unwrap().fill(4);
    std::mem::forget(buffer.copy_from_pinned(&rig.home, &pinned).unwrap());
    std::mem::forget(pinned);
    assert_eq!(buffer.to_vec(&rig.home).unwrap(), vec![4; LEN]);
    assert_eq!(rig.calls("cuMemFreeHost"), 0);
}

#[test]
fn a_moved_buffer_is_ready_on_its_new_home_and_freed_there() {
    let rig = Rig::new();
    let mut buffer = DeviceBuffer::<u32>::zeroed(&rig.runtime, &rig.home, LEN).unwrap();
    let address = buffer.address();
    buffer.fill(&rig.home, 7).unwrap();
    buffer.move_to(&rig.other).unwrap();
    assert_eq!(buffer.home().id(), rig.other.id());
    let calls = rig.runtime.machine().unwrap().call_count();
    buffer.move_to(&rig.other).unwrap();
    assert_eq!(rig.runtime.machine().unwrap().call_count(), calls, "it is there already");
    // The other stream waits for the fill by itself, and what it queues is no foreign use.
    let mut copy = DeviceBuffer::<u32>::new(&rig.runtime, &rig.other, LEN).unwrap();
    copy.copy_from(&rig.other, &buffer).unwrap();
    drop(buffer);
    let next = DeviceBuffer::<u32>::new(&rig.runtime, &rig.other, LEN).unwrap();
    assert_eq!(next.address(), address, "its new home is served first, at once");
    assert_eq!(copy.to_vec(&rig.other).unwrap(), vec![7; LEN]);
}

#[test]
fn the_old_home_of_a_moved_buffer_is_a_stream_like_any_other() {
    let check = |use_again: bool| {
        let rig = Rig::new();
        let mut buffer = DeviceBuffer::<u32>::zeroed(&rig.runtime, &rig.home, LEN).unwrap();
        let address = buffer.address();
        buffer.move_to(&rig.other).unwrap();
        let gates = rig.kernels.gates(1).unwrap();
        let _closed = gates.close(&rig.home, 0).unwrap();
        if use_again {
            buffer.fill(&rig.home, 1).unwrap();
        }
        drop(buffer);
        let next = DeviceBuffer::<u32>::new(&rig.runtime, &rig.other, LEN).unwrap();
        let reused = next.address() == address;
        gates.open_all();
        rig.runtime.synchronize().unwrap();
        reused
    };
    assert!(check(false));
    assert!(!check(true));
}

#[test]
fn a_buffer_moves_there_and_back_and_to_a_stream_after_its_home_is_gone() {
    let rig = Rig::new();
    let first = rig.runtime.create_stream().unwrap();
    let mut buffer = DeviceBuffer::<u32>::zeroed(&rig.runtime, &first, LEN).unwrap();
    for stream in [&rig.other, &first, &rig.other, &first] {
        buffer.move_to(stream).unwrap();
        buffer.fill(stream, 5).unwrap();
    }
    drop(first);
    buffer.move_to(&rig.other).unwrap();
    assert_eq!(buffer.to_vec(&rig.other).unwrap(), vec![5; LEN]);
}

#[test]
fn br_08_a_move_to_a_strange_stream_is_refused_and_changes_nothing() {
    let (rig, strange) = (Rig::new(), simulated(crate::Simulation::default()).unwrap());
    let foreign = strange.create_stream().unwrap();
    let mut buffer = numbers(&rig, 4);
    let refused = buffer.move_to(&foreign).unwrap_err();
    let expected = AllocError::ForeignStream { stream_id: foreign.id() };
    assert_eq!(refused, Error::Alloc(expected));
    let refused = buffer.lend(&foreign).unwrap_err();
    assert_eq!(refused, Error::Stream(streams::Error::OtherDriver));
    buffer.fill(&rig.home, 6).unwrap();
    let capture = rig.home.begin_capture(CaptureMode::Relaxed).unwrap();
    let capturing = Error::Stream(streams::Error::Capturing { stream: rig.home.id() });
    assert_eq!(buffer.lend(&rig.home).unwrap_err(), capturing);
    let moved = buffer.move_to(&rig.other).unwrap_err();
    assert!(matches!(moved, Error::Alloc(AllocError::Driver(_))), "{moved}");
    drop(capture);
    assert_eq!(buffer.home().id(), rig.home.id());
    assert_eq!(buffer.to_vec(&rig.home).unwrap(), [6; 4]);
}
