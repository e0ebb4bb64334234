//! `summary` and `diff` on real traces, and on files without a trace.

use serde_json::Value as Json;

use crate::command::{trace_file, wellspring};
use crate::pickle::{entry, pickle, snapshot};

fn summary(name: &str) -> Json {
    wellspring(&["summary", trace_file(name).to_str().unwrap(), "--json"]).json()
}

#[test]
fn a_summary_names_the_holders_at_the_peak() {
    let json = summary("oom_frames");
    assert_eq!((&json["schema"], &json["kind"]), (&1.into(), &"snapshot".into()));
    assert_eq!(json["by_owner"][0]["name"], "train.py:17 steps");
    assert_eq!(json["recorded"]["lost_beginning"], true);
    let sum = |key: &str| -> u64 {
        let holders = json[key].as_array().unwrap().iter();
        holders.map(|it| it["allocated_bytes"].as_u64().unwrap()).sum()
    };
    for key in ["by_owner", "by_stream", "by_size"] {
        assert_eq!(sum(key), json["recorded"]["peak_active_bytes"].as_u64().unwrap(), "{key}");
    }
    let text = wellspring(&["summary", trace_file("oom_frames").to_str().unwrap()]);
    assert_eq!((text.code, text.stderr.as_str()), (0, ""));
    for part in ["oom 1", "lost its beginning: 149 blocks", "Optimizer.step#AdamW.step"] {
        assert!(text.stdout.contains(part), "no `{part}` in {}", text.stdout);
    }
}

/// Was: who came with an out-of-memory error was told how often, and nothing of the request.
#[test]
fn a_request_that_failed_is_told_with_what_was_held_then() {
    let json = summary("oom_frames");
    let failed = &json["out_of_memory"];
    assert_eq!(failed.as_array().unwrap().len(), 1, "{failed}");
    let failed = &failed[0];
    assert_eq!((&failed["entry"], &failed["bytes"]), (&19_959.into(), &192_151_552.into()));
    assert_eq!(failed["owner"], "train.py:17 steps");
    assert_eq!(failed["device_free_bytes"], 135_259_947_008_u64);
    let [allocated, reserved] = ["allocated_bytes", "reserved_bytes"].map(|key| {
        let bytes = failed[key].as_u64().unwrap();
        assert!(bytes < 3 << 30 && (3 << 30) < bytes + 192_151_552, "{key} is {bytes}");
        bytes
    });
    assert!(allocated <= reserved, "{failed}");
    let text = wellspring(&["summary", trace_file("oom_frames").to_str().unwrap()]).stdout;
    for part in [
        "out of memory at entry 19959: 183.25 MiB were asked for on stream 0x0 by train.py:17",
        "the device had 125.97 GiB free, so a limit set for the process was likely reached",
    ] {
        assert!(text.contains(part), "no `{part}` in {text}");
    }
}

#[test]
fn failed_requests_are_told_with_what_was_pending_and_the_latest_of_many() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("failed.pickle");
    let mut entries = vec![
        entry("alloc", 1 << 30, 1000),
        entry("alloc", (1 << 30) + 1024, 512),
        entry("free_requested", 1 << 30, 1000),
        entry("alloc", (1 << 30) + 2048, 512),
        entry("oom", 4096, 1 << 20),
        entry("free_completed", 1 << 30, 1000),
    ];
    entries.extend((0..30).map(|_| entry("oom", 0, 1 << 21)));
    std::fs::write(&file, pickle(&snapshot(entries[..6].to_vec()))).unwrap();
    let name = file.to_str().unwrap();
    let failed = wellspring(&["summary", name, "--json"]).json()["out_of_memory"].clone();
    let figures = ["entry", "bytes", "allocated_bytes", "pending_bytes", "reserved_bytes"];
    let told = figures.map(|key| failed[0][key].as_u64().unwrap());
    assert_eq!(told, [4, 1 << 20, 1024, 1024, 2 << 20], "{failed}");
    assert!(failed[0]["owner"].is_null(), "{failed}");
    let text = wellspring(&["summary", name]).stdout;
    assert!(text.contains("1.00 KiB pending; the device had 4.00 KiB free\n"), "{text}");

    std::fs::write(&file, pickle(&snapshot(entries))).unwrap();
    let failed = wellspring(&["summary", name, "--json"]).json()["out_of_memory"].clone();
    assert_eq!(failed.as_array().unwrap().len(), 16, "{failed}");
    assert_eq!((&failed[15]["entry"], &failed[15]["pending_bytes"]), (&35.into(), &0.into()));
    let text = wellspring(&["summary", name]).stdout;
    assert_eq!(text.matches("out of memory at entry").count(), 3, "{text}");
    assert!(text.contains("out of memory at entry 35: 2.00 MiB"), "{text}");
}

