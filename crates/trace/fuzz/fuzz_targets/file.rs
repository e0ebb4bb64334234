//! Reads whatever comes as a file of any kind: a snapshot or what `convert` makes of one, an RMM
//! log or a stream trace, plain, compressed or in a zip archive. No panic, and no more memory than
//! the reader is allowed. Run by `cargo fuzz run file` in `crates/trace`.
#![no_main]

use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use trace::pytorch::ReadOptions;
use trace::{AnyTrace, read_any};

const LIMITS: ReadOptions =
    ReadOptions { decompressed_bytes_max: 1 << 22, memory_bytes_max: 1 << 24 };

/// Where each input stands in turn; in `TMPDIR`, which had best be in memory.
static PATH: LazyLock<PathBuf> =
    LazyLock::new(|| std::env::temp_dir().join(format!("trace-fuzz-{}", std::process::id())));

fuzz_target!(|bytes: &[u8]| {
    fs::write(&*PATH, bytes).expect("the folder for temporary files takes files");
    let Ok(AnyTrace::Snapshot(snapshot)) = read_any(&PATH, &LIMITS, None) else { return };
    for device in 0..snapshot.device_traces.len() {
        if let Ok(trace) = snapshot.trace(Some(device)) {
            let operations = trace.operations();
            let summary = trace.summary(&operations);
            assert!(summary.initial_reserved_bytes <= summary.recorded_peak_reserved_bytes);
        }
    }
});
