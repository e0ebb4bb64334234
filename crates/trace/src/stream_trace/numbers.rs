//! How many of each kind were declared so far, and whether an entry names only such.

use super::item::{Item, Operation, PlaceNumber, StreamStart, Subject, Touch};
use super::problem::Problem;
use crate::{BlockNumber, StreamNumber};

/// Counts of what was declared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Numbers {
    pub(super) texts: u32,
    pub(super) places: u32,
    pub(super) streams: u32,
    pub(super) blocks: u32,
    pub(super) operations: u32,
    pub(super) records: u32,
}

impl Numbers {
    /// Takes an entry's declaration into account, if everything it names was declared.
    pub(super) fn pass(&mut self, item: &Item) -> Result<(), Problem> {
        self.check(item)?;
        let count = match item {
            Item::Text { .. } => &mut self.texts,
            Item::Place { .. } => &mut self.places,
            Item::Stream(_) => &mut self.streams,
            Item::Allocate { .. } => &mut self.blocks,
            Item::Operation(_) => &mut self.operations,
            Item::Record { .. } => &mut self.records,
            Item::Setting { .. }
            | Item::StreamEnd { .. }
            | Item::DeviceTime { .. }
            | Item::Wait { .. }
            | Item::Synchronize { .. }
            | Item::Passed { .. }
            | Item::Use { .. }
            | Item::UseEnd { .. }
            | Item::Move { .. }
            | Item::Hold { .. }
            | Item::HoldEnd { .. }
            | Item::Free { .. }
            | Item::Segment { .. }
            | Item::OutOfMemory { .. }
            | Item::Capture { .. }
            | Item::Figure { .. } => return Ok(()),
        };
        *count = count.checked_add(1).ok_or(Problem::TooMany)?;
        Ok(())
    }

    fn check(&self, item: &Item) -> Result<(), Problem> {
        match item {
            Item::Text { .. }
            | Item::Setting { .. }
            | Item::Segment { .. }
            | Item::Figure { .. } => Ok(()),
            Item::Place { file, .. } => below(file.0, self.texts, "text"),
            Item::Stream(StreamStart { place, .. }) => self.place(*place),
            Item::StreamEnd { stream, place }
            | Item::Capture { stream, place, .. }
            | Item::OutOfMemory { stream, place, .. }
            | Item::Allocate { stream, place, .. }
            | Item::Record { stream, place, .. } => {
                self.stream(*stream)?;
                self.place(*place)
            }
            Item::Operation(operation) => self.operation(operation),
            Item::DeviceTime { start_ns: Some(start_ns), end_ns, .. } if end_ns < start_ns => {
                Err(Problem::EndedBeforeBegan { start_ns: *start_ns, end_ns: *end_ns })
            }
            Item::DeviceTime { operation, .. } => below(operation.0, self.operations, "operation"),
            Item::Wait { stream, record, place, .. } => {
                self.stream(*stream)?;
                record.map_or(Ok(()), |record| self.subject(Subject::Record(record)))?;
                self.place(*place)
            }
            Item::Synchronize { subject, place, .. } | Item::Passed { subject, place, .. } => {
                self.subject(*subject)?;
                self.place(*place)
            }
            Item::Use { block, stream, place, .. }
            | Item::UseEnd { block, stream, place }
            | Item::Move { block, stream, place } => {
                self.block(*block)?;
                self.stream(*stream)?;
                self.place(*place)
            }
            Item::Hold { block, place } | Item::Free { block, place } => {
                self.block(*block)?;
                self.place(*place)
            }
            Item::HoldEnd { block } => self.block(*block),
        }
    }

    fn operation(&self, operation: &Operation) -> Result<(), Problem> {
        self.stream(operation.stream)?;
        if let Some(name) = operation.name {
            below(name.0, self.texts, "text")?;
        }
        for Touch { block, .. } in &operation.touches {
            block.map_or(Ok(()), |block| self.block(block))?;
        }
        self.place(operation.place)
    }

    fn place(&self, place: Option<PlaceNumber>) -> Result<(), Problem> {
        place.map_or(Ok(()), |place| below(place.0, self.places, "place"))
    }

    fn stream(&self, stream: StreamNumber) -> Result<(), Problem> {
        below(stream.0, self.streams, "stream")
    }

    fn block(&self, block: BlockNumber) -> Result<(), Problem> {
        below(block.0, self.blocks, "block")
    }

    fn subject(&self, subject: Subject) -> Result<(), Problem> {
        match subject {
            Subject::Record(record) => below(record.0, self.records, "record"),
            Subject::Stream(stream) => self.stream(stream),
            Subject::Context | Subject::Everything => Ok(()),
        }
    }
}

fn below(number: u32, count: u32, what: &'static str) -> Result<(), Problem> {
    if number < count { Ok(()) } else { Err(Problem::NotDeclared { what, number, count }) }
}
