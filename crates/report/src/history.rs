//! A trace as lives: from which moment to which each block was allocated, pending and gone.
//!
//! A moment is a number of events: what is true at moment `n` is true after the first `n` events.
//! A free whose completion follows directly, but for notes, is one event of two entries. An event
//! that concerns no known block stays in the list, so that moments can be turned into entries.

use std::collections::{HashMap, VecDeque};

use trace::pytorch::{
    Action, Block, BlockState, DeviceTrace, Entry, Segment, StackId, StreamHandle, TextId,
};
use trace::{direct_completion, rounded_bytes};

/// How many events have happened.
pub(crate) type Moment = u32;

/// Later than every event.
pub(crate) const NEVER: Moment = Moment::MAX;

/// What an event did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EventKind {
    Alloc,
    /// Freed and available at once, told in one entry.
    Free,
    /// Freed and available at once, told in two entries.
    FreePair,
    FreeRequested,
    FreeCompleted,
    SegmentAlloc,
    SegmentFree,
    OutOfMemory,
    /// Nothing that a picture shows.
    Other,
}

impl EventKind {
    /// The number that stands for it in a page.
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Alloc => 0,
            Self::Free => 1,
            Self::FreePair => 2,
            Self::FreeRequested => 3,
            Self::FreeCompleted => 4,
            Self::SegmentAlloc => 5,
            Self::SegmentFree => 6,
            Self::OutOfMemory => 7,
            Self::Other => 8,
        }
    }

    /// How many entries of the trace are told by it.
    pub(crate) const fn entry_count(self) -> usize {
        if matches!(self, Self::FreePair) { 2 } else { 1 }
    }
}

/// One thing that happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) kind: EventKind,
    pub(crate) time_us: i64,
}

/// A block from its allocation to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Life {
    pub(crate) address: u64,
    pub(crate) requested_bytes: u64,
    /// What it takes of its segment.
    pub(crate) bytes: u64,
    /// Index into the history's streams.
    pub(crate) stream: usize,
    /// The first moment it is allocated; 0 if it was before the trace began.
    pub(crate) from: Moment,
    /// The first moment it is freed.
    pub(crate) freed: Moment,
    /// The first moment it is available again.
    pub(crate) completed: Moment,
    pub(crate) stack: Option<StackId>,
    /// What the program had noted when it was allocated.
    pub(crate) noted: Option<TextId>,
}

/// A request that found no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Failed {
    /// The moment after it.
    pub(crate) moment: Moment,
    pub(crate) bytes: u64,
    /// What the device had free.
    pub(crate) device_free_bytes: u64,
    pub(crate) stack: Option<StackId>,
}

/// All lives of a device's trace.
#[derive(Debug, Clone, Default)]
pub(crate) struct History {
    pub(crate) events: Vec<Event>,
    /// By the moment they begin.
    pub(crate) lives: Vec<Life>,
    pub(crate) streams: Vec<StreamHandle>,
    pub(crate) failed: Vec<Failed>,
    /// How many of the lives, the first ones, began before the trace.
    pub(crate) initial_count: usize,
    /// Frees and completions of blocks that nobody knows.
    pub(crate) unmatched_count: usize,
}

impl History {
    /// The lives of a trace.
    pub(crate) fn of(trace: &DeviceTrace<'_>) -> Self {
        let mut builder = Builder { merges_all: trace.has_no_completions(), ..Builder::default() };
        builder.start(trace);
        let entries = trace.entries();
        let mut told = None;
        for (index, entry) in entries.iter().enumerate() {
            if told == Some(index) {
                continue;
            }
            let completion = direct_completion(entries, index);
            if builder.take(entry, completion.is_some()) {
                told = completion;
            }
        }
        builder.finish(trace.segments())
    }

    /// The lives of a device without a trace: what its segments hold, at one moment.
    pub(crate) fn of_segments<'a>(segments: impl Iterator<Item = &'a Segment>) -> Self {
        let mut builder = Builder::default();
        for (segment, block) in segments.flat_map(blocks_of) {
            let is_pending = match block.state {
                BlockState::Allocated => false,
                BlockState::PendingFree => true,
                BlockState::Inactive => continue,
            };
            builder.begin(block.address, block.requested_bytes, segment.stream, block.stack);
            if let Some(life) = builder.history.lives.last_mut() {
                life.bytes = block.bytes;
                life.freed = if is_pending { 0 } else { NEVER };
            }
        }
        builder.history.initial_count = builder.history.lives.len();
        builder.history
    }

    /// The moment after the last event.
    pub(crate) fn end(&self) -> Moment {
        moment(self.events.len())
    }
}

/// A count of events as a moment.
pub(crate) fn moment(count: usize) -> Moment {
    Moment::try_from(count).unwrap_or(NEVER - 1)
}

fn blocks_of(segment: &Segment) -> impl Iterator<Item = (&Segment, &Block)> {
    segment.blocks.iter().map(move |block| (segment, block))
}

#[derive(Default)]
struct Builder {
    history: History,
    numbers: HashMap<StreamHandle, usize>,
    /// Allocated lives by address.
    live: HashMap<u64, usize>,
    /// Freed lives that wait, oldest first, by address.
    pending: HashMap<u64, VecDeque<usize>>,
    merges_all: bool,
}

