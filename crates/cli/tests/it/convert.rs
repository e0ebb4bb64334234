//! `convert` between all kinds of files.

use std::path::{Path, PathBuf};

use serde_json::Value;
use trace::pytorch::{Action, ReadOptions, Snapshot, read_file};
use trace::{AnyTrace, read_any};

use crate::command::{Said, trace_file, wellspring};

fn convert(from: &Path, to: &Path, more: &[&str]) -> Said {
    let mut arguments = vec!["convert", from.to_str().unwrap(), "-o", to.to_str().unwrap()];
    arguments.extend(more);
    wellspring(&arguments)
}

fn converted(name: &str, ending: &str) -> (tempfile::TempDir, PathBuf, Said) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join(format!("out.{ending}"));
    let said = convert(&trace_file(name), &file, &[]);
    assert_eq!((said.code, said.stdout.as_str()), (0, ""), "{said:?}");
    (folder, file, said)
}

fn snapshot(file: &Path) -> Snapshot {
    read_file(file, &ReadOptions::default(), None).unwrap()
}

#[test]
fn a_pickle_of_a_pickle_is_the_same_snapshot() {
    for name in ["graphs", "streams", "oom_frames"] {
        let (_folder, file, said) = converted(name, "pickle");
        assert_eq!(said.stderr, "", "{name}");
        assert!(snapshot(&file) == snapshot(&trace_file(name)), "{name}");
    }
}

/// What a trace does to memory: actions but those of blocks that complete, sizes, streams.
fn steps(snapshot: &Snapshot) -> Vec<(Action, u64, u64)> {
    let trace = snapshot.trace(None).unwrap();
    let entries = trace.entries().iter().filter(|entry| entry.action != Action::FreeCompleted);
    entries.map(|entry| (entry.action, entry.address, entry.bytes)).collect()
}

#[test]
fn a_snapshot_comes_back_from_a_stream_trace() {
    let (_folder, file, said) = converted("streams", "wst");
    assert_eq!(said.stderr, "", "{said:?}");
    let AnyTrace::Recording(recording) = read_any(&file, &ReadOptions::default(), None).unwrap()
    else {
        panic!("a stream trace was written")
    };
    assert!(recording.is_complete());
    let folder = tempfile::tempdir().unwrap();
    let back = folder.path().join("back.pkl");
    let said = convert(&file, &back, &[]);
    assert!(said.stderr.contains("holds"), "{said:?}");
    let (original, back) = (snapshot(&trace_file("streams")), snapshot(&back));
    assert_eq!(steps(&back), steps(&original));
    let peaks = |snapshot: &Snapshot| {
        let trace = snapshot.trace(None).unwrap();
        let summary = trace.summary(&trace.operations());
        (summary.peaks, summary.recorded_peak_reserved_bytes, summary.deferred_free_count)
    };
    assert_eq!(peaks(&back), peaks(&original));
}

#[test]
fn a_chrome_trace_has_every_block_and_its_end() {
    let (_folder, file, _) = converted("graphs", "json");
    let text = std::fs::read_to_string(&file).unwrap();
    let trace: Value = serde_json::from_str(&text).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let of = |phase: &'static str| events.iter().filter(move |event| event["ph"] == phase);
    assert_eq!((of("b").count(), of("e").count()), (1457, 1457));
    let mut begun: Vec<&str> =
        of("b").map(|event| event["id2"]["local"].as_str().unwrap()).collect();
    let mut ended: Vec<&str> =
        of("e").map(|event| event["id2"]["local"].as_str().unwrap()).collect();
    begun.sort_unstable();
    ended.sort_unstable();
    assert_eq!(begun, ended);
    let reserved = of("C").filter(|event| event["name"] == "reserved");
    let peak = reserved.map(|event| event["args"]["bytes"].as_u64().unwrap()).max();
    let original = snapshot(&trace_file("graphs"));
    let recorded = original.trace(None).unwrap();
    let recorded = recorded.summary(&recorded.operations()).recorded_peak_reserved_bytes;
    assert_eq!(peak, Some(recorded));
}

#[test]
fn csv_has_a_line_for_each_entry_and_quotes_what_needs_it() {
    let (_folder, file, _) = converted("oom_frames", "csv");
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.starts_with(
        "index,time_us,device,action,address,bytes,stream,owner,detail,pool,context\n"
    ));
    assert_eq!(text.lines().count(), 20_001);
    let oom: Vec<&str> = text.lines().filter(|line| line.contains(",oom,")).collect();
    assert_eq!(oom.len(), 1, "{oom:?}");
}

