//! Writes a trace as CSV: one line for each entry, in the same columns for either kind of trace,
//! and two more for a snapshot, whose CSV is read again by `read`.
//!
//! | column | what |
//! | --- | --- |
//! | `index` | counted from 0 within a device |
//! | `time_us` | microseconds of Unix time, with nanoseconds where they are known |
//! | `device` | index of the device |
//! | `action` | as in a snapshot; a stream trace has more, below |
//! | `address` | the first byte, in hexadecimal; of `oom` the device's free bytes, in decimal |
//! | `bytes` | as requested for blocks, as held for segments |
//! | `stream` | the handle, or the driver's identity of the stream, in hexadecimal |
//! | `owner` | of a snapshot's `alloc` its owner (see [`Owners`]), else the place in the source |
//! | `detail` | what else there is: metadata, a name, an event, a value |
//! | `pool` | of a snapshot, where known: both numbers of the pool, as `0:1` |
//! | `context` | of a snapshot: what was being compiled |
//!
//! Actions of a stream trace: `stream`, `stream_end`, `launch`, `copy`, `fill`, `host_function`,
//! `graph_launch`, `unknown_work`, `device_time`, `record`, `wait`, `synchronize`, `passed`,
//! `alloc`, `use`, `use_end`, `hold`, `hold_end`, `free`, `move`, `segment_alloc`,
//! `segment_free`, `oom`, `capture_begin`, `capture_end`, `setting`, `figure`.
//!
//! Quoting is that of RFC 4180, lines end in a line feed.

mod read;

use std::io::{self, Write};

pub use read::{CsvError, read};

use crate::owner::{OpenAnnotations, Owners, Pattern};
use crate::pytorch::{Action, Entry, Snapshot, TextId, WriteProgress, action_text, pool_id};
use crate::stream_trace::{Item, OperationKind, PlaceNumber, Recording, Subject};
use crate::{BlockNumber, StreamNumber};

/// How all of it begins.
pub(crate) const BEGIN: &[u8] = b"index,time_us,device,action,";

/// The first line's cells of a stream trace.
pub const COLUMNS: [&str; 9] =
    ["index", "time_us", "device", "action", "address", "bytes", "stream", "owner", "detail"];

/// The first line's cells of a snapshot.
pub const SNAPSHOT_COLUMNS: [&str; 11] = [
    "index", "time_us", "device", "action", "address", "bytes", "stream", "owner", "detail",
    "pool", "context",
];

const TOLD_ENTRIES: usize = 1 << 14;

/// Writes the traces of all devices of `snapshot`, or of one of them. `owner` is the pattern that
/// [`Owners::new`] takes. Memory is bounded by the distinct owners.
///
/// # Errors
/// What `sink` says.
pub fn write_snapshot<W: Write>(
    snapshot: &Snapshot,
    device: Option<usize>,
    owner: Option<Pattern<'_>>,
    sink: W,
    mut progress: Option<WriteProgress<'_>>,
) -> io::Result<()> {
    let mut writer = begin(sink, &SNAPSHOT_COLUMNS)?;
    let mut owners = Owners::new(snapshot, owner);
    let chosen = |number: usize| device.is_none_or(|device| device == number);
    let traces = || snapshot.device_traces.iter().enumerate().filter(|(it, _)| chosen(*it));
    let all = traces().map(|(_, entries)| entries.len()).sum();
    let mut written = 0_usize;
    let text = |text: Option<TextId>| {
        text.map_or_else(String::new, |text| snapshot.texts.get(text).to_owned())
    };
    for (device, entries) in traces() {
        let mut annotations = OpenAnnotations::new(snapshot, device);
        for (index, entry) in entries.iter().enumerate() {
            if written.is_multiple_of(TOLD_ENTRIES)
                && let Some(progress) = &mut progress
            {
                progress(written, all);
            }
            written += 1;
            let annotation = annotations.at(entry.time_us);
            let owner = (entry.action == Action::Alloc)
                .then(|| owners.of(entry.stack, entry.bytes, annotation));
            let owner = owner.and_then(|owner| owners.names().get(owner.index()));
            let cells = [
                index.to_string(),
                entry.time_us.to_string(),
                device.to_string(),
                action_text(snapshot, entry.action).to_owned(),
                address(entry),
                entry.bytes.to_string(),
                entry.stream.to_string(),
                owner.map_or_else(String::new, |owner| owner.trim_end().to_owned()),
                text(entry.metadata),
                pool_id(snapshot, entry)
                    .map_or_else(String::new, |it| format!("{}:{}", it.0, it.1)),
                text(entry.compile_context),
            ];
            writer.write_record(&cells).map_err(io_error)?;
        }
    }
    writer.flush()
}

