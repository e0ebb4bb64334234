//! Makes a whole trace of entries that another kind of file holds, judged as a trace's own are.

use std::collections::HashMap;

use super::ENTRY_BYTES_MAX;
use super::encode::encode;
use super::item::{Item, PlaceNumber, TextNumber};
use super::numbers::Numbers;
use super::problem::Problem;
use super::reader::{Ending, Entry};
use super::recording::Recording;

/// What a distinct text or place costs in the tables that number them.
const NUMBERED_BYTES: u64 = 128;

/// Why an entry is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// It contradicts the format.
    Malformed(Problem),
    /// Keeping it would take more memory than allowed.
    TooMuchMemory { limit: u64 },
}

/// A recording under way.
#[derive(Debug)]
pub(crate) struct Builder {
    recording: Recording,
    numbers: Numbers,
    host_ns: u64,
    texts: HashMap<String, TextNumber>,
    places: HashMap<(TextNumber, u32, u32), PlaceNumber>,
    used_bytes: u64,
    memory_bytes_max: u64,
    /// The entry as a stream trace would have it.
    body: Vec<u8>,
}

impl Builder {
    pub(crate) fn new(memory_bytes_max: u64) -> Self {
        Self {
            recording: Recording::empty(0),
            numbers: Numbers::default(),
            host_ns: 0,
            texts: HashMap::new(),
            places: HashMap::new(),
            used_bytes: 0,
            memory_bytes_max,
            body: Vec::new(),
        }
    }

    /// When the trace began.
    pub(crate) fn set_unix_ns(&mut self, unix_ns: u64) {
        self.recording.unix_ns = unix_ns;
    }

    /// Takes an entry, if everything it names was declared, no entry before it is later, and a
    /// stream trace can hold it.
    pub(crate) fn put(&mut self, offset: u64, host_ns: u64, item: Item) -> Result<(), Refusal> {
        if host_ns < self.host_ns {
            let (found_ns, before_ns) = (host_ns, self.host_ns);
            return Err(Refusal::Malformed(Problem::Earlier { found_ns, before_ns }));
        }
        let mut numbers = self.numbers;
        numbers.pass(&item).map_err(Refusal::Malformed)?;
        self.body.clear();
        encode(&item, host_ns - self.host_ns, &self.numbers, &mut self.body);
        let bytes = u64::try_from(self.body.len()).unwrap_or(u64::MAX);
        if ENTRY_BYTES_MAX < bytes {
            return Err(Refusal::Malformed(Problem::LongEntry { bytes }));
        }
        self.numbers = numbers;
        let entry = Entry { offset, host_ns, item };
        self.charge(self.recording.memory_of(&entry))?;
        self.host_ns = host_ns;
        self.recording.keep(entry);
        Ok(())
    }

    /// Declares the next text, one that is there already too.
    pub(crate) fn declare_text(&mut self, text: &str) -> Result<TextNumber, Refusal> {
        let number = TextNumber(self.numbers.texts);
        self.charge(NUMBERED_BYTES + length(text))?;
        self.put(0, self.host_ns, Item::Text { text: text.to_owned() })?;
        self.texts.entry(text.to_owned()).or_insert(number);
        Ok(number)
    }

    /// Declares the next place, one that is there already too.
    pub(crate) fn declare_place(
        &mut self,
        file: &str,
        line: u32,
        column: u32,
    ) -> Result<PlaceNumber, Refusal> {
        let file = self.text(file)?;
        let number = PlaceNumber(self.numbers.places);
        self.charge(NUMBERED_BYTES)?;
        self.put(0, self.host_ns, Item::Place { file, line, column })?;
        self.places.entry((file, line, column)).or_insert(number);
        Ok(number)
    }

    /// The number of a text, which is declared if it is new.
    pub(crate) fn text(&mut self, text: &str) -> Result<TextNumber, Refusal> {
        self.texts.get(text).copied().map_or_else(|| self.declare_text(text), Ok)
    }

    /// The number of a place, which is declared if it is new.
    pub(crate) fn place(
        &mut self,
        file: &str,
        line: u32,
        column: u32,
    ) -> Result<PlaceNumber, Refusal> {
        let number = self.text(file)?;
        let known = self.places.get(&(number, line, column)).copied();
        known.map_or_else(|| self.declare_place(file, line, column), Ok)
    }

    /// The number that the next stream will have.
    pub(crate) const fn next_stream(&self) -> u32 {
        self.numbers.streams
    }

    /// The number that the next block will have.
    pub(crate) const fn next_block(&self) -> u32 {
        self.numbers.blocks
    }

    /// The number that the next operation will have.
    pub(crate) const fn next_operation(&self) -> u32 {
        self.numbers.operations
    }

    /// The number that the next record will have.
    pub(crate) const fn next_record(&self) -> u32 {
        self.numbers.records
    }

    /// The trace, which ends so.
    pub(crate) fn finish(mut self, ending: Ending) -> Recording {
        self.recording.ending = ending;
        self.recording
    }

    fn charge(&mut self, bytes: u64) -> Result<(), Refusal> {
        self.used_bytes = self.used_bytes.saturating_add(bytes);
        let limit = self.memory_bytes_max;
        if limit < self.used_bytes { Err(Refusal::TooMuchMemory { limit }) } else { Ok(()) }
    }
}

fn length(text: &str) -> u64 {
    u64::try_from(text.len()).unwrap_or(u64::MAX)
}
