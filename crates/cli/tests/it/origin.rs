//! What a file was made of is known through every detour, and answered as the source itself is.

use serde_json::Value;

use crate::command::{Said, trace_file, wellspring};

const LOG: &str = "Thread,Time,Action,Pointer,Size,Stream\n\
    1,10:00:00.000001,allocate,0x7f0000000000,1000000,0x0\n\
    1,10:00:00.000002,allocate,0x7f0000200000,3000000,0x5\n\
    1,10:00:00.000009,free,0x7f0000000000,1000000,0x0\n\
    1,10:00:00.000012,allocate,0x7f0000800000,30000,0x0\n";

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().to_owned()
    }

    /// Converts one file of the folder into another.
    fn convert(&self, from: &str, to: &str) {
        let said = wellspring(&["convert", &self.path(from), "-o", &self.path(to), "--quiet"]);
        assert_eq!((said.code, said.stderr.as_str()), (0, ""), "{from} {to}: {said:?}");
    }

    fn run(&self, command: &str, file: &str, more: &[&str]) -> Said {
        wellspring(&[&[command, &self.path(file)], more].concat())
    }

    /// What `what-if` answers, without the name and the times.
    fn answer(&self, file: &str) -> Value {
        let mut json = self.run("what-if", file, &["--json", "--setting", "default"]).json();
        json["trace"] = Value::Null;
        for row in json["rows"].as_array_mut().unwrap() {
            row["milliseconds"] = Value::Null;
        }
        json
    }
}

/// Makes pickles of `source` straight and over CSV and Chrome traces.
fn detours(folder: &Folder, source: &str) -> Vec<&'static str> {
    for (from, to) in [
        (source, "a.pickle"),
        ("a.pickle", "b.pickle"),
        ("a.pickle", "c.csv"),
        ("a.pickle", "d.json"),
        ("c.csv", "e.pickle"),
        ("d.json", "f.pickle"),
        ("e.pickle", "g.csv"),
    ] {
        folder.convert(from, to);
    }
    vec!["a.pickle", "b.pickle", "c.csv", "d.json", "e.pickle", "f.pickle", "g.csv"]
}

/// Was: a pickle that `convert` made was taken for PyTorch's own, with made-up segments, a recorded
/// setting and a check that found differences.
#[test]
fn a_pickle_made_of_a_log_is_answered_as_the_log() {
    let folder = Folder::new();
    std::fs::write(folder.path("log.txt"), LOG).unwrap();
    let expected = folder.answer("log.txt");
    assert_eq!(
        (&expected["recorder"], &expected["recorded_setting"]),
        (&"rmm_log".into(), &Value::Null)
    );
    for file in detours(&folder, "log.txt") {
        assert_eq!(folder.answer(file), expected, "{file}");
        let refused = folder.run("what-if", file, &["--check"]);
        refused.check_failure(2, &["no segments of PyTorch's to hold the model against"]);
        assert_eq!(folder.run("advise", file, &["--json"]).json()["kind"], "rmm_log", "{file}");
        let summary = folder.run("summary", file, &["--json"]).json();
        assert!(summary["kind"].as_str().unwrap().contains("log of RMM"), "{file}: {summary}");
        assert_eq!(summary["recorded"]["peak_reserved_bytes"], Value::Null, "{file}");
        assert_eq!(summary["segments"], Value::Null, "{file}");
        let diff = folder.run("diff", file, &[&folder.path("log.txt")]).stdout;
        assert_eq!(diff.matches('+').count() + diff.matches('-').count(), 0, "{file}: {diff}");
    }
    // A stream trace completes what a log frees at once in an entry of its own.
    folder.convert("a.pickle", "h.wst");
    folder.convert("h.wst", "i.pickle");
    for file in ["h.wst", "i.pickle"] {
        let answer = folder.answer(file);
        for key in ["recorder", "recorded_setting", "recorded_peak_reserved_bytes", "rows"] {
            assert_eq!(answer[key], expected[key], "{file}");
        }
    }
}

#[test]
fn a_pickle_made_of_a_stream_trace_is_answered_as_the_stream_trace() {
    let folder = Folder::new();
    let from = trace_file("streams");
    let made = folder.path("run.wst");
    let said = wellspring(&["convert", from.to_str().unwrap(), "-o", &made, "--quiet"]);
    assert_eq!(said.code, 0, "{said:?}");
    let expected = folder.answer("run.wst");
    assert_eq!(expected["recorder"], "stream_trace");
    for file in detours(&folder, "run.wst") {
        let answer = folder.answer(file);
        for key in ["recorder", "recorded_setting", "rows", "verdict", "events"] {
            assert_eq!(answer[key], expected[key], "{file}");
        }
        let refused = folder.run("what-if", file, &["--check"]);
        refused.check_failure(2, &["no segments of PyTorch's to hold the model against"]);
        let advice = folder.run("advise", file, &["--json"]).json();
        assert_eq!(advice["kind"], "stream_trace_snapshot", "{file}");
        let summary = folder.run("summary", file, &[]).stdout;
        assert!(summary.contains(" made of a stream trace, device 0"), "{file}: {summary}");
    }
}

