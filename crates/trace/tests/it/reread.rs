//! CSV and Chrome traces of snapshots are read again, and what is wrong with one is said by place.

use std::path::Path;

use trace::pytorch::{Action, Frame, ReadOptions, Snapshot, read, read_file};
use trace::{AnyTrace, Owners, chrome, csv, read_any};

use crate::pickle::{Py, pickle};

const NAMES: [&str; 6] =
    ["expandable", "gnn_train", "graphs", "oom_frames", "side_stream", "streams"];

fn real(name: &str) -> Snapshot {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces");
    let file = folder.join(format!("{name}.pickle.zst"));
    read_file(&file, &ReadOptions::default(), None).unwrap()
}

/// Entries of two devices with all that an entry can have.
fn made_up() -> Snapshot {
    use Py::{Dict, Int, List, Text, Tuple};
    let frame = |file, line| {
        Dict(vec![("filename", Text(file)), ("line", Int(line)), ("name", Text("fwd: \"ä\", b"))])
    };
    let frames = || List(vec![frame("torch/nn.py", 3), frame("C:\\träin 1.py", 12)]);
    let entry = |action, address, more: Vec<(&'static str, Py)>| {
        let mut pairs = vec![("action", Text(action)), ("addr", Int(address)), ("size", Int(700))];
        pairs.extend([("stream", Int(-2)), ("time_us", Int(1 << 50))]);
        pairs.extend(more);
        Dict(pairs)
    };
    let noted = vec![
        ("frames", frames()),
        ("pool_id", Tuple(vec![Int(3), Int(300)])),
        ("user_metadata", Text("a note, \"quoted\"\r\nof two lines")),
        ("compile_context", Text("0/1 \u{2028} x")),
    ];
    let second = vec![
        entry("alloc", 1 << 40, noted),
        entry("quantize", 1 << 41, vec![]),
        entry("free", 1 << 40, vec![("pool_id", Tuple(vec![Int(0), Int(0)]))]),
        entry("oom", 12_345, vec![]),
    ];
    let traces = List(vec![List(vec![]), List(second)]);
    let top = Dict(vec![("segments", List(vec![])), ("device_traces", traces)]);
    read(pickle(&top).as_slice(), 0, &ReadOptions::default(), None).unwrap()
}

fn as_csv(snapshot: &Snapshot) -> Vec<u8> {
    let mut bytes = Vec::new();
    csv::write_snapshot(snapshot, None, None, &mut bytes, None).unwrap();
    bytes
}

fn as_chrome(snapshot: &Snapshot) -> Vec<u8> {
    let mut bytes = Vec::new();
    let trace = snapshot.trace(None).unwrap();
    chrome::write_snapshot(snapshot, &trace, None, &mut bytes, None).unwrap();
    bytes
}

fn reread(bytes: &[u8]) -> Result<Snapshot, String> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, bytes).unwrap();
    match read_any(&file, &ReadOptions::default(), None) {
        Ok(AnyTrace::Snapshot(snapshot)) => Ok(snapshot),
        Ok(AnyTrace::Recording(_)) => panic!("no stream trace was written"),
        Err(error) => Err(error.to_string()),
    }
}

/// An entry without what is numbered anew: action, numbers, texts.
type Told = (String, [u64; 3], i64, [Option<String>; 2]);

fn told(snapshot: &Snapshot) -> Vec<Vec<Told>> {
    let text = |text: Option<_>| text.map(|text| snapshot.texts.get(text).to_owned());
    let traces = snapshot.device_traces.iter();
    traces
        .map(|entries| {
            let told = entries.iter().map(|it| {
                let action = match it.action {
                    Action::Other(number) => {
                        snapshot.unknown_actions[usize::from(number)].0.clone()
                    }
                    known => format!("{known:?}"),
                };
                let texts = [text(it.metadata), text(it.compile_context)];
                (action, [it.address, it.bytes, it.stream.0], it.time_us, texts)
            });
            told.collect()
        })
        .collect()
}

