//! Reads the Chrome traces that this crate writes; see `keep` for what they hold.
//!
//! Events are passed over one by one as they are read. A file without our mark ahead of its
//! events is refused there, however long it is.

use std::fmt;
use std::io::{self, BufReader, Read};

use serde::de::{
    DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Unexpected, Visitor,
};

use super::keep::{KEY, RECORDING_MARK, SNAPSHOT_MARK};
use super::read_recording;
use crate::origin::EXPECTED;
use crate::pytorch::StackId;
use crate::pytorch::rebuild::{DEVICE_MAX, Line, Rebuilder, Refusal};
use crate::stream_trace::{Builder, Ending};
use crate::{AnyTrace, Origin};

/// The most bytes that one text may have.
const TEXT_BYTES_MAX: usize = 16 << 20;

/// Why a file is no Chrome trace that can be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChromeError {
    /// Somebody else wrote it.
    #[error(
        "is JSON, but no Chrome trace that `convert` wrote\n\
         traces of other tools lack what is needed here; give the file it was made from"
    )]
    Foreign,
    /// Another version wrote it.
    #[error(
        "is a Chrome trace of another version: `{found}`, where `{SNAPSHOT_MARK}` and \
         `{RECORDING_MARK}` are read"
    )]
    Version {
        /// What its mark says.
        found: String,
    },
    /// It is damaged, or cannot be read; the source has line and column.
    #[error("is not a usable Chrome trace: {source}")]
    Malformed {
        /// What is wrong, and where.
        source: serde_json::Error,
    },
}

/// Reads what [`super::write_snapshot`] wrote, its entries with their stacks, or what
/// [`super::write_recording`] wrote, the stream trace; in at most `memory_bytes_max` bytes of
/// memory.
///
/// # Errors
/// See [`ChromeError`].
pub fn read(source: impl Read, memory_bytes_max: u64) -> Result<AnyTrace, ChromeError> {
    let source = BufReader::with_capacity(64 << 10, ShortTexts::new(source));
    let mut kept = Kept {
        mark: None,
        is_whole: false,
        device: 0,
        stacks: Vec::new(),
        texts: Vec::new(),
        rebuilder: Rebuilder::new(memory_bytes_max),
        recording: read_recording::Kept {
            builder: Builder::new(memory_bytes_max),
            is_complete: false,
        },
    };
    let mut json = serde_json::Deserializer::from_reader(source);
    let outcome = json.deserialize_map(File(&mut kept)).and_then(|()| json.end());
    match (outcome, &kept.mark) {
        (Ok(()), Some(Mark::Snapshot)) if kept.is_whole => {
            Ok(AnyTrace::Snapshot(kept.rebuilder.build()))
        }
        (Ok(()), Some(Mark::Recording)) if kept.is_whole => {
            let read_recording::Kept { builder, is_complete } = kept.recording;
            // Where the trace itself was cut is not known here any more.
            let cut = Ending::Cut { read_bytes: 0, total_bytes: 0 };
            let ending = if is_complete { Ending::Complete } else { cut };
            Ok(AnyTrace::Recording(builder.finish(ending)))
        }
        (_, Some(Mark::Other(found))) => Err(ChromeError::Version { found: found.clone() }),
        (Ok(()), _) | (Err(_), Some(Mark::Absent)) => Err(ChromeError::Foreign),
        (Err(source), _) => Err(ChromeError::Malformed { source }),
    }
}

/// What `otherData` says of the file.
#[derive(Debug)]
enum Mark {
    /// Nothing, and the events have begun.
    Absent,
    Snapshot,
    Recording,
    Other(String),
}

struct Kept {
    mark: Option<Mark>,
    is_whole: bool,
    device: usize,
    stacks: Vec<Option<StackId>>,
    texts: Vec<String>,
    rebuilder: Rebuilder,
    recording: read_recording::Kept,
}

/// The file's own object.
struct File<'a>(&'a mut Kept);

impl<'de> Visitor<'de> for File<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object with `otherData` and `traceEvents`")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "otherData" => map.next_value_seed(Part { kept: self.0, part: "otherData" })?,
                "displayTimeUnit" => drop(map.next_value::<IgnoredAny>()?),
                _ if !matches!(self.0.mark, Some(Mark::Snapshot | Mark::Recording)) => {
                    self.0.mark.get_or_insert(Mark::Absent);
                    return Err(A::Error::custom("the events begin without a mark"));
                }
                KEY => {
                    if matches!(self.0.mark, Some(Mark::Recording)) {
                        map.next_value_seed(read_recording::Part::whole(&mut self.0.recording))?;
                    } else {
                        map.next_value_seed(Part { kept: self.0, part: KEY })?;
                    }
                    self.0.is_whole = true;
                }
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        if self.0.mark.is_some() && !self.0.is_whole {
            return Err(A::Error::custom(format_args!("the key `{KEY}` is missing")));
        }
        Ok(())
    }
}

/// An object or list in it.
struct Part<'a> {
    kept: &'a mut Kept,
    part: &'static str,
}

impl<'de> DeserializeSeed<'de> for Part<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        match self.part {
            "otherData" | KEY => deserializer.deserialize_map(self),
            _ => deserializer.deserialize_seq(self),
        }
    }
}

