//! What a page carries, unpacked again, for traces whose answer can be seen at a glance.

use std::io::Read as _;

use base64::Engine as _;
use report::{Options, Report};
use serde_json::{Value, json};

use crate::made_up::{self, Step, annotation, report, segment, snapshot, step};

const MIB: i64 = 1 << 20;

/// A page's parts: what is told by name, the kinds of events, and the columns.
pub(crate) struct Unpacked {
    pub(crate) told: Value,
    pub(crate) kinds: Vec<u8>,
    pub(crate) columns: Vec<Vec<u128>>,
}

pub(crate) fn unpack(report: &Report) -> Unpacked {
    let html = report.html();
    let (_, rest) = html.split_once("type=\"application/octet-stream\">").unwrap();
    let (packed, _) = rest.split_once("</script>").unwrap();
    let packed = base64::engine::general_purpose::STANDARD.decode(packed).unwrap();
    let mut bytes = Vec::new();
    flate2::read::ZlibDecoder::new(packed.as_slice()).read_to_end(&mut bytes).unwrap();
    let mut parts = Vec::new();
    let mut rest = bytes.as_slice();
    while let Some((length, after)) = rest.split_first_chunk::<4>() {
        let length = usize::try_from(u32::from_le_bytes(*length)).unwrap();
        parts.push(after[..length].to_vec());
        rest = &after[length..];
    }
    let told = serde_json::from_slice(&parts[0]).unwrap();
    let columns = parts[2..].iter().map(|part| integers(part)).collect();
    Unpacked { told, kinds: parts[1].clone(), columns }
}

fn integers(part: &[u8]) -> Vec<u128> {
    let mut values = Vec::new();
    let (mut value, mut shift) = (0, 0);
    for byte in part {
        value |= u128::from(byte & 127) << shift;
        shift += 7;
        if byte & 128 == 0 {
            values.push(value);
            (value, shift) = (0, 0);
        }
    }
    values
}

#[test]
fn a_block_is_told_from_its_allocation_to_its_end() {
    let steps = [
        step("segment_alloc", MIB, 20 * MIB),
        step("alloc", MIB, 1000),
        step("alloc", 3 * MIB, 2 * MIB),
        step("free_requested", MIB, 1000),
        step("free_requested", 3 * MIB, 2 * MIB),
        step("free_completed", 3 * MIB, 2 * MIB),
        step("free_completed", MIB, 1000),
        step("oom", 7 * MIB, 99 * MIB),
    ];
    let segments = vec![segment(MIB, 20 * MIB, &[])];
    let report = report(&snapshot(segments, &steps, vec![]));
    let Unpacked { told, kinds, columns } = unpack(&report);
    // A pair of entries is one event, so that there are seven.
    assert_eq!(kinds, [5, 0, 0, 3, 2, 4, 7]);
    assert_eq!(told["counts"], json!({ "events": 7, "lives": 2, "ranges": 1 }));
    assert_eq!(told["failed"][0]["bytes"], 99 * MIB);
    assert_eq!(told["failed"][0]["device_free"], 7 * MIB);
    assert_eq!(columns[0][1..], [20, 20, 20, 20, 40, 20], "folded steps of ten microseconds");
    assert_eq!(told["address_base"], MIB.to_string());
    assert_eq!(columns[1], [0, u128::try_from(4 * MIB).unwrap()], "folded steps of addresses");
    assert_eq!(columns[2], [1000, u128::try_from(2 * MIB).unwrap()]);
    assert_eq!(columns[5], [2, 1], "begun at the moments 2 and 3");
    assert_eq!(columns[6], [3, 3], "freed two moments later");
    assert_eq!(columns[7], [3, 1], "complete two moments later, and at once");
    let figures = report.figures();
    assert_eq!(figures.peak_active_bytes, 1024 + (2 << 20));
    assert_eq!(figures.peak_reserved_bytes, 20 << 20);
    assert_eq!((figures.event_count, figures.out_of_memory_count), (7, 1));
}