#[test]
fn an_owner_is_what_a_pattern_matches() {
    let file = trace_file("oom_frames");
    let file = file.to_str().unwrap();
    let owners = |more: &[&str]| -> String {
        let json = wellspring(&[&["summary", file, "--json"], more].concat()).json();
        json["by_owner"].to_string()
    };
    assert!(owners(&[]).contains("train.py:13 mlp"));
    let outermost = owners(&["--owner", "<module>$"]);
    assert!(outermost.contains("train.py:22 <module>"), "{outermost}");
    assert!(!outermost.contains("mlp"), "{outermost}");
    wellspring(&["summary", file, "--owner", "("]).check_failure(2, &["no regular expression"]);
}

#[test]
fn pools_and_pending_memory_are_told() {
    let json = summary("graphs");
    let pools = json["pools"].as_array().unwrap();
    let total: u64 = pools.iter().map(|it| it["segments"]["total_bytes"].as_u64().unwrap()).sum();
    assert_eq!((pools.len(), total), (3, json["segments"]["total_bytes"].as_u64().unwrap()));
    assert!(0 < summary("side_stream")["by_owner"][0]["pending_bytes"].as_u64().unwrap());
}

#[test]
fn without_a_trace_the_segments_are_told_and_the_call_that_records() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("none.pickle");
    std::fs::write(&file, pickle(&snapshot(vec![]))).unwrap();
    let said = wellspring(&["summary", file.to_str().unwrap()]);
    assert_eq!(said.code, 0, "{said:?}");
    assert!(said.stdout.contains("_record_memory_history()"), "{said:?}");
    let none = ["summary", file.to_str().unwrap(), "--trace-device", "3"];
    wellspring(&none).check_failure(2, &["device 3"]);
}

#[test]
fn a_difference_names_what_grew_and_what_is_set_otherwise() {
    let (one, other) = (trace_file("graphs"), trace_file("expandable"));
    let (one, other) = (one.to_str().unwrap(), other.to_str().unwrap());
    let json = wellspring(&["diff", one, other, "--json"]).json();
    let figure = |json: &Json, name: &str, key: &str| {
        let figures = json["figures"].as_array().unwrap();
        let found = figures.iter().find(|figure| figure["name"] == name).unwrap();
        found[key].as_u64().unwrap()
    };
    let reserved = summary("graphs")["recorded"]["peak_reserved_bytes"].as_u64().unwrap();
    assert_eq!(figure(&json, "peak_reserved_bytes", "before"), reserved);
    let settings = json["settings"].to_string();
    assert!(settings.contains("expandable_segments"), "{settings}");
    let back = wellspring(&["diff", other, one, "--json"]).json();
    assert_eq!(figure(&back, "peak_reserved_bytes", "after"), reserved);
    let same = wellspring(&["diff", one, one, "--json"]).json();
    assert_eq!(same["by_owner"], serde_json::json!([]));
    assert_eq!(same["settings"], serde_json::json!([]));
    let text = wellspring(&["diff", one, other]);
    assert!(text.stdout.contains("peak reserved"), "{text:?}");
}

#[test]
fn a_growing_size_class_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, sizes: &[i64]| {
        let file = folder.path().join(name);
        let entries = (0_i64..).zip(sizes);
        let entries =
            entries.map(|(number, size)| entry("alloc", (1 << 40) + (number << 30), *size));
        std::fs::write(&file, pickle(&snapshot(entries.collect()))).unwrap();
        file
    };
    let before = write("before.pickle", &[1 << 20, 1 << 20]);
    let after = write("after.pickle", &[1 << 20, 1 << 20, 1 << 22]);
    let (before, after) = (before.to_str().unwrap(), after.to_str().unwrap());
    let json = wellspring(&["diff", before, after, "--json"]).json();
    let changes = json["by_size"].as_array().unwrap();
    assert_eq!(changes.len(), 1, "{json}");
    assert_eq!(changes[0]["name"], "4 MiB to 8 MiB");
    assert_eq!(changes[0]["after_bytes"], 1 << 22);
}
