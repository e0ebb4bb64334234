//! The recorded traces in `traces/`, against numbers counted independently with Python.

use std::path::PathBuf;

use trace::pytorch::{Action, DeviceTrace, ReadOptions, Snapshot, StreamHandle, read_file};
use trace::{Operation, Operations, Summary};

const MIB: u64 = 1 << 20;

pub(crate) fn path(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../traces");
    folder.join(format!("{name}.pickle.zst"))
}

fn load(name: &str) -> Snapshot {
    read_file(&path(name), &ReadOptions::default(), None).unwrap()
}

/// What is known of a trace.
struct Known {
    name: &'static str,
    entries: usize,
    allocations: usize,
    streams: usize,
    recorded_peak_mib: u64,
    allocated_bytes: u64,
    active_bytes: u64,
    pending_bytes: u64,
    page_floor_bytes: u64,
    deferred: usize,
    never: usize,
    initial_blocks: usize,
}

const PLAIN: Known = Known {
    name: "",
    entries: 0,
    allocations: 0,
    streams: 1,
    recorded_peak_mib: 0,
    allocated_bytes: 0,
    active_bytes: 0,
    pending_bytes: 0,
    page_floor_bytes: 0,
    deferred: 0,
    never: 0,
    initial_blocks: 0,
};

#[track_caller]
fn check(known: &Known) -> (Snapshot, Operations, Summary) {
    let snapshot = load(known.name);
    assert_eq!(snapshot.unknown_actions, []);
    let trace = snapshot.trace(None).unwrap();
    let operations = trace.operations();
    let summary = trace.summary(&operations);
    assert_eq!(summary.entry_count, known.entries, "entries");
    assert_eq!(summary.counts.alloc, known.allocations, "allocations");
    assert_eq!(summary.streams.len(), known.streams, "streams");
    assert_eq!(summary.recorded_peak_reserved_bytes, known.recorded_peak_mib * MIB, "reserved");
    assert_eq!(summary.peaks.allocated_bytes, known.allocated_bytes, "allocated");
    assert_eq!(summary.peaks.active_bytes, known.active_bytes, "active");
    assert_eq!(summary.peaks.pending_bytes, known.pending_bytes, "pending");
    assert_eq!(summary.peaks.page_floor_bytes, known.page_floor_bytes, "page floor");
    assert_eq!(summary.deferred_free_count, known.deferred, "deferred");
    assert_eq!(operations.never_completed_count, known.never, "never completed");
    assert_eq!(operations.initial_block_count, known.initial_blocks, "initial blocks");
    assert_eq!(summary.lost_beginning, 0 < known.initial_blocks);
    assert_eq!(operations.block_count, known.allocations + known.initial_blocks);
    assert_eq!((operations.unmatched_count, operations.overwritten_count), (0, 0));
    check_against_segments(&trace, &operations);
    (snapshot, operations, summary)
}

/// What the operations leave in use at the end is what the segments show there.
#[track_caller]
fn check_against_segments(trace: &DeviceTrace<'_>, operations: &Operations) {
    let mut sizes = vec![0; operations.block_count];
    let (mut allocated, mut active) = (0, 0);
    for operation in &operations.list {
        match *operation {
            Operation::Allocate { block, bytes, .. } => {
                sizes[block.index()] = bytes;
                allocated += bytes;
                active += bytes;
            }
            Operation::Free { block, deferred } => {
                allocated -= sizes[block.index()];
                active -= if deferred { 0 } else { sizes[block.index()] };
            }
            Operation::Complete { block } => active -= sizes[block.index()],
            Operation::OutOfMemory { .. } => {}
        }
    }
    let sum_where = |pending_too: bool| -> u64 {
        let blocks = trace.segments().flat_map(|segment| &segment.blocks);
        blocks
            .filter(|block| match block.state {
                trace::pytorch::BlockState::Allocated => true,
                trace::pytorch::BlockState::PendingFree => pending_too,
                trace::pytorch::BlockState::Inactive => false,
            })
            .map(|block| block.requested_bytes)
            .sum()
    };
    assert_eq!(allocated, sum_where(false), "allocated at the end");
    assert_eq!(active, sum_where(true), "active at the end");
}

#[test]
fn gpt_train() {
    let (snapshot, operations, summary) = check(&Known {
        name: "gpt_train",
        entries: 103_989,
        allocations: 34_603,
        recorded_peak_mib: 20_618,
        allocated_bytes: 13_168_382_976,
        active_bytes: 13_168_382_976,
        page_floor_bytes: 13_591_956_768,
        ..PLAIN
    });
    assert_eq!(summary.recorded_peak_reserved_bytes, 21_619_539_968);
    assert_eq!(summary.peaks.allocated_requested_bytes, 13_168_356_160);
    assert_eq!(summary.counts.segment_alloc, snapshot.segments.len());
    assert_eq!(operations.list.len(), 34_603 + 34_600);
    assert_eq!(summary.duration_us, 7_144_256);
    let settings = snapshot.allocator_settings.unwrap();
    assert_eq!(settings.configuration.as_deref(), Some(""));
    assert_eq!(settings.expandable_segments, Some(false));
    assert_eq!(settings.max_split_bytes, None);
    assert_eq!(settings.roundup_power2_divisions.len(), 16);
}

