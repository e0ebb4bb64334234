//! Writes a trace entry by entry, and remembers only the texts and places it declared.

use std::collections::HashMap;
use std::io::{self, Write};

use super::bytes::put_number;
use super::encode::{encode, tag};
use super::item::{Item, OperationNumber, PlaceNumber, RecordNumber, TextNumber};
use super::numbers::Numbers;
use super::problem::Problem;
use super::{ENTRY_BYTES_MAX, MAGIC, VERSION};
use crate::{BlockNumber, StreamNumber};

/// The most bytes of a text that are written; what is longer is cut.
pub const TEXT_BYTES_MAX: usize = 4096;
/// Bytes that are collected before they are passed on.
const CHUNK_BYTES: usize = 64 << 10;

/// Writes a trace to `W`.
///
/// Entries are collected and passed on in chunks of 64 KiB: a program that ends without
/// [`Writer::finish`] loses at most that, unless it calls [`Writer::flush`]. Memory is bounded by
/// the texts and places that differ. A failure of `W` is given once by the call that met it, and
/// by every call after it.
///
/// Not for several threads at once: whoever has several puts it behind a lock, which is also what
/// gives entries their order.
#[derive(Debug)]
pub struct Writer<W: Write> {
    sink: W,
    pending: Vec<u8>,
    body: Vec<u8>,
    numbers: Numbers,
    entry_count: u64,
    host_ns: u64,
    texts: HashMap<String, TextNumber>,
    places: HashMap<(TextNumber, u32, u32), PlaceNumber>,
    failed: Option<io::ErrorKind>,
}

impl<W: Write> Writer<W> {
    /// Begins a trace whose host times count from `unix_ns`, nanoseconds of Unix time (0 if that
    /// is not known).
    ///
    /// # Errors
    /// None so far: the first bytes are written with the first chunk.
    pub fn new(sink: W, unix_ns: u64) -> io::Result<Self> {
        let mut pending = Vec::with_capacity(CHUNK_BYTES);
        pending.extend_from_slice(&MAGIC);
        put_number(&mut pending, VERSION);
        put_number(&mut pending, unix_ns);
        Ok(Self {
            sink,
            pending,
            body: Vec::new(),
            numbers: Numbers::default(),
            entry_count: 0,
            host_ns: 0,
            texts: HashMap::new(),
            places: HashMap::new(),
            failed: None,
        })
    }

    /// Appends an entry with the host's time when it happened. A time before the last entry's
    /// counts as that.
    ///
    /// # Errors
    /// It names something that was not declared, it is larger than an entry may be, or the bytes
    /// could not be written.
    pub fn put(&mut self, host_ns: u64, item: &Item) -> io::Result<()> {
        if let Some(kind) = self.failed {
            return Err(kind.into());
        }
        let mut numbers = self.numbers;
        let invalid = |problem| io::Error::new(io::ErrorKind::InvalidInput, problem);
        numbers.pass(item).map_err(invalid)?;
        self.body.clear();
        let host_ns = host_ns.max(self.host_ns);
        encode(item, host_ns - self.host_ns, &self.numbers, &mut self.body);
        let bytes = length(&self.body);
        if ENTRY_BYTES_MAX < bytes {
            return Err(invalid(Problem::LongEntry { bytes }));
        }
        self.numbers = numbers;
        self.host_ns = host_ns;
        self.entry_count += 1;
        self.append_body()
    }

    fn append_body(&mut self) -> io::Result<()> {
        put_number(&mut self.pending, length(&self.body));
        self.pending.extend_from_slice(&self.body);
        if CHUNK_BYTES <= self.pending.len() { self.pass_on() } else { Ok(()) }
    }

    fn pass_on(&mut self) -> io::Result<()> {
        let written = self.sink.write_all(&self.pending);
        self.pending.clear();
        written.inspect_err(|error| self.failed = Some(error.kind()))
    }

    /// The number of a text, which is declared if it is new.
    ///
    /// # Errors
    /// As for [`Writer::put`].
    pub fn text(&mut self, text: &str) -> io::Result<TextNumber> {
        let text = shortened(text);
        if let Some(&number) = self.texts.get(text) {
            return Ok(number);
        }
        let number = TextNumber(self.numbers.texts);
        self.put(self.host_ns, &Item::Text { text: text.to_owned() })?;
        self.texts.insert(text.to_owned(), number);
        Ok(number)
    }

    /// The number of a place in a source file, which is declared if it is new.
    ///
    /// # Errors
    /// As for [`Writer::put`].
    pub fn place(&mut self, file: &str, line: u32, column: u32) -> io::Result<PlaceNumber> {
        let file = self.text(file)?;
        if let Some(&number) = self.places.get(&(file, line, column)) {
            return Ok(number);
        }
        let number = PlaceNumber(self.numbers.places);
        self.put(self.host_ns, &Item::Place { file, line, column })?;
        self.places.insert((file, line, column), number);
        Ok(number)
    }

    /// The number that the next stream will have.
    #[must_use]
    pub fn next_stream(&self) -> StreamNumber {
        StreamNumber(self.numbers.streams)
    }

    /// The number that the next block will have.
    #[must_use]
    pub fn next_block(&self) -> BlockNumber {
        BlockNumber(self.numbers.blocks)
    }

    /// The number that the next operation will have.
    #[must_use]
    pub fn next_operation(&self) -> OperationNumber {
        OperationNumber(self.numbers.operations)
    }

    /// The number that the next record will have.
    #[must_use]
    pub fn next_record(&self) -> RecordNumber {
        RecordNumber(self.numbers.records)
    }

    /// Passes on what was collected.
    ///
    /// # Errors
    /// The bytes could not be written.
    pub fn flush(&mut self) -> io::Result<()> {
        if let Some(kind) = self.failed {
            return Err(kind.into());
        }
        self.pass_on()?;
        self.sink.flush()
    }

    /// Passes on what was collected, and writes no end: what is there is a trace that was cut.
    ///
    /// # Errors
    /// The bytes could not be written.
    pub fn leave(mut self) -> io::Result<W> {
        self.flush()?;
        Ok(self.sink)
    }

    /// Writes the end, by which a reader knows that nothing is missing.
    ///
    /// # Errors
    /// The bytes could not be written.
    pub fn finish(mut self) -> io::Result<W> {
        self.body.clear();
        self.body.push(tag::END);
        put_number(&mut self.body, 0);
        put_number(&mut self.body, self.entry_count);
        self.append_body()?;
        self.flush()?;
        Ok(self.sink)
    }
}

/// The text, or as many whole characters of it as may be written.
fn shortened(text: &str) -> &str {
    let end = text.floor_char_boundary(TEXT_BYTES_MAX);
    text.get(..end).unwrap_or_default()
}

fn length(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}