fn stacks(snapshot: &Snapshot) -> Vec<Vec<Frame<'_>>> {
    let entries = snapshot.device_traces.iter().flatten();
    let frames = |stack| snapshot.stacks.frames(stack).collect();
    entries.map(|entry| entry.stack.map_or_else(Vec::new, frames)).collect()
}

fn owners(snapshot: &Snapshot) -> Vec<String> {
    let mut owners = Owners::new(snapshot, None);
    let entries = snapshot.device_traces.iter().flatten();
    let allocations = entries.filter(|entry| entry.action == Action::Alloc);
    let numbers: Vec<_> =
        allocations.map(|entry| owners.of(entry.stack, entry.bytes, None)).collect();
    let names = owners.names();
    numbers.iter().map(|number| names[number.index()].trim_end().to_owned()).collect()
}

/// Pools too are the same, and owners but for annotations.
fn assert_same_lines(back: &Snapshot, mut original: Snapshot, name: &str) {
    original.annotations.clear();
    let (back, original) = (as_csv(back), as_csv(&original));
    let mut lines = back.split(|it| *it == b'\n').zip(original.split(|it| *it == b'\n'));
    if let Some((one, other)) = lines.find(|(one, other)| one != other) {
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        panic!("{name}: {} is not {}", text(one), text(other));
    }
    assert_eq!(back.len(), original.len(), "{name}");
}

#[test]
fn csv_of_a_snapshot_has_the_same_entries_and_owners_when_read_again() {
    for (name, snapshot) in
        NAMES.map(|name| (name, real(name))).into_iter().chain([("made up", made_up())])
    {
        let bytes = as_csv(&snapshot);
        let back = reread(&bytes).unwrap();
        assert!(told(&back) == told(&snapshot), "{name}");
        assert!(owners(&back) == owners(&snapshot), "{name}");
        assert_eq!(back.unknown_actions, snapshot.unknown_actions, "{name}");
        assert_same_lines(&back, snapshot, name);
    }
}

#[test]
fn a_chrome_trace_of_a_snapshot_has_the_same_entries_and_stacks_when_read_again() {
    for (name, snapshot) in
        NAMES.map(|name| (name, real(name))).into_iter().chain([("made up", made_up())])
    {
        let back = reread(&as_chrome(&snapshot)).unwrap();
        assert!(told(&back) == told(&snapshot), "{name}");
        assert!(stacks(&back) == stacks(&snapshot), "{name}");
        assert_same_lines(&back, snapshot, name);
    }
}

fn with(bytes: &[u8], from: &str, to: &str) -> Vec<u8> {
    let text = std::str::from_utf8(bytes).unwrap();
    assert!(text.contains(from), "{from} in {text}");
    text.replacen(from, to, 1).into_bytes()
}

#[test]
fn what_is_wrong_with_csv_is_said_by_line_and_column() {
    let bytes = as_csv(&made_up());
    // The first entry has a text of two lines, so the second stands in line 4.
    for (from, to, part) in [
        ("quantize,0x20000000000", "quantize,0x2zz", "line 4, column `address`: `0x2zz` is not"),
        (",free,0x10000000000,700,", ",free,0x10000000000,-7,", "line 5, column `bytes`: `-7`"),
        (",free,0x10000000000,700,", ",free,0xffffffffffffffff,700,", "above 9223372036854775807"),
        (",oom,12345,700,", ",oom,12345,700,9,", "line 6 has 12 columns, not 11"),
        ("1125899906842624,1,quantize", "noon,1,quantize", "line 4, column `time_us`: `noon`"),
        ("1125899906842624,1,quantize", "1,70000,quantize", "line 4, column `device`: `70000`"),
        (",3:300,", ",3-300,", "line 2, column `pool`: `3-300`"),
        ("detail,pool", "details,pool", "line 1 must be `index,time_us,"),
    ] {
        let refused = reread(&with(&bytes, from, to)).unwrap_err();
        assert!(refused.contains(part), "{refused}");
    }
}

