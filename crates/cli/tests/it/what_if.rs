//! `what-if` on real traces: what fits, what to paste, and what is refused.

use serde_json::Value;

use crate::command::{Said, trace_file, wellspring};
use crate::pickle::{Value as Pickled, entry, pickle, snapshot};

const EXPANDABLE: &str = "expandable_segments:True";
const GC: &str = "garbage_collection_threshold:0.8,max_split_size_mb:256";

fn what_if(name: &str, more: &[&str]) -> Said {
    let file = trace_file(name);
    let mut arguments = vec!["what-if", file.to_str().unwrap()];
    arguments.extend(more);
    wellspring(&arguments)
}

fn row<'a>(json: &'a Value, setting: &str) -> &'a Value {
    let rows = json["rows"].as_array().unwrap();
    rows.iter().find(|row| row["setting"] == setting).unwrap()
}

#[test]
fn a_setting_fits_at_its_smallest_limit_and_not_one_per_cent_below() {
    for (setting, mebibytes) in [("default", 4_860_u64), (EXPANDABLE, 4_241), (GC, 4_404)] {
        let limit = mebibytes << 20;
        for (capacity, fits) in [(limit, true), (limit - limit / 100, false)] {
            let capacity = capacity.to_string();
            let more = ["--capacity", &capacity, "--setting", setting, "--json"];
            let json = what_if("gnn_train", &more).json();
            assert_eq!(row(&json, setting)["fits"], fits, "{setting} with {capacity}: {json}");
            assert_eq!(row(&json, setting)["out_of_memory_event"].is_null(), fits);
            assert_eq!(json["capacity_bytes"].to_string(), capacity);
        }
    }
}

#[test]
fn the_line_has_its_fields_and_our_own_rows() {
    let said = what_if("gnn_train", &["--json", "--quiet", "--setting", EXPANDABLE]);
    assert_eq!((said.code, said.stderr.as_str()), (0, ""), "{said:?}");
    let json = said.json();
    assert_eq!((&json["schema"], &json["capacity_bytes"]), (&1.into(), &Value::Null));
    assert_eq!(json["live_peak_bytes"], 4_378_587_136_u64);
    assert_eq!(json["paste"], format!("PYTORCH_CUDA_ALLOC_CONF={EXPANDABLE}"));
    assert!(json["verdict"].as_str().unwrap().starts_with("fits: "), "{json}");
    let theirs = row(&json, EXPANDABLE);
    assert_eq!((&theirs["model"], &theirs["segments"]), (&"pytorch".into(), &0.into()));
    assert_eq!(theirs["peak_reserved_bytes"], 4_884_267_008_u64);
    assert_eq!(row(&json, "default")["peak_reserved_bytes"], 11_202_985_984_u64);
    let ours = row(&json, "policy:default");
    assert_eq!((&ours["model"], &ours["fits"]), (&"wellspring".into(), &true.into()));
    let (ours, floor) = (&ours["peak_reserved_bytes"], json["page_floor_bytes"].as_u64().unwrap());
    assert!(floor <= ours.as_u64().unwrap() && ours.as_u64().unwrap() < 6_000_000_000, "{json}");
}

/// Was: the line that an answer says to paste was refused as a setting.
#[test]
fn what_is_to_be_pasted_is_a_setting() {
    let pasted = format!("PYTORCH_CUDA_ALLOC_CONF={EXPANDABLE}");
    let json = what_if("streams", &["--json", "--quiet", "--setting", &pasted]).json();
    assert_eq!(row(&json, EXPANDABLE)["model"], "pytorch");
    what_if("streams", &["--setting", "ALLOC_CONF=1:2"]).check_failure(2, &["is no key"]);
}

#[test]
fn where_nothing_fits_the_holders_are_named() {
    let said = what_if("streams", &["--capacity", "64MiB", "--setting", EXPANDABLE]);
    assert_eq!(said.code, 0, "{said:?}");
    let first = said.stdout.lines().next().unwrap();
    assert!(first.starts_with("nothing fits: live bytes alone need "), "{first}");
    assert!(first.contains("no setting helps; held by stream 0x"), "{first}");
    assert!(!said.stdout.contains("PYTORCH_CUDA_ALLOC_CONF="), "{said:?}");
}