/// Was: a note between a free and its completion made two events here, and one in the summary.
#[test]
fn a_note_between_a_free_and_its_completion_makes_no_event_of_it() {
    let steps = [
        step("segment_alloc", MIB, 20 * MIB),
        step("alloc", MIB, 1000),
        step("free_requested", MIB, 1000),
        step("annotate", 0, 0),
        step("snapshot", 0, 0),
        step("free_completed", MIB, 1000),
        step("segment_free", MIB, 20 * MIB),
    ];
    let snapshot = snapshot(Vec::new(), &steps, vec![]);
    let report = report(&snapshot);
    let Unpacked { told, kinds, columns } = unpack(&report);
    assert_eq!(kinds, [5, 0, 2, 8, 8, 6], "the free, the notes, and the end of the segment");
    assert_eq!(told["counts"], json!({ "events": 6, "lives": 1, "ranges": 1 }));
    assert_eq!((columns[6][0], columns[7][0]), (2, 1), "freed a moment later, complete at once");
    let trace = snapshot.trace(None).unwrap();
    let summary = trace.summary(&trace.operations());
    assert_eq!((summary.deferred_free_count, summary.peaks.pending_bytes), (0, 0));
    assert_eq!(report.figures().peak_reserved_bytes, summary.recorded_peak_reserved_bytes);
}

/// Was: without segments, what had been taken and not given back was not drawn.
#[test]
fn what_is_reserved_is_known_from_the_entries_where_there_are_no_segments() {
    let steps = [step("segment_alloc", MIB, 20 * MIB), step("alloc", MIB, 1000)];
    let report = report(&snapshot(Vec::new(), &steps, vec![]));
    assert_eq!(report.figures().peak_reserved_bytes, 20 << 20);
}

#[test]
fn a_trace_that_lost_its_beginning_has_the_blocks_from_before() {
    let steps = [step("free_requested", MIB, 512), step("free_completed", MIB, 512)];
    let segments =
        vec![segment(MIB, 2 * MIB, &[(MIB, MIB, "inactive"), (2 * MIB, MIB, "active_allocated")])];
    let report = report(&snapshot(segments, &steps, vec![]));
    let Unpacked { told, columns, .. } = unpack(&report);
    assert_eq!(told["counts"]["lives"], 2);
    assert_eq!(columns[5], [0, 0], "both were there at moment 0");
    assert_eq!(columns[6], [2, 0], "one is freed by the first event, one never");
    assert!(told["notes"][0].as_str().unwrap().contains("2 blocks were in use before"), "{told}");
    assert_eq!(report.figures().peak_active_bytes, 512 + (1 << 20));
}

#[test]
fn a_snapshot_without_a_trace_is_one_moment() {
    let blocks = [(MIB, MIB, "active_allocated"), (2 * MIB, MIB, "active_pending_free")];
    let report = report(&snapshot(vec![segment(MIB, 4 * MIB, &blocks)], &[], vec![]));
    let Unpacked { told, kinds, .. } = unpack(&report);
    assert!(kinds.is_empty());
    assert_eq!(told["counts"], json!({ "events": 0, "lives": 2, "ranges": 1 }));
    assert!(told["notes"][0].as_str().unwrap().contains("_record_memory_history"), "{told}");
    assert_eq!(report.figures().peak_active_bytes, 2 << 20);
    assert!(report.svg().contains("pending free"));
}

#[test]
fn a_snapshot_of_nothing_is_refused() {
    let empty = snapshot(vec![], &[], vec![]);
    assert!(Report::of(&empty, &Options::default()).is_err());
    let other = snapshot(vec![segment(MIB, MIB, &[])], &[], vec![]);
    let options = Options { device: Some(3), ..Options::default() };
    assert!(Report::of(&other, &options).is_err());
}

/// The program's own line, one of an installed package below it.
fn in_program(line: i64) -> Vec<(&'static str, i64, &'static str)> {
    vec![
        ("/env/lib/python3.12/site-packages/torch/nn/functional.py", 7, "linear"),
        ("/home/me/train.py", line, "step"),
        ("/home/me/train.py", 90, "main"),
    ]
}

fn owned_steps() -> [Step; 3] {
    [
        Step { frames: in_program(10), ..step("alloc", MIB, 512) },
        Step { frames: in_program(20), ..step("alloc", 2 * MIB, 512) },
        step("alloc", 3 * MIB, 3000),
    ]
}

