//! The entries themselves, after the events, so that a Chrome trace can be read again.
//!
//! Viewers pass over keys they do not know. The key [`KEY`] has the device, the distinct stacks
//! and texts that the entries name by their positions, and each entry as a list; `otherData` says
//! ahead of all events, under the same name, which kind of trace the file holds and in which
//! version.

use std::collections::HashMap;
use std::hash::Hash;
use std::io::{self, Write};

use crate::pytorch::{Entry, Snapshot, action_text, pool_id};

/// The name of what is ours in the file.
pub(super) const KEY: &str = "wellspring";
/// What `otherData` says of a snapshot; the number is raised when the entries change their form.
pub(super) const SNAPSHOT_MARK: &str = "snapshot 1";
/// What it says of a stream trace.
pub(super) const RECORDING_MARK: &str = "stream trace 1";

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
    write!(sink, ",\n\"{KEY}\":{{\"device\":{device},\"stacks\":[")?;
    for (position, stack) in stacks.listed.iter().enumerate() {
        sink.write_all(if position == 0 { b"\n" } else { b",\n" })?;
        let frames = snapshot.stacks.frames(*stack);
        let frames: Vec<_> = frames.map(|it| (it.file, it.line, it.name)).collect();
        serde_json::to_writer(&mut *sink, &frames)?;
    }
    sink.write_all(b"],\n\"texts\":[")?;
    for (position, text) in texts.listed.iter().enumerate() {
        sink.write_all(if position == 0 { b"\n" } else { b",\n" })?;
        serde_json::to_writer(&mut *sink, snapshot.texts.get(*text))?;
    }
    sink.write_all(b"],\n\"entries\":[")?;
    for (position, entry) in entries.iter().enumerate() {
        sink.write_all(if position == 0 { b"\n" } else { b",\n" })?;
        let line = (
            action_text(snapshot, entry.action),
            entry.address,
            entry.bytes,
            entry.stream.0,
            entry.time_us,
            entry.stack.map(|stack| stacks.of(stack)),
            pool_id(snapshot, entry),
            entry.metadata.map(|text| texts.of(text)),
            entry.compile_context.map(|text| texts.of(text)),
        );
        serde_json::to_writer(&mut *sink, &line)?;
    }
    sink.write_all(b"]}")
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
