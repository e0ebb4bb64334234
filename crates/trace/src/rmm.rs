//! Reads the CSV logs of RMM's logging adaptor: `Thread,Time,Action,Pointer,Size,Stream`.
//!
//! A log becomes a snapshot with one device: `allocate` is an allocation, `free` a free whose
//! memory is available at once in the order of its stream, `allocate failure` a request that
//! failed. A log has no segments, no owners and no date; times count from its day's midnight.

use std::io::{self, BufRead, BufReader, Read};

use crate::Origin;
use crate::pytorch::{Action, Entry, Snapshot, StreamHandle};

/// How every log begins.
pub const HEADER: &str = "Thread,Time,Action,Pointer,Size,Stream";

/// The most bytes that a line may have; RMM writes fewer than 100.
const LINE_BYTES_MAX: u64 = 4096;
/// The most kinds of unknown actions that are told apart.
const UNKNOWN_ACTIONS_MAX: usize = 256;
const DAY_US: i64 = 86_400_000_000;
/// The largest size and address that are believed, as in snapshots.
const SIZE_BYTES_MAX: u64 = 1 << 48;
const ADDRESS_MAX: u64 = (1 << 63) - 1;

/// Why a file is no log that can be read. Lines count from 1.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// The operating system, or a decompressor, failed to read.
    #[error("cannot be read at line {line}: {source}")]
    Io {
        /// How far reading had come.
        line: u64,
        /// What was said.
        source: io::Error,
    },
    /// The first line is another one.
    #[error("is not an RMM log: line 1 must be `{HEADER}`")]
    Foreign,
    /// There is nothing after the first line.
    #[error("is an RMM log without entries")]
    Empty,
    /// A line is longer than any that RMM writes.
    #[error("is not a usable RMM log: line {line} is longer than {limit} bytes")]
    LongLine {
        /// The line.
        line: u64,
        /// The most bytes that a line may have.
        limit: u64,
    },
    /// A line lacks a column.
    #[error("is not a usable RMM log: line {line} has no column `{column}`")]
    MissingColumn {
        /// The line.
        line: u64,
        /// The column.
        column: &'static str,
    },
    /// A cell holds something else.
    #[error("is not a usable RMM log: line {line}, column `{column}`: `{found}` is not {expected}")]
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
    /// Keeping all of it would take more memory than allowed.
    #[error("is too large: its entries need more than {limit} bytes of memory at line {line}")]
    TooMuchMemory {
        /// The limit it passed.
        limit: u64,
        /// Where.
        line: u64,
    },
}

/// Reads a log as a snapshot without segments, in at most `memory_bytes_max` bytes of memory.
///
/// # Errors
/// See [`LogError`]. A last line without its line feed is read as it is.
///
/// ```
/// let log = "Thread,Time,Action,Pointer,Size,Stream\n\
///            1,10:00:00.000001,allocate,0x7f0000000000,1000,0x0\n\
///            1,10:00:00.000009,free,0x7f0000000000,1000,0x0\n";
/// let snapshot = trace::rmm::read(log.as_bytes(), 1 << 20)?;
/// assert_eq!(snapshot.trace(None).map_or(0, |trace| trace.entries().len()), 2);
/// # Ok::<(), trace::rmm::LogError>(())
/// ```
pub fn read(source: impl Read, memory_bytes_max: u64) -> Result<Snapshot, LogError> {
    let mut lines = Lines { source: BufReader::new(source), line: 0, bytes: Vec::new() };
    if !lines.next_line()? || lines.text().trim_end() != HEADER {
        return Err(LogError::Foreign);
    }
    let mut log = Log::default();
    let entries_max = memory_bytes_max / u64::try_from(size_of::<Entry>()).unwrap_or(u64::MAX);
    let mut count = 0;
    while lines.next_line()? {
        let text = lines.text();
        let text = text.trim_end();
        if text.is_empty() {
            continue;
        }
        count += 1;
        if entries_max < count {
            let (limit, line) = (memory_bytes_max, lines.line);
            return Err(LogError::TooMuchMemory { limit, line });
        }
        log.take(text, lines.line)?;
    }
    if count == 0 {
        return Err(LogError::Empty);
    }
    let (device_traces, unknown_actions) = (vec![log.entries], log.unknown_actions);
    let origin = Origin::RmmLog;
    Ok(Snapshot { origin, device_traces, unknown_actions, ..Snapshot::default() })
}

struct Lines<R> {
    source: BufReader<R>,
    line: u64,
    bytes: Vec<u8>,
}

impl<R: Read> Lines<R> {
    /// Reads the next line; false at the end.
    fn next_line(&mut self) -> Result<bool, LogError> {
        self.bytes.clear();
        self.line += 1;
        let line = self.line;
        let limited = &mut self.source.by_ref().take(LINE_BYTES_MAX + 1);
        let read = limited.read_until(b'\n', &mut self.bytes);
        let count = read.map_err(|source| LogError::Io { line, source })?;
        if LINE_BYTES_MAX < u64::try_from(count).unwrap_or(u64::MAX) {
            return Err(LogError::LongLine { line, limit: LINE_BYTES_MAX });
        }
        Ok(0 < count)
    }

    fn text(&self) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(&self.bytes)
    }
}

