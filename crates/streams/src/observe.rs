//! What happens on streams, told to somebody who watches: a checker, a recorder.
//!
//! An [`Observer`] is given when a driver is opened and stays for good. Without one, every call
//! here makes one check that finds nothing. With one, these hold:
//!
//! - A call is told after it succeeded, and before anything is concluded from it: nobody can know
//!   of an order that the observer has not been told of.
//! - What adds to one stream is told in the order in which the driver got it, also when several
//!   threads submit: they take turns. Each addition has an *ordinal*, counted from 1 for each
//!   stream; a record has the ordinal of the last addition before it.
//! - A question or a synchronization says how far each stream was when it began.
//! - Work that others queue through a raw handle is not seen. That a handle was given out is.
//!
//! Streams, captures and events are named by numbers that are never used again for another one of
//! the same driver. The place is the line of the program that made the call; it is `None` where a
//! destructor did.

use std::fmt;
use std::panic::Location;

use crate::sync::Arc;
use crate::uses::{Access, Use};

/// A line of the program.
pub type Place = &'static Location<'static>;

/// Somebody who is told of everything that happens on the streams of a driver.
///
/// It is called on the thread that made the call, while that stream takes no other: so it is
/// quick, and calls nothing of the driver or its streams. It does not panic.
pub trait Observer: Send + Sync {
    /// Something happened.
    fn observe(&self, happening: &Happening<'_>);

    /// Whether it wants to be told when each operation ended ([`What::Ended`]). Asked once. It
    /// costs a timing event for each operation, and two questions about it.
    fn wants_times(&self) -> bool {
        false
    }
}

/// Something that happened.
#[derive(Debug, Clone, Copy)]
pub struct Happening<'a> {
    /// The line of the program that did it; `None` if a destructor did.
    pub place: Option<Place>,
    /// What it was.
    pub what: What<'a>,
}

/// Whose stream it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StreamKind {
    /// Made here.
    Owned,
    /// Somebody else's.
    Borrowed,
    /// The legacy default stream of a context.
    Legacy,
    /// The per-thread default stream of a context and a thread.
    PerThread,
}

/// One record of one event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RecordId {
    /// The event. A fence, which a library makes for itself, has one of its own each time.
    pub event: u64,
    /// Which of the event's records, counted from 1.
    pub version: u64,
}

/// Who wanted it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum By {
    /// The program.
    Program,
    /// The library for itself: a fence, or a wait that an allocator inserted.
    Library,
}

/// What was waited for on the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WaitedFor {
    /// This record.
    Record(RecordId),
    /// Nobody here can say: records of the event raced, failed, or may be made elsewhere.
    Unknown {
        /// The event.
        event: u64,
    },
}

/// A part of memory that an operation touches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Accessed {
    /// Where it begins.
    pub address: u64,
    /// How long it is.
    pub bytes: u64,
    /// What is done to it.
    pub access: Access,
}

/// What was submitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Operation<'a> {
    /// A kernel.
    Launch {
        /// Its name.
        kernel: &'a str,
    },
    /// A copy from the host.
    CopyToDevice,
    /// A copy to the host.
    CopyToHost,
    /// A copy on the device.
    CopyOnDevice,
    /// A fill.
    Fill,
    /// A function that the host runs.
    HostFunction,
    /// A graph; it does what was submitted in its capture.
    Graph {
        /// The capture it was made by.
        capture: u64,
    },
}

/// How far a stream was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Reached {
    /// The stream.
    pub stream: u64,
    /// The last addition that is covered.
    pub ordinal: u64,
}

/// What was asked or waited for by the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Scope {
    /// A record.
    Record(RecordId),
    /// The last record of an event of which nothing is known.
    Event {
        /// The event.
        event: u64,
    },
    /// A stream.
    Stream {
        /// The stream.
        stream: u64,
    },
    /// All streams of a context.
    Context {
        /// The context.
        context: u64,
    },
}

/// How the host learned something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum How {
    /// It asked, and the answer was yes.
    Query,
    /// It waited.
    Synchronization,
    /// A host function of that stream began.
    HostFunction,
}

