//! A results folder as a run leaves it, and the page made from it.

use std::path::PathBuf;

use serde_json::json;

use super::write;
use crate::gpu::Device;
use crate::gpu::probe::{Gpu, Packed, Probe};
use crate::gpu::results::{
    BENCHES, EXAMPLES, PATTERNS, PROBE, RANDOM, REPLAYS, Results, SANITIZER, TESTS, TestRun,
};

const PATTERN_LINES: &str = "\
pattern: pattern=three_streams strategy=unsynchronized ns=100000000 ns_min=100000000 \
ns_max=100000000 active_peak_bytes=1048576000 reserved_peak_bytes=1048576000 waits=0
pattern: pattern=three_streams strategy=record_stream ns=101000000 ns_min=100000000 \
ns_max=103000000 active_peak_bytes=125829120 active_peak_median_bytes=110100480 \
reserved_peak_bytes=125829120 waits=390 wait_depth=6
pattern: pattern=three_streams strategy=hand_tuned ns=100000000 ns_min=100000000 \
ns_max=100000000 active_peak_bytes=104857600 active_peak_median_bytes=104857600 \
reserved_peak_bytes=104857600 waits=0
pattern: pattern=three_streams strategy=bound_0_mib ns=120000000 ns_min=120000000 \
ns_max=120000000 active_peak_bytes=52428800 reserved_peak_bytes=52428800 waits=0
pattern: pattern=three_streams strategy=bound_64_mib ns=100000000 ns_min=100000000 \
ns_max=100000000 active_peak_bytes=115343360 reserved_peak_bytes=115343360 waits=0
peer: library=torch_2.11 pattern=three_streams strategy=unsynchronized ns=100000000 \
ns_min=100000000 ns_max=100000000 active_peak_bytes=1048576000 reserved_peak_bytes=1048576000
peer: library=torch_2.11 pattern=three_streams strategy=record_stream ns=99000000 \
ns_min=98000000 ns_max=100000000 active_peak_bytes=838860800 reserved_peak_bytes=838860800
places: pattern=three_streams policy=deterministic runs=20 allocations=200 distinct=1";

fn probe(packed: Packed) -> Probe {
    let [name, driver, memory, compute_capability, mig_mode] =
        ["Some GPU", "580.1", "100 MiB", "9.0", "Disabled"].map(String::from);
    Probe {
        device: Device::Cuda,
        gpus: vec![Gpu { name, driver, memory, compute_capability, mig_mode }],
        missing: None,
        processor: String::from("Some CPU"),
        processor_count: 16,
        commit: String::from("abc123"),
        commits: [(String::from("pattern"), String::from("fed321"))].into(),
        packed_at: String::from("2026-01-02T03:04Z"),
        packed,
        measured: [(String::from("free waits"), String::from("yes"))].into(),
    }
}

fn test_run(test: &str, passed: bool) -> TestRun {
    let how = String::from(if passed { "exit 0" } else { "exit 101" });
    let stress = vec![String::from("test=order allocations=200 own_stream=50 mismatches=0")];
    let (binary, test) = (String::from("wellspring"), test.to_owned());
    TestRun { binary, test, passed, how, seconds: 0.5, stress, words: String::new() }
}

fn replay(name: &str, ours: u64, theirs: u64) -> String {
    let line = json!({
        "policy": "default", "source": "vmm", "operations": 12_345, "deferred_frees": 0,
        "peak_pending_bytes": 0, "peak_reserved_bytes": ours,
        "recorded_peak_reserved_bytes": theirs, "utilization": 0.95, "segments": 7,
        "driver_calls": 31, "ns_per_operation": 80.5, "stamps_checked": 20, "stamp_errors": 0,
        "out_of_memory": 0,
    });
    let run =
        json!({ "name": name, "passed": true, "how": "exit 0", "seconds": 1.0, "line": line });
    run.to_string()
}

/// A folder in which everything that was packed also ran.
fn results() -> (PathBuf, Results) {
    let folder = crate::test_folder("report");
    let results = Results::at(&folder);
    let packed = Packed {
        tests: 2,
        replays: 2,
        benches: 1,
        examples: 1,
        patterns: 1,
        random: 1,
        sanitized: 2,
    };
    results.write_json(PROBE, &probe(packed)).unwrap();
    results.write_json(TESTS, &[test_run("order", true), test_run("reuse", false)]).unwrap();
    results
        .append(PATTERNS, &format!("== patterns: exit 0 after 9.00 s\n{PATTERN_LINES}"))
        .unwrap();
    let counts = "5 of 10 programs after 3 s\n10 programs in 6.0 s\n0 failed";
    results.append(RANDOM, &format!("== random-programs: exit 0 after 6.00 s\n{counts}")).unwrap();
    for (test, verdict) in [("order", "clean"), ("reuse", "bad")] {
        let line = format!("sanitizer: test={test} verdict={verdict} seconds=1.00");
        results.append(SANITIZER, &line).unwrap();
    }
    results.append(REPLAYS, &replay("small", 3 << 20, 4 << 20)).unwrap();
    results.append(REPLAYS, &replay("large", 5 << 20, 4 << 20)).unwrap();
    let medians =
        "median_ns 60.00 59.00 61.00 pair/ours\nmedian_ns 12.00 11.00 13.00 pair/mimalloc";
    results.append(BENCHES, &format!("== hot_path: exit 0 after 3.00 s\n{medians}")).unwrap();
    let examples = "== overlap: exit 0 after 0.10 s\nsaid: so\n\n\
                    == advice_taken: exit 0 after 3.00 s\ntime 0.5 % from it\n\n\
                    == lost_reader: exit 0 after 2.00 s\nlost in 0 of 20 rounds\n";
    results.append(EXAMPLES, examples).unwrap();
    (folder, results)
}

