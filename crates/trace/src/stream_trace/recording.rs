//! A whole trace in memory: its entries, and what its numbers stand for.

use std::io::Read;

use super::error::FormatError;
use super::item::{Item, PlaceNumber, StreamStart, TextNumber};
use super::reader::{Ending, Entry, Reader};
use crate::StreamNumber;

/// The most memory that the entries of one trace may take.
const MEMORY_BYTES_MAX: u64 = 4 << 30;

/// A place in a source file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The file's path, as the compiler was given it.
    pub file: String,
    /// Counted from 1.
    pub line: u32,
    /// Counted from 1.
    pub column: u32,
}

impl std::fmt::Display for Place {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}:{}", self.file, self.line)
    }
}

/// A whole trace.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Recording {
    /// Everything but texts and places, in order.
    pub entries: Vec<Entry>,
    /// By number.
    pub texts: Vec<String>,
    /// By number.
    pub places: Vec<Place>,
    /// By number.
    pub streams: Vec<StreamStart>,
    /// When it began, in nanoseconds of Unix time; 0 if that is not known.
    pub unix_ns: u64,
    /// Entries of kinds that this reader does not know.
    pub unknown_count: u64,
    /// How it ends.
    pub ending: Ending,
}

impl Recording {
    /// A trace without entries.
    pub(super) const fn empty(unix_ns: u64) -> Self {
        Self {
            entries: Vec::new(),
            texts: Vec::new(),
            places: Vec::new(),
            streams: Vec::new(),
            unix_ns,
            unknown_count: 0,
            ending: Ending::Complete,
        }
    }

    /// Reads all of a trace, in at most 4 GiB of memory.
    ///
    /// # Errors
    /// See [`FormatError`]. A trace that was cut is none: see [`Recording::ending`].
    pub fn load(source: impl Read) -> Result<Self, FormatError> {
        Self::load_within(source, MEMORY_BYTES_MAX)
    }

    /// Reads all of a trace, in at most `memory_bytes_max` bytes of memory.
    ///
    /// # Errors
    /// See [`FormatError`]. A trace that was cut is none: see [`Recording::ending`].
    pub fn load_within(source: impl Read, memory_bytes_max: u64) -> Result<Self, FormatError> {
        let mut reader = Reader::new(source)?;
        let mut recording = Self::empty(reader.unix_ns());
        let mut memory_bytes = 0_u64;
        while let Some(entry) = reader.next_entry()? {
            memory_bytes = memory_bytes.saturating_add(recording.memory_of(&entry));
            if memory_bytes_max < memory_bytes {
                let offset = entry.offset;
                return Err(FormatError::TooMuchMemory { limit: memory_bytes_max, offset });
            }
            recording.keep(entry);
        }
        recording.unknown_count = reader.unknown_count();
        recording.ending = reader.ending().expect("a reader without more entries knows its end");
        Ok(recording)
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "all others are kept as they are")]
    pub(super) fn keep(&mut self, entry: Entry) {
        match entry.item {
            Item::Text { text } => self.texts.push(text),
            Item::Place { file, line, column } => {
                let file = self.text(file).unwrap_or_default().to_owned();
                self.places.push(Place { file, line, column });
            }
            _ => {
                if let Item::Stream(start) = &entry.item {
                    self.streams.push(*start);
                }
                self.entries.push(entry);
            }
        }
    }

    /// Whether the trace has its end.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.ending == Ending::Complete
    }

    /// A text by its number.
    #[must_use]
    pub fn text(&self, number: TextNumber) -> Option<&str> {
        self.texts.get(index(number.0)).map(String::as_str)
    }

    /// A place by its number.
    #[must_use]
    pub fn place(&self, number: PlaceNumber) -> Option<&Place> {
        self.places.get(index(number.0))
    }

    /// A stream by its number.
    #[must_use]
    pub fn stream(&self, number: StreamNumber) -> Option<&StreamStart> {
        self.streams.get(index(number.0))
    }

    /// About what an entry takes in memory.
    #[expect(clippy::wildcard_enum_match_arm, reason = "all others own no memory")]
    pub(super) fn memory_of(&self, entry: &Entry) -> u64 {
        let texts = match &entry.item {
            Item::Text { text } => text.len(),
            Item::Setting { name, value } => name.len() + value.len(),
            Item::Figure { name, .. } => name.len(),
            Item::Operation(operation) => operation.touches.len() * size_of::<super::Touch>(),
            // A place keeps a copy of its file's name.
            Item::Place { file, .. } => self.text(*file).map_or(0, str::len),
            _ => 0,
        };
        u64::try_from(size_of::<Entry>() + texts).unwrap_or(u64::MAX)
    }

    /// The value of a setting, the last one if it was set several times.
    #[must_use]
    pub fn setting(&self, wanted: &str) -> Option<&str> {
        self.entries.iter().rev().find_map(|entry| {
            let Item::Setting { name, value } = &entry.item else { return None };
            (name == wanted).then_some(value.as_str())
        })
    }

    /// A figure that the recorded allocator counted, the last one of that name.
    #[must_use]
    pub fn figure(&self, wanted: &str) -> Option<u64> {
        self.entries.iter().rev().find_map(|entry| {
            let Item::Figure { name, value } = &entry.item else { return None };
            (name == wanted).then_some(*value)
        })
    }
}

fn index(number: u32) -> usize {
    usize::try_from(number).expect("this library needs pointers of at least 32 bits")
}
