//! Files that are no snapshot: each is refused with its own reason, and none does anything.

use std::path::Path;
use std::process::Command;

use crate::command::{Said, trace_file, wellspring};
use crate::pickle::{Value, entry, pickle, snapshot};

/// Replays a file with these bytes, on a device that is not there: it is not to be reached.
fn replay_bytes(bytes: &[u8]) -> Said {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trace.pickle");
    std::fs::write(&file, bytes).unwrap();
    wellspring(&["replay", file.to_str().unwrap(), "--device", "cuda:99"])
}

fn refused(bytes: &[u8], part: &str) {
    replay_bytes(bytes).check_failure(2, &["trace.pickle", part]);
}

#[test]
fn a_snapshot_written_here_is_one() {
    let entries = vec![
        entry("alloc", 1 << 30, 1000),
        entry("free_requested", 1 << 30, 1000),
        entry("free_completed", 1 << 30, 1000),
    ];
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a\nb.pickle");
    std::fs::write(&file, pickle(&snapshot(entries))).unwrap();
    let name = file.to_str().unwrap();
    let said = wellspring(&["replay", name, "--device", "sim", "--json", "--verify"]);
    assert_eq!(said.code, 0, "{said:?}");
    assert_eq!(said.json()["operations"], 2);
    assert!(said.json()["trace"].as_str().unwrap().ends_with("a\\nb.pickle"), "{said:?}");
}

#[test]
fn what_is_no_file_is_refused() {
    wellspring(&["replay", "/no/such.pickle"]).check_failure(2, &["no such file"]);
    let folder = env!("CARGO_MANIFEST_DIR");
    wellspring(&["replay", folder]).check_failure(2, &["is a folder"]);
}

#[test]
fn empty_cut_and_foreign_files_are_refused() {
    refused(b"", "is empty");
    refused(b"hello, I am no pickle\n", "is not a PyTorch memory snapshot");
    refused(b"hello, I am no pickle\n", "a stream trace, a log of RMM");
    refused(b"\x7fELF\x02\x01\x01", "is not a PyTorch memory snapshot");
    let whole = std::fs::read(trace_file("graphs")).unwrap();
    for part in [whole.len() / 2, whole.len() - 1, 100] {
        replay_bytes(&whole[..part]).check_failure(2, &["trace.pickle"]);
    }
    let whole = pickle(&snapshot(vec![entry("alloc", 1 << 30, 512)]));
    refused(&whole[..whole.len() / 2], "is truncated");
}

#[test]
fn a_snapshot_without_its_parts_is_refused() {
    let all = snapshot(vec![entry("alloc", 1 << 30, 512)]);
    let Value::Dict(items) = all else { panic!("a snapshot is a dictionary") };
    for (missing, part) in [("segments", "segments"), ("device_traces", "device_traces")] {
        let kept = items.iter().filter(|(key, _)| *key != missing).cloned().collect();
        refused(&pickle(&Value::Dict(kept)), part);
    }
}

#[test]
fn no_history_names_the_call_that_turns_it_on() {
    let call = "torch.cuda.memory._record_memory_history";
    refused(&pickle(&snapshot(vec![])), call);
}

#[test]
fn negative_and_absurd_sizes_are_refused() {
    for size in [-1, -512, i64::MIN, i64::MAX] {
        refused(&pickle(&snapshot(vec![entry("alloc", 1 << 30, size)])), "size");
    }
}

#[test]
fn a_hostile_pickle_runs_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let made = folder.path().join("made");
    let command = format!("touch {}", made.display());
    let mut bytes = b"\x80\x02cos\nsystem\n(X".to_vec();
    bytes.extend(u32::try_from(command.len()).unwrap().to_le_bytes());
    bytes.extend(command.as_bytes());
    bytes.extend(b"tR.");
    refused(&bytes, "is refused: pickle opcode GLOBAL");
    assert!(!made.exists());
}

/// Replays a file where at most 8 GiB of addresses may be used.
fn replay_in_8_gib(file: &Path) -> Said {
    let script = "ulimit -v 8388608 && exec \"$0\" replay \"$1\" --device cuda:99";
    let output = Command::new("sh")
        .args(["-c", script, env!("CARGO_BIN_EXE_wellspring")])
        .arg(file)
        .output()
        .unwrap();
    output.into()
}

#[test]
fn a_hostile_pickle_stays_within_8_gib_of_addresses() {
    let folder = tempfile::tempdir().unwrap();
    // A text of a terabyte, a place in the memo near 2^32, a list that holds itself ten times
    // over and over, and a deep nest.
    let mut shared = b"\x80\x04]q\x00".to_vec();
    for memo in 1..40 {
        shared.extend(b"](");
        (0..10).for_each(|_| shared.extend([b'h', memo - 1]));
        shared.extend([b'e', b'q', memo]);
    }
    shared.push(b'.');
    let mut deep = b"\x80\x04".to_vec();
    deep.extend(std::iter::repeat_n(b"](".as_slice(), 4 << 20).flatten());
    let bombs: [&[u8]; 4] = [
        b"\x80\x04\x8d\x00\x00\x00\x00\x00\x01\x00\x00abc.",
        b"\x80\x04]r\xff\xff\xff\xff.",
        &shared,
        &deep,
    ];
    for (number, bomb) in bombs.iter().enumerate() {
        let file = folder.path().join(format!("{number}.pickle"));
        std::fs::write(&file, bomb).unwrap();
        replay_in_8_gib(&file).check_failure(2, &[&format!("{number}.pickle")]);
    }
}
