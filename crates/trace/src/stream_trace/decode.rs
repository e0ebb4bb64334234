//! The bytes of an entry as kind and fields: the other way round from `encode`.

use super::bytes::Body;
use super::encode::tag;
use super::item::{
    Access, EventId, Item, Maker, Operation, OperationKind, OperationNumber, PlaceNumber,
    RecordNumber, ServedBy, StreamKind, StreamStart, Subject, TextNumber, Touch, UseKind,
};
use super::numbers::Numbers;
use super::problem::Problem;
use crate::{BlockNumber, StreamNumber};

/// What the bytes of one entry are.
#[derive(Debug)]
pub(super) enum Decoded {
    /// An entry that is known.
    Item(Item),
    /// The end, with how many entries came before.
    End(u64),
    /// A kind that a later version brought.
    Unknown,
}

/// Reads fields one behind the other.
struct Fields<'a> {
    body: Body<'a>,
    numbers: &'a Numbers,
}

/// Reads kind, host time since the entry before, and fields. What fields a later version put
/// behind those known here is passed over.
pub(super) fn decode(bytes: &[u8], numbers: &Numbers) -> Result<(u64, Decoded), Problem> {
    let mut body = Body::new(bytes);
    let tag = body.byte()?;
    let host_ns = body.number()?;
    let mut fields = Fields { body, numbers };
    let item = match tag {
        tag::END => {
            let entries = fields.body.number()?;
            return match fields.body.is_empty() {
                true => Ok((host_ns, Decoded::End(entries))),
                false => Err(Problem::EndHasFields),
            };
        }
        tag::TEXT..=tag::DEVICE_TIME => fields.program(tag)?,
        tag::RECORD..=tag::PASSED => fields.order(tag)?,
        tag::ALLOCATE..=tag::FREE => fields.block_life(tag)?,
        tag::SEGMENT..=tag::MOVE => fields.other(tag)?,
        _ => return Ok((host_ns, Decoded::Unknown)),
    };
    Ok((host_ns, Decoded::Item(item)))
}

