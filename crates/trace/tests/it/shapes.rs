//! What a snapshot may leave out, what it may add, and how the rest is refused.

use std::path::PathBuf;

use trace::pytorch::{
    Action, BlockState, ReadError, ReadOptions, SegmentKind, StreamHandle, read_file,
};

use crate::pickle::{Filling, Py, block, entry, pickle, pickle_with, read_bytes, refusal};
use crate::pickle::{segment, snapshot};

fn small() -> Py {
    snapshot(
        vec![segment(
            4096,
            2 << 20,
            7,
            vec![
                block(4096, 1024, 1000, "active_allocated"),
                block(5120, 512, 512, "active_pending_free"),
                block(5632, 512, 100, "active_awaiting_free"),
                block(6144, (2 << 20) - 2048, 0, "inactive"),
            ],
        )],
        vec![vec![
            entry("segment_alloc", 4096, 2 << 20, 7),
            entry("alloc", 4096, 1000, 7),
            entry("alloc", 5120, 512, 7),
            entry("alloc", 5632, 100, 7),
            entry("free_requested", 5120, 512, 7),
            entry("free_requested", 5632, 100, 7),
        ]],
    )
}

#[test]
fn a_small_snapshot_is_read_as_written() {
    let snapshot = read_bytes(&pickle(&small())).unwrap();
    let segment = &snapshot.segments[0];
    assert_eq!((segment.address, segment.total_bytes), (4096, 2 << 20));
    assert_eq!((segment.kind, segment.stream), (SegmentKind::Large, StreamHandle(7)));
    let states: Vec<_> = segment.blocks.iter().map(|block| block.state).collect();
    let pending = BlockState::PendingFree;
    assert_eq!(states, [BlockState::Allocated, pending, pending, BlockState::Inactive]);
    let entry = snapshot.device_traces[0][1];
    assert_eq!((entry.action, entry.address, entry.bytes), (Action::Alloc, 4096, 1000));
    assert_eq!(snapshot.allocator_settings, None);
}

#[test]
fn containers_filled_one_by_one_read_the_same() {
    let batched = read_bytes(&pickle(&small())).unwrap();
    let single = read_bytes(&pickle_with(&small(), Filling::Single)).unwrap();
    assert_eq!(batched, single);
}

#[test]
fn keys_may_come_in_two_batches_and_twice() {
    let mut opcodes = b"}(\x8c\x06action\x8c\x05alloc\x8c\x04sizeK\x01u".to_vec();
    opcodes.extend(b"(\x8c\x04sizeK\x02\x8c\x04addrM\x00\x10\x8c\x06streamK\x03u");
    let bytes = pickle(&snapshot(vec![], vec![vec![Py::Raw(opcodes)]]));
    let entry = read_bytes(&bytes).unwrap().device_traces[0][0];
    assert_eq!((entry.address, entry.bytes, entry.stream), (4096, 2, StreamHandle(3)));
}

#[test]
fn block_addresses_may_be_left_out() {
    let bare =
        |size| Py::Dict(vec![("size", Py::Int(size)), ("state", Py::Text("active_allocated"))]);
    let bytes = pickle(&snapshot(
        vec![segment(4096, 2048, 0, vec![bare(512), bare(1536)])],
        vec![vec![entry("alloc", 4096, 1, 0)]],
    ));
    let snapshot = read_bytes(&bytes).unwrap();
    let second = snapshot.segments[0].blocks[1];
    assert_eq!((second.address, second.bytes, second.requested_bytes), (4608, 1536, 1536));
}

#[test]
fn unknown_keys_are_passed_over() {
    let Py::Dict(mut pairs) = entry("alloc", 4096, 10, 0) else { unreachable!() };
    pairs.push(("mood", Py::List(vec![Py::Dict(vec![("line", Py::Int(3))])])));
    let Py::Dict(mut top) = snapshot(vec![], vec![vec![Py::Dict(pairs)]]) else { unreachable!() };
    top.push(("extra", Py::Bool(true)));
    let mut read = read_bytes(&pickle(&Py::Dict(top))).unwrap();
    assert_eq!(std::mem::take(&mut read.passed_over_count), 1, "those of entries do not count");
    let plain = read_bytes(&pickle(&snapshot(vec![], vec![vec![entry("alloc", 4096, 10, 0)]])));
    assert_eq!(read, plain.unwrap());
}

