//! Writes a stream trace as CSV, with all that its entries say.
//!
//! | action | `detail` |
//! | --- | --- |
//! | `trace_begin` | `version`; its time is that from which the host's times count |
//! | `setting` | the value, as it is |
//! | `figure` | `value` |
//! | `stream` | `kind`, `priority` |
//! | an operation's kind, such as `launch` | `operation`, `captured`, `touches` |
//! | `device_time` | `operation`, `start_ns` if it was measured, `end_ns` |
//! | `record` | `record`, `event`, `maker` |
//! | `wait` | `record` if it is known, `maker` |
//! | `synchronize` | `subject`, `blocked_ns`, `maker` |
//! | `passed` | `subject`, `maker` |
//! | `alloc` | `given`, `served_by` |
//! | `use` | `kind` |
//! | `trace_end` | nothing; without this line the trace was cut |
//! | `stream_end`, `use_end`, `hold`, `hold_end`, `free`, `move`, `oom` | nothing |
//! | `segment_alloc`, `segment_free`, `capture_begin`, `capture_end` | nothing |
//!
//! Operations are `launch`, `copy`, `fill`, `host_function`, `graph_launch` and `unknown`.
//!
//! A detail is words `key=value` with a space between them. `touches` are separated by commas, each
//! of them `access:block:offset:bytes` with `-` for the block where there is none; a `subject` is
//! `record:NUMBER`, `stream`, `context` or `everything`. An operation whose name is the empty
//! text says `name=empty`. `owner` is the place as `file:line:column`. Of an entry about a block,
//! `address` and `bytes` are those that the block was allocated with.

use std::fmt::Write as _;
use std::io::{self, Write};

use serde::Serialize;

use super::{COLUMNS, TOLD_ENTRIES, begin, hexadecimal, io_error};
use crate::pytorch::WriteProgress;
use crate::stream_trace::{Item, Operation, PlaceNumber, Recording, Subject};
use crate::{BlockNumber, StreamNumber};

/// The version of these lines that is written, and the only one that is read.
pub(super) const VERSION: &str = "version=1";
/// The line with the time from which the host's times count.
pub(super) const BEGIN_ACTION: &str = "trace_begin";
/// The line by which a reader knows that nothing is missing.
pub(super) const END_ACTION: &str = "trace_end";

/// Writes a stream trace. Memory is bounded by the blocks of the trace.
///
/// # Errors
/// What `sink` says.
pub fn write_recording<W: Write>(
    recording: &Recording,
    sink: W,
    mut progress: Option<WriteProgress<'_>>,
) -> io::Result<()> {
    let writer = begin(sink, &COLUMNS)?;
    let mut lines = Lines {
        recording,
        writer,
        index: 0,
        stream_count: 0,
        operation_count: 0,
        record_count: 0,
        blocks: Vec::new(),
    };
    let detail = VERSION.to_owned();
    lines.write(0, Line { action: BEGIN_ACTION.to_owned(), detail, ..Line::default() })?;
    for (position, entry) in recording.entries.iter().enumerate() {
        if position.is_multiple_of(TOLD_ENTRIES)
            && let Some(progress) = &mut progress
        {
            progress(position, recording.entries.len());
        }
        let line = lines.line(&entry.item);
        lines.write(entry.host_ns, line)?;
    }
    if recording.is_complete() {
        let end_ns = recording.entries.last().map_or(0, |entry| entry.host_ns);
        lines.write(end_ns, Line { action: END_ACTION.to_owned(), ..Line::default() })?;
    }
    lines.writer.flush()
}

/// A line before it is spelled.
#[derive(Debug, Default)]
struct Line<'a> {
    action: String,
    address: Option<u64>,
    bytes: Option<u64>,
    stream: Option<StreamNumber>,
    place: Option<PlaceNumber>,
    detail: String,
    block: Option<BlockNumber>,
    name: &'a str,
}

struct Lines<'a, W: Write> {
    recording: &'a Recording,
    writer: csv::Writer<W>,
    index: u64,
    stream_count: u32,
    operation_count: u32,
    record_count: u32,
    /// Address, bytes and home of each block.
    blocks: Vec<(u64, u64, StreamNumber)>,
}