/// What the sink said, which a wrapped error would hide from who asks for a broken pipe.
fn io_error(error: csv::Error) -> io::Error {
    if error.is_io_error()
        && let csv::ErrorKind::Io(error) = error.into_kind()
    {
        return error;
    }
    io::Error::other("a line has other columns than the first")
}

fn begin<W: Write>(sink: W, columns: &[&str]) -> io::Result<csv::Writer<W>> {
    let mut writer = csv::Writer::from_writer(sink);
    writer.write_record(columns).map_err(io_error)?;
    Ok(writer)
}

fn address(entry: &Entry) -> String {
    match entry.action {
        Action::OutOfMemory => entry.address.to_string(),
        Action::Alloc
        | Action::Free
        | Action::FreeRequested
        | Action::FreeCompleted
        | Action::SegmentAlloc
        | Action::SegmentFree
        | Action::SegmentMap
        | Action::SegmentUnmap
        | Action::Snapshot
        | Action::Annotate
        | Action::Other(_) => hexadecimal(entry.address),
    }
}

fn hexadecimal(number: u64) -> String {
    format!("{number:#x}")
}

/// Writes a stream trace. Memory is bounded by the blocks, records and operations of the trace.
///
/// # Errors
/// What `sink` says.
pub fn write_recording<W: Write>(
    recording: &Recording,
    sink: W,
    mut progress: Option<WriteProgress<'_>>,
) -> io::Result<()> {
    let mut writer = begin(sink, &COLUMNS)?;
    let mut lines = Lines { recording, blocks: Vec::new() };
    for (index, entry) in recording.entries.iter().enumerate() {
        if index.is_multiple_of(TOLD_ENTRIES)
            && let Some(progress) = &mut progress
        {
            progress(index, recording.entries.len());
        }
        let line = lines.line(&entry.item);
        let time_ns = recording.unix_ns.saturating_add(entry.host_ns);
        writer
            .write_record(&[
                index.to_string(),
                format!("{}.{:03}", time_ns / 1000, time_ns % 1000),
                "0".to_owned(),
                line.action.to_owned(),
                line.address.map_or_else(String::new, hexadecimal),
                line.bytes.map_or_else(String::new, |bytes| bytes.to_string()),
                line.stream.map_or_else(String::new, |stream| lines.stream(stream)),
                line.place.map_or_else(String::new, |place| lines.place(place)),
                line.detail,
            ])
            .map_err(io_error)?;
    }
    writer.flush()
}

/// A line before it is spelled.
#[derive(Debug, Default)]
struct Line {
    action: &'static str,
    address: Option<u64>,
    bytes: Option<u64>,
    stream: Option<StreamNumber>,
    place: Option<PlaceNumber>,
    detail: String,
}

struct Lines<'a> {
    recording: &'a Recording,
    /// Address, bytes and home of each block.
    blocks: Vec<(u64, u64, StreamNumber)>,
}

