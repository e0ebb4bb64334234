//! Operations from small traces whose answer can be seen at a glance.

use trace::{BlockNumber, Operation, Operations, StreamNumber, page_floor_bytes, rounded_bytes};

use crate::pickle::{Py, block, entry, pickle, read_bytes, segment, snapshot};

fn operations_of(segments: Vec<Py>, entries: Vec<Py>) -> Operations {
    let snapshot = read_bytes(&pickle(&snapshot(segments, vec![entries]))).unwrap();
    snapshot.trace(None).unwrap().operations()
}

fn allocate(block: u32, bytes: u64, stream: u32) -> Operation {
    Operation::Allocate { block: BlockNumber(block), bytes, stream: StreamNumber(stream) }
}

fn free(block: u32) -> Operation {
    Operation::Free { block: BlockNumber(block), deferred: false }
}

fn defer(block: u32) -> Operation {
    Operation::Free { block: BlockNumber(block), deferred: true }
}

fn complete(block: u32) -> Operation {
    Operation::Complete { block: BlockNumber(block) }
}

#[test]
fn an_address_names_its_newest_block() {
    let operations = operations_of(
        vec![],
        vec![
            entry("alloc", 4096, 10, 5),
            entry("free_requested", 4096, 10, 5),
            entry("free_completed", 4096, 10, 5),
            entry("alloc", 4096, 20, 9),
            entry("free", 4096, 20, 9),
        ],
    );
    let expected = [allocate(0, 10, 0), free(0), allocate(1, 20, 1), free(1)];
    assert_eq!(operations.list, expected);
    assert!(!operations.lost_beginning());
}

#[test]
fn a_free_is_deferred_unless_its_own_completion_follows() {
    let operations = operations_of(
        vec![],
        vec![
            entry("alloc", 4096, 10, 0),
            entry("alloc", 8192, 20, 0),
            entry("free_requested", 4096, 10, 0),
            entry("free_requested", 8192, 20, 0),
            entry("free_completed", 8192, 20, 0),
            entry("free_completed", 4096, 10, 0),
        ],
    );
    let expected = [allocate(0, 10, 0), allocate(1, 20, 0), defer(0), free(1), complete(0)];
    assert_eq!(operations.list, expected);
    assert_eq!((operations.deferred_free_count, operations.never_completed_count), (1, 0));
}

#[test]
fn notes_do_not_come_between_a_free_and_its_completion() {
    let note = Py::Dict(vec![("action", Py::Text("annotate"))]);
    let taken = Py::Dict(vec![("action", Py::Text("snapshot")), ("size", Py::Int(5))]);
    let operations = operations_of(
        vec![],
        vec![
            entry("alloc", 4096, 10, 0),
            entry("free_requested", 4096, 10, 0),
            note,
            taken,
            entry("free_completed", 4096, 10, 0),
        ],
    );
    assert_eq!(operations.list, [allocate(0, 10, 0), free(0)]);
}

#[test]
fn a_pending_block_keeps_its_number_when_its_address_is_used_again() {
    let operations = operations_of(
        vec![],
        vec![
            entry("alloc", 4096, 10, 0),
            entry("free_requested", 4096, 10, 0),
            entry("alloc", 4096, 20, 0),
            entry("free_completed", 4096, 10, 0),
            entry("free_requested", 4096, 20, 0),
        ],
    );
    let expected = [allocate(0, 10, 0), defer(0), allocate(1, 20, 0), complete(0), defer(1)];
    assert_eq!(operations.list, expected);
    assert_eq!(operations.never_completed_count, 1);
}