#[test]
fn what_is_wrong_with_a_chrome_trace_is_said_by_line_column_and_key() {
    let bytes = as_chrome(&made_up());
    for (from, to, part) in [
        (
            "[\"free\",1099511627776,700",
            "[\"free\",1099511627776,-7",
            "invalid value: integer `-7`",
        ),
        (
            "[\"free\",1099511627776,700",
            "[\"free\",1099511627776,562949953421312",
            "entries[2]: `bytes`: 562949953421312 is above 281474976710656 at line",
        ),
        (
            ",0,[3,300]",
            ",9,[3,300]",
            "entries[0]: invalid value: integer `9`, expected the index of",
        ),
        ("\"entries\":[", "\"entrees\":[", "the key `entries` is missing at line"),
        ("snapshot 1", "snapshot 2", "of another version: `snapshot 2`"),
        (
            "\"wellspring\":\"snapshot 1\"",
            "\"by\":\"hand\"",
            "no Chrome trace that `convert` wrote",
        ),
    ] {
        let refused = reread(&with(&bytes, from, to)).unwrap_err();
        assert!(refused.contains(part), "{refused}");
    }
    for length in (1..bytes.len() - 2).step_by(7) {
        assert!(reread(&bytes[..length]).is_err(), "{length}");
    }
}

#[test]
fn traces_of_other_tools_are_refused_by_name() {
    let foreign = [
        "{\"schemaVersion\": 1, \"traceEvents\": [{\"ph\": \"X\"}]}",
        "{\"traceEvents\": [",
        "{\"displayTimeUnit\": \"ms\", \"otherData\": {}, \"traceEvents\": []}",
        "{}",
    ];
    for json in foreign {
        let refused = reread(json.as_bytes()).unwrap_err();
        assert!(refused.starts_with("is JSON, but no Chrome trace"), "{json}: {refused}");
    }
}

#[test]
fn memory_is_bounded_whatever_a_file_says() {
    let snapshot = real("streams");
    let few = csv::read(as_csv(&snapshot).as_slice(), 10_000).unwrap_err().to_string();
    assert!(few.contains("more than 10000 bytes of memory at line"), "{few}");
    let few = chrome::read(as_chrome(&snapshot).as_slice(), 10_000).unwrap_err().to_string();
    assert!(few.contains("more than 10000 bytes of memory at line"), "{few}");
    let long = "x".repeat(20 << 20);
    let table = with(&as_csv(&made_up()), "a note,", &long);
    let refused = reread(&table).unwrap_err();
    assert!(refused.contains("the next line is longer than 16777216 bytes"), "{refused}");
    let json = with(&as_chrome(&made_up()), "a note,", &long);
    assert!(reread(&json).unwrap_err().contains("a text is longer than 16777216 bytes"));
}

/// Was: without segments, as in CSV, the peak was counted back from nothing.
#[test]
fn what_was_reserved_is_told_by_the_entries_where_there_are_no_segments() {
    for name in NAMES {
        let original = real(name);
        let back = reread(&as_csv(&original)).unwrap();
        let reserved = |snapshot: &Snapshot| {
            let trace = snapshot.trace(None).unwrap();
            let summary = trace.summary(&trace.operations());
            assert!(summary.is_reserved_recorded, "{name}");
            (summary.initial_reserved_bytes, summary.recorded_peak_reserved_bytes)
        };
        // What was held before the first entry and never given back is not known any more.
        let ((first, peak), (found_first, found_peak)) = (reserved(&original), reserved(&back));
        assert_eq!(peak - found_peak, first - found_first, "{name}");
        assert!(name == "oom_frames" || peak == found_peak, "{name}");
    }
    let trace = made_up();
    let trace = trace.trace(None).unwrap();
    assert_eq!(trace.summary(&trace.operations()).reserved_peak_bytes(), None);
}