/// The negative control: what PyTorch wrote stays PyTorch's, and its entries stay entries.
#[test]
fn what_pytorch_wrote_is_not_marked() {
    let folder = Folder::new();
    let from = trace_file("streams");
    let said = wellspring(&["convert", from.to_str().unwrap(), "-o", &folder.path("s.pickle")]);
    assert_eq!((said.code, said.stderr.as_str()), (0, ""), "{said:?}");
    let pickle = std::fs::read(folder.path("s.pickle")).unwrap();
    let needle = b"wellspring_made";
    assert!(!pickle.windows(needle.len()).any(|it| it == needle));
    for (file, recorder) in
        detours(&folder, "s.pickle").into_iter().zip(["pytorch", "pytorch", "pytorch_entries"])
    {
        assert_eq!(folder.answer(file)["recorder"], recorder, "{file}");
        assert_eq!(folder.run("what-if", file, &["--check"]).code, 0, "{file}");
    }
    // Made-up segments are no more PyTorch's than the CSV, which has none.
    assert_eq!(folder.answer("e.pickle"), folder.answer("c.csv"));
    assert_eq!(folder.answer("e.pickle")["recorder"], "pytorch_entries");
}

/// Was: replay took pickles alone, and sent others to another command.
#[test]
fn replay_takes_whatever_becomes_a_snapshot() {
    let folder = Folder::new();
    std::fs::write(folder.path("log.txt"), LOG).unwrap();
    folder.convert("log.txt", "a.pickle");
    folder.convert("log.txt", "b.wst");
    folder.convert("log.txt", "c.json");
    for file in ["log.txt", "a.pickle", "b.wst", "c.json"] {
        let said = folder.run("replay", file, &["--device", "sim", "--json", "--quiet"]);
        assert_eq!((said.code, said.stderr.as_str()), (0, ""), "{file}: {said:?}");
        let line = said.json();
        assert_eq!(line["recorded_peak_reserved_bytes"], Value::Null, "{file}: {line}");
        assert_eq!((&line["operations"], &line["out_of_memory"]), (&4.into(), &0.into()), "{file}");
        let table = folder.run("replay", file, &["--device", "sim", "--quiet"]).stdout;
        assert!(table.contains("not recorded") && !table.contains("PyTorch"), "{file}: {table}");
    }
}

/// Was: a run that had ended for lack of memory was told that nothing runs out, without a word.
#[test]
fn a_run_that_ran_out_is_said_to_have_in_the_first_lines() {
    let file = trace_file("oom_frames");
    let said = wellspring(&["what-if", file.to_str().unwrap(), "--setting", "default"]);
    let (first, rest) = said.stdout.split_once('\n').unwrap();
    let parts = ["fits: without --capacity nothing runs out, but the recorded run did", "3075MiB"];
    assert!(parts.iter().all(|part| first.contains(part)), "{said:?}");
    assert!(rest.contains("2.98 GiB reserved, 1 request failed for lack of memory"), "{said:?}");
    let file = trace_file("streams");
    let said = wellspring(&["what-if", file.to_str().unwrap(), "--setting", "default"]);
    assert!(
        !said.stdout.contains("recorded run did") && !said.stdout.contains("failed"),
        "{said:?}"
    );
}

/// Was: what a report showed of a log had 0 B reserved.
#[test]
fn a_report_of_a_log_does_not_say_that_nothing_was_reserved() {
    let folder = Folder::new();
    std::fs::write(folder.path("log.txt"), LOG).unwrap();
    let (page, picture) = (folder.path("r.html"), folder.path("r.svg"));
    let more = ["-o", page.as_str(), "--svg", picture.as_str()];
    let said = folder.run("report", "log.txt", &more);
    assert!(said.stdout.contains("peak reserved not recorded"), "{said:?}");
    let drawn = std::fs::read_to_string(&picture).unwrap();
    assert!(drawn.contains("peak reserved not recorded"), "{drawn}");
    let json = folder.run("report", "log.txt", &[&more[..], &["--json"]].concat()).json();
    assert_eq!(json["peak_reserved_bytes"], Value::Null, "{json}");
}