#[test]
fn blocks_from_before_the_trace_come_first() {
    let blocks = vec![
        block(4096, 512, 100, "active_allocated"),
        block(4608, 512, 200, "active_pending_free"),
        block(5120, 512, 300, "inactive"),
    ];
    let operations = operations_of(
        vec![segment(4096, 1536, 3, blocks)],
        vec![
            entry("free_completed", 8192, 40, 6),
            entry("free_requested", 9216, 50, 6),
            entry("free_completed", 9216, 50, 6),
            entry("alloc", 8192, 60, 6),
            entry("free_requested", 8192, 60, 6),
            entry("free_completed", 8192, 60, 6),
        ],
    );
    let expected = [
        allocate(0, 100, 0),
        allocate(1, 200, 0),
        defer(1),
        allocate(2, 40, 1),
        defer(2),
        allocate(3, 50, 1),
        complete(2),
        free(3),
        allocate(4, 60, 1),
        free(4),
    ];
    assert_eq!(operations.list, expected);
    assert!(operations.lost_beginning());
    assert_eq!((operations.initial_block_count, operations.initial_pending_count), (4, 2));
    assert_eq!(operations.initial_operation_count, 6);
    assert_eq!((operations.deferred_free_count, operations.never_completed_count), (0, 1));
}

#[test]
fn peaks_begin_with_what_was_there_and_not_with_how_it_was_set_up() {
    let pending = vec![block(4096, 4096, 4000, "active_pending_free")];
    let bytes = pickle(&snapshot(
        vec![segment(4096, 4096, 0, pending)],
        vec![vec![
            entry("alloc", 8192, 10, 0),
            entry("free_requested", 8192, 10, 0),
            entry("free_completed", 8192, 10, 0),
        ]],
    ));
    let snapshot = read_bytes(&bytes).unwrap();
    let trace = snapshot.trace(None).unwrap();
    let peaks = trace.summary(&trace.operations()).peaks;
    assert_eq!((peaks.allocated_bytes, peaks.pending_bytes), (512, 4096));
    assert_eq!((peaks.active_bytes, peaks.active_requested_bytes), (4608, 4010));
}

#[test]
fn a_recording_without_completions_has_no_deferred_frees() {
    let entries = || vec![entry("alloc", 4096, 10, 0), entry("free_requested", 4096, 10, 0)];
    assert_eq!(operations_of(vec![], entries()).list, [allocate(0, 10, 0), free(0)]);
    let pending = vec![block(4096, 512, 10, "active_pending_free")];
    let operations = operations_of(vec![segment(4096, 512, 0, pending)], entries());
    assert_eq!(operations.list, [allocate(0, 10, 0), defer(0)]);
}

#[test]
fn a_recording_without_requests_frees_at_the_completion() {
    let entries = vec![entry("alloc", 4096, 10, 0), entry("free_completed", 4096, 10, 0)];
    assert_eq!(operations_of(vec![], entries).list, [allocate(0, 10, 0), free(0)]);
}

#[test]
fn contradictions_are_counted_and_left_out() {
    let blocks = vec![block(4096, 512, 10, "active_allocated")];
    let operations = operations_of(
        vec![segment(4096, 512, 0, blocks)],
        vec![entry("alloc", 4096, 20, 0), entry("alloc", 4096, 10, 0)],
    );
    assert_eq!(operations.list, [allocate(0, 20, 0), free(0), allocate(1, 10, 0)]);
    assert_eq!(operations.overwritten_count, 1);
    let operations = operations_of(
        vec![],
        vec![
            entry("alloc", 4096, 10, 0),
            entry("free_requested", 4096, 10, 0),
            entry("free_completed", 4096, 10, 0),
            entry("free_requested", 4096, 10, 0),
            entry("alloc", 4096, 10, 0),
        ],
    );
    assert_eq!(operations.list.len(), 3);
    assert_eq!(operations.unmatched_count, 1);
}

#[test]
fn sizes_round_as_documented() {
    let rounded = [0, 1, 512, 513, u64::MAX].map(rounded_bytes);
    assert_eq!(rounded, [512, 512, 512, 1024, u64::MAX]);
    let mib = 1 << 20;
    let floors = [0, 5, mib, mib + 1, 2 * mib, 2 * mib + 1, u64::MAX].map(page_floor_bytes);
    assert_eq!(floors, [0, 5, mib, 2 * mib, 2 * mib, 4 * mib, u64::MAX]);
}
