//! An entry's kind and fields as bytes. `docs/trace-format.md` says the same in words.

use super::bytes::{put_number, put_signed, put_text};
use super::item::{
    Access, Item, Maker, Operation, OperationKind, PlaceNumber, ServedBy, StreamKind, StreamStart,
    Subject, UseKind,
};
use super::numbers::Numbers;
use crate::BlockNumber;

/// The byte that says what an entry is.
pub(super) mod tag {
    pub(in super::super) const END: u8 = 0;
    pub(in super::super) const TEXT: u8 = 1;
    pub(in super::super) const PLACE: u8 = 2;
    pub(in super::super) const SETTING: u8 = 3;
    pub(in super::super) const STREAM: u8 = 4;
    pub(in super::super) const STREAM_END: u8 = 5;
    pub(in super::super) const OPERATION: u8 = 6;
    pub(in super::super) const DEVICE_TIME: u8 = 7;
    pub(in super::super) const RECORD: u8 = 8;
    pub(in super::super) const WAIT: u8 = 9;
    pub(in super::super) const SYNCHRONIZE: u8 = 10;
    pub(in super::super) const PASSED: u8 = 11;
    pub(in super::super) const ALLOCATE: u8 = 12;
    pub(in super::super) const USE: u8 = 13;
    pub(in super::super) const USE_END: u8 = 14;
    pub(in super::super) const HOLD: u8 = 15;
    pub(in super::super) const HOLD_END: u8 = 16;
    pub(in super::super) const FREE: u8 = 17;
    pub(in super::super) const SEGMENT: u8 = 18;
    pub(in super::super) const OUT_OF_MEMORY: u8 = 19;
    pub(in super::super) const CAPTURE: u8 = 20;
    pub(in super::super) const FIGURE: u8 = 21;
    pub(in super::super) const MOVE: u8 = 22;
}

/// Writes fields one behind the other.
struct Fields<'a> {
    out: &'a mut Vec<u8>,
    numbers: &'a Numbers,
}

impl Fields<'_> {
    fn number(&mut self, number: impl Into<u64>) -> &mut Self {
        put_number(self.out, number.into());
        self
    }

    /// 0 for none, else one more than the number.
    fn place(&mut self, place: Option<PlaceNumber>) -> &mut Self {
        self.number(place.map_or(0, |place| u64::from(place.0) + 1))
    }

    /// How many blocks back, from 1: the last one declared is 1.
    fn block(&mut self, block: BlockNumber) -> &mut Self {
        self.number(self.numbers.blocks - block.0)
    }

    fn maker(&mut self, maker: Maker) -> &mut Self {
        self.number(match maker {
            Maker::Program => 0_u8,
            Maker::Library => 1,
        })
    }

    fn subject(&mut self, subject: Subject) -> &mut Self {
        match subject {
            Subject::Record(record) => {
                let back = self.numbers.records - record.0;
                self.number(0_u8).number(back)
            }
            Subject::Stream(stream) => self.number(1_u8).number(stream.0),
            Subject::Context => self.number(2_u8),
            Subject::Everything => self.number(3_u8),
        }
    }

    fn text(&mut self, text: &str) -> &mut Self {
        put_text(self.out, text);
        self
    }

    fn stream(&mut self, start: &StreamStart) {
        self.number(start.id).number(match start.kind {
            StreamKind::Owned => 0_u8,
            StreamKind::Borrowed => 1,
            StreamKind::Legacy => 2,
            StreamKind::PerThread => 3,
        });
        put_signed(self.out, start.priority);
        self.place(start.place);
    }

    fn operation(&mut self, operation: &Operation) {
        let kind = match operation.kind {
            OperationKind::Launch => 0_u8,
            OperationKind::Copy => 1,
            OperationKind::Fill => 2,
            OperationKind::HostFunction => 3,
            OperationKind::GraphLaunch => 4,
            OperationKind::Unknown => 5,
        };
        self.number(operation.stream.0).number(kind).number(operation.is_captured);
        self.number(operation.name.map_or(0, |name| u64::from(name.0) + 1));
        self.place(operation.place);
        self.number(u64::try_from(operation.touches.len()).unwrap_or(u64::MAX));
        for touch in &operation.touches {
            match touch.block {
                Some(block) => self.block(block),
                None => self.number(0_u8),
            };
            let access = match touch.access {
                Access::Read => 0_u8,
                Access::Write => 1,
                Access::ReadWrite => 2,
            };
            self.number(touch.offset).number(touch.bytes).number(access);
        }
    }
}

