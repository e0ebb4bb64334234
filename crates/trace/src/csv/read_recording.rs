//! Reads the lines of a stream trace's CSV as entries; `recording` says what they hold.
//!
//! What only repeats other cells is passed over: `index`, `device`, and the address, size and
//! identity of the stream where a number says the same.

use serde::Deserialize;
use serde::de::IntoDeserializer;
use serde::de::value::{Error as WordError, StrDeserializer};

use super::COLUMNS;
use super::read::{CsvError, Text};
use super::recording::{BEGIN_ACTION, END_ACTION, VERSION};
use crate::stream_trace::{
    Builder, Ending, EventId, Item, Maker, Operation, OperationKind, OperationNumber, PlaceNumber,
    Problem, RecordNumber, Recording, Refusal, StreamStart, Subject, TextNumber, Touch,
};
use crate::{BlockNumber, StreamNumber};

/// A recording under way.
#[derive(Debug)]
pub(super) struct Entries {
    builder: Builder,
    /// When the trace began, once that was read.
    unix_ns: Option<u128>,
    has_end: bool,
}

impl Entries {
    pub(super) fn new(memory_bytes_max: u64) -> Self {
        Self { builder: Builder::new(memory_bytes_max), unix_ns: None, has_end: false }
    }

    /// Takes the line after those before.
    pub(super) fn take(&mut self, record: &csv::ByteRecord, line: u64) -> Result<(), CsvError> {
        let cells = Cells { record, line };
        let action = cells.of("action");
        let time_ns = cells.of("time_us").time_ns()?;
        let Some(unix_ns) = self.unix_ns else {
            if action.text != BEGIN_ACTION {
                return Err(action.refuse("`trace_begin`, which begins a trace"));
            }
            let version = cells.of("detail");
            if version.text != VERSION {
                return Err(version.refuse("`version=1`, the only one that is read"));
            }
            let unix_ns = u64::try_from(time_ns);
            let refused = |_| cells.of("time_us").refuse("a time that a trace can begin at");
            self.builder.set_unix_ns(unix_ns.map_err(refused)?);
            self.unix_ns = Some(time_ns);
            return Ok(());
        };
        if self.has_end {
            return Err(CsvError::Entry { line, problem: Problem::BehindEnd });
        }
        if action.text == END_ACTION {
            self.has_end = true;
            return Ok(());
        }
        let host_ns = time_ns.checked_sub(unix_ns).and_then(|passed| u64::try_from(passed).ok());
        let refused = || cells.of("time_us").refuse("a time within the trace");
        let host_ns = host_ns.ok_or_else(refused)?;
        let item = self.item(&cells, &action)?;
        let put = self.builder.put(line, host_ns, item);
        put.map_err(|refusal| refused_at(line, refusal))
    }

    /// The trace; it was cut if its end has not come. Bytes are those of the lines taken and of
    /// the file.
    pub(super) fn finish(self, read_bytes: u64, total_bytes: u64) -> Recording {
        let cut = Ending::Cut { read_bytes, total_bytes };
        self.builder.finish(if self.has_end { Ending::Complete } else { cut })
    }

    fn item(&mut self, cells: &Cells<'_>, action: &Text<'_>) -> Result<Item, CsvError> {
        let place = self.place(cells)?;
        Ok(match &*action.text {
            "alloc" => {
                cells.of("block").is_next(self.builder.next_block())?;
                Item::Allocate {
                    stream: cells.stream()?,
                    requested_bytes: cells.of("bytes").number()?,
                    bytes: cells.word("given")?.number()?,
                    address: cells.of("address").number()?,
                    served_by: cells.word("served_by")?.named("a step that serves requests")?,
                    place,
                }
            }
            "use" => {
                let kind = cells.word("kind")?.named("a kind of use")?;
                Item::Use { block: cells.block()?, stream: cells.stream()?, kind, place }
            }
            "use_end" => Item::UseEnd { block: cells.block()?, stream: cells.stream()?, place },
            "move" => Item::Move { block: cells.block()?, stream: cells.stream()?, place },
            "hold" => Item::Hold { block: cells.block()?, place },
            "hold_end" => Item::HoldEnd { block: cells.block()? },
            "free" => Item::Free { block: cells.block()?, place },
            "segment_alloc" | "segment_free" => Item::Segment {
                address: cells.of("address").number()?,
                bytes: cells.of("bytes").number()?,
                opened: action.text == "segment_alloc",
            },
            "oom" => {
                let requested_bytes = cells.of("bytes").number()?;
                Item::OutOfMemory { stream: cells.stream()?, requested_bytes, place }
            }
            _ => return self.of_program(cells, action, place),
        })
    }