impl<'a, W: Write> Lines<'a, W> {
    fn write(&mut self, host_ns: u64, line: Line<'_>) -> io::Result<()> {
        let time_ns = u128::from(self.recording.unix_ns) + u128::from(host_ns);
        let stream = line.stream.and_then(|stream| self.recording.stream(stream));
        let place = line.place.and_then(|place| self.recording.place(place));
        let cells = [
            self.index.to_string(),
            format!("{}.{:03}", time_ns / 1000, time_ns % 1000),
            "0".to_owned(),
            line.action,
            line.address.map_or_else(String::new, hexadecimal),
            line.bytes.map_or_else(String::new, |bytes| bytes.to_string()),
            stream.map_or_else(String::new, |stream| hexadecimal(stream.id)),
            place.map_or_else(String::new, |it| format!("{}:{}:{}", it.file, it.line, it.column)),
            line.detail,
            line.name.to_owned(),
            line.stream.map_or_else(String::new, |stream| stream.0.to_string()),
            line.block.map_or_else(String::new, |block| block.0.to_string()),
        ];
        self.index += 1;
        self.writer.write_record(&cells).map_err(io_error)
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "the other functions have the others")]
    fn line(&mut self, item: &'a Item) -> Line<'a> {
        match *item {
            Item::Allocate { stream, requested_bytes, bytes, address, served_by, place } => {
                let number = u32::try_from(self.blocks.len()).expect("a trace numbers blocks so");
                self.blocks.push((address, requested_bytes, stream));
                let detail = format!("given={bytes} served_by={}", word(&served_by));
                let line = Line { place, detail, ..self.of_block(BlockNumber(number)) };
                Line { action: "alloc".to_owned(), ..line }
            }
            Item::Free { block, place } => self.about("free", block, None, place),
            Item::Hold { block, place } => self.about("hold", block, None, place),
            Item::HoldEnd { block } => self.about("hold_end", block, None, None),
            Item::Use { block, stream, kind, place } => {
                let detail = format!("kind={}", word(&kind));
                Line { detail, ..self.about("use", block, Some(stream), place) }
            }
            Item::UseEnd { block, stream, place } => {
                self.about("use_end", block, Some(stream), place)
            }
            Item::Move { block, stream, place } => {
                if let Some(kept) = self.blocks.get_mut(block.index()) {
                    kept.2 = stream;
                }
                self.about("move", block, Some(stream), place)
            }
            Item::Segment { address, bytes, opened } => {
                let action = if opened { "segment_alloc" } else { "segment_free" };
                let (address, bytes) = (Some(address), Some(bytes));
                Line { action: action.to_owned(), address, bytes, ..Line::default() }
            }
            Item::OutOfMemory { stream, requested_bytes, place } => {
                let bytes = Some(requested_bytes);
                Line { bytes, ..of_stream("oom", Some(stream), place) }
            }
            _ => self.of_program(item),
        }
    }

    fn about(
        &self,
        action: &str,
        block: BlockNumber,
        stream: Option<StreamNumber>,
        place: Option<PlaceNumber>,
    ) -> Line<'a> {
        let line = Line { action: action.to_owned(), place, ..self.of_block(block) };
        Line { stream: stream.or(line.stream), ..line }
    }

    fn of_block(&self, block: BlockNumber) -> Line<'a> {
        let known = self.blocks.get(block.index()).copied();
        Line {
            address: known.map(|(address, _, _)| address),
            bytes: known.map(|(_, bytes, _)| bytes),
            stream: known.map(|(_, _, stream)| stream),
            block: Some(block),
            ..Line::default()
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "the other functions have the others")]
    fn of_program(&mut self, item: &'a Item) -> Line<'a> {
        match *item {
            Item::Stream(start) => {
                let detail = format!("kind={} priority={}", word(&start.kind), start.priority);
                let stream = Some(StreamNumber(self.stream_count));
                self.stream_count += 1;
                Line { detail, ..of_stream("stream", stream, start.place) }
            }
            Item::StreamEnd { stream, place } => of_stream("stream_end", Some(stream), place),
            Item::Operation(ref operation) => self.operation(operation),
            Item::DeviceTime { operation, start_ns, end_ns } => {
                let start = start_ns.map_or_else(String::new, |it| format!(" start_ns={it}"));
                let detail = format!("operation={}{start} end_ns={end_ns}", operation.0);
                Line { detail, ..of_stream("device_time", None, None) }
            }
            Item::Capture { stream, begins, place } => {
                let action = if begins { "capture_begin" } else { "capture_end" };
                of_stream(action, Some(stream), place)
            }
            Item::Setting { ref name, ref value } => {
                Line { detail: value.clone(), name, ..of_stream("setting", None, None) }
            }
            Item::Figure { ref name, value } => {
                Line { detail: format!("value={value}"), name, ..of_stream("figure", None, None) }
            }
            _ => self.of_order(item),
        }
    }

    fn operation(&mut self, operation: &Operation) -> Line<'a> {
        let name = operation.name.and_then(|name| self.recording.text(name));
        let (number, captured) = (self.operation_count, operation.is_captured);
        self.operation_count += 1;
        let mut detail = format!("operation={number} captured={captured}");
        if name == Some("") {
            detail += " name=empty";
        }
        for (position, touch) in operation.touches.iter().enumerate() {
            detail += if position == 0 { " touches=" } else { "," };
            let block = touch.block.map_or_else(|| "-".to_owned(), |block| block.0.to_string());
            let (access, offset, bytes) = (word(&touch.access), touch.offset, touch.bytes);
            // Writing to a string cannot fail.
            let _ = write!(detail, "{access}:{block}:{offset}:{bytes}");
        }
        let line = of_stream(&word(&operation.kind), Some(operation.stream), operation.place);
        Line { detail, name: name.unwrap_or_default(), ..line }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "the other functions have the others")]
    fn of_order(&mut self, item: &Item) -> Line<'a> {
        match *item {
            Item::Record { stream, event, maker, place } => {
                let (number, maker) = (self.record_count, word(&maker));
                self.record_count += 1;
                let detail = format!("record={number} event={:#x} maker={maker}", event.0);
                Line { detail, ..of_stream("record", Some(stream), place) }
            }
            Item::Wait { stream, record, maker, place } => {
                let record = record.map_or_else(String::new, |it| format!("record={} ", it.0));
                let detail = format!("{record}maker={}", word(&maker));
                Line { detail, ..of_stream("wait", Some(stream), place) }
            }
            Item::Synchronize { subject, blocked_ns, maker, place } => {
                let (stream, subject) = of_subject(subject);
                let maker = word(&maker);
                let detail = format!("subject={subject} blocked_ns={blocked_ns} maker={maker}");
                Line { detail, ..of_stream("synchronize", stream, place) }
            }
            Item::Passed { subject, maker, place } => {
                let (stream, subject) = of_subject(subject);
                let detail = format!("subject={subject} maker={}", word(&maker));
                Line { detail, ..of_stream("passed", stream, place) }
            }
            // Texts and places are no entries of a recording.
            _ => Line::default(),
        }
    }
}

fn of_stream(
    action: &str,
    stream: Option<StreamNumber>,
    place: Option<PlaceNumber>,
) -> Line<'static> {
    Line { action: action.to_owned(), stream, place, ..Line::default() }
}

/// The stream that a subject is, and the subject in a word.
fn of_subject(subject: Subject) -> (Option<StreamNumber>, String) {
    match subject {
        Subject::Record(record) => (None, format!("record:{}", record.0)),
        Subject::Stream(stream) => (Some(stream), "stream".to_owned()),
        Subject::Context => (None, "context".to_owned()),
        Subject::Everything => (None, "everything".to_owned()),
    }
}

/// The word that a value without fields is written as.
fn word(value: &impl Serialize) -> String {
    let value = serde_json::to_value(value).ok();
    value.as_ref().and_then(|value| value.as_str()).unwrap_or_default().to_owned()
}
