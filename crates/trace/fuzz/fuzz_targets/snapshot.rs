//! Reads whatever comes as a snapshot, and does with it what can be done with one: no panic, and
//! no more memory than the reader is allowed. Run by `cargo fuzz run snapshot` in `crates/trace`,
//! from the files in `traces/` for instance.
#![no_main]

use libfuzzer_sys::fuzz_target;
use trace::pytorch::{ReadOptions, read};

const LIMITS: ReadOptions =
    ReadOptions { decompressed_bytes_max: 1 << 24, memory_bytes_max: 1 << 26 };

fuzz_target!(|bytes: &[u8]| {
    let Ok(snapshot) = read(bytes, 0, &LIMITS, None) else { return };
    for device in 0..snapshot.device_traces.len() {
        if let Ok(trace) = snapshot.trace(Some(device)) {
            let operations = trace.operations();
            let summary = trace.summary(&operations);
            assert!(summary.initial_reserved_bytes <= summary.recorded_peak_reserved_bytes);
        }
    }
    let entries = snapshot.device_traces.iter().chain(&snapshot.host_traces).flatten();
    for stack in entries.filter_map(|entry| entry.stack) {
        assert_ne!(snapshot.stacks.frames(stack).len(), 0, "no frames are no stack");
    }
});
