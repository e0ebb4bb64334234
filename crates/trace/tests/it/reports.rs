//! What users of snapshots reported, as tests named after what went wrong (`docs/reports.md`).

use std::path::PathBuf;

use trace::Beginning;
use trace::pytorch::{Action, BlockState, ReadError, ReadOptions, Snapshot, read, read_file};

use crate::pickle::{Py, block, entry, pickle, pickle_as, read_bytes, refusal, segment, snapshot};
use crate::real_traces::path;

fn frames(line: i64) -> Py {
    Py::List(vec![Py::Dict(vec![
        ("name", Py::Text("f")),
        ("filename", Py::Text("train.py")),
        ("line", Py::Int(line)),
    ])])
}

fn with(base: Py, more: Vec<(&'static str, Py)>) -> Py {
    let Py::Dict(mut pairs) = base else { unreachable!("only dictionaries are added to") };
    pairs.extend(more);
    Py::Dict(pairs)
}

/// From pytorch/pytorch #183842: one snapshot, written with every protocol that there is.
#[test]
fn every_protocol_reads_the_same() {
    let entries: Vec<_> = (0..300)
        .map(|number| {
            let action = if number % 2 == 0 { "alloc" } else { "free_completed" };
            let pool = Py::Tuple(vec![Py::Int(0), Py::Int(number / 100)]);
            with(
                entry(action, 4096 + number / 2, 100, 0),
                vec![("frames", frames(number % 7)), ("pool_id", pool)],
            )
        })
        .collect();
    let blocks = vec![with(block(4096, 512, 100, "inactive"), vec![("frames", frames(3))])];
    let value = snapshot(vec![segment(4096, 512, 0, blocks)], vec![entries]);
    let plain = read_bytes(&pickle(&value)).unwrap();
    assert_eq!(plain.device_traces[0].len(), 300);
    assert_eq!(plain.stacks.count(), 7);
    assert_eq!(plain.device_traces[0][299].pool.map(|it| plain.pools.get(it)), Some((0, 2)));
    for (protocol, is_framed) in
        [(2, false), (3, false), (4, false), (4, true), (5, false), (5, true)]
    {
        let read = read_bytes(&pickle_as(&value, protocol, is_framed)).unwrap();
        assert!(read == plain, "protocol {protocol}, framed: {is_framed}");
    }
    for protocol in [0, 1, 6, 9] {
        let message = refusal(&pickle_as(&value, protocol, false));
        assert!(message.contains("a pickle of an unknown protocol"), "{message}");
    }
}

/// From pytorch/pytorch PR #176290 and PR #178670: memory stays within four times the file, of
/// which the decompressed bytes themselves are not kept, and frames are stored once.
#[test]
fn a_long_trace_with_stacks_needs_little_memory() {
    let bytes = crate::generated::snapshot(100_000);
    let memory_bytes_max = 3 * u64::try_from(bytes.len()).unwrap();
    let options = ReadOptions { memory_bytes_max, ..ReadOptions::default() };
    let snapshot = read(&bytes[..], 0, &options, None).unwrap();
    assert_eq!(snapshot.device_traces[0].len(), 100_000);
    assert_eq!((snapshot.stacks.count(), snapshot.stacks.frame_count()), (250, 500));
    // The limit is one: a tenth of it does not do.
    let options = ReadOptions { memory_bytes_max: memory_bytes_max / 30, ..options };
    let error = read(&bytes[..], 0, &options, None).unwrap_err();
    assert!(matches!(error, ReadError::TooMuchMemory { .. }), "{error:?}");
}

fn beginning(snapshot: &Snapshot) -> (Beginning, usize) {
    let trace = snapshot.trace(None).unwrap();
    let summary = trace.summary(&trace.operations());
    assert!(summary.initial_reserved_bytes <= summary.recorded_peak_reserved_bytes);
    assert!(summary.peaks.allocated_bytes <= summary.peaks.active_bytes);
    (summary.beginning, summary.unmatched_count)
}

/// From pytorch/pytorch PR #179276 and PR #179491: frees of what nobody saw allocated, and blocks
/// in use that nobody saw allocated either.
#[test]
fn a_trace_without_its_beginning_says_why() {
    let earlier = |more| with(block(4096, 512, 100, "active_allocated"), more);
    let recorded = |more| with(block(8192, 512, 100, "active_allocated"), more);
    let entries = || {
        vec![
            entry("free_requested", 12_288, 100, 0),
            entry("free_completed", 12_288, 100, 0),
            entry("segment_free", 1 << 30, 1 << 20, 0),
            entry("alloc", 8192, 100, 0),
        ]
    };
    let stack = || vec![("frames", frames(1))];
    let made = |blocks, flags: Option<bool>| {
        let base = snapshot(vec![segment(4096, 12_288, 0, blocks)], vec![entries()]);
        let flags = flags.map(|flag| ("trace_alloc_overflowed", Py::List(vec![Py::Bool(flag)])));
        beginning(&read_bytes(&pickle(&with(base, flags.into_iter().collect()))).unwrap())
    };
    let bare = || vec![earlier(vec![]), recorded(vec![])];
    assert_eq!(made(bare(), None), (Beginning::Lost, 0));
    assert_eq!(made(bare(), Some(true)), (Beginning::Overflowed, 0));
    assert_eq!(made(bare(), Some(false)), (Beginning::StartedLate, 0));
    let with_stacks = vec![earlier(stack()), recorded(stack())];
    assert_eq!(made(with_stacks, None), (Beginning::Overflowed, 0));
    let late = vec![earlier(vec![]), recorded(stack())];
    assert_eq!(made(late, None), (Beginning::StartedLate, 0));

    let whole = read_file(&path("gpt_train"), &ReadOptions::default(), None).unwrap();
    assert_eq!(beginning(&whole), (Beginning::Complete, 0));
    let ring = read_file(&path("oom_frames"), &ReadOptions::default(), None).unwrap();
    assert_eq!(beginning(&ring), (Beginning::Overflowed, 0));
}

/// From the same: two frees of one block are one too many, and make no total negative.
#[test]
fn frees_that_match_nothing_are_counted() {
    let entries = vec![
        entry("alloc", 4096, 100, 0),
        entry("free", 4096, 100, 0),
        entry("free", 4096, 100, 0),
        entry("free_completed", 4096, 100, 0),
        entry("segment_free", 1 << 30, 1 << 20, 0),
        entry("segment_free", 1 << 30, 1 << 20, 0),
    ];
    let snapshot = read_bytes(&pickle(&snapshot(vec![], vec![entries]))).unwrap();
    let trace = snapshot.trace(None).unwrap();
    let summary = trace.summary(&trace.operations());
    assert_eq!(summary.unmatched_count, 2);
    assert_eq!((summary.final_reserved_bytes, summary.initial_reserved_bytes), (0, 2 << 20));
}

/// From NVIDIA-NeMo/Megatron-Bridge PR #3487: recording was never turned on.
#[test]
fn a_snapshot_without_history_shows_its_segments_and_says_what_to_call() {
    let blocks = || vec![block(4096, 512, 100, "active_allocated")];
    let segments = || vec![segment(4096, 512, 0, blocks())];
    let absent = Py::Dict(vec![("segments", Py::List(segments()))]);
    let alone = Py::List(segments());
    for value in [absent, alone, snapshot(segments(), vec![]), snapshot(segments(), vec![vec![]])] {
        let snapshot = read_bytes(&pickle(&value)).unwrap();
        assert_eq!(snapshot.segments[0].blocks[0].requested_bytes, 100);
        let message = snapshot.trace(None).unwrap_err().to_string();
        assert!(message.starts_with("has no trace"), "{message}");
        assert!(message.contains("torch.cuda.memory._record_memory_history()"), "{message}");
    }
}

/// From the reference reader of pytorch/pytorch, `torch/cuda/_memory_viz.py`: blocks of every
/// generation, and actions of none.
#[test]
fn blocks_of_every_generation_are_read() {
    let past = |real: i64, line| {
        Py::Dict(vec![("addr", Py::Int(1)), ("real_size", Py::Int(real)), ("frames", frames(line))])
    };
    let bare = |size| vec![("size", Py::Int(size)), ("state", Py::Text("active_allocated"))];
    let made = |more| with(Py::Dict(bare(512)), more);
    let no_frames = Py::Dict(vec![("real_size", Py::Int(30))]);
    let blocks = vec![
        made(vec![("history", Py::List(vec![past(10, 1)]))]),
        made(vec![("history", Py::List(vec![past(20, 2), past(400, 3)]))]),
        made(vec![("history", Py::List(vec![no_frames]))]),
        made(vec![("history", Py::List(vec![]))]),
        made(vec![("requested_size", Py::Int(40)), ("frames", frames(4))]),
        made(vec![]),
    ];
    let value = snapshot(vec![segment(4096, 3072, 0, blocks)], vec![]);
    let snapshot = read_bytes(&pickle(&value)).unwrap();
    let blocks = &snapshot.segments[0].blocks;
    let requested: Vec<_> = blocks.iter().map(|block| block.requested_bytes).collect();
    assert_eq!(requested, [10, 20, 30, 512, 40, 512]);
    let line = |stack| snapshot.stacks.frames(stack).map(|frame| frame.line).sum::<u32>();
    let lines: Vec<_> = blocks.iter().map(|block| block.stack.map_or(0, line)).collect();
    assert_eq!(lines, [1, 2, 0, 0, 4, 0]);
    let addresses: Vec<_> = blocks.iter().map(|block| block.address).collect();
    assert_eq!(addresses, [4096, 4608, 5120, 5632, 6144, 6656]);
    assert!(blocks.iter().all(|block| block.state == BlockState::Allocated));
}

/// From the same: an action of tomorrow stops nobody, and an `oom` has no address.
#[test]
fn actions_of_every_generation_are_read() {
    let failed = Py::Dict(vec![
        ("action", Py::Text("oom")),
        ("device_free", Py::Int(99)),
        ("size", Py::Int(512)),
        ("stream", Py::Int(0)),
    ]);
    let entries = vec![
        entry("segment_map", 4096, 2 << 20, 0),
        entry("snapshot", 0, 0, 0),
        entry("compact", 4096, 7, 0),
        failed,
        entry("segment_unmap", 4096, 2 << 20, 0),
    ];
    let snapshot = read_bytes(&pickle(&snapshot(vec![], vec![entries]))).unwrap();
    let actions: Vec<_> = snapshot.device_traces[0].iter().map(|entry| entry.action).collect();
    let map = [Action::SegmentMap, Action::Snapshot, Action::Other(0)];
    assert_eq!(actions[..3], map);
    assert_eq!(actions[3..], [Action::OutOfMemory, Action::SegmentUnmap]);
    assert_eq!(snapshot.unknown_actions, [("compact".to_owned(), 1)]);
}

/// The page names every test in here, and no other.
#[test]
fn the_page_of_reports_names_these_tests() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = std::fs::read_to_string(root.join("docs/reports.md")).unwrap();
    let own = include_str!("reports.rs");
    let mut told: Vec<_> = page
        .lines()
        .filter_map(|line| line.strip_suffix("` in crates/trace |")?.rsplit_once("`reports::"))
        .map(|(_, name)| name)
        .collect();
    let after_test = own.split("#[test]\nfn ").skip(1);
    let mut here: Vec<_> = after_test.filter_map(|text| Some(text.split_once('(')?.0)).collect();
    here.retain(|name| *name != "the_page_of_reports_names_these_tests");
    told.sort_unstable();
    here.sort_unstable();
    assert_eq!(told, here);
}