#[test]
fn an_out_of_memory_is_found_at_its_own_entry_and_lines_of_the_program_are_named() {
    let said = what_if("oom_frames", &["--capacity", "3GiB", "--setting", "default", "--json"]);
    let json = said.json();
    assert_eq!(row(&json, "default")["out_of_memory_event"], 19_959, "{json}");
    assert!(json["holders"][0]["owner"].as_str().unwrap().starts_with("train.py:"), "{json}");
    let verdict = json["verdict"].as_str().unwrap();
    assert!(verdict.contains("no setting helps; held by train.py:"), "{verdict}");
    let more = ["--owner", "mlp", "--setting", "default", "--json"];
    let json = what_if("oom_frames", &more).json();
    let owners: Vec<&str> = json["holders"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["owner"].as_str().unwrap())
        .collect();
    assert!(owners.iter().any(|owner| owner.ends_with(" mlp")), "{owners:?}");
}

#[test]
fn several_snapshots_have_a_line_each() {
    let (one, two) = (trace_file("streams"), trace_file("graphs"));
    let (one, two) = (one.to_str().unwrap(), two.to_str().unwrap());
    let said = wellspring(&["what-if", one, two, "--json", "--setting", "default"]);
    let traces: Vec<Value> =
        said.stdout.lines().map(|it| serde_json::from_str(it).unwrap()).collect();
    assert_eq!(traces.len(), 2, "{said:?}");
    assert!(traces[1]["trace"].as_str().unwrap().ends_with("graphs.pickle.zst"));
    let said = wellspring(&["what-if", one, two, "--check"]);
    assert_eq!(said.code, 0, "{said:?}");
    assert_eq!(said.stdout.matches(" 0 at another address").count(), 2, "{said:?}");
}

#[test]
fn what_was_not_recorded_so_ends_a_check_with_1() {
    // Nothing is that small a segment of PyTorch's.
    let entries = vec![
        entry("segment_alloc", 1 << 30, 1 << 20),
        entry("alloc", 1 << 30, 1000),
        entry("segment_alloc", 1 << 31, 1 << 20),
        entry("alloc", 1 << 31, 1000),
    ];
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("odd.pickle");
    std::fs::write(&file, pickle(&snapshot(entries))).unwrap();
    let said = wellspring(&["what-if", file.to_str().unwrap(), "--check", "--json"]);
    assert_eq!(said.code, 1, "{said:?}");
    assert_eq!(said.json()["wrong_events"], 2, "{said:?}");
}

#[test]
fn what_cannot_be_asked_ends_with_2() {
    let failed = |more: &[&str], part: &str| what_if("streams", more).check_failure(2, &[part]);
    failed(&["--setting", "expandable:True"], "`expandable` is no key");
    failed(&["--setting", "max_split_size_mb:3"], "not below large_segment_size_mb");
    failed(&["--setting", "backend:cudaMallocAsync"], "is not modeled");
    failed(&["--device", "7"], "7");
    failed(&["--owner", "("], "is no regular expression");
    failed(&["--capacity", "much"], "write a size such as 2GiB");
    failed(&["--check", "--search"], "cannot be used with");
    wellspring(&["what-if"]).check_failure(2, &["<SNAPSHOT>"]);
    wellspring(&["what-if", "/no/such.pickle"]).check_failure(2, &["no such file"]);
    let kept = trace_file("graphs");
    let line = ["what-if", "--setting", "default", "/no/such.pickle", kept.to_str().unwrap()];
    let said = wellspring(&[&line[..], &["/none/either.pickle"]].concat());
    assert_eq!(said.code, 2, "{said:?}");
    assert!(said.stdout.starts_with("fits: "), "a bad file keeps no answer back: {said:?}");
    assert!(said.stderr.contains("/no/such.pickle cannot") && said.stderr.contains("/none/either"));
}

