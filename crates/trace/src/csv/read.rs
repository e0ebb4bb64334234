//! Reads the CSV that this crate writes, line by line, and the lines of snapshots.
//!
//! The entries of a snapshot come back as they were. Of a call stack there is only the owner:
//! where that is a line of a program, it becomes a stack of one frame. Segments and annotations
//! are not in it. A stream trace comes back whole, or up to where its file was cut.

use std::cell::Cell;
use std::io::{self, Read};
use std::rc::Rc;

use super::read_recording::Entries;
use super::recording::END_ACTION;
use super::{COLUMNS, MADE_OF_ACTION, SNAPSHOT_COLUMNS};
use crate::origin::EXPECTED;
use crate::pytorch::rebuild::{DEVICE_MAX, Line, Rebuilder, Refusal};
use crate::stream_trace::Problem;
use crate::{AnyTrace, Origin};

/// The most bytes that are read for one line, beyond the reader's own buffer.
const LINE_BYTES_MAX: u64 = 16 << 20;

/// Why a file is no CSV that can be read. Lines count from 1.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CsvError {
    /// The operating system, or a decompressor, failed to read, or a line has no end.
    #[error("cannot be read as CSV after line {line}: {source}")]
    Io {
        /// How far reading had come.
        line: u64,
        /// What was said.
        source: io::Error,
    },
    /// The first line has other columns.
    #[error(
        "is not CSV that `convert` writes: line 1 must be `{snapshot}` of a snapshot,\n\
         and `{recording}` of a stream trace"
    )]
    Foreign {
        /// The right first line of a snapshot.
        snapshot: String,
        /// The right first line of a stream trace.
        recording: String,
    },
    /// A line has more or fewer cells than the first.
    #[error("is not usable CSV: line {line} has {found} columns, not {expected}")]
    Columns {
        /// The line.
        line: u64,
        /// How many it has.
        found: usize,
        /// How many the first line has.
        expected: usize,
    },
    /// A cell holds something else.
    #[error("is not usable CSV: line {line}, column `{column}`: `{found}` is not {expected}")]
    Cell {
        /// The line.
        line: u64,
        /// The column.
        column: &'static str,
        /// What is there.
        found: String,
        /// What belongs there.
        expected: &'static str,
    },
    /// The detail lacks a word.
    #[error("is not usable CSV: line {line}, column `detail`: the key `{key}` is missing")]
    MissingKey {
        /// The line.
        line: u64,
        /// The word's key.
        key: &'static str,
    },
    /// What a line declares has a number, but not the next one: a line was lost, or moved.
    #[error("is not usable CSV: line {line}, column `{column}`: {found} where {expected} is next")]
    NotNext {
        /// The line.
        line: u64,
        /// The column.
        column: &'static str,
        /// The number.
        found: u32,
        /// The number that comes next.
        expected: u32,
    },
    /// A line contradicts those before.
    #[error("is not usable CSV: line {line}: {problem}")]
    Entry {
        /// The line.
        line: u64,
        /// What is wrong.
        problem: Problem,
    },
    /// A number is beyond any device.
    #[error("is not usable CSV: line {line}, column `{column}`: {value} is above {limit}")]
    Absurd {
        /// The line.
        line: u64,
        /// The column.
        column: &'static str,
        /// The number.
        value: u64,
        /// The most that is believed.
        limit: u64,
    },
    /// Keeping all of it would take more memory than allowed.
    #[error("is too large: its entries need more than {limit} bytes of memory at line {line}")]
    TooMuchMemory {
        /// The limit it passed.
        limit: u64,
        /// Where.
        line: u64,
    },
}

/// Reads what [`super::write_snapshot`] or [`super::write_recording`] wrote, in at most
/// `memory_bytes_max` bytes of memory beside one line's.
///
/// # Errors
/// See [`CsvError`]. A stream trace that was cut is none, as for
/// [`Recording::load`](crate::stream_trace::Recording::load): a last line without its end is left
/// out.
pub fn read(source: impl Read, memory_bytes_max: u64) -> Result<AnyTrace, CsvError> {
    let mut lines = Lines::new(source);
    let mut record = csv::ByteRecord::new();
    lines.next_into(&mut record)?;
    let is = |columns: &[&str]| record.iter().eq(columns.iter().map(|column| column.as_bytes()));
    if is(&COLUMNS) {
        return read_recording(lines, record, memory_bytes_max);
    }
    if !is(&SNAPSHOT_COLUMNS) {
        let (snapshot, recording) = (SNAPSHOT_COLUMNS.join(","), COLUMNS.join(","));
        return Err(CsvError::Foreign { snapshot, recording });
    }
    let mut rebuilder = Rebuilder::new(memory_bytes_max);
    while lines.next_into(&mut record)? {
        take(&mut rebuilder, &record, lines.line)?;
    }
    Ok(AnyTrace::Snapshot(rebuilder.build()))
}

