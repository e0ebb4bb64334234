//! Snapshots made up for a test, written as Python would pickle them.

use report::{Options, Report};
use trace::pytorch::{ReadOptions, Snapshot, read};

/// A value of a snapshot.
#[derive(Debug, Clone)]
pub(crate) enum Value {
    Int(i64),
    Text(String),
    List(Vec<Value>),
    Dict(Vec<(&'static str, Value)>),
}

pub(crate) fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}

fn write(bytes: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Int(number) => {
            bytes.extend([0x8a, 8]);
            bytes.extend(number.to_le_bytes());
        }
        Value::Text(text) => {
            bytes.push(b'X');
            bytes.extend(u32::try_from(text.len()).unwrap().to_le_bytes());
            bytes.extend(text.as_bytes());
        }
        Value::List(items) => {
            bytes.extend(b"](");
            items.iter().for_each(|item| write(bytes, item));
            bytes.push(b'e');
        }
        Value::Dict(items) => {
            bytes.extend(b"}(");
            for (key, item) in items {
                write(bytes, &text(key));
                write(bytes, item);
            }
            bytes.push(b'u');
        }
    }
}

/// One step of a made-up trace.
#[derive(Debug, Clone)]
pub(crate) struct Step {
    pub(crate) action: &'static str,
    pub(crate) address: i64,
    pub(crate) bytes: i64,
    pub(crate) stream: i64,
    /// File, line and name of each frame, innermost first.
    pub(crate) frames: Vec<(&'static str, i64, &'static str)>,
    /// What the program had noted.
    pub(crate) noted: &'static str,
}

/// A step on the default stream, without frames.
pub(crate) fn step(action: &'static str, address: i64, bytes: i64) -> Step {
    Step { action, address, bytes, stream: 0, frames: Vec::new(), noted: "" }
}

fn frames(frames: &[(&'static str, i64, &'static str)]) -> Value {
    let frame = |&(file, line, name): &(&str, i64, &str)| {
        Value::Dict(vec![
            ("filename", text(file)),
            ("line", Value::Int(line)),
            ("name", text(name)),
        ])
    };
    Value::List(frames.iter().map(frame).collect())
}

fn entry(step: &Step, time_us: i64) -> Value {
    Value::Dict(vec![
        ("action", text(step.action)),
        (if step.action == "oom" { "device_free" } else { "addr" }, Value::Int(step.address)),
        ("size", Value::Int(step.bytes)),
        ("stream", Value::Int(step.stream)),
        ("time_us", Value::Int(time_us)),
        ("frames", frames(&step.frames)),
        ("user_metadata", text(step.noted)),
    ])
}

/// A segment of device 0, whose blocks are address, bytes and state.
pub(crate) fn segment(address: i64, bytes: i64, blocks: &[(i64, i64, &str)]) -> Value {
    let block = |&(address, bytes, state): &(i64, i64, &str)| {
        Value::Dict(vec![
            ("address", Value::Int(address)),
            ("size", Value::Int(bytes)),
            ("requested_size", Value::Int(bytes)),
            ("state", text(state)),
        ])
    };
    Value::Dict(vec![
        ("device", Value::Int(0)),
        ("address", Value::Int(address)),
        ("total_size", Value::Int(bytes)),
        ("stream", Value::Int(0)),
        ("segment_type", text("large")),
        ("blocks", Value::List(blocks.iter().map(block).collect())),
    ])
}

/// An annotation's beginning or end.
pub(crate) fn annotation(name: &str, stage: &str, time_us: i64) -> Value {
    Value::Dict(vec![
        ("name", text(name)),
        ("stage", text(stage)),
        ("device", Value::Int(0)),
        ("time_us", Value::Int(time_us)),
    ])
}

/// A snapshot of steps that are ten microseconds apart.
pub(crate) fn snapshot(segments: Vec<Value>, steps: &[Step], annotations: Vec<Value>) -> Snapshot {
    let mut bytes = vec![0x80, 4];
    bytes.extend(b"}(");
    write(&mut bytes, &text("segments"));
    write(&mut bytes, &Value::List(segments));
    write(&mut bytes, &text("external_annotations"));
    write(&mut bytes, &Value::List(annotations));
    write(&mut bytes, &text("device_traces"));
    bytes.extend(b"](](");
    for (number, step) in (1..).zip(steps) {
        write(&mut bytes, &entry(step, 10 * number));
    }
    bytes.extend(b"eeu.");
    let total_bytes = u64::try_from(bytes.len()).unwrap();
    read(bytes.as_slice(), total_bytes, &ReadOptions::default(), None).unwrap()
}

/// The report of such a snapshot.
pub(crate) fn report(snapshot: &Snapshot) -> Report {
    Report::of(snapshot, &Options { title: "made up", ..Options::default() }).unwrap()
}