#[test]
fn gnn_train() {
    let (_, _, summary) = check(&Known {
        name: "gnn_train",
        entries: 37_743,
        allocations: 12_570,
        recorded_peak_mib: 10_684,
        allocated_bytes: 4_378_587_136,
        active_bytes: 4_378_587_136,
        page_floor_bytes: 4_386_509_704,
        ..PLAIN
    });
    assert_eq!(summary.peaks.page_floor_bytes / MIB, 4_183);
}

#[test]
fn expandable() {
    let (snapshot, _, summary) = check(&Known {
        name: "expandable",
        entries: 63_094,
        allocations: 21_007,
        recorded_peak_mib: 3_482,
        allocated_bytes: 3_567_502_848,
        active_bytes: 3_567_502_848,
        page_floor_bytes: 3_598_159_912,
        ..PLAIN
    });
    assert_eq!((summary.counts.segment_map, summary.counts.segment_unmap), (139, 4));
    assert!(snapshot.segments.iter().all(|segment| segment.is_expandable));
    assert_eq!(snapshot.allocator_settings.unwrap().expandable_segments, Some(true));
}

#[test]
fn graphs() {
    let (snapshot, _, summary) = check(&Known {
        name: "graphs",
        entries: 4_313,
        allocations: 1_457,
        streams: 3,
        recorded_peak_mib: 1_126,
        allocated_bytes: 750_864_384,
        active_bytes: 750_864_384,
        page_floor_bytes: 780_304_400,
        ..PLAIN
    });
    assert_eq!(summary.final_reserved_bytes, 803_209_216);
    assert_eq!(summary.counts.segment_free, 13);
    assert_eq!(summary.streams.first(), Some(&StreamHandle(0)));
    assert!(snapshot.segments.iter().any(|segment| segment.pool_id != (0, 0)));
}

#[test]
fn a_trace_that_lost_its_beginning_starts_from_the_final_segments() {
    let (snapshot, operations, summary) = check(&Known {
        name: "oom_frames",
        entries: 20_000,
        allocations: 6_515,
        recorded_peak_mib: 3_056,
        allocated_bytes: 3_170_992_128,
        active_bytes: 3_170_992_128,
        page_floor_bytes: 3_182_592_000,
        initial_blocks: 149,
        ..PLAIN
    });
    assert_eq!(summary.initial_reserved_bytes, 2_604_662_784);
    assert_eq!(operations.initial_operation_count, 149);
    assert_eq!(operations.initial_pending_count, 0);
    assert_eq!(summary.counts.out_of_memory, 1);
    let failed = operations.list.iter().filter(|operation| {
        matches!(operation, Operation::OutOfMemory { bytes, .. } if *bytes == 192_151_552)
    });
    let entry = *snapshot.device_traces[0]
        .iter()
        .find(|entry| entry.action == Action::OutOfMemory)
        .unwrap();
    assert_eq!((failed.count(), entry.bytes), (1, 192_151_552));
}

#[test]
fn side_stream_defers_399_frees() {
    let (_, operations, summary) = check(&Known {
        name: "side_stream",
        entries: 5_355,
        allocations: 1_802,
        streams: 4,
        recorded_peak_mib: 11_744,
        allocated_bytes: 301_010_944,
        active_bytes: 11_615_735_808,
        pending_bytes: 11_457_560_576,
        page_floor_bytes: 301_992_012,
        deferred: 399,
        never: 302,
        ..PLAIN
    });
    assert_eq!(summary.peaks.active_bytes / MIB, 11_077);
    let completed = |operation: &&Operation| matches!(operation, Operation::Complete { .. });
    assert_eq!(operations.list.iter().filter(completed).count(), 399 - 302);
}

#[test]
fn streams_uses_seven() {
    check(&Known {
        name: "streams",
        entries: 1_791,
        allocations: 607,
        streams: 7,
        recorded_peak_mib: 1_870,
        allocated_bytes: 459_350_016,
        active_bytes: 1_585_233_920,
        pending_bytes: 1_276_051_456,
        page_floor_bytes: 467_664_896,
        deferred: 491,
        never: 75,
        ..PLAIN
    });
}

#[test]
fn progress_ends_at_the_size_of_the_file() {
    let path = path("gpt_train");
    let mut seen = Vec::new();
    let mut progress = |done, total| seen.push((done, total));
    read_file(&path, &ReadOptions::default(), Some(&mut progress)).unwrap();
    let bytes = std::fs::metadata(&path).unwrap().len();
    assert_eq!(seen.last(), Some(&(bytes, bytes)));
    assert!(2 < seen.len() && seen.is_sorted(), "{seen:?}");
}
