//! The report's fields, and what its table says.

use std::time::Duration;

use crate::engine::Outcome;
use crate::fit::Fit;
use crate::plan::Plan;
use crate::report::{Recorded, Report, Setting};
use crate::target::{Figures, Served, StampCounts};
use crate::what_if::Recorder;

const FIELDS: [&str; 21] = [
    "schema",
    "trace",
    "device",
    "policy",
    "source",
    "events",
    "operations",
    "streams",
    "deferred_frees",
    "peak_allocated_bytes",
    "peak_active_bytes",
    "peak_pending_bytes",
    "peak_reserved_bytes",
    "recorded_peak_reserved_bytes",
    "utilization",
    "segments",
    "driver_calls",
    "ns_per_operation",
    "stamps_checked",
    "stamp_errors",
    "out_of_memory",
];

fn report() -> Report {
    let setting = Setting {
        trace: "a \"trace\"".into(),
        device: "model".into(),
        policy: "default".into(),
        source: "plain".into(),
    };
    let recorded = Recorded {
        event_count: 12,
        recorder: Recorder::Pytorch,
        peak_reserved_bytes: Some(40 << 20),
        peak_allocated_bytes: 10 << 20,
        initial_block_count: 3,
        ..Recorded::default()
    };
    let plan = Plan { operation_count: 1200, stream_count: 2, ..Plan::default() };
    let timed = Outcome {
        operation_count: 1000,
        elapsed: Duration::from_micros(250),
        figures: Figures {
            peak_allocated_bytes: 10 << 20,
            peak_reserved_bytes: 20 << 20,
            segments: 2,
            driver_calls: 5,
            served: vec![Served { by: "growth", count: 4 }],
            ..Figures::default()
        },
        ..Outcome::default()
    };
    Report::new(setting, recorded, &plan, &timed)
}

#[test]
fn the_line_has_every_field_in_order_and_no_other() {
    let line = report().to_json().unwrap();
    assert!(!line.contains('\n'));
    let mut rest = line.as_str();
    for field in FIELDS {
        let at = rest.find(&format!("\"{field}\":")).unwrap_or_else(|| panic!("{field}: {line}"));
        rest = &rest[at + 1..];
    }
    let value: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!(value.as_object().unwrap().len(), FIELDS.len());
    assert_eq!(value["schema"], 1);
    assert_eq!(value["trace"], "a \"trace\"");
    assert_eq!(value["utilization"], 0.5);
    assert_eq!(value["ns_per_operation"], 250.0);
    assert_eq!(value["operations"], 1200);
}

#[test]
fn a_wrong_word_an_overlap_or_a_lack_of_memory_is_not_good() {
    assert!(report().is_good());
    let stamps = StampCounts { checked: 9, wrong: 2 };
    let verified = Outcome { stamps, overlap_count: 1, ..Outcome::default() };
    let mut wrong = report();
    wrong.add_verified(&verified);
    assert_eq!((wrong.stamps_checked, wrong.stamp_errors), (9, 3));
    assert!(!wrong.is_good());
    assert!(wrong.to_text().contains("9 stamps checked, 2 wrong, 1 overlap of live blocks"));
    let mut full = report();
    full.add_verified(&Outcome { out_of_memory_count: 1, ..Outcome::default() });
    assert!(!full.is_good());
}

/// Was: a run in which every request failed was praised for the memory it had saved.
#[test]
fn a_run_that_was_not_served_is_not_praised() {
    let mut report = report();
    report.add_verified(&Outcome { out_of_memory_count: 3, ..Outcome::default() });
    let text = report.to_text();
    assert!(text.contains("20 MiB   3 requests not served\n"), "{text}");
    assert!(!text.contains("less"), "{text}");
}

#[test]
fn the_table_compares_both_allocators() {
    let mut report = report();
    report.add_fit(Fit { capacity_bytes: Some(18 << 20), try_count: 5 });
    let text = report.to_text();
    for line in [
        "a \"trace\": 12 entries, 1,200 operations, 2 streams, 0 frees deferred",
        "on model, source plain, policy default",
        "the trace lost its beginning: 3 blocks were rebuilt from its final segments",
        "reserved peak             40 MiB        20 MiB   50.0 % less",
        "utilization               25.0 %        50.0 %",
        "smallest capacity                       18 MiB   5 tried",
        "ns per operation             250",
        "  growth                       4",
    ] {
        assert!(text.lines().any(|it| it == line), "no line `{line}` in\n{text}");
    }
    let value: serde_json::Value = serde_json::from_str(&report.to_json().unwrap()).unwrap();
    assert_eq!(value["smallest_capacity_bytes"], 18 << 20);
}
