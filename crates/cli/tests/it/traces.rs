//! Real traces are served, verified, and reported.

use std::process::{Command, Stdio};

use serde_json::Value;

use crate::command::{Said, replay, trace_file, wellspring};
use crate::pickle::{entry, pickle, snapshot};

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

/// Checks the line of a run without a fault, and gives it.
fn check_line(said: &Said) -> Value {
    assert_eq!(said.code, 0, "{said:?}");
    let line = said.json();
    let fields = line.as_object().unwrap();
    assert_eq!(fields.len(), FIELDS.len(), "{line}");
    for field in FIELDS {
        let value = fields.get(field).unwrap_or_else(|| panic!("no {field}: {line}"));
        match field {
            "trace" | "device" | "policy" | "source" => assert!(value.is_string(), "{field}"),
            "utilization" | "ns_per_operation" => assert!(value.is_f64(), "{field}"),
            _ => assert!(value.is_u64(), "{field}"),
        }
    }
    assert_eq!(line["schema"], 1);
    assert_eq!((&line["stamp_errors"], &line["out_of_memory"]), (&0.into(), &0.into()), "{line}");
    assert!(line["device"].as_str().unwrap().to_lowercase().contains("simulated"));
    assert!(0.0 < line["ns_per_operation"].as_f64().unwrap());
    let number = |field: &str| line[field].as_u64().unwrap();
    assert!(number("peak_allocated_bytes") <= number("peak_active_bytes"));
    assert!(number("peak_active_bytes") <= number("peak_reserved_bytes"));
    assert!(0 < number("segments"));
    line
}

#[test]
fn side_stream_defers_399_frees_that_are_pending() {
    let line = check_line(&replay("side_stream", &["--json", "--verify"]));
    assert_eq!(line["deferred_frees"], 399);
    assert_eq!(line["events"], 5355);
    assert!(0 < line["stamps_checked"].as_u64().unwrap());
    // No less than what was recorded as pending can be, and nothing is pending for longer.
    assert_eq!(line["peak_pending_bytes"], 11_457_560_576_u64);
    let recorded = line["recorded_peak_reserved_bytes"].as_u64().unwrap();
    assert!(line["peak_reserved_bytes"].as_u64().unwrap() <= recorded, "{line}");
}

#[test]
fn without_uses_nothing_is_deferred() {
    let line = check_line(&replay("side_stream", &["--json", "--verify", "--uses", "none"]));
    assert_eq!((&line["deferred_frees"], &line["peak_pending_bytes"]), (&0.into(), &0.into()));
    assert!(line["peak_reserved_bytes"].as_u64().unwrap() < 1 << 30, "{line}");
}

#[test]
fn every_policy_and_source_serves_seven_streams() {
    for policy in ["default", "deterministic", "pytorch"] {
        for source in ["vmm", "plain"] {
            let arguments = ["--json", "--verify", "--policy", policy, "--source", source];
            let line = check_line(&replay("streams", &arguments));
            assert_eq!((&line["policy"], &line["source"]), (&policy.into(), &source.into()));
            assert_eq!((&line["streams"], &line["deferred_frees"]), (&7.into(), &491.into()));
        }
    }
}

#[test]
fn the_default_source_is_vmm() {
    let line = check_line(&replay("graphs", &["--json"]));
    assert_eq!((&line["source"], &line["policy"]), (&"vmm".into(), &"default".into()));
    assert_eq!(line["stamps_checked"], 0);
}

#[test]
fn a_full_verification_checks_every_word() {
    let entries = vec![entry("alloc", 1 << 30, 1 << 20), entry("free_requested", 1 << 30, 1 << 20)];
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("one.pickle");
    std::fs::write(&file, pickle(&snapshot(entries))).unwrap();
    let checked = |how| {
        let name = file.to_str().unwrap();
        let line = wellspring(&["replay", name, "--device", "sim", "--json", how]).json();
        assert_eq!(line["stamp_errors"], 0, "{line}");
        line["stamps_checked"].as_u64().unwrap()
    };
    // Each block is checked once, at its free: 16 strides and the end, or every word.
    assert_eq!((checked("--verify"), checked("--verify=full")), (17, 1 << 18));
}

#[test]
fn deterministic_runs_are_alike() {
    let run = || {
        let mut line = check_line(&replay("streams", &["--json", "--policy", "deterministic"]));
        line["ns_per_operation"] = 0.into();
        line
    };
    assert_eq!(run(), run());
}

#[test]
fn a_trace_that_lost_its_beginning_says_so() {
    let told = "the trace lost its beginning";
    let text = replay("oom_frames", &[]);
    assert_eq!(text.code, 0, "{text:?}");
    assert!(text.stdout.contains(told), "{text:?}");
    assert!(text.stdout.contains("failed for lack of memory when it was recorded"), "{text:?}");
    let json = replay("oom_frames", &["--json"]);
    check_line(&json);
    assert!(json.stderr.contains(told), "{json:?}");
    assert_eq!(replay("oom_frames", &["--json", "--quiet"]).stderr, "");
}

#[test]
fn the_table_compares_with_what_was_recorded() {
    let said = replay("graphs", &["--verify"]);
    assert_eq!((said.code, said.stderr.as_str()), (0, ""), "{said:?}");
    for part in [
        "4,313 entries",
        "3 streams",
        "reserved peak          1,126 MiB",
        "page floor",
        "allocated peak           716 MiB       716 MiB",
        "utilization",
        "segments",
        "driver calls",
        "ns per operation",
        "own stream",
        "growth",
        "stamps checked, 0 wrong, 0 overlaps of live blocks",
    ] {
        assert!(said.stdout.contains(part), "no `{part}` in\n{}", said.stdout);
    }
    assert!(!said.stdout.contains('\u{1b}'), "no terminal, no colors");
}

#[test]
fn without_a_gpu_auto_is_simulated_and_says_so() {
    let file = trace_file("graphs");
    let said = wellspring(&["replay", file.to_str().unwrap(), "--json"]);
    assert_eq!(said.code, 0, "{said:?}");
    let device = said.json()["device"].as_str().unwrap().to_owned();
    let is_simulated = device.to_lowercase().contains("simulated");
    assert_eq!(is_simulated, said.stderr.contains("for want of a GPU"), "{said:?}");
}

#[test]
fn a_reader_that_leaves_early_is_no_fault() {
    for more in [&["--json"][..], &[], &["--help"]] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_wellspring"))
            .arg("replay")
            .arg(trace_file("graphs"))
            .args(["--device", "sim"])
            .args(more)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        assert!(output.stderr.is_empty(), "{output:?}");
    }
}