impl Builder {
    fn start(&mut self, trace: &DeviceTrace<'_>) {
        for block in trace.initial_blocks() {
            let number = self.begin(block.address, block.requested_bytes, block.stream, None);
            if block.is_pending {
                self.live.remove(&block.address);
                self.pending.entry(block.address).or_default().push_back(number);
                self.life(number).freed = 0;
            }
        }
        self.history.initial_count = self.history.lives.len();
    }

    /// Takes an entry; true if its completion is told with it, in one event.
    fn take(&mut self, entry: &Entry, has_completion: bool) -> bool {
        let kind = match entry.action {
            Action::Alloc => EventKind::Alloc,
            Action::Free => EventKind::Free,
            Action::FreeRequested if has_completion => EventKind::FreePair,
            Action::FreeRequested if self.merges_all => EventKind::Free,
            Action::FreeRequested => EventKind::FreeRequested,
            Action::FreeCompleted => EventKind::FreeCompleted,
            Action::SegmentAlloc | Action::SegmentMap => EventKind::SegmentAlloc,
            Action::SegmentFree | Action::SegmentUnmap => EventKind::SegmentFree,
            Action::OutOfMemory => EventKind::OutOfMemory,
            Action::Snapshot | Action::Annotate | Action::Other(_) => EventKind::Other,
        };
        self.history.events.push(Event { kind, time_us: entry.time_us });
        self.apply(kind, entry);
        kind == EventKind::FreePair
    }

    fn apply(&mut self, kind: EventKind, entry: &Entry) {
        let now = self.history.end();
        match kind {
            EventKind::Alloc => {
                if let Some(replaced) = self.live.get(&entry.address).copied() {
                    self.end(replaced, now);
                }
                let number = self.begin(entry.address, entry.bytes, entry.stream, entry.stack);
                self.life(number).noted = entry.metadata;
            }
            EventKind::Free | EventKind::FreePair => self.free(entry, now),
            EventKind::FreeRequested => match self.live.remove(&entry.address) {
                Some(number) => {
                    self.life(number).freed = now;
                    self.adopt(number, entry);
                    self.pending.entry(entry.address).or_default().push_back(number);
                }
                None => self.unmatched(),
            },
            EventKind::FreeCompleted => {
                let waiting = self.pending.get_mut(&entry.address);
                match waiting.and_then(VecDeque::pop_front) {
                    Some(number) => self.life(number).completed = now,
                    None => self.free(entry, now),
                }
            }
            EventKind::OutOfMemory => self.history.failed.push(Failed {
                moment: now,
                bytes: entry.bytes,
                device_free_bytes: entry.address,
                stack: entry.stack,
            }),
            EventKind::SegmentAlloc | EventKind::SegmentFree | EventKind::Other => {}
        }
    }

    /// A life begins now.
    fn begin(
        &mut self,
        address: u64,
        requested_bytes: u64,
        stream: StreamHandle,
        stack: Option<StackId>,
    ) -> usize {
        let streams = &mut self.history.streams;
        let stream = *self.numbers.entry(stream).or_insert_with(|| {
            streams.push(stream);
            streams.len() - 1
        });
        let number = self.history.lives.len();
        let from = self.history.end();
        let bytes = rounded_bytes(requested_bytes);
        let (freed, completed) = (NEVER, NEVER);
        let noted = None;
        let life =
            Life { address, requested_bytes, bytes, stream, from, freed, completed, stack, noted };
        self.history.lives.push(life);
        self.live.insert(address, number);
        number
    }

    fn free(&mut self, entry: &Entry, now: Moment) {
        match self.live.remove(&entry.address) {
            Some(number) => {
                self.end(number, now);
                self.adopt(number, entry);
            }
            None => self.unmatched(),
        }
    }

    fn end(&mut self, number: usize, now: Moment) {
        let life = self.life(number);
        life.freed = now;
        life.completed = now;
    }

    /// A free names the stack of the allocation where it has none of its own; for a block from
    /// before the trace that is the only one there is.
    fn adopt(&mut self, number: usize, entry: &Entry) {
        let life = self.life(number);
        life.stack = life.stack.or(entry.stack);
    }

    fn life(&mut self, number: usize) -> &mut Life {
        self.history.lives.get_mut(number).expect("numbers are those of lives")
    }

    fn unmatched(&mut self) {
        self.history.unmatched_count += 1;
    }

    /// What is alive at the end is in the segments, which know its stack and its true size.
    fn finish<'a>(mut self, segments: impl Iterator<Item = &'a Segment>) -> History {
        for (_, block) in segments.flat_map(blocks_of) {
            let waiting = || self.pending.get(&block.address).and_then(VecDeque::back);
            let number = self.live.get(&block.address).or_else(waiting).copied();
            if let Some(number) = number
                && block.state != BlockState::Inactive
            {
                let life = self.life(number);
                life.stack = life.stack.or(block.stack);
                life.bytes = block.bytes.max(life.bytes);
            }
        }
        self.history
    }
}