/// A line is known to be whole when another one follows, or when the file ends with its line feed
/// and no cell is missing.
fn read_recording(
    mut lines: Lines<impl Read>,
    mut record: csv::ByteRecord,
    memory_bytes_max: u64,
) -> Result<AnyTrace, CsvError> {
    let mut entries = Entries::new(memory_bytes_max);
    let mut held = csv::ByteRecord::new();
    let mut held_at: Option<(u64, u64)> = None;
    let mut read_bytes = lines.record_end();
    loop {
        let is_more = lines.next_into(&mut record)?;
        let is_whole = |held: &csv::ByteRecord| {
            lines.ends_with_line() && COLUMNS.len() <= held.len() || is_end(held)
        };
        if let Some((line, end)) = held_at.take()
            && (is_more || is_whole(&held))
        {
            check_count(&held, &COLUMNS, line)?;
            entries.take(&held, line)?;
            read_bytes = end;
        }
        if !is_more {
            let total_bytes = lines.input.total_bytes.get();
            return Ok(AnyTrace::Recording(entries.finish(read_bytes, total_bytes)));
        }
        std::mem::swap(&mut record, &mut held);
        held_at = Some((lines.line, lines.record_end()));
    }
}

/// Whether this is a whole last line, which needs no line feed.
fn is_end(record: &csv::ByteRecord) -> bool {
    let action = COLUMNS.iter().position(|column| *column == "action");
    let action = action.and_then(|position| record.get(position));
    record.len() == COLUMNS.len() && action == Some(END_ACTION.as_bytes())
}

fn check_count(record: &csv::ByteRecord, columns: &[&str], line: u64) -> Result<(), CsvError> {
    let (found, expected) = (record.len(), columns.len());
    if found == expected { Ok(()) } else { Err(CsvError::Columns { line, found, expected }) }
}

/// The lines of a file, the first one too.
struct Lines<R> {
    reader: csv::Reader<Allowed<R>>,
    input: Rc<InputState>,
    /// The line of the last record.
    line: u64,
}

impl<R: Read> Lines<R> {
    fn new(source: R) -> Self {
        let input = Rc::new(InputState::default());
        let source = Allowed { source, state: Rc::clone(&input) };
        let reader =
            csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(source);
        Self { reader, input, line: 0 }
    }

    /// Reads the next record; false at the end.
    fn next_into(&mut self, record: &mut csv::ByteRecord) -> Result<bool, CsvError> {
        self.input.left.set(LINE_BYTES_MAX);
        let before = self.reader.position().line();
        let is_more = self.reader.read_byte_record(record).map_err(|error| {
            let source = super::io_error(error);
            CsvError::Io { line: before.saturating_sub(1), source }
        })?;
        // Empty lines before a record are passed over, and counted only with it.
        self.line = record.position().map_or(before, csv::Position::line);
        Ok(is_more)
    }

    /// Where the last record ends, in bytes.
    fn record_end(&self) -> u64 {
        self.reader.position().byte()
    }

    /// Whether what was read last ends a line.
    fn ends_with_line(&self) -> bool {
        matches!(self.input.last_byte.get(), b'\n' | b'\r')
    }
}