#[derive(Debug, Default)]
struct Log {
    entries: Vec<Entry>,
    unknown_actions: Vec<(String, usize)>,
    day: i64,
    last_us: i64,
}

impl Log {
    fn take(&mut self, text: &str, line: u64) -> Result<(), LogError> {
        let mut cells = text.split(',').map(|cell| cell.trim().trim_matches('"'));
        let mut next = |column| cells.next().ok_or(LogError::MissingColumn { line, column });
        next("Thread")?;
        let time = Cell { line, column: "Time", text: next("Time")? };
        let action = next("Action")?;
        let pointer = Cell { line, column: "Pointer", text: next("Pointer")? };
        let size = Cell { line, column: "Size", text: next("Size")? };
        let stream = Cell { line, column: "Stream", text: next("Stream")? };
        let action = match action {
            "allocate" => Action::Alloc,
            "free" => Action::Free,
            "allocate failure" => Action::OutOfMemory,
            other => self.unknown(other),
        };
        let is_block = matches!(action, Action::Alloc | Action::Free);
        let address = if is_block { pointer.pointer(ADDRESS_MAX)? } else { 0 };
        let bytes = size.decimal(SIZE_BYTES_MAX)?;
        let time_us = self.time_us(&time)?;
        let stream = StreamHandle(stream.pointer(u64::MAX)?);
        // A null pointer is no block: RMM gives it for a request of no bytes.
        if is_block && address == 0 {
            return Ok(());
        }
        self.entries.push(Entry {
            action,
            address,
            bytes,
            stream,
            time_us,
            stack: None,
            pool: None,
            metadata: None,
            compile_context: None,
        });
        Ok(())
    }

    /// An action that RMM does not write today; beyond a number of them they are one.
    fn unknown(&mut self, name: &str) -> Action {
        let known = self.unknown_actions.iter().position(|(known, _)| known == name);
        let number = match known {
            Some(number) => number,
            None if self.unknown_actions.len() < UNKNOWN_ACTIONS_MAX => {
                self.unknown_actions.push((name.to_owned(), 0));
                self.unknown_actions.len() - 1
            }
            None => 0,
        };
        if let Some((_, count)) = self.unknown_actions.get_mut(number) {
            *count += 1;
        }
        Action::Other(u16::try_from(number).unwrap_or(0))
    }

    /// Microseconds since midnight of the log's first day.
    fn time_us(&mut self, cell: &Cell<'_>) -> Result<i64, LogError> {
        let of_day = cell.time_of_day_us()?;
        let mut time_us = self.day * DAY_US + of_day;
        // Threads may be out of order by a little; half a day back is midnight passing.
        if time_us < self.last_us - DAY_US / 2 {
            self.day += 1;
            time_us += DAY_US;
        }
        self.last_us = self.last_us.max(time_us);
        Ok(time_us)
    }
}

/// A cell and where it stands.
struct Cell<'a> {
    line: u64,
    column: &'static str,
    text: &'a str,
}

impl Cell<'_> {
    fn refuse(&self, expected: &'static str) -> LogError {
        let found = self.text.chars().take(40).flat_map(char::escape_debug).collect();
        LogError::Cell { line: self.line, column: self.column, found, expected }
    }

    fn decimal(&self, limit: u64) -> Result<u64, LogError> {
        let number = self.text.parse().ok().filter(|number| *number <= limit);
        number.ok_or_else(|| self.refuse("a number of bytes below 2^48"))
    }

    /// A pointer or a handle: hexadecimal, or what C++ calls no pointer.
    fn pointer(&self, limit: u64) -> Result<u64, LogError> {
        if matches!(self.text, "(nil)" | "nullptr" | "") {
            return Ok(0);
        }
        let digits = self.text.strip_prefix("0x").or_else(|| self.text.strip_prefix("0X"));
        let number = match digits {
            Some(digits) => u64::from_str_radix(digits, 16).ok(),
            None => self.text.parse().ok(),
        };
        let number = number.filter(|number| *number <= limit);
        number.ok_or_else(|| self.refuse("an address, such as 0x7f0000000000"))
    }

    /// `HH:MM:SS`, a dot or a colon, and a fraction of a second; a date before it is passed over.
    fn time_of_day_us(&self) -> Result<i64, LogError> {
        let refused = || self.refuse("a time such as 12:34:56.789012");
        let text = self.text.rsplit([' ', 'T']).next().unwrap_or_default();
        let mut parts = text.split([':', '.']);
        let mut part = |limit: i64| {
            let part = parts.next().filter(|part| part.len() == 2)?;
            part.parse().ok().filter(|number| (0..limit).contains(number))
        };
        let (hours, minutes, seconds) = (part(24), part(60), part(61));
        let (Some(hours), Some(minutes), Some(seconds)) = (hours, minutes, seconds) else {
            return Err(refused());
        };
        let fraction = parts.next().unwrap_or_default();
        if parts.next().is_some() || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(refused());
        }
        let micros = format!("{fraction:0<6}");
        let micros = micros.get(..6).and_then(|digits| digits.parse::<i64>().ok());
        let micros = micros.ok_or_else(refused)?;
        Ok(((hours * 60 + minutes) * 60 + seconds) * 1_000_000 + micros)
    }
}