impl Lines<'_> {
    fn stream(&self, stream: StreamNumber) -> String {
        let start = self.recording.stream(stream);
        start.map_or_else(String::new, |start| hexadecimal(start.id))
    }

    fn place(&self, place: PlaceNumber) -> String {
        let place = self.recording.place(place);
        place.map_or_else(String::new, ToString::to_string)
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "the other function has the others")]
    fn line(&mut self, item: &Item) -> Line {
        match *item {
            Item::Allocate { stream, requested_bytes, bytes, address, served_by, place } => {
                self.blocks.push((address, requested_bytes, stream));
                let (address, detail) = (Some(address), format!("{bytes} given, {served_by:?}"));
                let (stream, bytes) = (Some(stream), Some(requested_bytes));
                Line { action: "alloc", address, bytes, stream, place, detail }
            }
            Item::Free { block, place } => Line { place, ..self.of_block("free", block) },
            Item::Hold { block, place } => Line { place, ..self.of_block("hold", block) },
            Item::HoldEnd { block } => self.of_block("hold_end", block),
            Item::Use { block, stream, kind, place } => {
                let (stream, detail) = (Some(stream), format!("{kind:?}"));
                Line { stream, place, detail, ..self.of_block("use", block) }
            }
            Item::UseEnd { block, stream, place } => {
                Line { stream: Some(stream), place, ..self.of_block("use_end", block) }
            }
            Item::Move { block, stream, place } => {
                let line = Line { stream: Some(stream), place, ..self.of_block("move", block) };
                if let Some(kept) = self.blocks.get_mut(block.index()) {
                    kept.2 = stream;
                }
                line
            }
            Item::Segment { address, bytes, opened } => {
                let action = if opened { "segment_alloc" } else { "segment_free" };
                let (address, bytes) = (Some(address), Some(bytes));
                Line { action, address, bytes, ..Line::default() }
            }
            Item::OutOfMemory { stream, requested_bytes, place } => {
                let (stream, bytes) = (Some(stream), Some(requested_bytes));
                Line { action: "oom", bytes, stream, place, ..Line::default() }
            }
            _ => self.of_stream(item),
        }
    }

    fn of_stream(&self, item: &Item) -> Line {
        match *item {
            Item::Stream(start) => {
                let detail =
                    format!("{:?}, {:#x}, priority {}", start.kind, start.id, start.priority);
                Line { action: "stream", place: start.place, detail, ..Line::default() }
            }
            Item::StreamEnd { stream, place } => {
                Line { action: "stream_end", stream: Some(stream), place, ..Line::default() }
            }
            Item::Operation(ref it) => {
                let name = it.name.and_then(|name| self.recording.text(name)).unwrap_or_default();
                let action = match it.kind {
                    OperationKind::Launch => "launch",
                    OperationKind::Copy => "copy",
                    OperationKind::Fill => "fill",
                    OperationKind::HostFunction => "host_function",
                    OperationKind::GraphLaunch => "graph_launch",
                    OperationKind::Unknown => "unknown_work",
                };
                let (stream, detail) = (Some(it.stream), name.to_owned());
                Line { action, stream, place: it.place, detail, ..Line::default() }
            }
            Item::DeviceTime { operation, start_ns, end_ns } => {
                let start = start_ns.map_or_else(|| "?".to_owned(), |start| start.to_string());
                let detail = format!("operation {}: {start} to {end_ns} ns", operation.0);
                Line { action: "device_time", detail, ..Line::default() }
            }
            Item::Record { stream, event, maker, place } => {
                let (stream, detail) = (Some(stream), format!("event {:#x}, {maker:?}", event.0));
                Line { action: "record", stream, place, detail, ..Line::default() }
            }
            Item::Wait { stream, record, maker, place } => {
                let record = record.map_or_else(|| "?".to_owned(), |it| it.0.to_string());
                let (stream, detail) = (Some(stream), format!("record {record}, {maker:?}"));
                Line { action: "wait", stream, place, detail, ..Line::default() }
            }
            Item::Synchronize { subject, blocked_ns, place, .. } => {
                let detail = format!("{}, {blocked_ns} ns", subject_text(subject));
                let stream = stream_of(subject);
                Line { action: "synchronize", stream, place, detail, ..Line::default() }
            }
            Item::Passed { subject, place, .. } => {
                let (stream, detail) = (stream_of(subject), subject_text(subject));
                Line { action: "passed", stream, place, detail, ..Line::default() }
            }
            Item::Capture { stream, begins, place } => {
                let action = if begins { "capture_begin" } else { "capture_end" };
                Line { action, stream: Some(stream), place, ..Line::default() }
            }
            Item::Setting { ref name, ref value } => {
                Line { action: "setting", detail: format!("{name}={value}"), ..Line::default() }
            }
            Item::Figure { ref name, value } => {
                Line { action: "figure", detail: format!("{name}={value}"), ..Line::default() }
            }
            Item::Text { .. }
            | Item::Place { .. }
            | Item::Allocate { .. }
            | Item::Use { .. }
            | Item::UseEnd { .. }
            | Item::Hold { .. }
            | Item::HoldEnd { .. }
            | Item::Free { .. }
            | Item::Move { .. }
            | Item::Segment { .. }
            | Item::OutOfMemory { .. } => Line::default(),
        }
    }

    fn of_block(&self, action: &'static str, block: BlockNumber) -> Line {
        let known = self.blocks.get(block.index()).copied();
        let (address, bytes, stream) = match known {
            Some((address, bytes, stream)) => (Some(address), Some(bytes), Some(stream)),
            None => (None, None, None),
        };
        Line { action, address, bytes, stream, ..Line::default() }
    }
}

fn stream_of(subject: Subject) -> Option<StreamNumber> {
    match subject {
        Subject::Stream(stream) => Some(stream),
        Subject::Record(_) | Subject::Context | Subject::Everything => None,
    }
}

fn subject_text(subject: Subject) -> String {
    match subject {
        Subject::Record(record) => format!("record {}", record.0),
        Subject::Stream(_) => "stream".to_owned(),
        Subject::Context => "context".to_owned(),
        Subject::Everything => "everything".to_owned(),
    }
}