fn take(rebuilder: &mut Rebuilder, record: &csv::ByteRecord, line: u64) -> Result<(), CsvError> {
    check_count(record, &SNAPSHOT_COLUMNS, line)?;
    let cell = |column: &'static str| Text::of(record, &SNAPSHOT_COLUMNS, column, line);
    let refused = |refusal| match refusal {
        Refusal::Absurd { key: column, value, limit } => {
            CsvError::Absurd { line, column, value, limit }
        }
        Refusal::TooMuchMemory { limit } => CsvError::TooMuchMemory { limit, line },
    };
    let device = cell("device").number()?;
    if DEVICE_MAX < device {
        return Err(cell("device").refuse("the index of a device"));
    }
    let owner = cell("owner");
    let stack = match frame(&owner.text) {
        Some(frame) => rebuilder.stack(&[frame]).map_err(refused)?,
        None => None,
    };
    let (action, detail, context) = (cell("action"), cell("detail"), cell("context"));
    if action.text == MADE_OF_ACTION && cell("index").text.is_empty() {
        let origin = Origin::of_mark(&detail.text).ok_or_else(|| detail.refuse(EXPECTED))?;
        rebuilder.origin = origin;
        return Ok(());
    }
    let entry = Line {
        action: &action.text,
        address: cell("address").number()?,
        bytes: cell("bytes").number()?,
        stream: cell("stream").number()?,
        time_us: cell("time_us").time_us()?,
        stack,
        pool: cell("pool").pool()?,
        metadata: &detail.text,
        compile_context: &context.text,
    };
    rebuilder.push(usize::try_from(device).unwrap_or(0), &entry).map_err(refused)
}

/// The frame that an owner `file:line name` names, if it is one.
fn frame(owner: &str) -> Option<(&str, u32, &str)> {
    owner.rmatch_indices(':').find_map(|(position, _)| {
        let (file, rest) = (owner.get(..position)?, owner.get(position + 1..)?);
        let (line, name) = rest.split_once(' ').unwrap_or((rest, ""));
        let is_line = !line.is_empty() && line.bytes().all(|byte| byte.is_ascii_digit());
        (is_line && !file.is_empty()).then_some((file, line.parse().ok()?, name))
    })
}

/// A cell and where it stands.
pub(super) struct Text<'a> {
    pub(super) line: u64,
    pub(super) column: &'static str,
    pub(super) text: std::borrow::Cow<'a, str>,
}

impl<'a> Text<'a> {
    pub(super) fn of(
        record: &'a csv::ByteRecord,
        columns: &[&str],
        column: &'static str,
        line: u64,
    ) -> Self {
        let position = columns.iter().position(|it| *it == column);
        let bytes = position.and_then(|position| record.get(position)).unwrap_or_default();
        Self { line, column, text: String::from_utf8_lossy(bytes) }
    }

    pub(super) fn refuse(&self, expected: &'static str) -> CsvError {
        let found = self.text.chars().take(40).flat_map(char::escape_debug).collect();
        CsvError::Cell { line: self.line, column: self.column, found, expected }
    }

    /// A number, in hexadecimal after `0x`.
    pub(super) fn number(&self) -> Result<u64, CsvError> {
        let number = match self.text.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).ok(),
            None => self.text.parse().ok(),
        };
        number.ok_or_else(|| self.refuse("a number"))
    }

    fn time_us(&self) -> Result<i64, CsvError> {
        self.text.parse().map_err(|_| self.refuse("a whole number of microseconds"))
    }

    fn pool(&self) -> Result<Option<(u64, u64)>, CsvError> {
        if self.text.is_empty() {
            return Ok(None);
        }
        let halves = self.text.split_once(':');
        let pool = halves.and_then(|(one, two)| Some((one.parse().ok()?, two.parse().ok()?)));
        pool.map(Some).ok_or_else(|| self.refuse("a pool such as 0:1"))
    }
}

/// What is known of the bytes that were given.
#[derive(Debug, Default)]
struct InputState {
    /// How many may be given for the next line.
    left: Cell<u64>,
    last_byte: Cell<u8>,
    total_bytes: Cell<u64>,
}

/// Bytes of which only so many are given for one line.
struct Allowed<R> {
    source: R,
    state: Rc<InputState>,
}

impl<R: Read> Read for Allowed<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let state = &self.state;
        if state.left.get() == 0 {
            let text = format!("the next line is longer than {LINE_BYTES_MAX} bytes");
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        let count = self.source.read(into)?;
        let count_bytes = u64::try_from(count).unwrap_or(u64::MAX);
        state.left.set(state.left.get().saturating_sub(count_bytes));
        state.total_bytes.set(state.total_bytes.get().saturating_add(count_bytes));
        if let Some(last) = into.get(..count).and_then(<[u8]>::last) {
            state.last_byte.set(*last);
        }
        Ok(count)
    }
}