#[test]
fn csv_and_chrome_traces_are_taken_wherever_a_file_of_any_kind_is() {
    for ending in ["csv", "json"] {
        let (folder, file, said) = converted("oom_frames", ending);
        assert!(said.stderr.contains("cannot hold and lacks: 39 segments"), "{said:?}");
        let back = folder.path().join("back.pickle");
        assert_eq!(convert(&file, &back, &[]).code, 0);
        let all = |snapshot: &Snapshot| {
            let entries = snapshot.trace(None).unwrap().entries().iter();
            entries.map(|it| (it.action, it.address, it.bytes, it.stream)).collect::<Vec<_>>()
        };
        assert!(all(&snapshot(&back)) == all(&snapshot(&trace_file("oom_frames"))), "{ending}");
        let said = wellspring(&["summary", file.to_str().unwrap(), "--json"]);
        assert_eq!(said.json()["by_owner"][0]["name"], "train.py:17 steps", "{ending}");
        let page = folder.path().join("page.html");
        let (file, page) = (file.to_str().unwrap(), page.to_str().unwrap());
        assert_eq!(wellspring(&["report", file, "-o", page]).code, 0, "{ending}");
        assert_eq!(wellspring(&["diff", file, file]).code, 0, "{ending}");
    }
}

#[test]
fn an_rmm_log_becomes_a_pickle_with_made_up_segments() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("rmm.csv");
    let lines = "Thread,Time,Action,Pointer,Size,Stream\n\
                 1,23:59:59.999999,allocate,0x7f0000000000,1000,0x0\n\
                 2,00:00:00:000001,allocate,0x7f0000400000,5000000,0x2a\n\
                 1,00:00:01.5,free,0x7f0000000000,1000,0x0\n\
                 1,00:00:02.0,allocate failure,0x0,4000000000,0x0\n";
    std::fs::write(&log, lines).unwrap();
    let pickle = folder.path().join("rmm.pickle");
    let said = convert(&log, &pickle, &[]);
    assert_eq!(said.code, 0, "{said:?}");
    assert!(said.stderr.contains("2 were made up"), "{said:?}");
    let made = snapshot(&pickle);
    assert_eq!((made.segments.len(), made.passed_over_count), (0, 0), "they are for other tools");
    let mut unmarked = std::fs::read(&pickle).unwrap();
    let mark = b"wellspring_made_up_segments";
    let at = unmarked.windows(mark.len()).position(|it| it == mark).unwrap();
    unmarked[at] = b'x';
    std::fs::write(&pickle, unmarked).unwrap();
    assert_eq!(snapshot(&pickle).segments.len(), 2);
    let trace = made.trace(None).unwrap();
    let times: Vec<i64> = trace.entries().iter().map(|entry| entry.time_us).collect();
    assert_eq!(times[1] - times[0], 2, "midnight passed");
    let summary = trace.summary(&trace.operations());
    assert_eq!((summary.counts.out_of_memory, summary.lost_beginning), (1, false));
    for (line, part) in [
        ("1,1:2,allocate,0x1,1,0x0", "line 2, column `Time`: `1:2`"),
        ("1,10:00:00.0,allocate,0xzz,1,0x0", "line 2, column `Pointer`: `0xzz`"),
        ("1,10:00:00.0,allocate,0x100,-1,0x0", "line 2, column `Size`: `-1`"),
        ("1,10:00:00.0,allocate,0x100,1", "line 2 has no column `Stream`"),
    ] {
        let text = format!("Thread,Time,Action,Pointer,Size,Stream\n{line}\n");
        std::fs::write(&log, text).unwrap();
        convert(&log, &pickle, &[]).check_failure(2, &["rmm.csv", part]);
    }
}

#[test]
fn what_cannot_be_converted_ends_with_2_and_leaves_files_alone() {
    let folder = tempfile::tempdir().unwrap();
    let kept = folder.path().join("kept.wst");
    std::fs::write(&kept, "precious").unwrap();
    let graphs = trace_file("graphs");
    convert(&graphs, &kept, &["--trace-device", "9"]).check_failure(2, &["no device 9"]);
    convert(Path::new("/no/such"), &kept, &[]).check_failure(2, &["no such file"]);
    assert_eq!(std::fs::read_to_string(&kept).unwrap(), "precious");
    let odd = folder.path().join("out.txt");
    convert(&graphs, &odd, &[]).check_failure(2, &["names no format"]);
    assert!(!odd.exists());
    assert_eq!(convert(&graphs, &odd, &["--to", "csv"]).code, 0);
    convert(&graphs, &graphs, &["--to", "pickle"]).check_failure(2, &["is what is read"]);
    let nowhere = folder.path().join("no/folder/out.csv");
    convert(&graphs, &nowhere, &[]).check_failure(1, &["cannot be written"]);
}

