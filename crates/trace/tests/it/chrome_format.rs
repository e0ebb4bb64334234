//! Chrome traces against the description of their format: what viewers need so that nothing is
//! left out or drawn in a wrong place.
//!
//! Each event has its phase, process, thread and, but for names, its time in microseconds.
//! Slices stand in rows other than 0, which Perfetto takes for that of the process's own number.
//! Complete slices (`X`) of a row nest. Slices that may overlap (`b`, `e`) begin once and end once,
//! under one category, name and identity, which is of their process. An arrow (`s`, `f`) has one
//! of either, in this order, each within a slice of its row, and `f` says that it belongs to the
//! slice around it. Counters (`C`) have numbers.

use std::collections::BTreeMap;
use std::path::Path;

use proptest::prelude::*;
use serde_json::Value;
use trace::chrome;
use trace::pytorch::{ReadOptions, read_file};
use trace::stream_trace::Recording;

use crate::stream_trace::{every_kind, items, seeds, write};

type Row = (u64, u64);
/// A beginning and an end in nanoseconds.
type Slice = (u128, u128);

/// Nanoseconds of a number of microseconds with three digits behind the point.
fn nanoseconds(event: &Value, key: &str) -> Result<u128, String> {
    let number = event[key].as_number().ok_or(format!("no number `{key}`: {event}"))?.to_string();
    let number = number.parse::<f64>().map_or(number, |it| format!("{it:.3}"));
    let (whole, rest) = number.split_once('.').unwrap_or((&number, "000"));
    let whole: u128 = whole.parse().map_err(|_| format!("`{key}` is {number}: {event}"))?;
    Ok(whole * 1000 + rest[..3].parse::<u128>().map_err(|error| error.to_string())?)
}

#[derive(Default)]
struct Found {
    slices: BTreeMap<Row, Vec<Slice>>,
    /// By process, category, identity and name: the times of `b` and of `e`.
    lives: BTreeMap<String, [Vec<u128>; 2]>,
    /// By category, identity and name: rows and times of `s` and of `f`.
    arrows: BTreeMap<String, [Vec<(Row, u128)>; 2]>,
    counters: usize,
}

impl Found {
    fn take(&mut self, event: &Value) -> Result<(), String> {
        let row = (&event["pid"], &event["tid"]);
        let (Some(process), Some(thread)) = (row.0.as_u64(), row.1.as_u64()) else {
            return Err(format!("no row: {event}"));
        };
        let (row, phase) = ((process, thread), event["ph"].as_str().unwrap_or_default());
        let local = event["id2"]["local"].as_str();
        let id = local.map_or_else(|| event["id"].to_string(), |id| format!("{process}.{id}"));
        let key = format!("{} {id} {}", event["cat"], event["name"]);
        if event["name"].as_str().is_none() {
            return Err(format!("no name: {event}"));
        }
        if phase == "M" {
            let is_name = ["process_name", "thread_name"].iter().any(|it| event["name"] == *it);
            return if !is_name || !event["args"]["name"].is_string() {
                Err(format!("names nothing: {event}"))
            } else if event["name"] == "thread_name" && thread == 0 {
                Err(format!("names the row of another: {event}"))
            } else {
                Ok(())
            };
        }
        let at = nanoseconds(event, "ts")?;
        if thread == 0 && matches!(phase, "X" | "s" | "f") {
            return Err(format!("stands in the row of another: {event}"));
        }
        let has_key = event["cat"].is_string() && !event["id"].is_null();
        match phase {
            "X" => {
                let end = at + nanoseconds(event, "dur")?;
                self.slices.entry(row).or_default().push((at, end));
            }
            "b" | "e" if event["cat"].is_string() && local.is_some() => {
                let [begun, ended] = self.lives.entry(key).or_default();
                if phase == "b" { begun } else { ended }.push(at);
            }
            "s" | "f" if has_key => {
                let [from, to] = self.arrows.entry(key).or_default();
                if phase == "f" && event["bp"] != "e" {
                    return Err(format!("belongs to the next slice: {event}"));
                }
                if phase == "s" { from } else { to }.push((row, at));
            }
            "C" => {
                let values = event["args"].as_object().into_iter().flatten();
                if !values.clone().all(|(_, value)| value.is_u64()) || values.count() == 0 {
                    return Err(format!("counts nothing: {event}"));
                }
                self.counters += 1;
            }
            "i" if event["s"] == "p" => {}
            _ => return Err(format!("no known phase: {event}")),
        }
        Ok(())
    }

