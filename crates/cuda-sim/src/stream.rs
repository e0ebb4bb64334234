//! Streams: in-order queues of operations, each the timeline of its own.

use std::collections::VecDeque;

use crate::clock::Clock;
use crate::event::EventRef;
use crate::kernel::Launch;
use crate::shadow::Label;
use crate::shims::raw::{HostCall, HostPlace};
use std::sync::Arc;

/// The number of the highest priority; the lowest is zero.
pub(crate) const GREATEST_PRIORITY: i32 = -5;

/// What sort of stream it is, for the rules of the legacy stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StreamKind {
    /// The default stream of a context.
    Legacy,
    /// The default stream of a thread, by the thread's place in the machine.
    PerThread(usize),
    Blocking,
    NonBlocking,
    /// A lane of a graph: nobody holds it but the graph.
    Lane,
}

impl StreamKind {
    /// Whether it and the legacy stream wait for each other.
    pub(crate) fn is_blocking(self) -> bool {
        matches!(self, Self::Blocking | Self::PerThread(_))
    }
}

/// Where a copy's bytes are.
#[derive(Debug, Clone)]
pub(crate) enum Place {
    /// In the address space: device memory or pinned host memory.
    Address(u64),
    /// Taken from the caller at the call.
    Staged(Arc<[u8]>),
    /// In the caller's own memory, which stays valid as the driver asks.
    Host(HostPlace),
}

/// What an operation does when it runs.
#[derive(Debug, Clone)]
pub(crate) enum Work {
    /// It only has a place in the order: waits, ends of graphs.
    Nothing,
    Record(EventRef),
    Fill {
        address: u64,
        bytes: u64,
        word: u32,
    },
    Copy {
        to: Place,
        from: Place,
        bytes: u64,
        source_then: Option<u64>,
    },
    Kernel(Arc<Launch>),
    HostFunction(HostCall),
    PoolFree {
        address: u64,
    },
    /// Drops references to user objects.
    Release(Vec<(usize, u32)>),
    WriteValue {
        address: u64,
        value: u64,
    },
    WaitValue {
        address: u64,
        value: u64,
        flags: u32,
    },
}

impl Work {
    pub(crate) fn label(&self) -> Label {
        match self {
            Self::Kernel(launch) => Label::Kernel(launch.name),
            Self::Fill { .. } => Label::Fill,
            Self::Copy { .. } => Label::Copy,
            Self::PoolFree { .. } => Label::PoolFree,
            Self::WriteValue { .. } => Label::WriteValue,
            Self::WaitValue { .. } => Label::WaitValue,
            Self::Nothing | Self::Release(_) => Label::Marker,
            Self::Record(_) => Label::Record,
            Self::HostFunction(_) => Label::HostFunction,
        }
    }
}

/// A queued operation.
#[derive(Debug)]
pub(crate) struct Queued {
    pub(crate) number: u64,
    pub(crate) work: Work,
    /// Operations of other timelines that must be done before it starts.
    pub(crate) after: Vec<(u32, u64)>,
    /// When it was submitted, in virtual time.
    pub(crate) submitted_at: u64,
    /// What it comes after; kept only where its start is an observation.
    pub(crate) clock: Option<Clock>,
    /// A host function that is on its way.
    pub(crate) started: bool,
}

/// How many finish times of the past a stream remembers: a stream that was driven far ahead of
/// another is still asked when it passed an old place.
const FINISHES: usize = 1 << 14;

/// One stream.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) timeline: u32,
    pub(crate) id: u64,
    pub(crate) context: usize,
    pub(crate) kind: StreamKind,
    pub(crate) flags: u32,
    pub(crate) priority: i32,
    /// What the next operation is known to come after, beside the stream's own past.
    pub(crate) clock: Clock,
    pub(crate) done: u64,
    pub(crate) queue: VecDeque<Queued>,
    /// When each of the last operations finished, in virtual time.
    finishes: VecDeque<u64>,
    pub(crate) destroyed: bool,
    /// The capture it is part of.
    pub(crate) capture: Option<usize>,
    /// The nodes a next captured operation comes after.
    pub(crate) capture_tail: Vec<usize>,
    /// The place that was asked for last, and how often the answer was "not ready".
    pub(crate) refused: (u64, u32),
    /// Where it stands in the list of streams with work.
    pub(crate) busy_at: Option<usize>,
    /// The last place of the legacy stream it was ordered after; for the legacy stream unused.
    pub(crate) legacy_seen: u64,
}

impl Stream {
    pub(crate) fn new(timeline: u32, id: u64, context: usize, kind: StreamKind) -> Self {
        Self {
            timeline,
            id,
            context,
            kind,
            flags: u32::from(kind == StreamKind::NonBlocking),
            priority: 0,
            clock: Clock::default(),
            done: 0,
            queue: VecDeque::new(),
            finishes: VecDeque::new(),
            destroyed: false,
            capture: None,
            capture_tail: Vec::new(),
            refused: (0, 0),
            busy_at: None,
            legacy_seen: 0,
        }
    }

    /// The place of the last operation submitted.
    pub(crate) fn submitted(&self) -> u64 {
        self.done + crate::memory::size(self.queue.len())
    }

    /// When the operation at `place` finished, or the nearest later time still known.
    pub(crate) fn finish_of(&self, place: u64) -> u64 {
        let back = crate::memory::host(self.done.saturating_sub(place));
        let index = self.finishes.len().saturating_sub(back + 1);
        self.finishes.get(index).copied().unwrap_or(0)
    }

    pub(crate) fn last_finish(&self) -> u64 {
        self.finishes.back().copied().unwrap_or(0)
    }

    pub(crate) fn note_finish(&mut self, at: u64) {
        if self.finishes.len() == FINISHES {
            self.finishes.pop_front();
        }
        self.finishes.push_back(at);
        self.done += 1;
    }

    /// How a report calls it.
    pub(crate) fn name(&self, context_id: u64) -> String {
        match self.kind {
            StreamKind::Legacy => format!("the legacy stream of context {context_id}"),
            StreamKind::PerThread(thread) => {
                format!("the per-thread stream of thread {thread} in context {context_id}")
            }
            StreamKind::Blocking | StreamKind::NonBlocking => format!("stream {}", self.id),
            StreamKind::Lane => format!("graph lane {}", self.id),
        }
    }
}