#[test]
fn the_standard_output_may_end_early() {
    let command = format!(
        "'{}' convert '{}' -o - --to csv | head -1",
        env!("CARGO_BIN_EXE_wellspring"),
        trace_file("gpt_train").display()
    );
    let output = std::process::Command::new("sh").args(["-c", &command]).output().unwrap();
    let said = Said::from(output);
    assert_eq!((said.stderr.as_str(), said.stdout.lines().count()), ("", 1), "{said:?}");
}

/// Python's own reader takes what is written, if there is a Python.
#[test]
#[expect(clippy::print_stdout, reason = "a test that saw nothing says so")]
fn python_reads_the_pickle() {
    let (folder, file, _) = converted("graphs", "pickle");
    let script = "import pickle, sys\n\
                  d = pickle.load(open(sys.argv[1], 'rb'))\n\
                  for s in d['segments']:\n    \
                      a = s['address']\n    \
                      for b in s['blocks']:\n        \
                          assert b['address'] == a, (a, b)\n        \
                          a += b['size']\n    \
                      assert a == s['address'] + s['total_size'], s\n\
                  print(len(d['segments']), len(d['device_traces'][0]))\n";
    let run = std::process::Command::new("python3")
        .args(["-c", script, file.to_str().unwrap()])
        .current_dir(folder.path())
        .output();
    match run {
        Ok(output) => {
            let said = Said::from(output);
            assert_eq!((said.code, said.stdout.as_str()), (0, "44 4313\n"), "{said:?}");
        }
        Err(error) => println!("python3 is missing, so it read nothing: {error}"),
    }
}

/// A program of ours that is recorded through the facade is shown by PyTorch's tools.
#[test]
fn a_recorded_program_becomes_a_pickle_with_its_peaks() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.wst");
    let runtime = wellspring::Builder::new().record_to(&file).simulated().unwrap();
    let (home, side) = (runtime.create_stream().unwrap(), runtime.create_stream().unwrap());
    let mut kept = Vec::new();
    for step in 1..=50_usize {
        let buffer =
            wellspring::DeviceBuffer::<f32>::zeroed(&runtime, &home, step * 10_000).unwrap();
        if step.is_multiple_of(10) {
            kept.push(buffer);
        } else {
            buffer.record_stream(&side);
        }
    }
    let stats = runtime.stats();
    runtime.finish_recording().unwrap();
    let pickle = folder.path().join("run.pickle");
    let said = convert(&file, &pickle, &[]);
    assert!(said.stderr.contains("uses by streams"), "{said:?}");
    let made = snapshot(&pickle);
    let trace = made.trace(None).unwrap();
    let summary = trace.summary(&trace.operations());
    assert_eq!(summary.counts.alloc, 50);
    assert_eq!(summary.peaks.allocated_bytes, stats.allocated_bytes.peak);
    assert_eq!(summary.recorded_peak_reserved_bytes, stats.reserved_bytes.peak);
    let blocks = made.segments.iter().flat_map(|segment| &segment.blocks);
    let states: Vec<_> = blocks.map(|block| block.state).collect();
    let allocated = states.iter().filter(|it| **it == trace::pytorch::BlockState::Allocated);
    assert_eq!(allocated.count(), kept.len());
    for segment in &made.segments {
        let sum: u64 = segment.blocks.iter().map(|block| block.bytes).sum();
        assert_eq!(sum, segment.total_bytes, "blocks tile their segment");
    }
    let json = folder.path().join("run.json");
    assert_eq!(convert(&file, &json, &[]).code, 0);
    let events: Value = serde_json::from_str(&std::fs::read_to_string(&json).unwrap()).unwrap();
    let events = events["traceEvents"].as_array().unwrap();
    assert!(events.iter().any(|event| event["ph"] == "X" && event["pid"] == 2));
}

/// Was: only another spelling of the path was found out.
#[test]
fn a_hard_link_to_what_is_read_is_not_written() {
    let folder = tempfile::tempdir().unwrap();
    let [file, link] = ["a.pickle.zst", "b.pickle"].map(|name| folder.path().join(name));
    std::fs::copy(trace_file("graphs"), &file).unwrap();
    std::fs::hard_link(&file, &link).unwrap();
    let before = std::fs::read(&file).unwrap();
    #[cfg(unix)]
    convert(&file, &link, &[]).check_failure(2, &["b.pickle is what is read"]);
    convert(&file, &file, &["--to", "csv"]).check_failure(2, &["is what is read"]);
    assert!(std::fs::read(&file).unwrap() == before);
}
