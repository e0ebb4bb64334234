//! Single events of Chrome's trace-event format, and the frame around them.

use std::io::{self, BufWriter, Write};

use super::keep::KEY;

/// A file under way.
#[derive(Debug)]
pub(super) struct Events<W: Write> {
    sink: BufWriter<W>,
    begin_us: i64,
    is_first: bool,
}

/// The row that an event stands in. Thread 0 is for the process as a whole: Perfetto takes it for
/// the thread that has the number of its process, and would draw slices of both in one row.
#[derive(Debug, Clone, Copy)]
pub(super) struct Row {
    pub(super) process: u32,
    pub(super) thread: u64,
}

/// A value of an event's arguments.
#[derive(Debug, Clone, Copy)]
pub(super) enum Argument<'a> {
    Number(u64),
    Text(&'a str),
    Address(u64),
}

impl<W: Write> Events<W> {
    pub(super) fn begin(sink: W, begin_us: i64, mark: &str) -> io::Result<Self> {
        let mut sink = BufWriter::with_capacity(64 << 10, sink);
        sink.write_all(b"{\"displayTimeUnit\":\"ms\",\"otherData\":{\"unix_us_at_0\":\"")?;
        write!(sink, "{begin_us}\",\"{KEY}\":\"{mark}\"}},\"traceEvents\":[")?;
        Ok(Self { sink, begin_us, is_first: true })
    }

    /// Ends the list of events, and lets `more` write other keys of the file.
    pub(super) fn end(
        mut self,
        more: impl FnOnce(&mut BufWriter<W>) -> io::Result<()>,
    ) -> io::Result<()> {
        self.sink.write_all(b"\n]")?;
        more(&mut self.sink)?;
        self.sink.write_all(b"}\n")?;
        self.sink.flush()
    }

    /// Nanoseconds since the beginning of a time in microseconds.
    pub(super) fn since_begin_ns(&self, time_us: i64) -> u64 {
        let passed = time_us.saturating_sub(self.begin_us);
        u64::try_from(passed).unwrap_or(0).saturating_mul(1000)
    }

    /// The name of a process, or of a row in it.
    pub(super) fn name(&mut self, kind: &str, row: Row, name: &str) -> io::Result<()> {
        self.open("M", kind, row, None)?;
        self.arguments(&[("name", Argument::Text(name))])
    }

    pub(super) fn counter(&mut self, name: &str, row: Row, ns: u64, bytes: u64) -> io::Result<()> {
        self.open("C", name, row, Some(ns))?;
        self.arguments(&[("bytes", Argument::Number(bytes))])
    }

    /// Begins or ends (`phase` is `b` or `e`) a slice that may overlap others. Its identity is of
    /// its process: Perfetto draws those that are everyone's apart from any.
    pub(super) fn life(
        &mut self,
        phase: &str,
        name: &str,
        row: Row,
        (ns, id): (u64, u64),
        arguments: &[(&str, Argument<'_>)],
    ) -> io::Result<()> {
        self.open(phase, name, row, Some(ns))?;
        write!(self.sink, ",\"cat\":\"memory\",\"id2\":{{\"local\":\"{id:#x}\"}}")?;
        self.arguments(arguments)
    }

    /// A slice with its length.
    pub(super) fn slice(
        &mut self,
        name: &str,
        row: Row,
        (start_ns, length_ns): (u64, u64),
        arguments: &[(&str, Argument<'_>)],
    ) -> io::Result<()> {
        self.open("X", name, row, Some(start_ns))?;
        write!(self.sink, ",\"dur\":{}", Microseconds(length_ns))?;
        self.arguments(arguments)
    }

    /// One end of an arrow (`phase` is `s` or `f`), within a slice of that row.
    pub(super) fn arrow(&mut self, phase: &str, row: Row, ns: u64, id: u64) -> io::Result<()> {
        self.open(phase, "wait", row, Some(ns))?;
        write!(self.sink, ",\"cat\":\"order\",\"id\":{id}")?;
        if phase == "f" {
            self.sink.write_all(b",\"bp\":\"e\"")?;
        }
        self.sink.write_all(b"}")
    }

    /// A moment of the whole process.
    pub(super) fn moment(
        &mut self,
        name: &str,
        row: Row,
        ns: u64,
        arguments: &[(&str, Argument<'_>)],
    ) -> io::Result<()> {
        self.open("i", name, row, Some(ns))?;
        self.sink.write_all(b",\"s\":\"p\"")?;
        self.arguments(arguments)
    }

    fn open(&mut self, phase: &str, name: &str, row: Row, ns: Option<u64>) -> io::Result<()> {
        self.sink.write_all(if self.is_first { b"\n" } else { b",\n" })?;
        self.is_first = false;
        self.sink.write_all(b"{\"name\":")?;
        serde_json::to_writer(&mut self.sink, name)?;
        let Row { process, thread } = row;
        write!(self.sink, ",\"ph\":\"{phase}\",\"pid\":{process},\"tid\":{thread}")?;
        match ns {
            Some(ns) => write!(self.sink, ",\"ts\":{}", Microseconds(ns)),
            None => Ok(()),
        }
    }

    fn arguments(&mut self, arguments: &[(&str, Argument<'_>)]) -> io::Result<()> {
        self.sink.write_all(b",\"args\":{")?;
        for (position, (key, value)) in arguments.iter().enumerate() {
            if 0 < position {
                self.sink.write_all(b",")?;
            }
            write!(self.sink, "\"{key}\":")?;
            match value {
                Argument::Number(number) => write!(self.sink, "{number}")?,
                Argument::Address(address) => write!(self.sink, "\"{address:#x}\"")?,
                Argument::Text(text) => serde_json::to_writer(&mut self.sink, text)?,
            }
        }
        self.sink.write_all(b"}}")
    }
}

/// Nanoseconds, spelled in microseconds.
struct Microseconds(u64);

impl std::fmt::Display for Microseconds {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}.{:03}", self.0 / 1000, self.0 % 1000)
    }
}