/// What happened.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum What<'a> {
    /// A stream was made or borrowed.
    StreamOpened {
        /// The stream.
        stream: u64,
        /// Its context.
        context: u64,
        /// Whose it is.
        kind: StreamKind,
        /// Its priority; the greater priority is the smaller number.
        priority: i32,
        /// Whether it runs beside the legacy default stream.
        non_blocking: bool,
    },
    /// The raw handle was given out: from now on others may queue work that nobody here sees.
    HandleGivenOut {
        /// The stream.
        stream: u64,
    },
    /// The stream takes no more work from here.
    StreamRetired {
        /// The stream.
        stream: u64,
    },
    /// Work was queued.
    Submitted {
        /// The stream.
        stream: u64,
        /// Its place among the additions to the stream; in a capture, that of the last one before.
        ordinal: u64,
        /// The capture that it went into; it runs when the graph is launched.
        capture: Option<u64>,
        /// What it is.
        operation: Operation<'a>,
        /// What it touches. Of a graph: see its capture.
        accesses: &'a [Accessed],
    },
    /// An event was recorded.
    Recorded {
        /// The stream.
        stream: u64,
        /// The last addition that is covered.
        ordinal: u64,
        /// The capture that it went into.
        capture: Option<u64>,
        /// The record.
        record: RecordId,
        /// Whose event it is.
        by: By,
    },
    /// A stream was made to wait on the device.
    Waited {
        /// The stream that waits.
        stream: u64,
        /// The wait's place among the additions to the stream.
        ordinal: u64,
        /// The capture that it went into.
        capture: Option<u64>,
        /// What for.
        on: WaitedFor,
        /// Who wanted it.
        by: By,
    },
    /// A wait was asked for, and not made, because the order was known.
    WaitSkipped {
        /// The stream that would have waited.
        stream: u64,
        /// The stream that it would have waited for.
        other: u64,
        /// Who wanted it.
        by: By,
    },
    /// A wait was refused: the event was never recorded.
    NothingToWaitFor {
        /// The stream that would have waited.
        stream: u64,
        /// The event.
        event: u64,
    },
    /// The host began to wait.
    SynchronizationBegun {
        /// What for.
        scope: Scope,
    },
    /// The host learned that something is done.
    Passed {
        /// What it asked about.
        scope: Scope,
        /// For a stream or a context: how far each stream was when the question was begun.
        reached: &'a [Reached],
        /// How it learned that.
        how: How,
    },
    /// A capture was begun.
    CaptureBegun {
        /// The stream that captures.
        stream: u64,
        /// The capture.
        capture: u64,
    },
    /// A capture was ended.
    CaptureEnded {
        /// The stream that captured.
        stream: u64,
        /// The capture.
        capture: u64,
        /// Whether it gave a graph.
        succeeded: bool,
    },
    /// No graph of this capture can be launched any more.
    GraphGone {
        /// The capture.
        capture: u64,
    },
    /// The device's time of a context begins now, for who wants times.
    ClockStarted {
        /// The context.
        context: u64,
    },
    /// An operation is known to have ended, for who wants times. Told some time after.
    Ended {
        /// The stream.
        stream: u64,
        /// Its place among the additions to the stream.
        ordinal: u64,
        /// When, since the device's time began.
        nanoseconds: u64,
    },
}

/// Several observers, told one after the other.
#[derive(Clone, Default)]
pub struct FanOut {
    observers: Vec<Arc<dyn Observer>>,
}

impl FanOut {
    /// Tells all of these, in this order.
    #[must_use]
    pub fn new(observers: Vec<Arc<dyn Observer>>) -> Self {
        Self { observers }
    }
}

impl Observer for FanOut {
    fn observe(&self, happening: &Happening<'_>) {
        self.observers.iter().for_each(|observer| observer.observe(happening));
    }

    fn wants_times(&self) -> bool {
        self.observers.iter().any(|observer| observer.wants_times())
    }
}

impl fmt::Debug for FanOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FanOut").field("observers", &self.observers.len()).finish()
    }
}

/// The observer of a driver, if it has one.
#[derive(Clone, Default)]
pub(crate) struct Watch {
    observer: Option<Arc<dyn Observer>>,
    wants_times: bool,
}

impl Watch {
    pub(crate) fn new(observer: Option<Arc<dyn Observer>>) -> Self {
        let wants_times = observer.as_ref().is_some_and(|observer| observer.wants_times());
        Self { observer, wants_times }
    }

    /// Nobody in a build that `cargo xtask observers` makes to count what this question costs.
    pub(crate) fn observer(&self) -> Option<&dyn Observer> {
        if cfg!(wellspring_unobserved) { None } else { self.observer.as_deref() }
    }

    pub(crate) fn is_on(&self) -> bool {
        self.observer().is_some()
    }

    pub(crate) fn wants_times(&self) -> bool {
        self.is_on() && self.wants_times
    }

    /// Tells what `what` makes, if anybody watches.
    pub(crate) fn tell<'a>(&self, place: Option<Place>, what: impl FnOnce() -> What<'a>) {
        if let Some(observer) = self.observer() {
            observer.observe(&Happening { place, what: what() });
        }
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_on() { "Watch(on)" } else { "Watch(off)" })
    }
}

/// An operation as it is told, if anybody watches.
#[derive(Clone, Copy)]
pub(crate) struct Told<'a> {
    pub(crate) operation: Operation<'a>,
    pub(crate) uses: &'a [Use<'a>],
}

impl<'a> Told<'a> {
    /// An operation that touches no memory of the device by itself.
    pub(crate) fn of(operation: Operation<'a>) -> Self {
        Self { operation, uses: &[] }
    }
}