    fn of_program(
        &mut self,
        cells: &Cells<'_>,
        action: &Text<'_>,
        place: Option<PlaceNumber>,
    ) -> Result<Item, CsvError> {
        let name = || cells.of("name").text.into_owned();
        Ok(match &*action.text {
            "setting" => {
                Item::Setting { name: name(), value: cells.of("detail").text.into_owned() }
            }
            "figure" => Item::Figure { name: name(), value: cells.word("value")?.number()? },
            "stream" => {
                cells.of("stream_number").is_next(self.builder.next_stream())?;
                Item::Stream(StreamStart {
                    id: cells.of("stream").number()?,
                    kind: cells.word("kind")?.named("a kind of stream")?,
                    priority: cells.word("priority")?.parsed("a priority")?,
                    place,
                })
            }
            "stream_end" => Item::StreamEnd { stream: cells.stream()?, place },
            "capture_begin" | "capture_end" => {
                let begins = action.text == "capture_begin";
                Item::Capture { stream: cells.stream()?, begins, place }
            }
            "device_time" => Item::DeviceTime {
                operation: OperationNumber(cells.word("operation")?.small()?),
                start_ns: cells.find("start_ns").map(|it| it.number()).transpose()?,
                end_ns: cells.word("end_ns")?.number()?,
            },
            "record" => {
                cells.word("record")?.is_next(self.builder.next_record())?;
                let event = EventId(cells.word("event")?.number()?);
                Item::Record { stream: cells.stream()?, event, maker: cells.maker()?, place }
            }
            "wait" => {
                let record = cells.find("record").map(|it| it.small().map(RecordNumber));
                let (stream, record) = (cells.stream()?, record.transpose()?);
                Item::Wait { stream, record, maker: cells.maker()?, place }
            }
            "synchronize" => {
                let blocked_ns = cells.word("blocked_ns")?.number()?;
                let (subject, maker) = (cells.subject()?, cells.maker()?);
                Item::Synchronize { subject, blocked_ns, maker, place }
            }
            "passed" => Item::Passed { subject: cells.subject()?, maker: cells.maker()?, place },
            _ => Item::Operation(self.operation(cells, action.named("a known action")?, place)?),
        })
    }

    fn operation(
        &mut self,
        cells: &Cells<'_>,
        kind: OperationKind,
        place: Option<PlaceNumber>,
    ) -> Result<Operation, CsvError> {
        cells.word("operation")?.is_next(self.builder.next_operation())?;
        let touches = match cells.find("touches") {
            Some(list) => list.text.split(',').map(|it| touch(&list, it)).collect::<Result<_, _>>(),
            None => Ok(Vec::new()),
        };
        let name = cells.of("name");
        let is_empty = cells.find("name").is_some_and(|word| word.text == "empty");
        let has_name = !name.text.is_empty() || is_empty;
        let name = has_name.then(|| self.text(&name.text, cells.line)).transpose()?;
        Ok(Operation {
            stream: cells.stream()?,
            kind,
            is_captured: cells.word("captured")?.parsed("true or false")?,
            name,
            place,
            touches: touches?,
        })
    }

    fn text(&mut self, text: &str, line: u64) -> Result<TextNumber, CsvError> {
        self.builder.text(text).map_err(|refusal| refused_at(line, refusal))
    }

    /// The place that `file:line:column` names.
    fn place(&mut self, cells: &Cells<'_>) -> Result<Option<PlaceNumber>, CsvError> {
        let owner = cells.of("owner");
        if owner.text.is_empty() {
            return Ok(None);
        }
        let mut parts = owner.text.rsplitn(3, ':');
        let (column, line) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let (Some(file), Ok(line), Ok(column)) = (parts.next(), line.parse(), column.parse())
        else {
            return Err(owner.refuse("a place such as src/main.rs:12:5"));
        };
        let place = self.builder.place(file, line, column);
        place.map(Some).map_err(|refusal| refused_at(cells.line, refusal))
    }
}

fn refused_at(line: u64, refusal: Refusal) -> CsvError {
    match refusal {
        Refusal::Malformed(problem) => CsvError::Entry { line, problem },
        Refusal::TooMuchMemory { limit } => CsvError::TooMuchMemory { limit, line },
    }
}

