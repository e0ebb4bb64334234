//! The entries themselves, after the events, so that a Chrome trace can be read again.
//!
//! Viewers pass over keys they do not know. Of a snapshot the key [`KEY`] has the device, the
//! distinct stacks and texts that the entries name by their positions, and each entry as a list;
//! where PyTorch did not record them, `made_of` says first what the snapshot was made of.
//! Of a stream trace it has when that began, whether it has its end, its texts and places by
//! number, and each entry as the host's time and what it says, under the names of
//! [`Item`](crate::stream_trace::Item) and its fields. `otherData` says ahead of all events, under
//! the same name, which kind of trace the file holds and in which version.

use std::collections::HashMap;
use std::hash::Hash;
use std::io::{self, Write};

use serde::Serialize;

use crate::pytorch::{Entry, Snapshot, action_text, pool_id};
use crate::stream_trace::Recording;

/// The name of what is ours in the file.
pub(super) const KEY: &str = "wellspring";
/// What `otherData` says of a snapshot; the number is raised when the entries change their form.
pub(super) const SNAPSHOT_MARK: &str = "snapshot 1";
/// What it says of a stream trace.
pub(super) const RECORDING_MARK: &str = "stream trace 2";

/// Writes the key and its value; `entries` are of `device`.
pub(super) fn write(
    sink: &mut impl Write,
    snapshot: &Snapshot,
    device: usize,
    entries: &[Entry],
) -> io::Result<()> {
    let (mut stacks, mut texts) = (Numbers::default(), Numbers::default());
    for entry in entries {
        entry.stack.map(|stack| stacks.of(stack));
        entry.metadata.map(|text| texts.of(text));
        entry.compile_context.map(|text| texts.of(text));
    }
    write!(sink, ",\n\"{KEY}\":{{")?;
    if let Some(mark) = snapshot.origin.mark_of_entries() {
        write!(sink, "\"made_of\":\"{mark}\",")?;
    }
    write!(sink, "\"device\":{device},\"stacks\":")?;
    let frames = |stack| snapshot.stacks.frames(stack).map(|it| (it.file, it.line, it.name));
    list(sink, stacks.listed.iter().map(|stack| frames(*stack).collect::<Vec<_>>()))?;
    sink.write_all(b",\n\"texts\":")?;
    list(sink, texts.listed.iter().map(|text| snapshot.texts.get(*text)))?;
    sink.write_all(b",\n\"entries\":")?;
    let lines = entries.iter().map(|entry| {
        (
            action_text(snapshot, entry.action),
            entry.address,
            entry.bytes,
            entry.stream.0,
            entry.time_us,
            entry.stack.map(|stack| stacks.of(stack)),
            pool_id(snapshot, entry),
            entry.metadata.map(|text| texts.of(text)),
            entry.compile_context.map(|text| texts.of(text)),
        )
    });
    list(sink, lines)?;
    sink.write_all(b"}")
}

/// Writes the key and its value for a stream trace.
pub(super) fn write_recording(sink: &mut impl Write, recording: &Recording) -> io::Result<()> {
    let (unix_ns, is_complete) = (recording.unix_ns, recording.is_complete());
    write!(sink, ",\n\"{KEY}\":{{\"unix_ns\":{unix_ns},\"complete\":{is_complete},\"texts\":")?;
    list(sink, recording.texts.iter())?;
    sink.write_all(b",\n\"places\":")?;
    list(sink, recording.places.iter().map(|place| (&place.file, place.line, place.column)))?;
    sink.write_all(b",\n\"entries\":")?;
    list(sink, recording.entries.iter().map(|entry| (entry.host_ns, &entry.item)))?;
    sink.write_all(b"}")
}

/// Writes a list with a line for each value.
fn list(sink: &mut impl Write, values: impl Iterator<Item = impl Serialize>) -> io::Result<()> {
    sink.write_all(b"[")?;
    for (position, value) in values.enumerate() {
        sink.write_all(if position == 0 { b"\n" } else { b",\n" })?;
        serde_json::to_writer(&mut *sink, &value)?;
    }
    sink.write_all(b"]")
}

/// Positions in the order of first use.
#[derive(Debug)]
struct Numbers<T> {
    listed: Vec<T>,
    positions: HashMap<T, usize>,
}

impl<T> Default for Numbers<T> {
    fn default() -> Self {
        Self { listed: Vec::new(), positions: HashMap::new() }
    }
}

impl<T: Copy + Eq + Hash> Numbers<T> {
    fn of(&mut self, value: T) -> usize {
        let next = self.listed.len();
        let position = *self.positions.entry(value).or_insert(next);
        if position == next {
            self.listed.push(value);
        }
        position
    }
}
