//! What an entry of a trace can say.
//!
//! Things are numbered in the order in which they are declared, each kind for itself, from 0:
//! texts, places, streams, blocks, operations, records. An entry that names a number stands
//! behind the one that declared it.

use crate::{BlockNumber, StreamNumber};

/// A text, counted in the order of its entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "files", derive(serde::Serialize, serde::Deserialize))]
pub struct TextNumber(pub u32);

/// A place in a source file, counted in the order of its entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "files", derive(serde::Serialize, serde::Deserialize))]
pub struct PlaceNumber(pub u32);

/// An operation, counted in the order of submission.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "files", derive(serde::Serialize, serde::Deserialize))]
pub struct OperationNumber(pub u32);

/// A record of an event, counted in the order of submission. A record is made once; the same event
/// recorded again is another record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "files", derive(serde::Serialize, serde::Deserialize))]
pub struct RecordNumber(pub u32);

/// An event as the program knows it; 0 for a marker that a library made for itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "files", derive(serde::Serialize, serde::Deserialize))]
pub struct EventId(pub u64);

/// What kind of stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(
    feature = "files",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "snake_case")
)]
pub enum StreamKind {
    /// Created through the library.
    Owned,
    /// Created elsewhere.
    Borrowed,
    /// The legacy default stream.
    Legacy,
    /// A thread's default stream.
    PerThread,
}

/// What kind of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(
    feature = "files",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "snake_case")
)]
pub enum OperationKind {
    /// A kernel.
    Launch,
    /// A copy, in any direction.
    Copy,
    /// A fill.
    Fill,
    /// A function on the host.
    HostFunction,
    /// A graph.
    GraphLaunch,
    /// Work that nobody announced may be queued from here on: a raw handle is out.
    Unknown,
}

/// What an operation does to memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(
    feature = "files",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "snake_case")
)]
pub enum Access {
    /// Only reads it.
    Read,
    /// Only writes it.
    Write,
    /// Reads and writes it.
    ReadWrite,
}

/// Memory that an operation touches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "files", derive(serde::Serialize, serde::Deserialize))]
pub struct Touch {
    /// The block it lies in, where there is one.
    pub block: Option<BlockNumber>,
    /// Where it begins: in the block, or in the device's addresses.
    pub offset: u64,
    /// How long it is.
    pub bytes: u64,
    /// What is done to it.
    pub access: Access,
}

/// Who made a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(
    feature = "files",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "snake_case")
)]
pub enum Maker {
    /// The program.
    Program,
    /// A library for itself: a fence, or a wait that an allocator inserted.
    Library,
}

/// How a use was announced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(
    feature = "files",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "snake_case")
)]
pub enum UseKind {
    /// `record_stream`: until everything queued there at the time of the free is done.
    UntilFree,
    /// `record_use`: until what is queued there now is done.
    UntilNow,
    /// By the operation itself.
    ByOperation,
}

/// What a synchronization or a query was about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(
    feature = "files",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "snake_case")
)]
pub enum Subject {
    /// A record, and so all that was queued before it.
    Record(RecordNumber),
    /// All of a stream.
    Stream(StreamNumber),
    /// All streams of the context.
    Context,
    /// All contexts.
    Everything,
}

/// Which step of the allocator served a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(
    feature = "files",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "snake_case")
)]
pub enum ServedBy {
    /// It was not said.
    Unknown,
    /// A free block of the same stream.
    OwnStream,
    /// A block that was known to be ordered.
    KnownOrder,
    /// A block that was found complete.
    Completion,
    /// A block that the stream was made to wait for.
    DeviceWait,
    /// New memory.
    Growth,
    /// The last resorts.
    Ladder,
}

/// A stream that appears.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "files", derive(serde::Serialize, serde::Deserialize))]
pub struct StreamStart {
    /// The driver's identity of it.
    pub id: u64,
    /// What kind of stream.
    pub kind: StreamKind,
    /// The smaller, the sooner.
    pub priority: i32,
    /// Where it was made.
    pub place: Option<PlaceNumber>,
}

/// Work that was queued.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "files", derive(serde::Serialize, serde::Deserialize))]
pub struct Operation {
    /// Where.
    pub stream: StreamNumber,
    /// What kind.
    pub kind: OperationKind,
    /// It went into a graph, and runs when that is launched.
    pub is_captured: bool,
    /// The kernel's name, or another word for it.
    pub name: Option<TextNumber>,
    /// Where in the source.
    pub place: Option<PlaceNumber>,
    /// What it touches, as far as it was said.
    #[cfg_attr(feature = "files", serde(deserialize_with = "super::touches::touches"))]
    pub touches: Vec<Touch>,
}

