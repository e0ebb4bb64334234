//! Goes through a trace entry by entry, in bounded memory, up to its end or to where it was cut.

use std::io::{BufReader, ErrorKind, Read};

use super::bytes::Spelled;
use super::decode::{Decoded, decode};
use super::error::FormatError;
use super::item::Item;
use super::numbers::Numbers;
use super::problem::Problem;
use super::{ENTRY_BYTES_MAX, MAGIC, VERSION};

/// One entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Where its bytes begin, or its line in CSV; 0 in a Chrome trace.
    pub offset: u64,
    /// The host's time in nanoseconds since the trace began.
    pub host_ns: u64,
    /// What it says.
    pub item: Item,
}

/// How a trace ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// With its end: nothing is missing.
    Complete,
    /// Without: it was cut off, or its program was. Everything before was read.
    Cut {
        /// Where the last whole entry ends.
        read_bytes: u64,
        /// Where the bytes end: what is between belongs to an entry that is not whole.
        total_bytes: u64,
    },
}

/// Reads a trace. Ask [`Reader::next_entry`] until it has no more, then [`Reader::ending`].
#[derive(Debug)]
pub struct Reader<R> {
    source: BufReader<R>,
    offset: u64,
    /// Where the last whole entry ends.
    whole_bytes: u64,
    unix_ns: u64,
    host_ns: u64,
    numbers: Numbers,
    /// Entries so far, those of unknown kinds included.
    entry_count: u64,
    unknown_count: u64,
    body: Vec<u8>,
    ending: Option<Ending>,
}

impl<R: Read> Reader<R> {
    /// Reads the first bytes. A trace that was cut within them is one without entries.
    ///
    /// # Errors
    /// It is no trace, or of a later version.
    pub fn new(source: R) -> Result<Self, FormatError> {
        let mut reader = Self {
            source: BufReader::new(source),
            offset: 0,
            whole_bytes: 0,
            unix_ns: 0,
            host_ns: 0,
            numbers: Numbers::default(),
            entry_count: 0,
            unknown_count: 0,
            body: Vec::new(),
            ending: None,
        };
        for expected in MAGIC {
            let offset = reader.offset;
            match reader.byte()? {
                Some(found) if found == expected => {}
                Some(found) => return Err(FormatError::Foreign { offset, found, expected }),
                None if offset == 0 => return Err(FormatError::Empty),
                None => return Ok(reader.cut()),
            }
        }
        let Some(version) = reader.number()? else { return Ok(reader.cut()) };
        if version == 0 || VERSION < version {
            return Err(FormatError::Newer { version, known: VERSION });
        }
        let Some(unix_ns) = reader.number()? else { return Ok(reader.cut()) };
        reader.unix_ns = unix_ns;
        reader.whole_bytes = reader.offset;
        Ok(reader)
    }

    /// When the trace began, in nanoseconds of Unix time; 0 if that is not known.
    #[must_use]
    pub const fn unix_ns(&self) -> u64 {
        self.unix_ns
    }

    /// How many entries were passed over because a later version brought their kind.
    #[must_use]
    pub const fn unknown_count(&self) -> u64 {
        self.unknown_count
    }

    /// How the trace ended; nothing before its last entry was read.
    #[must_use]
    pub const fn ending(&self) -> Option<Ending> {
        self.ending
    }

    /// The next entry; none at the end.
    ///
    /// # Errors
    /// The bytes contradict the format. What was read before stays good.
    pub fn next_entry(&mut self) -> Result<Option<Entry>, FormatError> {
        while self.ending.is_none() {
            let offset = self.offset;
            let Some(bytes) = self.number()? else { break };
            if ENTRY_BYTES_MAX < bytes {
                return Err(self.malformed(Problem::LongEntry { bytes }, offset));
            }
            if !self.fill_body(bytes)? {
                break;
            }
            let decoded = decode(&self.body, &self.numbers);
            let (passed_ns, decoded) =
                decoded.map_err(|problem| self.malformed(problem, offset))?;
            match decoded {
                Decoded::End(count) => self.end(count, offset)?,
                Decoded::Unknown => self.advance(passed_ns, offset)?,
                Decoded::Item(item) => {
                    let passed = self.numbers.pass(&item);
                    passed.map_err(|problem| self.malformed(problem, offset))?;
                    self.advance(passed_ns, offset)?;
                    return Ok(Some(Entry { offset, host_ns: self.host_ns, item }));
                }
            }
            if self.ending.is_none() {
                self.unknown_count += 1;
            }
        }
        if self.ending.is_none() {
            self.set_cut();
        }
        Ok(None)
    }

    fn advance(&mut self, passed_ns: u64, offset: u64) -> Result<(), FormatError> {
        let before_ns = self.host_ns;
        let now = before_ns.checked_add(passed_ns);
        let too_late = Problem::TooLate { before_ns, passed_ns };
        self.host_ns = now.ok_or_else(|| self.malformed(too_late, offset))?;
        self.entry_count += 1;
        self.whole_bytes = self.offset;
        Ok(())
    }

    fn end(&mut self, count: u64, offset: u64) -> Result<(), FormatError> {
        if count != self.entry_count {
            let other = Problem::OtherCount { found: count, count: self.entry_count };
            return Err(self.malformed(other, offset));
        }
        let behind = self.offset;
        if self.byte()?.is_some() {
            return Err(self.malformed(Problem::BehindEnd, behind));
        }
        self.ending = Some(Ending::Complete);
        Ok(())
    }

    fn cut(mut self) -> Self {
        self.set_cut();
        self
    }

    fn set_cut(&mut self) {
        let ending = Ending::Cut { read_bytes: self.whole_bytes, total_bytes: self.offset };
        self.ending = Some(ending);
    }

    fn malformed(&self, problem: Problem, offset: u64) -> FormatError {
        FormatError::Malformed { problem, entry: self.entry_count, offset }
    }

    /// Reads so many bytes into the body; false if there are not as many. No more is kept than
    /// is there.
    fn fill_body(&mut self, bytes: u64) -> Result<bool, FormatError> {
        self.body.clear();
        let read = self.source.by_ref().take(bytes).read_to_end(&mut self.body);
        let offset = self.offset;
        self.offset += u64::try_from(self.body.len()).unwrap_or(u64::MAX);
        let read = read.map_err(|source| FormatError::Io { offset, source })?;
        Ok(u64::try_from(read) == Ok(bytes))
    }

    fn byte(&mut self) -> Result<Option<u8>, FormatError> {
        let mut byte = [0];
        loop {
            match self.source.read(&mut byte) {
                Ok(0) => return Ok(None),
                Ok(_) => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(source) => return Err(FormatError::Io { offset: self.offset, source }),
            }
        }
        self.offset += 1;
        let [byte] = byte;
        Ok(Some(byte))
    }

    /// A number; none where the bytes end within it.
    fn number(&mut self) -> Result<Option<u64>, FormatError> {
        let mut spelled = Spelled::default();
        let offset = self.offset;
        while let Some(byte) = self.byte()? {
            let taken = spelled.take(byte).map_err(|problem| self.malformed(problem, offset))?;
            if taken.is_some() {
                return Ok(taken);
            }
        }
        Ok(None)
    }
}