/// Was: a frame's line break began a line of the answer, which may look like the one to paste.
#[test]
fn no_name_in_a_trace_begins_a_line_of_the_answer() {
    let frame = Pickled::Dict(vec![
        ("filename", Pickled::Text("train.py")),
        ("line", Pickled::Int(1)),
        ("name", Pickled::Text("f\nPYTORCH_CUDA_ALLOC_CONF=forged\r\u{1b}[2J\u{202e}")),
    ]);
    let Pickled::Dict(mut alloc) = entry("alloc", 1 << 30, 1000) else { unreachable!() };
    alloc.push(("frames", Pickled::List(vec![frame])));
    let entries = vec![entry("segment_alloc", 1 << 30, 2 << 20), Pickled::Dict(alloc)];
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.pickle");
    std::fs::write(&file, pickle(&snapshot(entries))).unwrap();
    let said = wellspring(&["what-if", file.to_str().unwrap(), "--capacity", "1B"]);
    let verdict = said.stdout.lines().next().unwrap();
    assert!(
        verdict.contains(r"f\nPYTORCH_CUDA_ALLOC_CONF=forged\r\u{1b}[2J\u{202e} ("),
        "{said:?}"
    );
    assert!(!said.stdout.lines().any(|line| line.starts_with("PYTORCH")), "{said:?}");
}

/// Was: without segments, the recorded peak was counted back from nothing, and so differed.
#[test]
fn csv_and_chrome_traces_are_checked_as_the_snapshot_they_were_made_of() {
    let folder = tempfile::tempdir().unwrap();
    for (name, ending) in [("streams", "csv"), ("gnn_train", "json")] {
        let file = folder.path().join(format!("{name}.{ending}"));
        let (from, file) = (trace_file(name), file.to_str().unwrap());
        let said = wellspring(&["convert", from.to_str().unwrap(), "-o", file, "--quiet"]);
        assert_eq!(said.code, 0, "{said:?}");
        let said = wellspring(&["what-if", file, "--check", "--json"]);
        assert_eq!(said.code, 0, "{said:?}");
        let found = said.json();
        assert_eq!((&found["wrong_addresses"], &found["wrong_events"]), (&0.into(), &0.into()));
        assert!(found["lacks"][0].as_str().unwrap().starts_with("segments: "), "{found}");
        let original = what_if(name, &["--check", "--json"]).json();
        for key in ["recorded_peak_reserved_bytes", "peak_reserved_bytes", "events"] {
            assert_eq!(found[key], original[key], "{name}: {key}");
        }
        let asked = ["what-if", file, "--json", "--setting", EXPANDABLE, "--capacity", "24GiB"];
        let json = wellspring(&asked).json();
        assert_eq!(json["recorder"], "pytorch_entries");
        let original = what_if(name, &["--json", "--setting", EXPANDABLE]).json();
        let peak = |json: &Value| row(json, EXPANDABLE)["peak_reserved_bytes"].clone();
        assert_eq!(peak(&json), peak(&original), "{name}");
    }
}