impl Fields<'_> {
    fn program(&mut self, tag: u8) -> Result<Item, Problem> {
        Ok(match tag {
            tag::TEXT => Item::Text { text: self.text()? },
            tag::PLACE => Item::Place {
                file: TextNumber(self.body.small()?),
                line: self.body.small()?,
                column: self.body.small()?,
            },
            tag::SETTING => Item::Setting { name: self.text()?, value: self.text()? },
            tag::STREAM => Item::Stream(StreamStart {
                id: self.body.number()?,
                kind: self.stream_kind()?,
                priority: self.body.signed()?,
                place: self.place()?,
            }),
            tag::STREAM_END => Item::StreamEnd { stream: self.stream()?, place: self.place()? },
            tag::OPERATION => Item::Operation(self.operation()?),
            _ => {
                let operation = self.operation_number()?;
                let end_ns = self.body.number()?;
                let lasted = self.flag()?.then(|| self.body.number()).transpose()?;
                let start_ns = lasted
                    .map(|lasted_ns| {
                        let start_ns = end_ns.checked_sub(lasted_ns);
                        start_ns.ok_or(Problem::BeganBeforeZero { end_ns, lasted_ns })
                    })
                    .transpose()?;
                Item::DeviceTime { operation, start_ns, end_ns }
            }
        })
    }

    fn order(&mut self, tag: u8) -> Result<Item, Problem> {
        Ok(match tag {
            tag::RECORD => Item::Record {
                stream: self.stream()?,
                event: EventId(self.body.number()?),
                maker: self.maker()?,
                place: self.place()?,
            },
            tag::WAIT => Item::Wait {
                stream: self.stream()?,
                record: self.record()?,
                maker: self.maker()?,
                place: self.place()?,
            },
            tag::SYNCHRONIZE => Item::Synchronize {
                subject: self.subject()?,
                blocked_ns: self.body.number()?,
                maker: self.maker()?,
                place: self.place()?,
            },
            _ => Item::Passed {
                subject: self.subject()?,
                maker: self.maker()?,
                place: self.place()?,
            },
        })
    }

    fn block_life(&mut self, tag: u8) -> Result<Item, Problem> {
        Ok(match tag {
            tag::ALLOCATE => Item::Allocate {
                stream: self.stream()?,
                requested_bytes: self.body.number()?,
                bytes: self.body.number()?,
                address: self.body.number()?,
                served_by: self.served_by()?,
                place: self.place()?,
            },
            tag::USE => Item::Use {
                block: self.block()?,
                stream: self.stream()?,
                kind: self.use_kind()?,
                place: self.place()?,
            },
            tag::USE_END => {
                Item::UseEnd { block: self.block()?, stream: self.stream()?, place: self.place()? }
            }
            tag::HOLD => Item::Hold { block: self.block()?, place: self.place()? },
            tag::HOLD_END => Item::HoldEnd { block: self.block()? },
            _ => Item::Free { block: self.block()?, place: self.place()? },
        })
    }

    fn other(&mut self, tag: u8) -> Result<Item, Problem> {
        Ok(match tag {
            tag::SEGMENT => Item::Segment {
                address: self.body.number()?,
                bytes: self.body.number()?,
                opened: self.flag()?,
            },
            tag::OUT_OF_MEMORY => Item::OutOfMemory {
                stream: self.stream()?,
                requested_bytes: self.body.number()?,
                place: self.place()?,
            },
            tag::CAPTURE => {
                Item::Capture { stream: self.stream()?, begins: self.flag()?, place: self.place()? }
            }
            tag::FIGURE => Item::Figure { name: self.text()?, value: self.body.number()? },
            _ => Item::Move { block: self.block()?, stream: self.stream()?, place: self.place()? },
        })
    }

    fn operation(&mut self) -> Result<Operation, Problem> {
        let stream = self.stream()?;
        let kind = match self.body.number()? {
            0 => OperationKind::Launch,
            1 => OperationKind::Copy,
            2 => OperationKind::Fill,
            3 => OperationKind::HostFunction,
            4 => OperationKind::GraphLaunch,
            5 => OperationKind::Unknown,
            found => {
                return Err(Problem::NotKnown { what: "the kind of an operation", found, most: 5 });
            }
        };
        let is_captured = self.flag()?;
        let name = self.body.small()?.checked_sub(1).map(TextNumber);
        let place = self.place()?;
        let count = self.body.number()?;
        // Not reserved from what a file claims: the touches that are there count.
        let mut touches = Vec::new();
        for _ in 0..count {
            touches.push(self.touch()?);
        }
        Ok(Operation { stream, kind, is_captured, name, place, touches })
    }

    fn touch(&mut self) -> Result<Touch, Problem> {
        let block = match self.body.number()? {
            0 => None,
            back => Some(BlockNumber(declared_before("block", self.numbers.blocks, back)?)),
        };
        Ok(Touch {
            block,
            offset: self.body.number()?,
            bytes: self.body.number()?,
            access: match self.body.number()? {
                0 => Access::Read,
                1 => Access::Write,
                2 => Access::ReadWrite,
                found => return Err(Problem::NotKnown { what: "an access", found, most: 2 }),
            },
        })
    }

    fn text(&mut self) -> Result<String, Problem> {
        self.body.text().map(str::to_owned)
    }

    fn flag(&mut self) -> Result<bool, Problem> {
        match self.body.number()? {
            0 => Ok(false),
            1 => Ok(true),
            found => Err(Problem::NotKnown { what: "a flag", found, most: 1 }),
        }
    }

    fn place(&mut self) -> Result<Option<PlaceNumber>, Problem> {
        Ok(self.body.small()?.checked_sub(1).map(PlaceNumber))
    }

    fn stream(&mut self) -> Result<StreamNumber, Problem> {
        self.body.small().map(StreamNumber)
    }

    fn block(&mut self) -> Result<BlockNumber, Problem> {
        declared_before("block", self.numbers.blocks, self.body.number()?).map(BlockNumber)
    }

    fn operation_number(&mut self) -> Result<OperationNumber, Problem> {
        declared_before("operation", self.numbers.operations, self.body.number()?)
            .map(OperationNumber)
    }

    fn record(&mut self) -> Result<Option<RecordNumber>, Problem> {
        match self.body.number()? {
            0 => Ok(None),
            back => {
                declared_before("record", self.numbers.records, back).map(RecordNumber).map(Some)
            }
        }
    }

    fn subject(&mut self) -> Result<Subject, Problem> {
        match self.body.number()? {
            0 => self.record()?.map(Subject::Record).ok_or(Problem::NotBack {
                what: "record",
                back: 0,
                count: self.numbers.records,
            }),
            1 => self.stream().map(Subject::Stream),
            2 => Ok(Subject::Context),
            3 => Ok(Subject::Everything),
            found => {
                Err(Problem::NotKnown { what: "the subject of a synchronization", found, most: 3 })
            }
        }
    }

    fn maker(&mut self) -> Result<Maker, Problem> {
        match self.body.number()? {
            0 => Ok(Maker::Program),
            1 => Ok(Maker::Library),
            found => Err(Problem::NotKnown { what: "the maker of a call", found, most: 1 }),
        }
    }

    fn stream_kind(&mut self) -> Result<StreamKind, Problem> {
        match self.body.number()? {
            0 => Ok(StreamKind::Owned),
            1 => Ok(StreamKind::Borrowed),
            2 => Ok(StreamKind::Legacy),
            3 => Ok(StreamKind::PerThread),
            found => Err(Problem::NotKnown { what: "the kind of a stream", found, most: 3 }),
        }
    }

    fn use_kind(&mut self) -> Result<UseKind, Problem> {
        match self.body.number()? {
            0 => Ok(UseKind::UntilFree),
            1 => Ok(UseKind::UntilNow),
            2 => Ok(UseKind::ByOperation),
            found => Err(Problem::NotKnown { what: "the kind of a use", found, most: 2 }),
        }
    }

    fn served_by(&mut self) -> Result<ServedBy, Problem> {
        match self.body.number()? {
            0 => Ok(ServedBy::Unknown),
            1 => Ok(ServedBy::OwnStream),
            2 => Ok(ServedBy::KnownOrder),
            3 => Ok(ServedBy::Completion),
            4 => Ok(ServedBy::DeviceWait),
            5 => Ok(ServedBy::Growth),
            6 => Ok(ServedBy::Ladder),
            found => {
                Err(Problem::NotKnown { what: "the step that served a request", found, most: 6 })
            }
        }
    }
}

/// The number that stands `back` before the next one.
fn declared_before(what: &'static str, count: u32, back: u64) -> Result<u32, Problem> {
    let number = u32::try_from(back).ok().filter(|back| 0 < *back);
    let number = number.and_then(|back| count.checked_sub(back));
    number.ok_or(Problem::NotBack { what, back, count })
}