    fn check(&mut self) -> Result<(), String> {
        for (row, slices) in &mut self.slices {
            slices.sort_unstable_by_key(|(start, end)| (*start, std::cmp::Reverse(*end)));
            let mut open: Vec<u128> = Vec::new();
            for (start, end) in slices {
                while open.pop_if(|open| *open <= *start).is_some() {}
                if open.last().is_some_and(|open| *open < *end) {
                    return Err(format!("row {row:?}: {start} to {end} overlaps another slice"));
                }
                open.push(*end);
            }
        }
        for (key, [begun, ended]) in &self.lives {
            if begun.len() != 1 || ended.len() != 1 || ended[0] < begun[0] {
                return Err(format!("{key} begins at {begun:?} and ends at {ended:?}"));
            }
        }
        for (key, [from, to]) in &self.arrows {
            let ([from], [to]) = (from.as_slice(), to.as_slice()) else {
                return Err(format!("{key} goes from {from:?} to {to:?}"));
            };
            let is_within = |(row, at): &(Row, u128)| {
                let slices = self.slices.get(row).into_iter().flatten();
                slices.clone().any(|(start, end)| start <= at && at < end)
            };
            if to.1 < from.1 || !is_within(from) || !is_within(to) {
                return Err(format!("{key} goes from {from:?} to {to:?}, not between slices"));
            }
        }
        Ok(())
    }
}

fn check(json: &[u8]) -> Result<Found, String> {
    let file: Value = serde_json::from_slice(json).map_err(|error| error.to_string())?;
    let events = file["traceEvents"].as_array().ok_or("no events")?;
    let mut found = Found::default();
    events.iter().try_for_each(|event| found.take(event))?;
    found.check().map(|()| found)
}

fn of_recording(bytes: &[u8]) -> Vec<u8> {
    let recording = Recording::load(bytes).unwrap();
    let mut json = Vec::new();
    chrome::write_recording(&recording, None, &mut json, None).unwrap();
    json
}

proptest! {
    #[test]
    fn any_stream_trace_is_written_as_the_format_wants(seeds in seeds()) {
        // Three days: beyond some time a number of microseconds has no nanoseconds any more.
        let seeds: Vec<_> =
            seeds.into_iter().map(|(kind, it)| (kind, it.map(|it| it % (1 << 48)))).collect();
        let json = of_recording(&write(&items(&seeds)));
        prop_assert_eq!(check(&json).err(), None);
    }
}

#[test]
fn every_kind_of_event_is_among_those_checked() {
    let found = check(&of_recording(&write(&every_kind()))).unwrap();
    let counts = [found.slices.len(), found.lives.len(), found.arrows.len(), found.counters];
    assert!(counts.iter().all(|count| 0 < *count), "{counts:?}");
}

#[test]
fn a_snapshot_is_written_as_the_format_wants() {
    for name in ["graphs", "oom_frames", "streams"] {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces");
        let file = folder.join(format!("{name}.pickle.zst"));
        let snapshot = read_file(&file, &ReadOptions::default(), None).unwrap();
        let mut json = Vec::new();
        let trace = snapshot.trace(None).unwrap();
        chrome::write_snapshot(&snapshot, &trace, None, &mut json, None).unwrap();
        assert!(!check(&json).unwrap().lives.is_empty(), "{name}");
    }
}

#[test]
fn what_viewers_would_draw_wrongly_is_found() {
    let slice = |ts: u32, dur: u32| {
        format!(r#"{{"name":"a","ph":"X","pid":1,"tid":1,"ts":{ts},"dur":{dur},"args":{{}}}}"#)
    };
    let arrow = |phase: &str, ts: u32| {
        format!(
            r#"{{"name":"w","cat":"o","id":1,"ph":"{phase}","bp":"e","pid":1,"tid":1,"ts":{ts}}}"#
        )
    };
    let file = |events: &[String]| format!(r#"{{"traceEvents":[{}]}}"#, events.join(","));
    let found = |events: &[String]| check(file(events).as_bytes()).map(drop);
    let life = |phase: &str, id: &str| {
        format!(r#"{{"name":"b","cat":"m",{id},"ph":"{phase}","pid":1,"tid":1,"ts":1}}"#)
    };
    let local = r#""id2":{"local":"0x1"}"#;
    assert_eq!(found(&[slice(0, 9), slice(2, 3), arrow("s", 2), arrow("f", 8)]), Ok(()));
    assert_eq!(found(&[life("b", local), life("e", local)]), Ok(()));
    for (events, part) in [
        (vec![slice(0, 9).replace(r#""tid":1"#, r#""tid":0"#)], "in the row of another"),
        (vec![life("b", r#""id":"0x1""#)], "no known phase"),
        (vec![life("b", local)], "begins at"),
        (vec![slice(0, 9), slice(2, 9)], "overlaps another"),
        (vec![slice(0, 9), arrow("s", 2)], "goes from"),
        (vec![slice(0, 9), arrow("s", 8), arrow("f", 2)], "not between slices"),
        (vec![slice(0, 9), arrow("s", 2), arrow("f", 9)], "not between slices"),
    ] {
        assert!(found(&events).unwrap_err().contains(part), "{part}");
    }
}
