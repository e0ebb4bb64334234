//! Reads whatever comes as a snapshot, and does with it what can be done with one: no panic, no
//! more memory than the reader is allowed, and the same outcome where the bytes arrive in small
//! pieces, so that no trace entry is seen whole. Run by `cargo fuzz run snapshot` in
//! `crates/trace`, from the files in `traces/` for instance.
#![no_main]

use std::io::{self, Read};

use libfuzzer_sys::fuzz_target;
use trace::pytorch::{ReadOptions, Snapshot, read};

const LIMITS: ReadOptions =
    ReadOptions { decompressed_bytes_max: 1 << 24, memory_bytes_max: 1 << 26 };
/// Less than any trace entry has.
const PIECE_BYTES: usize = 13;

/// Gives few bytes at a time.
struct Pieces<'a>(&'a [u8]);

impl Read for Pieces<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = into.len().min(PIECE_BYTES);
        self.0.read(&mut into[..count])
    }
}

fuzz_target!(|bytes: &[u8]| {
    let whole = read(bytes, 0, &LIMITS, None);
    let pieces = read(Pieces(bytes), 0, &LIMITS, None);
    match (&whole, &pieces) {
        (Ok(whole), Ok(pieces)) => assert_eq!(whole, pieces, "pieces make another snapshot"),
        (Err(whole), Err(pieces)) => assert_eq!(whole.to_string(), pieces.to_string()),
        _ => panic!("in pieces it reads otherwise: {:?}, {:?}", whole.err(), pieces.err()),
    }
    if let Ok(snapshot) = whole {
        use_all(&snapshot);
    }
});

fn use_all(snapshot: &Snapshot) {
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
}
