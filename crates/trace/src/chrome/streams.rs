//! What a stream trace's streams were given, what they waited for, and what the device did.
//!
//! A call has no length in the trace: its slice is as short as can be seen. Calls of one stream in
//! the same instant stand one behind the other, so that arrows find theirs; `host_ns` among a
//! slice's arguments is the time that was recorded. What overlaps, as waits of several threads of
//! the host and work of one stream that was timed badly, goes to rows beside each other.

use std::io::{self, Write};

use super::event::{Argument, Events, Row};
use super::lanes::Lanes;
use crate::StreamNumber;
use crate::stream_trace::{
    Item, Maker, Operation, OperationKind, OperationNumber, PlaceNumber, Recording, StreamStart,
    Subject,
};

const HOST: u32 = 2;
const DEVICE: u32 = 3;
const HOST_WAITS: &str = "the host waits";
/// The length of a call's slice.
const CALL_NS: u64 = 100;

/// Writes the streams of `recording`.
pub(super) fn write<W: Write>(events: &mut Events<W>, recording: &Recording) -> io::Result<()> {
    let host = Row { process: HOST, thread: 0 };
    let device = Row { process: DEVICE, thread: 0 };
    events.name("process_name", host, "host: what was submitted")?;
    events.name("process_name", device, "device: what ran")?;
    let mut streams = Streams {
        events,
        recording,
        free_from_ns: Vec::new(),
        records: Vec::new(),
        operations: Vec::new(),
        wait_count: 0,
        host_waits: Vec::new(),
        ran: vec![Vec::new(); recording.streams.len()],
        row_count: u64::try_from(recording.streams.len()).unwrap_or(u64::MAX) + 1,
    };
    for entry in &recording.entries {
        streams.take(entry.host_ns, &entry.item)?;
    }
    streams.finish()
}

/// A slice whose row is found when all are known.
#[derive(Debug, Clone, Copy)]
struct Lasting {
    start_ns: u64,
    end_ns: u64,
    what: What,
    place: Option<PlaceNumber>,
}

#[derive(Debug, Clone, Copy)]
enum What {
    Wait(Subject),
    Ran(OperationNumber),
}

struct Streams<'a, 'w, W: Write> {
    events: &'w mut Events<W>,
    recording: &'a Recording,
    /// From when on each stream's row is free.
    free_from_ns: Vec<u64>,
    /// Where each record's slice is, and when it begins.
    records: Vec<(StreamNumber, u64)>,
    operations: Vec<&'a Operation>,
    wait_count: u64,
    host_waits: Vec<Lasting>,
    /// By stream, what the device did.
    ran: Vec<Vec<Lasting>>,
    /// Rows of a process that have a number.
    row_count: u64,
}

