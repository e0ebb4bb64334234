//! Reads whatever comes as a file of any kind: a snapshot or what `convert` makes of one, an RMM
//! log or a stream trace, plain, compressed or in a zip archive. No panic, and no more memory than
//! the reader is allowed, and a stream trace that comes back whole from CSV and a Chrome trace. Run
//! by `cargo fuzz run file` in `crates/trace`, from what the example `seeds` makes.
#![no_main]

use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use trace::pytorch::{ReadOptions, Snapshot};
use trace::stream_trace::Recording;
use trace::{AnyTrace, chrome, csv, read_any};

const LIMITS: ReadOptions =
    ReadOptions { decompressed_bytes_max: 1 << 22, memory_bytes_max: 1 << 24 };

/// Where each input stands in turn; in `TMPDIR`, which had best be in memory.
static PATH: LazyLock<PathBuf> =
    LazyLock::new(|| std::env::temp_dir().join(format!("trace-fuzz-{}", std::process::id())));

/// What may be kept of a file that was just written.
const WRITTEN_BYTES_MAX: u64 = 1 << 30;
/// Longer traces are only read: compressed, a small input may hold a large one.
const WRITTEN_ENTRIES_MAX: usize = 1000;

fuzz_target!(|bytes: &[u8]| {
    fs::write(&*PATH, bytes).expect("the folder for temporary files takes files");
    match read_any(&PATH, &LIMITS, None) {
        Ok(AnyTrace::Snapshot(snapshot)) => sum_up(&snapshot),
        Ok(AnyTrace::Recording(recording)) => come_back(&recording),
        Err(_) => {}
    }
});

fn sum_up(snapshot: &Snapshot) {
    for device in 0..snapshot.device_traces.len() {
        if let Ok(trace) = snapshot.trace(Some(device)) {
            let operations = trace.operations();
            let summary = trace.summary(&operations);
            assert!(summary.initial_reserved_bytes <= summary.recorded_peak_reserved_bytes);
        }
    }
}

fn come_back(recording: &Recording) {
    if WRITTEN_ENTRIES_MAX < recording.entries.len() {
        return;
    }
    let table = as_csv(recording);
    let back = csv::read(table.as_bytes(), WRITTEN_BYTES_MAX).expect("CSV that was written");
    assert_eq!(told(back), table, "CSV makes another trace");
    let mut json = Vec::new();
    chrome::write_recording(recording, None, &mut json, None).expect("memory takes all");
    let back = chrome::read(json.as_slice(), WRITTEN_BYTES_MAX).expect("JSON that was written");
    assert_eq!(told(back), table, "a Chrome trace makes another trace");
}

/// All that a stream trace holds, in the lines of CSV.
fn as_csv(recording: &Recording) -> String {
    let mut table = Vec::new();
    csv::write_recording(recording, &mut table, None).expect("memory takes all");
    String::from_utf8(table).expect("CSV is text")
}

fn told(trace: AnyTrace) -> String {
    match trace {
        AnyTrace::Recording(recording) => as_csv(&recording),
        AnyTrace::Snapshot(_) => panic!("a stream trace was written"),
    }
}