#[test]
fn one_device_is_picked_out_of_several() {
    let on_device_1 = Py::Dict(vec![
        ("device", Py::Int(1)),
        ("address", Py::Int(8192)),
        ("total_size", Py::Int(512)),
    ]);
    let bytes = pickle(&snapshot(
        vec![segment(4096, 1024, 0, vec![]), on_device_1],
        vec![vec![], vec![entry("segment_alloc", 8192, 512, 0)], vec![]],
    ));
    let snapshot = read_bytes(&bytes).unwrap();
    let trace = snapshot.trace(None).unwrap();
    assert_eq!((trace.device(), trace.segments().count()), (1, 1));
    let summary = trace.summary(&trace.operations());
    assert_eq!(summary.recorded_peak_reserved_bytes, 512);
    let message = |device| snapshot.trace(Some(device)).unwrap_err().to_string();
    assert_eq!(message(0), "has no trace of device 0; device 1 has one");
    assert_eq!(message(3), "has no device 3: its `device_traces` cover 3 devices, from 0 on");
}

#[test]
fn no_history_names_the_call_that_records_one() {
    for traces in [vec![], vec![vec![]], vec![vec![], vec![]]] {
        let snapshot = read_bytes(&pickle(&snapshot(vec![], traces))).unwrap();
        let error = snapshot.trace(None).unwrap_err();
        assert!(matches!(error, ReadError::NoHistory));
        assert!(error.to_string().contains("torch.cuda.memory._record_memory_history()"));
    }
}

#[test]
fn what_is_missing_is_named() {
    let only = |key| pickle(&Py::Dict(vec![(key, Py::List(vec![]))]));
    assert!(refusal(&only("device_traces")).ends_with("the snapshot has no `segments`"));
    let with_entry = |entry| pickle(&snapshot(vec![], vec![vec![], vec![entry]]));
    let alloc = ("action", Py::Text("alloc"));
    let address = ("addr", Py::Int(1));
    let message = refusal(&with_entry(Py::Dict(vec![alloc.clone(), address])));
    assert!(message.ends_with("device_traces[1][0] has no `size`"), "{message}");
    let message = refusal(&with_entry(Py::Dict(vec![alloc])));
    assert!(message.ends_with("device_traces[1][0] has no `addr`"), "{message}");
    let message = refusal(&with_entry(Py::Dict(vec![])));
    assert!(message.ends_with("device_traces[1][0] has no `action`"), "{message}");
    let block = Py::Dict(vec![("size", Py::Int(1))]);
    let message = refusal(&pickle(&snapshot(vec![segment(0, 1, 0, vec![block])], vec![])));
    assert!(message.ends_with("segments[0].blocks[0] has no `state`"), "{message}");
}

#[test]
fn negative_and_absurd_numbers_are_named_with_their_place() {
    let second =
        |entry| pickle(&snapshot(vec![], vec![vec![self::entry("alloc", 0, 1, 0), entry]]));
    let message = refusal(&second(entry("alloc", 512, -5, 0)));
    assert!(message.ends_with("device_traces[0][1], key `size`: -5 is negative"), "{message}");
    let message = refusal(&second(entry("free_requested", -1, 5, 0)));
    assert!(message.ends_with("device_traces[0][1], key `addr`: -1 is negative"), "{message}");
    let message = refusal(&second(entry("segment_alloc", 0, 1 << 60, 0)));
    assert!(message.contains("key `size`: 1152921504606846976 is above"), "{message}");
    let message = refusal(&pickle(&snapshot(vec![segment(0, -1, 0, vec![])], vec![])));
    assert!(message.ends_with("segments[0], key `total_size`: -1 is negative"), "{message}");
    let blocks = vec![block(0, 1, -9, "inactive")];
    let message = refusal(&pickle(&snapshot(vec![segment(0, 1, 0, blocks)], vec![])));
    assert!(message.contains("blocks[0], key `requested_size`: -9"), "{message}");
}

#[test]
fn a_failed_request_may_be_larger_than_any_device() {
    let failed = Py::Dict(vec![
        ("action", Py::Text("oom")),
        ("device_free", Py::Int(99)),
        ("size", Py::Int(1 << 59)),
    ]);
    let snapshot = read_bytes(&pickle(&snapshot(vec![], vec![vec![failed]]))).unwrap();
    let entry = snapshot.device_traces[0][0];
    assert_eq!((entry.action, entry.address, entry.bytes), (Action::OutOfMemory, 99, 1 << 59));
}

