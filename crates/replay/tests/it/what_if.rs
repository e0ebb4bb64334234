//! What a recorded run would have needed under other settings, held against what PyTorch 2.11
//! needed for the same calls on an H200.

use replay::what_if::{Case, Question, SEARCH_TRIES_MAX, WhatIf, what_if};
use trace::size_class;

use crate::record::read_named;

const MIB: u64 = 1 << 20;
const GC: &str = "garbage_collection_threshold:0.8,max_split_size_mb:256";

fn case(name: &str) -> Case {
    Case::new(&read_named(name).trace(None).unwrap())
}

fn ask(case: &Case, capacity_bytes: Option<u64>, settings: &[&str], search: bool) -> WhatIf {
    let settings = settings.iter().map(|line| (*line).to_owned()).collect();
    let question = Question { trace: "t".into(), capacity_bytes, settings, search };
    what_if(
        case,
        &question,
        Vec::new(),
        |block| format!("blocks of {}", size_class(block.bytes)),
        &|_, _| {},
    )
    .unwrap()
}

fn fits(answer: &WhatIf, setting: &str) -> bool {
    answer.rows.iter().find(|row| row.setting == setting).unwrap().fits
}

/// The smallest limit in MiB of each setting, found by bisection to half a per cent.
fn check_limits(name: &str, limits: [(&str, u64); 3]) {
    let case = case(name);
    for (setting, mebibytes) in limits {
        let limit = mebibytes * MIB;
        let at = ask(&case, Some(limit), &[setting], false);
        assert!(fits(&at, setting), "{name} under {setting} with {mebibytes} MiB: {}", at.verdict);
        let below = ask(&case, Some(limit - limit / 100), &[setting], false);
        assert!(!fits(&below, setting), "{name} under {setting} 1 % below: {}", below.verdict);
    }
}

#[test]
fn a_setting_fits_at_its_smallest_limit_and_not_one_per_cent_below() {
    check_limits(
        "gnn_train",
        [("default", 4_860), ("expandable_segments:True", 4_241), (GC, 4_404)],
    );
}

#[test]
fn the_search_proposes_a_setting_that_fits_where_one_does() {
    let case = case("gnn_train");
    for mebibytes in [4_860, 4_404, 4_241] {
        let answer = ask(&case, Some(mebibytes * MIB), &["default"], true);
        let best = &answer.rows[0];
        assert!(best.fits, "{mebibytes} MiB: {}", answer.verdict);
        let line = format!("PYTORCH_CUDA_ALLOC_CONF={}", best.setting);
        assert_eq!(answer.paste.as_deref(), Some(line.as_str()));
        let (tried, most) = answer.searched.unwrap();
        assert!(0 < tried && tried <= most && most == SEARCH_TRIES_MAX, "{tried} of {most}");
    }
}

#[test]
fn where_live_bytes_are_too_many_no_setting_helps_and_the_holders_are_named() {
    let case = case("gnn_train");
    let answer = ask(&case, Some(4_000 * MIB), &[], false);
    assert!(
        answer.verdict.starts_with("nothing fits: live bytes alone need 4.07 GiB"),
        "{}",
        answer.verdict
    );
    assert!(
        answer.verdict.contains("so no setting helps; held by blocks of "),
        "{}",
        answer.verdict
    );
    assert_eq!(answer.paste, None);
    assert!(answer.rows.iter().all(|row| !row.fits && row.out_of_memory_event.is_some()));
    let held: u64 = answer.holders.iter().map(|holder| holder.bytes).sum();
    assert!(answer.live_peak_bytes * 9 / 10 < held && held <= answer.live_peak_bytes);
    assert_eq!(answer.live_peak_bytes, 4_378_587_136, "what PyTorch counted, splitting all");
}

#[test]
fn without_a_capacity_the_setting_that_reserves_least_is_told() {
    let answer = ask(&case("gnn_train"), None, &[], false);
    assert!(answer.verdict.starts_with("fits: without --capacity"), "{}", answer.verdict);
    assert_eq!(answer.paste.unwrap(), "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True");
    let measured = [
        ("default", 11_202_985_984),
        ("expandable_segments:True", 4_884_267_008),
        ("max_split_size_mb:128", 57_088_671_744),
        ("max_split_size_mb:256", 51_910_803_456),
        ("roundup_power2_divisions:8", 11_945_377_792),
    ];
    for (setting, reserved) in measured {
        let row = answer.rows.iter().find(|row| row.setting == setting).unwrap();
        assert_eq!((row.peak_reserved_bytes, row.fits), (reserved, true), "{setting}");
    }
    let peaks: Vec<u64> = answer.rows.iter().map(|row| row.peak_reserved_bytes).collect();
    assert!(peaks.is_sorted(), "the best first: {peaks:?}");
    let recorded = answer.rows.iter().find(|row| row.is_recorded).unwrap();
    assert_eq!(Some(recorded.peak_reserved_bytes), answer.recorded_peak_reserved_bytes);
    assert!(recorded.spread.is_some() && answer.rows[0].spread.is_some());
}

#[test]
fn a_request_that_failed_fails_again_at_its_limit_and_is_served_beyond() {
    let case = case("oom_frames");
    let answer = ask(&case, Some(3 << 30), &[], false);
    let recorded = answer.rows.iter().find(|row| row.is_recorded).unwrap();
    let event = usize::try_from(recorded.out_of_memory_event.unwrap()).unwrap();
    let snapshot = read_named("oom_frames");
    let entry = snapshot.device_traces[0][event];
    assert_eq!(entry.action, trace::pytorch::Action::OutOfMemory, "at its own entry");
    assert!(0 < recorded.retries, "it gave back all it could before, as recorded");
    let beyond = ask(&case, Some(6 << 30), &[], false);
    assert!(beyond.verdict.starts_with("fits: "), "{}", beyond.verdict);
    assert!(beyond.notes.iter().any(|note| note.contains("lost its beginning")));
}

#[test]
fn what_a_trace_lacks_is_told() {
    let answer = ask(&case("streams"), None, &["default"], false);
    let told = |part: &str| answer.notes.iter().any(|note| note.contains(part));
    assert!(told("the recorded completion times are used"), "{:?}", answer.notes);
    let answer = ask(&case("graphs"), None, &["default"], false);
    let told = |part: &str| answer.notes.iter().any(|note| note.contains(part));
    assert!(told("from private pools") && told("to empty the cache"), "{:?}", answer.notes);
    let answer = ask(&case("gnn_train"), None, &[GC], false);
    let told = |part: &str| answer.notes.iter().any(|note| note.contains(part));
    assert!(told("acts only under a memory fraction"), "{:?}", answer.notes);
}

#[test]
fn the_table_begins_with_the_verdict_and_the_line_to_set() {
    let answer = ask(&case("gnn_train"), Some(4_404 * MIB), &[], false);
    assert!(
        answer.verdict.starts_with("a setting fits: expandable_segments:True"),
        "{}",
        answer.verdict
    );
    let text = answer.to_text();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], answer.verdict);
    assert_eq!(lines[1], "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True");
    assert!(text.contains("default (recorded)") && text.contains("whole pages of 2 MiB"), "{text}");
    let json: serde_json::Value = serde_json::from_str(&answer.to_json().unwrap()).unwrap();
    for key in ["schema", "trace", "capacity_bytes", "live_peak_bytes", "verdict", "paste", "rows"]
    {
        assert!(json.get(key).is_some(), "{key}");
    }
    assert_eq!(json["rows"][0]["model"], "pytorch");
    assert_eq!(json["rows"][0]["out_of_memory_event"], serde_json::Value::Null);
}
