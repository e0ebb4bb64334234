//! A pack of shell scripts, run to its end and reported, as a pack of real programs is.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Totals, run};
use crate::gpu::manifest::{Entry, Kind, Manifest};
use crate::gpu::probe::{Probe, probe};
use crate::gpu::results::{
    BENCHES, EXAMPLES, PATTERNS, PROBE, REPLAYS, ReplayRun, Results, SANITIZER, TESTS, TestRun,
};
use crate::gpu::{Device, report};

/// Answers as libtest does when it is asked for one test with `--exact`.
const SUITE: &str = r#"
case "$1" in
good) echo "test good ... stress: device=$WELLSPRING_DEVICE mismatches=0"
    echo "probe: free waits=no"; echo "test result: ok. 1 passed; 0 failed; 0 ignored" ;;
gone) echo "test result: ok. 0 passed; 0 failed; 0 ignored" ;;
slow) exec sleep 60 ;;
esac
"#;
const COMMAND: &str = r#"
[ "$1 $3" = "replay sim" ] || exit 2
cat "$2"
"#;
const BENCH: &str = r#"
mkdir -p "$CRITERION_HOME/pair/new"
echo '{"full_id":"pair"}' >"$CRITERION_HOME/pair/new/benchmark.json"
echo '{"median":{"point_estimate":5,"confidence_interval":{"lower_bound":4,"upper_bound":6}}}' \
    >"$CRITERION_HOME/pair/new/estimates.json"
"#;
const LINE: &str = r#"{"policy":"default","source":"vmm","operations":1,"deferred_frees":0,
"peak_pending_bytes":0,"peak_reserved_bytes":2,"recorded_peak_reserved_bytes":4,"utilization":0.5,
"segments":1,"driver_calls":3,"ns_per_operation":80.5,"stamps_checked":20,"stamp_errors":0,
"out_of_memory":0}"#;

/// Another process writes the file: while this one had it open for writing, a program started
/// by a test beside this one would hold it open too, and running it would be refused.
fn script(pack: &Path, name: &str, text: &str) {
    let write = r#"printf '#!/bin/sh\n%s' "$2" >"$1" && chmod +x "$1""#;
    let path = pack.join(name);
    let status = Command::new("sh").args(["-c", write, "sh"]).arg(path).arg(text).status();
    assert!(status.unwrap().success());
}

fn entry(name: &str, kind: Kind, arguments: &[&str], tests: &[&str]) -> Entry {
    let owned = |words: &[&str]| words.iter().copied().map(String::from).collect();
    let (file, arguments, tests) = (name.to_owned(), owned(arguments), owned(tests));
    Entry { name: name.to_owned(), kind, file, arguments, tests, seconds_max: 60, needs_gpu: false }
}

/// A pack with one program of each kind and these tests in its suite.
fn pack(tests: &[&str], seconds_max: u64) -> PathBuf {
    let pack = crate::test_folder("scripts");
    for (name, text) in [("suite", SUITE), ("wellspring", COMMAND), ("bench", BENCH)] {
        script(&pack, name, text);
    }
    script(&pack, "example", "echo hello");
    std::fs::write(pack.join("peer.py"), "print('pattern: pattern=equal ns=1')\n").unwrap();
    std::fs::write(pack.join("a.pickle"), LINE).unwrap();
    let replay = ["replay", "{pack}/a.pickle", "{device}"];
    let entries = vec![
        Entry { seconds_max, ..entry("suite", Kind::Test, &[], tests) },
        entry("wellspring", Kind::Replay, &replay, &[]),
        entry("bench", Kind::Bench, &[], &[]),
        entry("example", Kind::Example, &[], &[]),
        Entry { needs_gpu: true, ..entry("gone", Kind::Example, &[], &[]) },
        entry("peer.py", Kind::Pattern, &[], &[]),
        entry("suite", Kind::Sanitize, &[], tests),
    ];
    Manifest::new(String::from("abc"), String::from("now"), entries).write(&pack).unwrap();
    pack
}

#[test]
fn a_whole_pack_runs_and_its_results_become_a_page() {
    let (pack, out) = (pack(&["good"], 60), crate::test_folder("out"));
    let totals = run(&pack, probe(Device::Sim), &out, &[]).unwrap();
    assert_eq!(totals, Totals { passed: 5, failed: 0 });
    let results = Results::at(&out);
    let tests: Vec<TestRun> = results.read_json(TESTS).unwrap();
    assert_eq!(tests[0].stress, ["device=sim mismatches=0"]);
    let examples = results.read(EXAMPLES).unwrap();
    assert!(examples.contains("== gone: not run, it needs a GPU\n"), "{examples}");
    assert!(results.read(PATTERNS).unwrap().contains("pattern: pattern=equal ns=1"));
    let checked = results.read(SANITIZER).unwrap();
    assert_eq!(checked, "sanitizer: absent=a_simulated_device_has_none\n");
    let measured = results.read_json::<Probe>(PROBE).unwrap().measured;
    assert_eq!(measured.get("free waits").map(String::as_str), Some("no"));
    assert!(results.read(BENCHES).unwrap().contains("median_ns 5.00 4.00 6.00 pair"));
    assert!(std::fs::read_dir(&out).unwrap().count() <= 8, "a run leaves at most eight files");
    report::write(&out, &out.join("page.md")).unwrap();
    for folder in [pack, out] {
        std::fs::remove_dir_all(folder).unwrap();
    }
}

#[test]
fn a_test_that_is_gone_or_too_slow_has_failed() {
    let (pack, out) = (pack(&["gone", "slow", "good"], 2), crate::test_folder("out"));
    let totals = run(&pack, probe(Device::Sim), &out, &[Kind::Test]).unwrap();
    assert_eq!(totals, Totals { passed: 1, failed: 2 });
    let runs: Vec<TestRun> = Results::at(&out).read_json(TESTS).unwrap();
    let how: Vec<&str> = runs.iter().map(|run| run.how.as_str()).collect();
    assert_eq!(how, ["ran no test", "killed at its limit after 2 s", "exit 0"]);
    for folder in [pack, out] {
        std::fs::remove_dir_all(folder).unwrap();
    }
}

#[test]
fn one_kind_alone_leaves_the_files_of_the_others() {
    let (pack, out) = (pack(&["good"], 60), crate::test_folder("out"));
    run(&pack, probe(Device::Sim), &out, &[Kind::Test]).unwrap();
    let totals = run(&pack, probe(Device::Sim), &out, &[Kind::Replay]).unwrap();
    assert_eq!(totals, Totals { passed: 1, failed: 0 });
    let results = Results::at(&out);
    assert_eq!(results.read_json::<Vec<TestRun>>(TESTS).unwrap().len(), 1);
    let replay: ReplayRun = serde_json::from_str(results.read(REPLAYS).unwrap().trim()).unwrap();
    assert!(replay.passed, "{replay:?}");
    for folder in [pack, out] {
        std::fs::remove_dir_all(folder).unwrap();
    }
}
