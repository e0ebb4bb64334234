//! RMM's logs: read plain and in an archive, and bounded where they mean harm.

use std::io::Write;

use trace::pytorch::{Action, ReadOptions};
use trace::rmm::{HEADER, LogError, read};
use trace::{AnyTrace, read_any};
use zip::write::SimpleFileOptions;

const LINE: &str = "7,12:00:00.000001,allocate,0x7f0000000000,1000,0x0";

fn log(lines: &[&str]) -> String {
    format!("{HEADER}\n{}\n", lines.join("\n"))
}

#[test]
fn a_log_in_an_archive_is_found_by_its_content() {
    let mut writer = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    writer.start_file("rmm.log", SimpleFileOptions::default()).unwrap();
    writer.write_all(log(&[LINE]).as_bytes()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("log.zip");
    std::fs::write(&file, writer.finish().unwrap().into_inner()).unwrap();
    let AnyTrace::Snapshot(snapshot) = read_any(&file, &ReadOptions::default(), None).unwrap()
    else {
        panic!("a log becomes a snapshot")
    };
    assert_eq!(snapshot.trace(None).unwrap().entries()[0].action, Action::Alloc);
}

#[test]
fn quotes_ends_of_lines_and_unknown_actions_are_taken() {
    let lines =
        ["\"7\",\"12:00:00:5\",\"free\",\"0x10\",\"1\",\"0x2\"\r", "", "1,00:00:00,grow,0,9,0"];
    let snapshot = read(log(&lines).as_bytes(), 1 << 20).unwrap();
    let entries = &snapshot.device_traces[0];
    assert_eq!((entries[0].action, entries[0].stream.0), (Action::Free, 2));
    assert_eq!(snapshot.unknown_actions, [("grow".to_owned(), 1)]);
}

#[test]
fn lines_and_memory_are_bounded() {
    let long = "x".repeat(1 << 20);
    let error = read(log(&[LINE, &long]).as_bytes(), 1 << 20).unwrap_err();
    assert!(matches!(error, LogError::LongLine { line: 3, limit: 4096 }), "{error}");
    let error = read(log(&[LINE; 100]).as_bytes(), 1000).unwrap_err();
    assert!(matches!(error, LogError::TooMuchMemory { limit: 1000, .. }), "{error}");
    let error = read(LINE.as_bytes(), 1000).unwrap_err();
    assert!(matches!(error, LogError::Foreign), "{error}");
}

/// Was: PyTorch's call that turns recording on was named.
#[test]
fn a_log_without_entries_says_that_it_is_one() {
    for log in [HEADER.to_owned(), format!("{HEADER}\r\n\n")] {
        let error = read(log.as_bytes(), 1 << 20).unwrap_err();
        assert!(matches!(error, LogError::Empty), "{error}");
    }
}

/// Was: the mark was taken for a part of the first column's name, and the log for a pickle.
#[test]
fn a_byte_order_mark_before_a_log_is_passed_over() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("log.csv");
    let read_marked = |bytes: &str| {
        std::fs::write(&file, format!("\u{feff}{bytes}")).unwrap();
        read_any(&file, &ReadOptions::default(), None)
    };
    let AnyTrace::Snapshot(snapshot) = read_marked(&log(&[LINE])).unwrap() else {
        panic!("a log becomes a snapshot")
    };
    assert_eq!(snapshot.trace(None).unwrap().entries().len(), 1);
    let refused = |bytes| read_marked(bytes).unwrap_err().to_string();
    assert!(refused("\u{80}\u{4}.").starts_with("is not a PyTorch memory snapshot"));
    assert!(refused("").starts_with("is not a PyTorch memory snapshot"));
}