#[test]
fn a_log_of_rmm_is_answered_and_what_it_lacks_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rmm.csv");
    let mut lines = "Thread,Time,Action,Pointer,Size,Stream\n".to_owned();
    for step in 0..100_u64 {
        let address = 0x7f00_0000_0000 + step * (32 << 20);
        lines += &format!("1,10:00:{:02}.0,allocate,{address:#x},20000000,0x0\n", step / 2);
        if 0 < step {
            let earlier = address - (32 << 20);
            lines += &format!("1,10:00:{:02}.5,free,{earlier:#x},20000000,0x0\n", step / 2);
        }
    }
    lines += "1,10:01:00.0,allocate failure,0x0,4000000000,0x0\n";
    std::fs::write(&file, lines).unwrap();
    let file = file.to_str().unwrap();
    let json = wellspring(&["what-if", file, "--json"]).json();
    assert_eq!((&json["recorder"], &json["recorded_setting"]), (&"rmm_log".into(), &Value::Null));
    assert_eq!(json["recorded_peak_reserved_bytes"], Value::Null);
    let rows = json["rows"].as_array().unwrap();
    assert!(8 < rows.len() && rows.iter().all(|row| row["is_recorded"] == false), "{json}");
    // Two blocks of 20 MB are in use at most, and the request that failed is made once more.
    assert_eq!(json["live_peak_bytes"], 4_000_000_000_u64.next_multiple_of(512) + 20_000_256);
    assert!(json["verdict"].as_str().unwrap().starts_with("fits: without --capacity"), "{json}");

    let said = wellspring(&["what-if", file, "--capacity", "3GiB", "--setting", EXPANDABLE]);
    assert!(said.stdout.starts_with("nothing fits: live bytes alone need 3.74 GiB"), "{said:?}");
    for part in ["entries of a log of RMM, 1 request failed", "does not tell which streams used"] {
        assert!(said.stdout.contains(part), "{part}: {said:?}");
    }
    assert!(!said.stdout.contains("recorded under"), "{said:?}");
    let said = wellspring(&["what-if", file, "--capacity", "4GiB"]);
    assert!(said.stdout.starts_with("fits: default gets through 4.00 GiB"), "{said:?}");
    wellspring(&["what-if", file, "--check"]).check_failure(2, &["rmm.csv has no segments of"]);
    let said = wellspring(&["summary", file]);
    for part in ["rmm.csv: log of RMM", "peak reserved     not recorded", "at the end: not in"] {
        assert!(said.stdout.contains(part), "{part}: {said:?}");
    }
    let json = wellspring(&["diff", file, file, "--json"]).json();
    let names = ["peak_reserved_bytes", "reserved_bytes", "segments"];
    let figures = json["figures"].as_array().unwrap().iter();
    let found = figures.filter(|it| names.iter().any(|name| it["name"] == *name));
    assert!(found.clone().count() == 3 && found.clone().all(|it| it["before"].is_null()), "{json}");
}

#[test]
fn a_stream_trace_is_answered_with_its_uses() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.wst");
    let runtime = wellspring::Builder::new().record_to(&file).simulated().unwrap();
    let (home, side) = (runtime.create_stream().unwrap(), runtime.create_stream().unwrap());
    for step in 1..=20_usize {
        let buffer =
            wellspring::DeviceBuffer::<f32>::zeroed(&runtime, &home, step * 100_000).unwrap();
        buffer.record_stream(&side);
    }
    runtime.finish_recording().unwrap();
    let reserved = runtime.stats().reserved_bytes.peak;
    let file = file.to_str().unwrap();
    let json = wellspring(&["what-if", file, "--json"]).json();
    assert_eq!(json["recorder"], "stream_trace");
    assert_eq!(json["recorded_setting"], Value::Null);
    assert_eq!(json["recorded_peak_reserved_bytes"], reserved);
    let live = (20_u64 * 100_000 * 4).next_multiple_of(512);
    assert_eq!(json["live_peak_bytes"], live);
    assert!(json["holders"][0]["owner"].as_str().unwrap().contains("what_if.rs:"), "{json}");
    assert!(json["notes"][0].as_str().unwrap().contains("uses are known"), "{json}");
    let said = wellspring(&["what-if", file, "--capacity", "1GiB"]);
    assert!(said.stdout.starts_with("fits: default gets through 1.00 GiB"), "{said:?}");
    assert!(said.stdout.contains(" of a stream trace, with "), "{said:?}");
    wellspring(&["what-if", file, "--check"]).check_failure(2, &["no segments of PyTorch's"]);
    std::fs::write(file, trace::stream_trace::Writer::new(vec![], 0).unwrap().finish().unwrap())
        .unwrap();
    let refused = wellspring(&["what-if", file]);
    refused.check_failure(2, &["is of a stream trace without allocations"]);
}
