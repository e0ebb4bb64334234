//! Real traces over the model.

use std::path::Path;

use replay::{Mode, Plan, Uses};
use trace::pytorch::{ReadOptions, read_file};

use crate::sound::run_sound;

fn check(name: &str, deferred_frees: usize, prolonged: usize) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces");
    let file = folder.join(format!("{name}.pickle.zst"));
    let snapshot = read_file(&file, &ReadOptions::default(), None).unwrap();
    let chosen = snapshot.trace(None).unwrap();
    let operations = chosen.operations();
    let plan = Plan::new(&operations, Uses::Recorded);
    assert_eq!((plan.deferred_free_count, plan.prolonged_count), (deferred_frees, prolonged));
    let (outcome, model) = run_sound(&operations, Uses::Recorded, Mode::Verified);
    assert_eq!((outcome.stamps.wrong, outcome.overlap_count), (0, 0));
    assert!(0 < outcome.stamps.checked);
    assert_eq!(model.opened.len(), plan.gate_count);
    assert!(plan.lane_count <= 3, "{} lanes", plan.lane_count);
    let peaks = chosen.summary(&operations).peaks;
    assert_eq!(outcome.figures.peak_pending_bytes, peaks.pending_bytes);
    assert_eq!(outcome.figures.peak_active_bytes, peaks.active_bytes);
    assert_eq!(outcome.figures.peak_allocated_bytes, peaks.allocated_bytes);
}

#[test]
fn side_stream_defers_399_frees() {
    check("side_stream", 399, 0);
}

#[test]
fn seven_streams_defer_theirs() {
    check("streams", 491, 0);
}

#[test]
fn a_trace_that_lost_its_beginning_is_served() {
    check("graphs", 0, 0);
}
