//! `advise` on files of either kind, whole, cut and wrong.

use std::path::Path;

use trace::stream_trace::{Item, StreamKind, StreamStart, Writer};

use crate::command::{Said, trace_file, wellspring};

fn advise(file: &Path, more: &[&str]) -> Said {
    let mut arguments = vec!["advise", file.to_str().unwrap()];
    arguments.extend(more);
    wellspring(&arguments)
}

/// A trace with a single stream, and a name that would clear a terminal.
fn small_trace() -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), 0).unwrap();
    let start = StreamStart { id: 1, kind: StreamKind::Owned, priority: 0, place: None };
    writer.put(5, &Item::Stream(start)).unwrap();
    writer.text("\u{1b}[2J").unwrap();
    writer.finish().unwrap()
}

#[test]
fn a_snapshot_is_advised_that_uses_are_missing() {
    let said = advise(&trace_file("side_stream"), &[]);
    assert_eq!((said.code, said.stderr.as_str()), (0, ""), "{said:?}");
    assert!(said.stdout.contains("a PyTorch snapshot has no uses"), "{said:?}");
    let json = advise(&trace_file("side_stream"), &["--json"]).json();
    assert_eq!((&json["schema"], &json["kind"]), (&1.into(), &"pytorch_snapshot".into()));
    assert_eq!(json["gaps"][0]["waited"].as_u64().unwrap(), 200);
    assert_eq!(json["holders"].as_array().unwrap().len(), 10);
}

#[test]
fn a_log_is_not_said_to_have_had_no_waiting_frees() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("rmm.csv");
    let lines = "Thread,Time,Action,Pointer,Size,Stream\n\
                 1,00:00:00.1,allocate,0x7f0000000000,1000,0x1\n\
                 1,00:00:00.2,free,0x7f0000000000,1000,0x2\n";
    std::fs::write(&log, lines).unwrap();
    let said = advise(&log, &[]);
    assert_eq!((said.code, said.stderr.as_str()), (0, ""), "{said:?}");
    assert!(said.stdout.contains("how long frees waited is not known"), "{said:?}");
    assert!(!said.stdout.contains("no free had to wait"), "{said:?}");
    // Of a run whose every free was completed directly it is known.
    let said = advise(&trace_file("gpt_train"), &[]);
    assert!(said.stdout.contains("no free had to wait"), "{said:?}");
}

#[test]
fn a_stream_trace_is_read_whole_cut_and_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.wst");
    let whole = small_trace();
    std::fs::write(&file, &whole).unwrap();
    let said = advise(&file, &["--json"]);
    assert_eq!((said.code, &said.json()["notes"]), (0, &serde_json::json!([])), "{said:?}");
    std::fs::write(&file, &whole[..whole.len() - 2]).unwrap();
    let said = advise(&file, &[]);
    assert_eq!(said.code, 0, "{said:?}");
    assert!(said.stdout.contains("the trace has no end"), "{said:?}");
    assert!(!said.stdout.contains('\u{1b}'), "{said:?}");
    let mut wrong = whole.clone();
    wrong[10] = 0;
    std::fs::write(&file, &wrong).unwrap();
    advise(&file, &[]).check_failure(2, &["run.wst", "byte 10"]);
    advise(&file, &["--trace-device", "0"]).check_failure(2, &["run.wst"]);
    std::fs::write(&file, &whole).unwrap();
    advise(&file, &["--trace-device", "0"]).check_failure(2, &["which has one device"]);
}

#[test]
fn what_is_no_trace_ends_with_2() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("none");
    advise(&file, &[]).check_failure(2, &["no such file"]);
    for (bytes, part) in [(&b""[..], "is empty"), (b"hello", "is not a PyTorch memory snapshot")] {
        std::fs::write(&file, bytes).unwrap();
        advise(&file, &[]).check_failure(2, &[part]);
    }
}

#[test]
fn a_program_records_itself_where_the_environment_says_so() {
    check_record("sim");
}

/// Was: the driver that was not there took the first file, which stayed empty.
#[test]
fn a_program_that_found_no_gpu_records_itself_where_the_environment_says_so() {
    check_record("auto");
}

/// On a machine with a GPU it is hidden.
fn check_record(device: &str) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.wst");
    let trace = trace_file("side_stream");
    let program = env!("CARGO_BIN_EXE_wellspring");
    let output = std::process::Command::new(program)
        .args(["replay", trace.to_str().unwrap(), "--device", device, "--quiet"])
        .env("WELLSPRING_RECORD", &file)
        .env("CUDA_VISIBLE_DEVICES", "")
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    // The command opens a runtime to look at the device, and one to serve the trace.
    let second = folder.path().join("run.wst.2");
    for file in [&file, &second] {
        let said = advise(file, &["--json"]);
        assert_eq!(said.code, 0, "{said:?}");
        assert!(!said.stdout.contains("has no end"), "{said:?}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2, "there is no other");
    let advice = advise(&second, &["--json"]).json();
    let blocks = |group: &serde_json::Value| group["blocks"].as_u64().unwrap();
    let all: u64 = advice["groups"].as_array().unwrap().iter().map(blocks).sum();
    assert_eq!(all, 399, "each early free of the trace was a use of another stream");
}