#[test]
fn an_owner_is_the_programs_own_line_or_what_a_pattern_matches() {
    let snapshot = snapshot(vec![], &owned_steps(), vec![]);
    let told = unpack(&report(&snapshot)).told;
    let owners = ["/home/me/train.py:10 step", "/home/me/train.py:20 step", "size 2 KiB to 4 KiB"];
    assert_eq!(told["owners"], json!(owners));
    assert_eq!(told["stacks"], json!([[0, 1, 2], [0, 3, 2]]), "each frame is stored once");
    let is_main = |frame: &str| frame.ends_with(" main");
    let options = Options { owner: Some(&is_main), ..Options::default() };
    let told = unpack(&Report::of(&snapshot, &options).unwrap()).told;
    assert_eq!(told["owners"], json!(["/home/me/train.py:90 main", "size 2 KiB to 4 KiB"]));
}

#[test]
fn without_a_frame_the_open_annotation_is_the_owner() {
    let steps: Vec<_> = (1..=4).map(|block| step("alloc", block * MIB, 512)).collect();
    let annotations = vec![
        annotation("step", "START", 15),
        annotation("forward", "START", 25),
        annotation("forward", "END", 35),
        annotation("step", "END", 36),
    ];
    let told = unpack(&report(&snapshot(vec![], &steps, annotations))).told;
    assert_eq!(told["owners"], json!(["size 512 B to 1 KiB", "step", "forward"]));
    let shown = json!([
        { "name": "step", "from": 1, "to": 3, "depth": 0 },
        { "name": "forward", "from": 2, "to": 3, "depth": 1 },
    ]);
    assert_eq!(told["annotations"], shown);
}

#[test]
fn text_of_a_snapshot_never_becomes_markup() {
    let name = "</script><script>alert(1)</script>";
    let frames = vec![("/home/me/<b>.py", 1, name)];
    let steps = [Step { frames, ..step("alloc", MIB, 512) }];
    let snapshot = snapshot(vec![], &steps, vec![]);
    let options = Options { title: name, ..Options::default() };
    let report = Report::of(&snapshot, &options).unwrap();
    for text in [report.html(), report.svg()] {
        assert!(!text.contains("<script>alert"), "{text}");
        assert!(text.contains("&lt;/script&gt;&lt;script&gt;alert"), "{text}");
    }
}

#[test]
fn the_ends_of_the_numbers_make_nothing_fail() {
    let (top, most) = ((1 << 48) - 512, 1 << 48);
    let steps = [
        step("segment_map", top, most),
        step("alloc", top, most),
        step("alloc", 0, most),
        step("segment_unmap", 0, most),
        step("alloc", 512, most),
        step("alloc", 512, most),
        step("free_completed", 77, 5),
        step("free_requested", 0, most),
        step("oom", 0, most),
    ];
    let report = report(&snapshot(vec![segment(top, 4, &[])], &steps, vec![]));
    assert!(report.html().len() < 300_000);
    assert!(report.svg().contains("out of memory"));
}

#[test]
fn annotations_that_only_begin_are_bounded() {
    let begun: Vec<_> =
        (0..1500).map(|number| annotation(&format!("a{number}"), "START", 5)).collect();
    let told = unpack(&report(&snapshot(vec![], &[step("alloc", MIB, 512)], begun))).told;
    assert_eq!(told["annotations"].as_array().unwrap().len(), 1000);
    assert_eq!(told["owners"], json!(["a999"]), "the innermost that is kept");
}

#[test]
fn a_snapshot_of_several_devices_says_which_is_shown() {
    let mut other = segment(MIB, MIB, &[]);
    if let made_up::Value::Dict(items) = &mut other {
        items[0].1 = made_up::Value::Int(3);
    }
    let segments = vec![segment(MIB, MIB, &[]), other];
    let steps = [step("alloc", MIB, 512)];
    let told = unpack(&report(&snapshot(segments.clone(), &steps, vec![]))).told;
    assert_eq!(told["notes"], json!(["This is device 0; the snapshot has 1 more."]));
    let shown = snapshot(segments, &steps, vec![]);
    let options = Options { device: Some(3), ..Options::default() };
    assert_eq!(Report::of(&shown, &options).unwrap().figures().device, 3);
}

#[test]
fn an_action_that_nobody_knows_is_noted() {
    let steps = [step("alloc", MIB, 512), step("teleport", MIB, 512), step("free", MIB, 512)];
    let Unpacked { told, kinds, .. } = unpack(&report(&snapshot(vec![], &steps, vec![])));
    assert_eq!(kinds, [0, 8, 1], "entries keep their numbers");
    let note = "Entries with the unknown action “teleport”, 1 of them, are left out.";
    assert_eq!(told["notes"], json!([note]));
}