impl<'a, W: Write> Streams<'a, '_, W> {
    #[expect(clippy::wildcard_enum_match_arm, reason = "the others are memory, or no events")]
    fn take(&mut self, host_ns: u64, item: &'a Item) -> io::Result<()> {
        match item {
            Item::Stream(start) => {
                let number = StreamNumber(u32::try_from(self.free_from_ns.len()).unwrap_or(0));
                self.free_from_ns.push(0);
                let name = stream_name(start);
                self.events.name("thread_name", row(HOST, number), &name)?;
                self.events.name("thread_name", row(DEVICE, number), &name)
            }
            Item::Operation(operation) => {
                self.operations.push(operation);
                let name = self.operation_name(operation);
                self.call(host_ns, operation.stream, 0, &name, operation.place).map(drop)
            }
            Item::DeviceTime { operation, start_ns, end_ns } => {
                self.ran(*operation, *start_ns, *end_ns);
                Ok(())
            }
            Item::Record { stream, maker, place, .. } => {
                let name = format!("record{}", by(*maker));
                let at_ns = self.call(host_ns, *stream, 0, &name, *place)?;
                self.records.push((*stream, at_ns));
                Ok(())
            }
            Item::Wait { stream, record, maker, place } => {
                let record = record.and_then(|it| self.records.get(usize::try_from(it.0).ok()?));
                let record = record.copied();
                let not_before = record.map_or(0, |(_, at_ns)| at_ns + CALL_NS);
                let name = format!("wait{}", by(*maker));
                let at_ns = self.call(host_ns, *stream, not_before, &name, *place)?;
                match record {
                    Some(record) => self.arrow(record, (*stream, at_ns)),
                    None => Ok(()),
                }
            }
            Item::Synchronize { subject, blocked_ns, place, .. } => {
                let start_ns = host_ns.saturating_sub(*blocked_ns);
                let (what, place) = (What::Wait(*subject), *place);
                self.host_waits.push(Lasting { start_ns, end_ns: host_ns, what, place });
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn arrow(
        &mut self,
        (from, from_ns): (StreamNumber, u64),
        (to, to_ns): (StreamNumber, u64),
    ) -> io::Result<()> {
        let id = self.wait_count;
        self.wait_count += 1;
        self.events.arrow("s", row(HOST, from), from_ns, id)?;
        self.events.arrow("f", row(HOST, to), to_ns, id)
    }

    /// Draws a call where the row is free, and says where that is.
    fn call(
        &mut self,
        host_ns: u64,
        stream: StreamNumber,
        not_before_ns: u64,
        name: &str,
        place: Option<PlaceNumber>,
    ) -> io::Result<u64> {
        let free = self.free_from_ns.get(stream.index()).copied().unwrap_or(0);
        let at_ns = host_ns.max(free).max(not_before_ns);
        if let Some(free) = self.free_from_ns.get_mut(stream.index()) {
            *free = at_ns.saturating_add(CALL_NS);
        }
        let place = self.place(place);
        let arguments = [("host_ns", Argument::Number(host_ns)), ("place", Argument::Text(&place))];
        self.events.slice(name, row(HOST, stream), (at_ns, CALL_NS), &arguments)?;
        Ok(at_ns)
    }

    /// The device did an operation. Of one whose beginning is not known there is only the end.
    fn ran(&mut self, number: OperationNumber, start: Option<u64>, end_ns: u64) {
        let index = usize::try_from(number.0).unwrap_or(usize::MAX);
        let Some(operation) = self.operations.get(index).copied() else { return };
        let start_ns = start.unwrap_or(end_ns);
        let (what, place) = (What::Ran(number), operation.place);
        if let Some(ran) = self.ran.get_mut(operation.stream.index()) {
            ran.push(Lasting { start_ns, end_ns, what, place });
        }
    }

    /// Draws what lasted.
    fn finish(&mut self) -> io::Result<()> {
        let waits = std::mem::take(&mut self.host_waits);
        let host = Row { process: HOST, thread: self.row_count };
        if !waits.is_empty() {
            self.row_count += 1;
            self.events.name("thread_name", host, HOST_WAITS)?;
        }
        self.lasting(host, HOST_WAITS, waits)?;
        let streams = (0..).map(StreamNumber).zip(std::mem::take(&mut self.ran));
        for (number, ran) in streams {
            let name = self.recording.stream(number).map_or_else(String::new, stream_name);
            self.lasting(row(DEVICE, number), &name, ran)?;
        }
        Ok(())
    }

    /// Draws slices that are meant for one row, in others beside it where they overlap.
    fn lasting(&mut self, row: Row, name: &str, mut slices: Vec<Lasting>) -> io::Result<()> {
        slices.sort_by_key(|slice| (slice.start_ns, std::cmp::Reverse(slice.end_ns)));
        let (mut lanes, mut rows) = (Lanes::default(), vec![row]);
        for slice in slices {
            let placed = lanes.place(slice.start_ns, slice.end_ns);
            if rows.len() <= placed.lane {
                let beside = Row { thread: self.row_count, ..row };
                self.row_count += 1;
                self.events.name("thread_name", beside, &format!("{name}, overlapping"))?;
                rows.push(beside);
            }
            let row = rows.get(placed.lane).copied().unwrap_or(row);
            let told = match slice.what {
                What::Wait(subject) => wait_name(subject),
                What::Ran(number) => {
                    let index = usize::try_from(number.0).unwrap_or(usize::MAX);
                    let operation = self.operations.get(index).copied();
                    operation.map_or_else(String::new, |operation| self.operation_name(operation))
                }
            };
            let place = self.place(slice.place);
            let arguments = [("place", Argument::Text(place.as_str()))];
            let length_ns = placed.end_ns - placed.start_ns;
            self.events.slice(&told, row, (placed.start_ns, length_ns), &arguments)?;
        }
        Ok(())
    }

    fn operation_name(&self, operation: &Operation) -> String {
        let kind = match operation.kind {
            OperationKind::Launch => "launch",
            OperationKind::Copy => "copy",
            OperationKind::Fill => "fill",
            OperationKind::HostFunction => "host function",
            OperationKind::GraphLaunch => "graph launch",
            OperationKind::Unknown => "unknown work",
        };
        match operation.name.and_then(|name| self.recording.text(name)) {
            Some(name) if !name.is_empty() && name != kind => format!("{kind} {name}"),
            Some(_) | None => kind.to_owned(),
        }
    }

    fn place(&self, place: Option<PlaceNumber>) -> String {
        let place = place.and_then(|place| self.recording.place(place));
        place.map_or_else(String::new, ToString::to_string)
    }
}

fn stream_name(start: &StreamStart) -> String {
    format!("stream {:#x} ({:?})", start.id, start.kind)
}

fn wait_name(subject: Subject) -> String {
    match subject {
        Subject::Record(record) => format!("wait on the host for record {}", record.0),
        Subject::Stream(stream) => format!("wait on the host for stream {}", stream.0),
        Subject::Context => "wait on the host for the context".to_owned(),
        Subject::Everything => "wait on the host for everything".to_owned(),
    }
}

fn row(process: u32, stream: StreamNumber) -> Row {
    Row { process, thread: u64::from(stream.0) + 1 }
}

fn by(maker: Maker) -> &'static str {
    match maker {
        Maker::Program => "",
        Maker::Library => " (the library's own)",
    }
}