/// What an entry says. A word on time: every entry has the host's time when the call had returned.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[cfg_attr(
    feature = "files",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "snake_case")
)]
pub enum Item {
    /// The next text.
    Text {
        /// The text; [`super::Writer::text`] writes at most 4,096 bytes of it.
        text: String,
    },
    /// The next place.
    Place {
        /// The file's path, as the compiler was given it.
        file: TextNumber,
        /// Counted from 1.
        line: u32,
        /// Counted from 1.
        column: u32,
    },
    /// How the run was set up: the device, the policy, and what else is worth knowing.
    Setting {
        /// Which setting.
        name: String,
        /// Its value.
        value: String,
    },
    /// The next stream.
    Stream(StreamStart),
    /// A stream was retired, or its last handle dropped.
    StreamEnd {
        /// The stream.
        stream: StreamNumber,
        /// Where in the source.
        place: Option<PlaceNumber>,
    },
    /// The next operation.
    Operation(Operation),
    /// When the device did an operation, in nanoseconds from a moment that is the same for all of
    /// a file.
    DeviceTime {
        /// The operation.
        operation: OperationNumber,
        /// When it began, if that was measured.
        start_ns: Option<u64>,
        /// When it ended.
        end_ns: u64,
    },
    /// The next record.
    Record {
        /// Where.
        stream: StreamNumber,
        /// Of which event.
        event: EventId,
        /// Who wanted it.
        maker: Maker,
        /// Where in the source.
        place: Option<PlaceNumber>,
    },
    /// What is queued on a stream from here on waits for a record.
    Wait {
        /// The stream that waits.
        stream: StreamNumber,
        /// The record, where it is known.
        record: Option<RecordNumber>,
        /// Who wanted it.
        maker: Maker,
        /// Where in the source.
        place: Option<PlaceNumber>,
    },
    /// The host waited.
    Synchronize {
        /// For what.
        subject: Subject,
        /// How long.
        blocked_ns: u64,
        /// Who wanted it.
        maker: Maker,
        /// Where in the source.
        place: Option<PlaceNumber>,
    },
    /// The host asked, and was told that it is done.
    Passed {
        /// What.
        subject: Subject,
        /// Who asked.
        maker: Maker,
        /// Where in the source.
        place: Option<PlaceNumber>,
    },
    /// The next block.
    Allocate {
        /// Its home.
        stream: StreamNumber,
        /// What was asked for.
        requested_bytes: u64,
        /// What was given.
        bytes: u64,
        /// Where.
        address: u64,
        /// By which step.
        served_by: ServedBy,
        /// Where in the source.
        place: Option<PlaceNumber>,
    },
    /// A stream was said to use a block.
    Use {
        /// The block.
        block: BlockNumber,
        /// The stream.
        stream: StreamNumber,
        /// How it was said.
        kind: UseKind,
        /// Where in the source.
        place: Option<PlaceNumber>,
    },
    /// A use ended early, by proof.
    UseEnd {
        /// The block.
        block: BlockNumber,
        /// The stream.
        stream: StreamNumber,
        /// Where in the source.
        place: Option<PlaceNumber>,
    },
    /// A block is held, beyond its free too.
    Hold {
        /// The block.
        block: BlockNumber,
        /// Where in the source.
        place: Option<PlaceNumber>,
    },
    /// A hold ended.
    HoldEnd {
        /// The block.
        block: BlockNumber,
    },
    /// A block was freed.
    Free {
        /// The block.
        block: BlockNumber,
        /// Where in the source.
        place: Option<PlaceNumber>,
    },
    /// A block has another home, which comes after everything that the old one was given.
    Move {
        /// The block.
        block: BlockNumber,
        /// Its home from now on.
        stream: StreamNumber,
        /// Where in the source.
        place: Option<PlaceNumber>,
    },
    /// Memory came from the device, or went back.
    Segment {
        /// Where it begins.
        address: u64,
        /// How long it is.
        bytes: u64,
        /// Whether it came.
        opened: bool,
    },
    /// A request found no room.
    OutOfMemory {
        /// Whose.
        stream: StreamNumber,
        /// What was asked for.
        requested_bytes: u64,
        /// Where in the source.
        place: Option<PlaceNumber>,
    },
    /// A capture began or ended.
    Capture {
        /// Where.
        stream: StreamNumber,
        /// Whether it began.
        begins: bool,
        /// Where in the source.
        place: Option<PlaceNumber>,
    },
    /// A figure that the recorded allocator counted, such as `peak_active_bytes`.
    Figure {
        /// Which.
        name: String,
        /// Its value.
        value: u64,
    },
}