#[test]
fn wrong_types_are_named() {
    let odd = |key, value| {
        let Py::Dict(mut pairs) = entry("alloc", 4096, 10, 0) else { unreachable!() };
        pairs.push((key, value));
        refusal(&pickle(&snapshot(vec![], vec![vec![Py::Dict(pairs)]])))
    };
    let place = "device_traces[0][0], key";
    let message = odd("size", Py::Text("ten"));
    assert!(message.contains(&format!("{place} `size`: expected an integer")), "{message}");
    let huge = Py::Raw([&[0x8a, 9][..], &[0xff; 8], &[1]].concat());
    let message = odd("addr", huge);
    assert!(message.contains(&format!("{place} `addr`: expected an integer")), "{message}");
    let message = odd("action", Py::Int(1));
    assert!(message.contains(&format!("{place} `action`: expected a text")), "{message}");
    let blocks = vec![block(0, 1, 1, "resting")];
    let message = refusal(&pickle(&snapshot(vec![segment(0, 1, 0, blocks)], vec![])));
    assert!(message.contains("key `state`: expected active_allocated"), "{message}");
    let text = refusal(&pickle(&Py::Text("no")));
    assert!(text.contains("its pickle is a text") && text.contains("_dump_snapshot"), "{text}");
    let traces = Py::Dict(vec![("segments", Py::List(vec![])), ("device_traces", Py::Int(1))]);
    assert!(refusal(&pickle(&traces)).ends_with("key `device_traces`: expected a list"));
}

#[test]
fn an_integer_may_be_longer_than_its_value_needs() {
    let long = |bytes: &[u8]| {
        let opcodes = [&[0x8a, u8::try_from(bytes.len()).unwrap()], bytes].concat();
        let Py::Dict(mut pairs) = entry("alloc", 4096, 10, 0) else { unreachable!() };
        pairs.push(("stream", Py::Raw(opcodes)));
        let bytes = pickle(&snapshot(vec![], vec![vec![Py::Dict(pairs)]]));
        read_bytes(&bytes).map(|snapshot| snapshot.device_traces[0][0].stream.0)
    };
    assert_eq!(long(&[]).unwrap(), 0);
    assert_eq!(long(&[5]).unwrap(), 5);
    assert_eq!(long(&[0xff]).unwrap(), u64::MAX);
    assert_eq!(long(&[5, 0, 0, 0, 0, 0, 0, 0, 0, 0]).unwrap(), 5);
    assert_eq!(long(&[0xfe, 255, 255, 255, 255, 255, 255, 255, 255]).unwrap(), u64::MAX - 1);
    assert!(long(&[0, 0, 0, 0, 0, 0, 0, 0x80, 0]).is_err());
}

#[test]
fn what_is_no_file_of_ours_is_told_apart() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let open = |path: PathBuf| read_file(&path, &ReadOptions::default(), None).unwrap_err();
    assert!(matches!(open(folder.join("no-such-file")), ReadError::NotFound));
    assert!(matches!(open(folder.clone()), ReadError::Folder));
    let empty = folder.join("empty.pickle");
    std::fs::write(&empty, b"").unwrap();
    assert!(matches!(open(empty), ReadError::Empty));
    for (bytes, expected) in [
        (&b"PK\x03\x04 and more"[..], "is a zip archive"),
        (b"BZh91AY&SY", "bzip2"),
        (b"{\"a\": 1}", "JSON"),
        (b"(lp0\n.", "does not begin with a pickle protocol"),
        (b"\x80\x09....", "unknown protocol"),
        (b"plain text", "does not begin with a pickle protocol"),
    ] {
        let message = refusal(bytes);
        assert!(message.starts_with("is not a PyTorch memory snapshot"), "{message}");
        assert!(message.contains(expected), "{message}");
    }
}

/// Was: frames in a tuple were passed over, where Python sees no difference.
#[test]
fn frames_in_a_tuple_are_a_stack_as_those_in_a_list() {
    let frame = Py::Dict(vec![
        ("filename", Py::Text("train.py")),
        ("line", Py::Int(7)),
        ("name", Py::Text("step")),
    ]);
    let with = |frames: Py| {
        let Py::Dict(mut pairs) = entry("alloc", 4096, 10, 0) else { unreachable!() };
        pairs.push(("frames", frames));
        read_bytes(&pickle(&snapshot(vec![], vec![vec![Py::Dict(pairs)]]))).unwrap()
    };
    let listed = with(Py::List(vec![frame.clone()]));
    assert!(listed.device_traces[0][0].stack.is_some());
    assert_eq!(with(Py::Tuple(vec![frame])), listed);
}
