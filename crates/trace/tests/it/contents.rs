//! Everything a snapshot holds besides numbers, and the ways in which versions of PyTorch differ.

use trace::pytorch::{
    Action, BlockState, Frame, ReadOptions, Snapshot, Stage, StreamHandle, read_file,
};

use crate::pickle::{Py, block, entry, pickle, read_bytes, segment, snapshot};
use crate::real_traces::path;

fn read_top(pairs: Vec<(&'static str, Py)>) -> Snapshot {
    read_bytes(&pickle(&Py::Dict(pairs))).unwrap()
}

fn with(base: Py, more: Vec<(&'static str, Py)>) -> Py {
    let Py::Dict(mut pairs) = base else { unreachable!("only dictionaries are added to") };
    pairs.extend(more);
    Py::Dict(pairs)
}

fn frame(file: &'static str, line: i64, name: &'static str) -> Py {
    Py::Dict(vec![("name", Py::Text(name)), ("filename", Py::Text(file)), ("line", Py::Int(line))])
}

#[test]
fn frames_are_stored_once_and_read_innermost_first() {
    let snapshot = read_file(&path("oom_frames"), &ReadOptions::default(), None).unwrap();
    let entries = &snapshot.device_traces[0];
    assert_eq!((snapshot.stacks.count(), snapshot.stacks.frame_count()), (22, 30));
    assert_eq!(entries.iter().filter(|entry| entry.stack.is_some()).count(), 10_701);
    let frames: Vec<_> = snapshot.stacks.frames(entries[0].stack.unwrap()).collect();
    let adam = "site-packages/torch/optim/adam.py";
    assert_eq!(frames.len(), 8);
    assert_eq!(frames[0], Frame { file: adam, line: 791, name: "_multi_tensor_adam" });
    assert_eq!(frames[7], Frame { file: "train.py", line: 21, name: "<module>" });
    assert!(entries.iter().all(|entry| entry.metadata.is_none()));
    assert!(entries.iter().all(|entry| entry.compile_context.is_none() && entry.pool.is_none()));

    assert_eq!(snapshot.annotations.len(), 288);
    let (first, last) = (snapshot.annotations[0], snapshot.annotations[287]);
    assert_eq!((first.stage, first.device), (Stage::Start, Some(0)));
    assert_eq!((first.time_us, last.time_us), (1_795_973_458_141_822, 1_795_973_461_180_279));
    assert_eq!(snapshot.texts.get(first.name), "Optimizer.step#AdamW.step");
    assert_eq!(snapshot.texts.get(last.name), "Optimizer.zero_grad#AdamW.zero_grad");
}

#[test]
fn blocks_have_frames_where_no_entry_has() {
    let snapshot = read_file(&path("graphs"), &ReadOptions::default(), None).unwrap();
    assert_eq!((snapshot.stacks.count(), snapshot.stacks.frame_count()), (9, 17));
    let blocks = snapshot.segments.iter().flat_map(|segment| &segment.blocks);
    assert!(blocks.filter(|block| block.stack.is_some()).count() > 0);
    assert!(snapshot.device_traces[0].iter().all(|entry| entry.stack.is_none()));
}

#[test]
fn equal_stacks_have_one_number_and_others_have_theirs() {
    let stack = |line| Py::List(vec![frame("a.py", line, "f"), frame("b.py", 2, "g")]);
    let at = |line| with(entry("alloc", 4096, 10, 0), vec![("frames", stack(line))]);
    let entries = vec![at(1), at(3), at(1), entry("alloc", 0, 1, 0)];
    let held = with(segment(0, 1, 0, vec![]), vec![("frames", stack(3))]);
    let snapshot = read_bytes(&pickle(&snapshot(vec![held], vec![entries]))).unwrap();
    let stacks: Vec<_> = snapshot.device_traces[0].iter().map(|entry| entry.stack).collect();
    assert_eq!(stacks[0], stacks[2]);
    assert_ne!(stacks[0], stacks[1]);
    assert_eq!(stacks[3], None);
    assert_eq!(snapshot.segments[0].stack, stacks[1]);
    assert_eq!((snapshot.stacks.count(), snapshot.stacks.frame_count()), (2, 3));
    let lines = |stack| snapshot.stacks.frames(stack).map(|frame| frame.line).collect::<Vec<_>>();
    assert_eq!(lines(stacks[1].unwrap()), [3, 2]);
}

#[test]
fn frames_may_lack_anything_and_be_no_utf8() {
    let odd = Py::Raw(b"}(\x8c\x08filename\x8c\x03\xffpyu".to_vec());
    let accents = frame("módulo/été.py", i64::from(u32::MAX) + 1, "naïve");
    let frames = Py::List(vec![Py::Dict(vec![]), odd, accents, Py::Int(3)]);
    let at = with(entry("alloc", 4096, 10, 0), vec![("frames", frames)]);
    let snapshot = read_bytes(&pickle(&snapshot(vec![], vec![vec![at]]))).unwrap();
    let stack = snapshot.device_traces[0][0].stack.unwrap();
    let frames: Vec<_> = snapshot.stacks.frames(stack).collect();
    assert_eq!(frames[0], Frame { file: "", line: 0, name: "" });
    assert_eq!(frames[1].file, "\u{fffd}py");
    assert_eq!(frames[2], Frame { file: "módulo/été.py", line: 0, name: "naïve" });
    assert_eq!(frames.len(), 3);
}

#[test]
fn metadata_compile_context_and_pool_belong_to_their_entry() {
    let full = with(
        entry("alloc", 4096, 10, 0),
        vec![
            ("user_metadata", Py::Text("step 7")),
            ("compile_context", Py::Text("0/1")),
            ("pool_id", Py::Tuple(vec![Py::Int(0), Py::Int(3)])),
        ],
    );
    let nothing = with(
        entry("alloc", 8192, 10, 0),
        vec![("user_metadata", Py::Text("")), ("compile_context", Py::Text("N/A"))],
    );
    // A text that is a word of the format elsewhere, and values of types that are no text.
    let word = with(entry("alloc", 8192, 10, 0), vec![("user_metadata", Py::Text("free"))]);
    let odd = with(
        entry("alloc", 8192, 10, 0),
        vec![("user_metadata", Py::Dict(vec![])), ("pool_id", Py::Int(3)), ("frames", Py::Int(3))],
    );
    let entries = vec![full, nothing, word, odd];
    let snapshot = read_bytes(&pickle(&snapshot(vec![], vec![entries]))).unwrap();
    let entries = &snapshot.device_traces[0];
    let text = |id| snapshot.texts.get(id);
    assert_eq!(entries[0].metadata.map(text), Some("step 7"));
    assert_eq!(entries[0].compile_context.map(text), Some("0/1"));
    assert_eq!(entries[0].pool.map(|it| snapshot.pools.get(it)), Some((0, 3)));
    assert_eq!((entries[1].metadata, entries[1].compile_context), (None, None));
    assert_eq!(entries[2].metadata.map(text), Some("free"));
    assert_eq!((entries[3].metadata, entries[3].pool, entries[3].stack), (None, None, None));
    assert_eq!(snapshot.texts.count(), 3);
}

#[test]
fn host_memory_is_taken_as_far_as_it_is_there() {
    let segments = vec![
        Py::Dict(vec![
            ("address", Py::Int(1 << 20)),
            ("size", Py::Int(4096)),
            ("allocated_size", Py::Int(512)),
            ("pool_id", Py::Tuple(vec![Py::Int(1), Py::Int(2)])),
            ("frames", Py::List(vec![frame("a.py", 1, "f")])),
        ]),
        Py::Dict(vec![("total_size", Py::Int(-4)), ("mood", Py::Text("good"))]),
        Py::Int(7),
    ];
    let incomplete = Py::Dict(vec![("action", Py::Text("alloc")), ("size", Py::Int(5))]);
    let traces = vec![Py::List(vec![entry("alloc", 4096, 10, 0), incomplete]), Py::List(vec![])];
    let held = read_top(vec![
        ("segments", Py::List(vec![])),
        ("host_segments", Py::List(segments)),
        ("host_traces", Py::List(traces)),
    ]);
    let [first, second] = held.host_segments[..] else { panic!("{:?}", held.host_segments) };
    assert_eq!((first.address, first.bytes, first.allocated_bytes), (1 << 20, 4096, Some(512)));
    assert_eq!((first.active_bytes, first.pool), (None, Some((1, 2))));
    assert_eq!(held.stacks.frames(first.stack.unwrap()).len(), 1);
    assert_eq!((second.address, second.bytes, second.stack), (0, 0, None));
    assert_eq!(held.host_traces.iter().map(Vec::len).collect::<Vec<_>>(), [1, 0]);
    let flat = read_top(vec![
        ("segments", Py::List(vec![])),
        ("host_traces", Py::List(vec![entry("alloc", 4096, 10, 0)])),
    ]);
    assert_eq!(flat.host_traces.iter().map(Vec::len).collect::<Vec<_>>(), [1]);
}

#[test]
fn annotations_may_lack_anything() {
    let annotations = vec![
        Py::Dict(vec![("stage", Py::Text("END")), ("name", Py::Text("step"))]),
        Py::Dict(vec![("stage", Py::Text("PAUSE")), ("device", Py::Int(-1))]),
        Py::Int(1),
    ];
    let snapshot = read_top(vec![
        ("segments", Py::List(vec![])),
        ("external_annotations", Py::List(annotations)),
    ]);
    let [first, second] = snapshot.annotations[..] else { panic!("{:?}", snapshot.annotations) };
    assert_eq!((first.stage, first.device, first.time_us), (Stage::End, None, 0));
    assert_eq!(snapshot.texts.get(first.name), "step");
    assert_eq!((second.stage, second.device), (Stage::Other, None));
    assert_eq!(snapshot.texts.get(second.name), "");
}

#[test]
fn a_list_of_segments_alone_is_a_snapshot() {
    let blocks = vec![block(4096, 512, 100, "active_awaiting_free")];
    let bytes = pickle(&Py::List(vec![segment(4096, 512, 0, blocks)]));
    let snapshot = read_bytes(&bytes).unwrap();
    assert_eq!(snapshot.segments.len(), 1);
    assert_eq!(snapshot.segments[0].blocks[0].state, BlockState::PendingFree);
    assert!(snapshot.device_traces.is_empty());
    assert!(snapshot.trace(None).unwrap_err().to_string().starts_with("has no trace"));
}

#[test]
fn unknown_actions_are_kept_and_counted_by_name() {
    let entries = vec![
        entry("teleport", 4096, -10, 5),
        entry("alloc", 4096, 10, 0),
        Py::Dict(vec![("action", Py::Text("nap"))]),
        entry("teleport", 8192, 10, 0),
        entry("size", 8192, 10, 0),
    ];
    let snapshot = read_bytes(&pickle(&snapshot(vec![], vec![entries]))).unwrap();
    let entries = &snapshot.device_traces[0];
    let counted = [("teleport", 2), ("nap", 1), ("size", 1)];
    assert_eq!(snapshot.unknown_actions, counted.map(|(name, count)| (name.to_owned(), count)));
    let actions: Vec<_> = entries.iter().map(|entry| entry.action).collect();
    let other = Action::Other;
    assert_eq!(actions, [other(0), Action::Alloc, other(1), other(0), other(2)]);
    assert_eq!((entries[0].address, entries[0].bytes), (4096, 0));
    assert_eq!(entries[0].stream, StreamHandle(5));
    let trace = snapshot.trace(None).unwrap();
    let operations = trace.operations();
    assert_eq!((operations.list.len(), trace.summary(&operations).counts.other), (1, 4));
}

#[test]
fn more_unknown_actions_than_are_told_apart_are_still_counted() {
    let entries: Vec<_> = (0..1500_u32)
        .map(|number| {
            let name = format!("action {number:04}");
            let opcodes = [&b"}(\x8c\x06action\x8c\x0b"[..], name.as_bytes(), b"u"].concat();
            Py::Raw(opcodes)
        })
        .collect();
    let snapshot = read_bytes(&pickle(&snapshot(vec![], vec![entries]))).unwrap();
    assert_eq!(snapshot.unknown_actions.len(), 1001);
    assert_eq!(snapshot.unknown_actions[1000], ("(others)".to_owned(), 500));
}

#[test]
fn a_generated_snapshot_reads_as_it_was_meant() {
    let snapshot = read_bytes(&crate::generated::snapshot(2_502)).unwrap();
    let entries = &snapshot.device_traces[0];
    assert_eq!(entries.len(), 2_502);
    assert_eq!((snapshot.stacks.count(), snapshot.stacks.frame_count()), (250, 500));
    let (alloc, free) = (entries[2_500], entries[2_501]);
    assert_eq!((alloc.action, free.action), (Action::Alloc, Action::FreeCompleted));
    assert_eq!((alloc.address, alloc.stack), (free.address, free.stack));
    assert_eq!((alloc.bytes, alloc.time_us), (1 + 1_250 * 7919 % (1 << 20), 1_795_973_458_819_361));
    let frames: Vec<_> = snapshot.stacks.frames(alloc.stack.unwrap()).collect();
    assert_eq!((frames.len(), frames[0].name, frames[0].line), (20, "function_0", 1));
    assert_eq!((frames[19].file, frames[19].line), ("folder/file_1.py", 20));
}

/// Entries hold numbers of pools; the ids behind them are the file's own, however large.
#[test]
fn pools_of_entries_keep_all_64_bits_of_their_ids() {
    let ids = [(0, 1), (1, 0), (i64::MAX, 1 << 32), (0, 1), (-1, i64::MIN), (0, 0), (1, 0)];
    let in_pool = |id: (i64, i64)| {
        let pair = Py::Tuple(vec![Py::Int(id.0), Py::Int(id.1)]);
        with(entry("alloc", 8192, 10, 0), vec![("pool_id", pair)])
    };
    let mut entries: Vec<Py> = ids.iter().copied().map(in_pool).collect();
    entries.push(entry("alloc", 8192, 10, 0));
    let snapshot = read_bytes(&pickle(&snapshot(vec![], vec![entries]))).unwrap();
    let trace = snapshot.trace(None).unwrap();
    let read: Vec<_> = trace.entries().iter().map(|entry| trace.pool_id(entry)).collect();
    let unsigned = |id: (i64, i64)| Some((id.0.cast_unsigned(), id.1.cast_unsigned()));
    let expected: Vec<_> = ids.iter().copied().map(unsigned).chain([None]).collect();
    assert_eq!(read, expected);
    assert_eq!(snapshot.pools.count(), 5);
    assert_eq!(trace.entries()[0].pool, trace.entries()[3].pool);
    assert!(trace.entries()[6].pool.unwrap().index() < snapshot.pools.count());
}

/// Was: a setting that is not a number made a snapshot that does not equal itself; so are written
/// the floats of Python, big end first.
#[test]
fn settings_that_are_no_numbers_are_passed_over() {
    for odd in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let float = Py::Raw([&b"G"[..], &odd.to_be_bytes()].concat());
        let settings = vec![("garbage_collection_threshold", float.clone()), ("a_new_one", float)];
        let snapshot = read_top(vec![
            ("segments", Py::List(vec![])),
            ("allocator_settings", Py::Dict(settings)),
        ]);
        assert_eq!(snapshot, snapshot.clone());
        assert_eq!(snapshot.passed_over_count, 2);
        let settings = snapshot.allocator_settings.unwrap();
        assert_eq!((settings.garbage_collection_threshold, settings.others.len()), (None, 0));
    }
}