#[test]
fn the_page_holds_every_result() {
    let (folder, _) = results();
    let file = folder.join("docs/benchmarks.md");
    write(&folder, &file).unwrap();
    let page = std::fs::read_to_string(&file).unwrap();
    for expected in [
        "| GPU | Some GPU, 100 MiB |",
        "| driver | 580.1 |",
        "| commit | abc123 |",
        "| commit of what ran as pattern | fed321 |",
        "| free waits | yes |",
        "| wellspring | 1 | 1 | 1.0 |",
        "| wellspring::reuse | exit 101 |",
        "| wellspring::order | order | 200 | 25.00 % |",
        "1 of 2 scenario tests were clean",
        "| reuse |",
        "### three_streams",
        "after 6.00 s\n10 programs in 6.0 s\n0 failed\n```",
        "| record_stream | 101.0 | 100.0 to 103.0 | 1.010 | 120.00 MiB | 1.20 | 105.00 MiB | 1.05 | \
         120.00 MiB | 6 | 390 |",
        "| torch_2.11: record_stream | 99.0 | 98.0 to 100.0 | 0.990 | 800.00 MiB | 8.00 | - | - |",
        "Default: 1.010 times the best of all bounds, and 1.09 times the memory of the smallest",
        "![three_streams: time against memory](benchmarks-three_streams.svg)",
        "| three_streams | deterministic | 20 | 200 | 1 |",
        "| small | passed | 4.00 MiB | 3.00 MiB | 25.0 % | 0 B | 0.950 | 7 | 12,345 | 31 | 80.5 |",
        "More reserved than PyTorch's recorded peak: large.",
        "| pair/ours | 60.0 | 59.0 to 61.0 | 5.00 |",
        "| overlap | exit 0 after 0.10 s |",
        "said.\n\n```text\ntime 0.5 % from it\n```",
        "```text\nlost in 0 of 20 rounds\n```",
    ] {
        assert!(page.contains(expected), "{expected} is missing in\n{page}");
    }
    assert!(!page.contains("rehearsal"), "{page}");
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_rehearsal_says_that_it_is_one() {
    let (folder, results) = results();
    let mut rehearsal: Probe = results.read_json(PROBE).unwrap();
    rehearsal.device = Device::Sim;
    results.write_json(PROBE, &rehearsal).unwrap();
    let file = folder.join("page.md");
    write(&folder, &file).unwrap();
    let page = std::fs::read_to_string(&file).unwrap();
    assert!(page.contains("A rehearsal on the simulated driver"), "{page}");
    assert!(!page.contains("Some GPU"), "a rehearsal names no GPU:\n{page}");
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn fewer_than_were_packed_is_refused_and_no_page_is_written() {
    let (folder, results) = results();
    let file = folder.join("page.md");
    for (packed, what) in [
        (Packed { tests: 3, ..Packed::default() }, "3 tests were packed and 2 ran"),
        (Packed { replays: 3, ..Packed::default() }, "3 replays were packed and 2 ran"),
        (Packed { benches: 2, ..Packed::default() }, "2 benches were packed and 1 ran"),
        (Packed { examples: 4, ..Packed::default() }, "4 examples were packed and 3 ran"),
        (Packed { patterns: 2, ..Packed::default() }, "2 patterns were packed and 1 ran"),
        (Packed { random: 2, ..Packed::default() }, "2 random programs were packed and 1 ran"),
        (Packed { sanitized: 3, ..Packed::default() }, "3 sanitized tests were packed and 2 ran"),
    ] {
        results.write_json(PROBE, &probe(packed)).unwrap();
        let refusal = write(&folder, &file).unwrap_err().to_string();
        assert!(refusal.starts_with(what), "{refusal}");
        assert!(!file.exists());
    }
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_replay_that_printed_nothing_is_shown_as_failed() {
    let (folder, results) = results();
    let crashed = json!({ "name": "crashed", "passed": false, "how": "ended by a signal",
        "seconds": 1.0, "line": null, "stderr": "no room\nmore" });
    results.append(REPLAYS, &crashed.to_string()).unwrap();
    let file = folder.join("page.md");
    write(&folder, &file).unwrap();
    let page = std::fs::read_to_string(&file).unwrap();
    assert!(page.contains("| crashed | FAILED, ended by a signal: no room |"), "{page}");
    std::fs::remove_dir_all(folder).unwrap();
}
