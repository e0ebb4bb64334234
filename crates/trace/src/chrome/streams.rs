//! What a stream trace's streams were given, what they waited for, and what the device did.
//!
//! A call has no length in the trace: its slice is as short as can be seen. Calls of one stream in
//! the same instant stand one behind the other, so that arrows find theirs; `host_ns` among a
//! slice's arguments is the time that was recorded.

use std::io::{self, Write};

use super::event::{Argument, Events, Row};
use crate::StreamNumber;
use crate::stream_trace::{
    Item, Maker, Operation, OperationKind, OperationNumber, PlaceNumber, Recording, Subject,
};

const HOST: u32 = 2;
const DEVICE: u32 = 3;
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
    };
    for entry in &recording.entries {
        streams.take(entry.host_ns, &entry.item)?;
    }
    Ok(())
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
}

impl<'a, W: Write> Streams<'a, '_, W> {
    #[expect(clippy::wildcard_enum_match_arm, reason = "the others are memory, or no events")]
    fn take(&mut self, host_ns: u64, item: &'a Item) -> io::Result<()> {
        match item {
            Item::Stream(start) => {
                let number = StreamNumber(u32::try_from(self.free_from_ns.len()).unwrap_or(0));
                self.free_from_ns.push(0);
                let name = format!("stream {:#x} ({:?})", start.id, start.kind);
                self.events.name("thread_name", row(HOST, number), &name)?;
                self.events.name("thread_name", row(DEVICE, number), &name)
            }
            Item::Operation(operation) => {
                self.operations.push(operation);
                let name = self.operation_name(operation);
                self.call(host_ns, operation.stream, 0, &name, operation.place).map(drop)
            }
            Item::DeviceTime { operation, start_ns, end_ns } => {
                self.ran(*operation, *start_ns, *end_ns)
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
                self.synchronize(host_ns, *subject, *blocked_ns, *place)
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

    /// The host waited: a slice in the row of the process itself.
    fn synchronize(
        &mut self,
        host_ns: u64,
        subject: Subject,
        blocked_ns: u64,
        place: Option<PlaceNumber>,
    ) -> io::Result<()> {
        let name = match subject {
            Subject::Record(record) => format!("wait on the host for record {}", record.0),
            Subject::Stream(stream) => format!("wait on the host for stream {}", stream.0),
            Subject::Context => "wait on the host for the context".to_owned(),
            Subject::Everything => "wait on the host for everything".to_owned(),
        };
        let start_ns = host_ns.saturating_sub(blocked_ns);
        let place = self.place(place);
        let row = Row { process: HOST, thread: 0 };
        let arguments = [("place", Argument::Text(place.as_str()))];
        self.events.slice(&name, row, (start_ns, blocked_ns), &arguments)
    }

    /// The device did an operation. Of one whose beginning is not known there is only the end.
    fn ran(&mut self, number: OperationNumber, start: Option<u64>, end: u64) -> io::Result<()> {
        let index = usize::try_from(number.0).unwrap_or(usize::MAX);
        let Some(operation) = self.operations.get(index).copied() else { return Ok(()) };
        let name = self.operation_name(operation);
        let place = self.place(operation.place);
        let start_ns = start.unwrap_or(end);
        let length_ns = end.saturating_sub(start_ns);
        let arguments = [("place", Argument::Text(place.as_str()))];
        self.events.slice(&name, row(DEVICE, operation.stream), (start_ns, length_ns), &arguments)
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

fn row(process: u32, stream: StreamNumber) -> Row {
    Row { process, thread: u64::from(stream.0) + 1 }
}

fn by(maker: Maker) -> &'static str {
    match maker {
        Maker::Program => "",
        Maker::Library => " (the library's own)",
    }
}