fn touch(list: &Text<'_>, text: &str) -> Result<Touch, CsvError> {
    let cell = Text { line: list.line, column: list.column, text: text.into() };
    let refused = || cell.refuse("touched memory such as read:5:0:4096");
    let mut parts = text.split(':');
    let mut part = || parts.next().ok_or_else(refused);
    let (access, block, offset, bytes) = (part()?, part()?, part()?, part()?);
    let block = (block != "-").then(|| block.parse().map(BlockNumber)).transpose();
    let (Ok(access), Ok(block), Ok(offset), Ok(bytes), None) =
        (of_word(access), block, offset.parse(), bytes.parse(), parts.next())
    else {
        return Err(refused());
    };
    Ok(Touch { block, offset, bytes, access })
}

/// The value without fields that is written as this word.
fn of_word<'a, T: Deserialize<'a>>(word: &'a str) -> Result<T, WordError> {
    let deserializer: StrDeserializer<'a, WordError> = word.into_deserializer();
    T::deserialize(deserializer)
}

/// The cells of a line.
struct Cells<'a> {
    record: &'a csv::ByteRecord,
    line: u64,
}

impl<'a> Cells<'a> {
    fn of(&self, column: &'static str) -> Text<'a> {
        Text::of(self.record, &COLUMNS, column, self.line)
    }

    /// The word of the detail under this key, if there is one.
    fn find(&self, key: &str) -> Option<Text<'a>> {
        let detail = self.of("detail");
        let value =
            detail.text.split(' ').find_map(|word| word.strip_prefix(key)?.strip_prefix('='));
        let text = value?.to_owned().into();
        Some(Text { line: self.line, column: detail.column, text })
    }

    fn word(&self, key: &'static str) -> Result<Text<'a>, CsvError> {
        self.find(key).ok_or(CsvError::MissingKey { line: self.line, key })
    }

    fn stream(&self) -> Result<StreamNumber, CsvError> {
        self.of("stream_number").small().map(StreamNumber)
    }

    fn block(&self) -> Result<BlockNumber, CsvError> {
        self.of("block").small().map(BlockNumber)
    }

    fn maker(&self) -> Result<Maker, CsvError> {
        self.word("maker")?.named("`program` or `library`")
    }

    fn subject(&self) -> Result<Subject, CsvError> {
        let word = self.word("subject")?;
        let record = word.text.strip_prefix("record:").map(str::parse);
        match (&*word.text, record) {
            (_, Some(Ok(record))) => Ok(Subject::Record(RecordNumber(record))),
            ("stream", None) => self.stream().map(Subject::Stream),
            ("context", None) => Ok(Subject::Context),
            ("everything", None) => Ok(Subject::Everything),
            _ => Err(word.refuse("a subject such as record:3 or stream")),
        }
    }
}

impl Text<'_> {
    fn parsed<T: std::str::FromStr>(&self, expected: &'static str) -> Result<T, CsvError> {
        self.text.parse().map_err(|_| self.refuse(expected))
    }

    fn small(&self) -> Result<u32, CsvError> {
        self.parsed("a number below 2^32")
    }

    /// Numbers are given in order, so that a line that is missing is found.
    fn is_next(&self, expected: u32) -> Result<(), CsvError> {
        let found = self.small()?;
        let (line, column) = (self.line, self.column);
        if found == expected {
            Ok(())
        } else {
            Err(CsvError::NotNext { line, column, found, expected })
        }
    }

    fn named<T: for<'t> Deserialize<'t>>(&self, expected: &'static str) -> Result<T, CsvError> {
        of_word(&self.text).map_err(|_| self.refuse(expected))
    }

    /// Nanoseconds of a time in microseconds with three digits behind the point, or none.
    fn time_ns(&self) -> Result<u128, CsvError> {
        let (whole, rest) = self.text.split_once('.').unwrap_or((&self.text, "000"));
        let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let rest = Some(rest).filter(|rest| rest.len() == 3 && is_number(rest));
        let rest: Option<u128> = rest.and_then(|rest| rest.parse().ok());
        let whole: Option<u64> =
            Some(whole).filter(|it| is_number(it)).and_then(|it| it.parse().ok());
        let time_ns = whole.zip(rest).map(|(whole, rest)| u128::from(whole) * 1000 + rest);
        time_ns.ok_or_else(|| self.refuse("microseconds such as 1700000000000000.125"))
    }
}