/// Appends kind, host time since the entry before, and fields. `item` passed `numbers`, which do
/// not count what it declares.
pub(super) fn encode(item: &Item, host_ns: u64, numbers: &Numbers, out: &mut Vec<u8>) {
    out.push(tag_of(item));
    put_number(out, host_ns);
    let mut fields = Fields { out, numbers };
    let to = &mut fields;
    match item {
        Item::Text { text } => drop(to.text(text)),
        Item::Place { file, line, column } => drop(to.number(file.0).number(*line).number(*column)),
        Item::Setting { name, value } => drop(to.text(name).text(value)),
        Item::Stream(start) => to.stream(start),
        Item::StreamEnd { stream, place } => drop(to.number(stream.0).place(*place)),
        Item::Operation(operation) => to.operation(operation),
        Item::DeviceTime { operation, start_ns, end_ns } => {
            let back = to.numbers.operations - operation.0;
            to.number(back).number(*end_ns);
            to.number(start_ns.is_some());
            if let Some(start) = start_ns {
                to.number(end_ns.saturating_sub(*start));
            }
        }
        Item::Record { stream, event, maker, place } => {
            to.number(stream.0).number(event.0).maker(*maker).place(*place);
        }
        Item::Wait { stream, record, maker, place } => {
            to.number(stream.0);
            let records = to.numbers.records;
            to.number(record.map_or(0, |record| records - record.0));
            to.maker(*maker).place(*place);
        }
        Item::Synchronize { subject, blocked_ns, maker, place } => {
            to.subject(*subject).number(*blocked_ns).maker(*maker).place(*place);
        }
        Item::Passed { subject, maker, place } => {
            to.subject(*subject).maker(*maker).place(*place);
        }
        Item::Allocate { stream, requested_bytes, bytes, address, served_by, place } => {
            to.number(stream.0).number(*requested_bytes).number(*bytes).number(*address);
            to.number(served_code(*served_by)).place(*place);
        }
        Item::Use { block, stream, kind, place } => {
            to.block(*block).number(stream.0).number(match kind {
                UseKind::UntilFree => 0_u8,
                UseKind::UntilNow => 1,
                UseKind::ByOperation => 2,
            });
            to.place(*place);
        }
        Item::UseEnd { block, stream, place } | Item::Move { block, stream, place } => {
            to.block(*block).number(stream.0).place(*place);
        }
        Item::Hold { block, place } | Item::Free { block, place } => {
            to.block(*block).place(*place);
        }
        Item::HoldEnd { block } => drop(to.block(*block)),
        Item::Segment { address, bytes, opened } => {
            to.number(*address).number(*bytes).number(*opened);
        }
        Item::OutOfMemory { stream, requested_bytes, place } => {
            to.number(stream.0).number(*requested_bytes).place(*place);
        }
        Item::Capture { stream, begins, place } => {
            to.number(stream.0).number(*begins).place(*place);
        }
        Item::Figure { name, value } => drop(to.text(name).number(*value)),
    }
}

fn served_code(served_by: ServedBy) -> u8 {
    match served_by {
        ServedBy::Unknown => 0,
        ServedBy::OwnStream => 1,
        ServedBy::KnownOrder => 2,
        ServedBy::Completion => 3,
        ServedBy::DeviceWait => 4,
        ServedBy::Growth => 5,
        ServedBy::Ladder => 6,
    }
}

fn tag_of(item: &Item) -> u8 {
    match item {
        Item::Text { .. } => tag::TEXT,
        Item::Place { .. } => tag::PLACE,
        Item::Setting { .. } => tag::SETTING,
        Item::Stream(_) => tag::STREAM,
        Item::StreamEnd { .. } => tag::STREAM_END,
        Item::Operation(_) => tag::OPERATION,
        Item::DeviceTime { .. } => tag::DEVICE_TIME,
        Item::Record { .. } => tag::RECORD,
        Item::Wait { .. } => tag::WAIT,
        Item::Synchronize { .. } => tag::SYNCHRONIZE,
        Item::Passed { .. } => tag::PASSED,
        Item::Allocate { .. } => tag::ALLOCATE,
        Item::Use { .. } => tag::USE,
        Item::UseEnd { .. } => tag::USE_END,
        Item::Hold { .. } => tag::HOLD,
        Item::HoldEnd { .. } => tag::HOLD_END,
        Item::Free { .. } => tag::FREE,
        Item::Segment { .. } => tag::SEGMENT,
        Item::OutOfMemory { .. } => tag::OUT_OF_MEMORY,
        Item::Capture { .. } => tag::CAPTURE,
        Item::Figure { .. } => tag::FIGURE,
        Item::Move { .. } => tag::MOVE,
    }
}