impl<'de> Visitor<'de> for Part<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "the value of `{}`", self.part)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut has_entries = false;
        while let Some(key) = map.next_key::<String>()? {
            match (self.part, key.as_str()) {
                ("otherData", KEY) => {
                    self.kept.mark = Some(match map.next_value::<String>()? {
                        mark if mark == SNAPSHOT_MARK => Mark::Snapshot,
                        mark if mark == RECORDING_MARK => Mark::Recording,
                        mark => Mark::Other(mark.chars().take(40).collect()),
                    });
                }
                (KEY, "made_of") => {
                    let mark: String = map.next_value()?;
                    let origin = Origin::of_mark(&mark).ok_or_else(|| {
                        A::Error::invalid_value(Unexpected::Str(&mark), &EXPECTED)
                    })?;
                    self.kept.rebuilder.origin = origin;
                }
                (KEY, "device") => {
                    let device: u64 = map.next_value()?;
                    let device = usize::try_from(device).ok().filter(|_| device <= DEVICE_MAX);
                    self.kept.device = device.ok_or(A::Error::custom("no index of a device"))?;
                }
                (KEY, "stacks") => map.next_value_seed(Part { kept: self.kept, part: "stacks" })?,
                (KEY, "texts") => map.next_value_seed(Part { kept: self.kept, part: "texts" })?,
                (KEY, "entries") => {
                    map.next_value_seed(Part { kept: self.kept, part: "entries" })?;
                    has_entries = true;
                }
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        if self.part == KEY && !has_entries {
            return Err(A::Error::custom("the key `entries` is missing"));
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        match self.part {
            "stacks" => {
                while let Some(frames) = items.next_element::<Vec<(String, u32, String)>>()? {
                    let stack = self.kept.rebuilder.stack(&frames).map_err(refused)?;
                    self.kept.stacks.push(stack);
                    self.kept.rebuilder.charge(size_of::<u64>()).map_err(refused)?;
                }
            }
            "texts" => {
                while let Some(text) = items.next_element::<String>()? {
                    let bytes = text.len() + size_of::<String>();
                    self.kept.rebuilder.charge(2 * bytes).map_err(refused)?;
                    self.kept.texts.push(text);
                }
            }
            _ => {
                let mut position = 0_usize;
                while let Some(entry) = items.next_element::<RawEntry>()? {
                    take(self.kept, &entry).map_err(|error: A::Error| {
                        A::Error::custom(format_args!("entries[{position}]: {error}"))
                    })?;
                    position += 1;
                }
            }
        }
        Ok(())
    }
}

/// Action, address, bytes, stream, time, stack, pool, metadata, context.
type RawEntry =
    (String, u64, u64, u64, i64, Option<usize>, Option<(u64, u64)>, Option<usize>, Option<usize>);

fn take<E: Error>(kept: &mut Kept, entry: &RawEntry) -> Result<(), E> {
    let (action, address, bytes, stream, time_us, stack, pool, metadata, context) = entry;
    let missing = |position: usize, expected: &'static str| {
        E::invalid_value(
            Unexpected::Unsigned(u64::try_from(position).unwrap_or(u64::MAX)),
            &expected,
        )
    };
    let stack = match stack {
        Some(position) => {
            *kept.stacks.get(*position).ok_or_else(|| missing(*position, "the index of a stack"))?
        }
        None => None,
    };
    let text = |position: &Option<usize>| match position {
        Some(position) => {
            let text = kept.texts.get(*position);
            text.map(String::as_str).ok_or_else(|| missing(*position, "the index of a text"))
        }
        None => Ok(""),
    };
    let line = Line {
        action,
        address: *address,
        bytes: *bytes,
        stream: *stream,
        time_us: *time_us,
        stack,
        pool: *pool,
        metadata: text(metadata)?,
        compile_context: text(context)?,
    };
    kept.rebuilder.push(kept.device, &line).map_err(refused)
}

fn refused<E: Error>(refusal: Refusal) -> E {
    match refusal {
        Refusal::Absurd { key, value, limit } => {
            E::custom(format_args!("`{key}`: {value} is above {limit}"))
        }
        Refusal::TooMuchMemory { limit } => {
            E::custom(format_args!("the values need more than {limit} bytes of memory"))
        }
    }
}

/// Bytes of JSON that are refused where a text is longer than any that is kept.
struct ShortTexts<R> {
    source: R,
    /// Bytes since a text began; none outside.
    in_text: Option<usize>,
    is_escaped: bool,
}

impl<R> ShortTexts<R> {
    const fn new(source: R) -> Self {
        Self { source, in_text: None, is_escaped: false }
    }
}

impl<R: Read> Read for ShortTexts<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.source.read(into)?;
        for byte in into.get(..count).unwrap_or_default() {
            match (&mut self.in_text, byte) {
                (None, b'"') => self.in_text = Some(0),
                (None, _) => {}
                (Some(_), b'"') if !self.is_escaped => self.in_text = None,
                (Some(length), byte) => {
                    self.is_escaped = *byte == b'\\' && !self.is_escaped;
                    *length += 1;
                    if TEXT_BYTES_MAX < *length {
                        let text = format!("a text is longer than {TEXT_BYTES_MAX} bytes");
                        return Err(io::Error::new(io::ErrorKind::InvalidData, text));
                    }
                }
            }
        }
        Ok(count)
    }
}
