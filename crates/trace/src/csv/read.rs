//! Reads the CSV of a snapshot that this crate writes.
//!
//! The entries come back as they were. Of a call stack there is only the owner: where that is a
//! line of a program, it becomes a stack of one frame. Segments and annotations are not in it.

use std::cell::Cell;
use std::io::{self, Read};
use std::rc::Rc;

use super::{COLUMNS, SNAPSHOT_COLUMNS};
use crate::pytorch::Snapshot;
use crate::pytorch::rebuild::{DEVICE_MAX, Line, Rebuilder, Refusal};

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
    #[error("is not CSV that `convert` writes of a snapshot: line 1 must be `{expected}`")]
    Foreign {
        /// The right first line.
        expected: String,
    },
    /// It is a stream trace's.
    #[error(
        "is the CSV of a stream trace, which lacks uses and records that a trace needs\n\
         give the stream trace itself, which it was written from"
    )]
    StreamTrace,
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

/// Reads what [`super::write_snapshot`] wrote, in at most `memory_bytes_max` bytes of memory
/// beside one line's.
///
/// # Errors
/// See [`CsvError`].
pub fn read(source: impl Read, memory_bytes_max: u64) -> Result<Snapshot, CsvError> {
    let allowance = Rc::new(Cell::new(LINE_BYTES_MAX));
    let source = Allowed { source, left: Rc::clone(&allowance) };
    let mut reader =
        csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(source);
    let mut record = csv::ByteRecord::new();
    let mut rebuilder = Rebuilder::new(memory_bytes_max);
    let mut is_first = true;
    loop {
        allowance.set(LINE_BYTES_MAX);
        let before = reader.position().line();
        let more = reader.read_byte_record(&mut record).map_err(|error| {
            let source = super::io_error(error);
            CsvError::Io { line: before.saturating_sub(1), source }
        })?;
        if is_first {
            check_first(&record)?;
            is_first = false;
            continue;
        }
        if !more {
            return Ok(rebuilder.build());
        }
        // Empty lines before a record are passed over, and counted only with it.
        let line = record.position().map_or(before, csv::Position::line);
        take(&mut rebuilder, &record, line)?;
    }
}

fn check_first(record: &csv::ByteRecord) -> Result<(), CsvError> {
    let is = |columns: &[&str]| record.iter().eq(columns.iter().map(|column| column.as_bytes()));
    if is(&SNAPSHOT_COLUMNS) {
        Ok(())
    } else if is(&COLUMNS) {
        Err(CsvError::StreamTrace)
    } else {
        Err(CsvError::Foreign { expected: SNAPSHOT_COLUMNS.join(",") })
    }
}

fn take(rebuilder: &mut Rebuilder, record: &csv::ByteRecord, line: u64) -> Result<(), CsvError> {
    let (found, expected) = (record.len(), SNAPSHOT_COLUMNS.len());
    if found != expected {
        return Err(CsvError::Columns { line, found, expected });
    }
    let cell = |column: &'static str| {
        let position = SNAPSHOT_COLUMNS.iter().position(|it| *it == column);
        let bytes = position.and_then(|position| record.get(position)).unwrap_or_default();
        Text { line, column, text: String::from_utf8_lossy(bytes) }
    };
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
struct Text<'a> {
    line: u64,
    column: &'static str,
    text: std::borrow::Cow<'a, str>,
}

impl Text<'_> {
    fn refuse(&self, expected: &'static str) -> CsvError {
        let found = self.text.chars().take(40).flat_map(char::escape_debug).collect();
        CsvError::Cell { line: self.line, column: self.column, found, expected }
    }

    /// A number, in hexadecimal after `0x`.
    fn number(&self) -> Result<u64, CsvError> {
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

/// Bytes of which only so many are given for one line.
struct Allowed<R> {
    source: R,
    left: Rc<Cell<u64>>,
}

impl<R: Read> Read for Allowed<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.left.get() == 0 {
            let text = format!("the next line is longer than {LINE_BYTES_MAX} bytes");
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        let count = self.source.read(into)?;
        let count_bytes = u64::try_from(count).unwrap_or(u64::MAX);
        self.left.set(self.left.get().saturating_sub(count_bytes));
        Ok(count)
    }
}
