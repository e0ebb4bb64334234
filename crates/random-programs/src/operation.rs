//! What a program can do: operations that name what they work on, so that each can be left out
//! and the others still mean what they meant.
//!
//! An operation that names what is not there, because the operation that made it was left out or
//! did not succeed, does nothing.

use std::fmt;

macro_rules! names {
    ($($(#[$doc:meta])* $name:ident $letter:literal)*) => {
        $($(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u32);

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}{}", $letter, self.0)
            }
        })*
    };
}

names! {
    /// Names a stream of a program.
    StreamName "s"
    /// Names a block of a program.
    BlockName "b"
    /// Names an event of a program.
    EventName "e"
    /// Names a graph of a program.
    GraphName "g"
    /// Names a mark: a piece of work of which it is asked later who comes after it.
    MarkName "m"
}

/// How a stream is made to wait for another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Join {
    /// `wait_stream`.
    Stream,
    /// A new event, recorded on the one and waited for by the other.
    Event,
}

/// How the allocator is told of a use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Told {
    /// `record_stream` before the work.
    StreamBefore,
    /// `record_stream` after the work.
    StreamAfter,
    /// `record_use` after the work.
    Exactly,
    /// `begin_use` before the work, made exact after it.
    Announced,
    /// The launch tells it by itself.
    ByTheLaunch,
}

/// How a block is given back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Way {
    /// `Block::free`.
    Free,
    /// Its handle is dropped.
    Drop,
    /// It is turned into numbers, and taken back and freed.
    Raw,
}

/// What the host waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Synchronize {
    /// Everything in the context.
    Context,
    /// One stream.
    Stream(StreamName),
    /// The last record of one event.
    Event(EventName),
}

/// How cached memory is given back to the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Trim {
    /// Up to so many bytes of what is complete.
    Bytes(u64),
    /// All of it, after waiting for its uses.
    Everything,
}

/// A driver call that can be made to fail inside a call of the allocator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "each is the driver's entry point of that name")]
pub enum FaultCall {
    MemCreate,
    MemAlloc,
    MemMap,
    MemSetAccess,
    MemUnmap,
    EventCreate,
    EventRecord,
    EventQuery,
    StreamWaitEvent,
}

impl FaultCall {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::MemCreate,
        Self::MemAlloc,
        Self::MemMap,
        Self::MemSetAccess,
        Self::MemUnmap,
        Self::EventCreate,
        Self::EventRecord,
        Self::EventQuery,
        Self::StreamWaitEvent,
    ];
}

/// The n-th call of a kind fails, if it is made inside the operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fault {
    /// Which call.
    pub call: FaultCall,
    /// The first, the second, and so on.
    pub nth: u64,
}

/// A mistake that a program makes on purpose, to see that it is found. What is to be done in order
/// is in order all the same, so that nothing else is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mistake {
    /// A stream writes a block, nobody is told, and the block is given back.
    Untold {
        /// The block.
        block: BlockName,
        /// The stream that nobody is told of.
        user: StreamName,
    },
    /// A block is given back, and a stream reads it by its address.
    AfterFree {
        /// The block.
        block: BlockName,
        /// The stream that reads.
        user: StreamName,
    },
    /// A stream writes a block after the event that another one, which reads it, waits for.
    WrongEvent {
        /// The block.
        block: BlockName,
        /// The stream that writes.
        early: StreamName,
        /// The stream that reads.
        late: StreamName,
    },
    /// A stream writes a block, and another one reads it and waits for nothing.
    Unordered {
        /// The block.
        block: BlockName,
        /// The stream that writes.
        early: StreamName,
        /// The stream that reads.
        late: StreamName,
    },
    /// A new block is written on a stream that does not wait for the one it was asked for on.
    BeforeAllocation {
        /// The block.
        block: BlockName,
        /// Its bytes.
        bytes: u64,
        /// The stream it is asked for on.
        home: StreamName,
        /// The stream that writes.
        user: StreamName,
    },
}

impl Mistake {
    /// What kind it is.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Untold { .. } => "untold use",
            Self::AfterFree { .. } => "use after free",
            Self::WrongEvent { .. } => "wrong event",
            Self::Unordered { .. } => "no order",
            Self::BeforeAllocation { .. } => "use before allocation",
        }
    }
}

/// Whether what would be a mistake is done as it should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mended {
    /// It is the mistake.
    No,
    /// The call that is missing is made.
    Yes,
}

/// What is done inside a capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CaptureStep {
    /// A new block is asked for on the capturing stream.
    Allocate(BlockName, u64),
    /// A block is written and read back by the graph.
    Touch(BlockName),
    /// A block is given back; the graph may still hold it.
    Free(BlockName),
    /// Beside the capture a block is asked for on another stream.
    AllocateBeside(BlockName, StreamName, u64),
}

/// One thing that a program does.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Operation {
    /// A new stream.
    Create(StreamName),
    /// A stream goes, with whatever is queued there.
    Retire(StreamName),
    /// A block of so many bytes for a stream.
    Allocate(BlockName, StreamName, u64, Option<Fault>),
    /// A block is given back.
    Free(BlockName, Way, Option<Fault>),
    /// A block is given back while a hold keeps it.
    FreeHeld(BlockName),
    /// The oldest hold ends.
    EndHold,
    /// A stream reads or writes a block, after waiting for those that touched it before.
    Use {
        /// The block.
        block: BlockName,
        /// The stream that uses it.
        stream: StreamName,
        /// Whether it writes.
        writes: bool,
        /// How the allocator is told.
        told: Told,
        /// How the stream waits.
        join: Join,
    },
    /// The second stream waits for all that is queued on the first.
    Order(StreamName, StreamName, Join),
    /// The second stream is to wait for the first one, and the call fails on the way: nothing is
    /// ordered (L26).
    OrderFails(StreamName, StreamName, FaultCall),
    /// An event is recorded on a stream; a new one, if there is none of the name.
    Record(EventName, StreamName),
    /// A stream waits for an event.
    Wait(EventName, StreamName),
    /// The device is asked whether a stream is idle.
    QueryStream(StreamName),
    /// The device is asked whether an event has passed.
    QueryEvent(EventName),
    /// A stream is busy for a while.
    Spin(StreamName),
    /// All gates are opened, and the host waits.
    Synchronize(Synchronize),
    /// All gates are opened, and cached memory goes back to the device.
    Trim(Trim, Option<Fault>),
    /// A stream is held up until the host opens the gate.
    CloseGate(StreamName),
    /// The oldest gate opens.
    OpenGate,
    /// A stream captures a graph.
    Capture(GraphName, StreamName, Vec<CaptureStep>),
    /// A graph runs on a stream, after those that touched its blocks before.
    Replay(GraphName, StreamName, Join),
    /// A graph goes.
    DropGraph(GraphName),
    /// A piece of work of which it will be asked who comes after it.
    Mark(MarkName, StreamName),
    /// Every stream is asked whether it comes after a mark, and the simulator too (S2).
    Compare(MarkName),
    /// A block goes to another thread, which uses it and gives it back.
    Send(BlockName),
    /// What other threads sent is written on a stream and given back.
    Receive(StreamName, Join),
    /// Another host thread may go on.
    Yield,
    /// A mistake; or the same done as it should be.
    Mistake(Mistake, Mended),
}
