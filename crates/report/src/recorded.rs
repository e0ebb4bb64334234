//! A stream trace as lives: its uses say for which streams a freed block waits, and until when.
//!
//! A use ends when the last operation that it covers has ended on the device, if device times were
//! recorded, or else when the host was told so. A block whose memory is handed out again, or given
//! back, waits no longer: whoever did that knew the order.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use trace::pytorch::StreamHandle;
use trace::stream_trace::{Item, Operation, PlaceNumber, Recording, Subject, UseKind};
use trace::{BlockNumber, rounded_bytes};

use crate::history::{Event, EventKind, Failed, History, Life, NEVER};
use crate::ranges::Change;

/// Lives with what only a stream trace knows.
#[derive(Debug, Default)]
pub(crate) struct Recorded {
    pub(crate) history: History,
    pub(crate) changes: Vec<Change>,
    /// Where each life was allocated.
    pub(crate) places: Vec<Option<PlaceNumber>>,
    /// Where each request was made that found no room.
    pub(crate) failed_places: Vec<Option<PlaceNumber>>,
    /// For which streams each life waited when it was freed.
    pub(crate) awaited: Vec<Vec<usize>>,
}

/// The lives of a stream trace.
pub(crate) fn recorded(recording: &Recording) -> Recorded {
    let mut walk = Walk::new(recording);
    for entry in &recording.entries {
        walk.go_to(entry.host_ns);
        walk.take(&entry.item);
    }
    walk.go_to(u64::MAX);
    walk.recorded
}

/// What a block's end depends on.
#[derive(Debug, Default)]
struct Uses {
    life: usize,
    home: usize,
    /// By stream, how many of its operations are covered; absent: all that are there at the free.
    until: BTreeMap<usize, Option<usize>>,
    hold_count: usize,
    /// Freed, and not over.
    is_pending: bool,
    /// Ends that only the host's knowledge can show.
    unseen_count: usize,
    /// When the last end is that the device's times show.
    ready_ns: u64,
}

#[derive(Default)]
struct Walk {
    recorded: Recorded,
    now_ns: u64,
    /// When each operation ended.
    ends_ns: Vec<Option<u64>>,
    next_operation: usize,
    /// The ends of the operations of each stream, in order.
    queued: Vec<Vec<Option<u64>>>,
    /// How many operations of each stream the host knows to be over.
    done: Vec<usize>,
    /// The stream of each record, and how many operations came before it.
    records: Vec<(usize, usize)>,
    blocks: Vec<Uses>,
    /// Pending blocks by address, with their ends.
    pending: BTreeMap<u64, (u64, usize)>,
    /// When pending blocks are over.
    ready: BinaryHeap<Reverse<(u64, usize)>>,
    /// By stream, pending blocks that wait for the host to know of so many operations.
    unseen: Vec<BTreeMap<usize, Vec<usize>>>,
}

impl Walk {
    fn new(recording: &Recording) -> Self {
        let mut walk = Self::default();
        let stream_count = recording.streams.len();
        walk.recorded.history.streams =
            recording.streams.iter().map(|start| StreamHandle(start.id)).collect();
        walk.queued = vec![Vec::new(); stream_count];
        walk.done = vec![0; stream_count];
        walk.unseen = vec![BTreeMap::new(); stream_count];
        for entry in &recording.entries {
            if let Item::Operation(_) = &entry.item {
                walk.ends_ns.push(None);
            } else if let Item::DeviceTime { operation, end_ns, .. } = &entry.item {
                let place = usize::try_from(operation.0).ok();
                if let Some(end) = place.and_then(|place| walk.ends_ns.get_mut(place)) {
                    *end = Some(*end_ns);
                }
            }
        }
        walk
    }

    /// What the device had done by then is over.
    fn go_to(&mut self, host_ns: u64) {
        while let Some(&Reverse((end_ns, block))) = self.ready.peek()
            && end_ns <= host_ns
        {
            self.ready.pop();
            self.now_ns = self.now_ns.max(end_ns);
            self.complete(block);
        }
        if host_ns != u64::MAX {
            self.now_ns = self.now_ns.max(host_ns);
        }
    }

    fn take(&mut self, item: &Item) {
        match item {
            Item::Operation(operation) => self.operation(operation),
            Item::Record { stream, .. } => {
                let stream = stream.index();
                let count = self.queued.get(stream).map_or(0, Vec::len);
                self.records.push((stream, count));
            }
            Item::Synchronize { subject, .. } | Item::Passed { subject, .. } => self.seen(*subject),
            Item::Allocate { .. } => self.allocate(item),
            Item::Use { block, stream, kind, .. } => {
                let count = self.queued.get(stream.index()).map_or(0, Vec::len);
                let until = (*kind != UseKind::UntilFree).then_some(count);
                self.used(*block, stream.index(), until);
            }
            Item::UseEnd { block, stream, .. } => {
                if let Some(uses) = self.uses(*block) {
                    uses.until.remove(&stream.index());
                }
            }
            Item::Hold { block, .. } => {
                if let Some(uses) = self.uses(*block) {
                    uses.hold_count += 1;
                }
            }
            Item::HoldEnd { block } => self.hold_ended(*block),
            Item::Free { block, .. } => self.free(*block),
            Item::Move { block, stream, .. } => {
                if let Some(uses) = self.uses(*block) {
                    uses.home = stream.index();
                }
            }
            Item::Segment { address, bytes, opened } => self.segment(*address, *bytes, *opened),
            Item::OutOfMemory { requested_bytes, place, .. } => {
                let moment = self.event(EventKind::OutOfMemory);
                let (bytes, device_free_bytes, stack) = (*requested_bytes, 0, None);
                let failed = Failed { moment, bytes, device_free_bytes, stack };
                self.recorded.history.failed.push(failed);
                self.recorded.failed_places.push(*place);
            }
            Item::Text { .. }
            | Item::Place { .. }
            | Item::Setting { .. }
            | Item::Stream(_)
            | Item::StreamEnd { .. }
            | Item::DeviceTime { .. }
            | Item::Wait { .. }
            | Item::Capture { .. }
            | Item::Figure { .. } => {}
        }
    }

    fn operation(&mut self, operation: &Operation) {
        let end_ns = self.ends_ns.get(self.next_operation).copied().flatten();
        self.next_operation += 1;
        // What goes into a graph runs when that is launched.
        if operation.is_captured {
            return;
        }
        let stream = operation.stream.index();
        let Some(queued) = self.queued.get_mut(stream) else { return };
        queued.push(end_ns);
        let count = queued.len();
        for block in operation.touches.iter().filter_map(|touch| touch.block) {
            self.used(block, stream, Some(count));
        }
    }

    /// A stream uses a block until so many of its operations are over, or until the free.
    fn used(&mut self, block: BlockNumber, stream: usize, until: Option<usize>) {
        let Some(uses) = self.uses(block) else { return };
        let known = uses.until.entry(stream).or_insert(until);
        // Absent is the later one.
        *known = match (*known, until) {
            (Some(one), Some(other)) => Some(one.max(other)),
            _ => None,
        };
    }

    fn allocate(&mut self, item: &Item) {
        let Item::Allocate { stream, requested_bytes, bytes, address, place, .. } = item else {
            return;
        };
        self.complete_within(*address, *bytes);
        let from = self.event(EventKind::Alloc);
        let home = stream.index();
        let life = self.recorded.history.lives.len();
        self.recorded.history.lives.push(Life {
            address: *address,
            requested_bytes: *requested_bytes,
            bytes: rounded_bytes(*requested_bytes).max(*bytes),
            stream: home,
            from,
            freed: NEVER,
            completed: NEVER,
            stack: None,
            noted: None,
        });
        self.recorded.places.push(*place);
        self.recorded.awaited.push(Vec::new());
        self.blocks.push(Uses { life, home, ..Uses::default() });
    }

    fn free(&mut self, block: BlockNumber) {
        let number = block.index();
        let Some(uses) = self.blocks.get_mut(number) else { return };
        let mut awaited = Vec::new();
        for (&stream, &until) in uses.until.iter().filter(|(stream, _)| **stream != uses.home) {
            let Some(queued) = self.queued.get(stream) else { continue };
            let count = until.unwrap_or(queued.len());
            if count <= self.done.get(stream).copied().unwrap_or(0) {
                continue;
            }
            match count.checked_sub(1).and_then(|last| queued.get(last)) {
                Some(Some(end_ns)) if *end_ns <= self.now_ns => continue,
                Some(Some(end_ns)) => uses.ready_ns = uses.ready_ns.max(*end_ns),
                Some(None) | None => {
                    uses.unseen_count += 1;
                    if let Some(unseen) = self.unseen.get_mut(stream) {
                        unseen.entry(count).or_default().push(number);
                    }
                }
            }
            awaited.push(stream);
        }
        let is_pending = !awaited.is_empty() || 0 < uses.hold_count;
        uses.is_pending = is_pending;
        uses.unseen_count += uses.hold_count;
        let life = uses.life;
        let now = self.event(if is_pending { EventKind::FreeRequested } else { EventKind::Free });
        if let Some(life) = self.recorded.history.lives.get_mut(life) {
            life.freed = now;
            life.completed = if is_pending { NEVER } else { now };
            if is_pending {
                self.pending
                    .insert(life.address, (life.address.saturating_add(life.bytes), number));
            }
        }
        if let Some(list) = self.recorded.awaited.get_mut(life) {
            *list = awaited;
        }
        self.schedule(number);
    }

    /// Once everything unseen was seen, the device's times say when a block is over.
    fn schedule(&mut self, number: usize) {
        let Some(uses) = self.blocks.get(number) else { return };
        if uses.is_pending && uses.unseen_count == 0 {
            if uses.ready_ns <= self.now_ns {
                self.complete(number);
            } else {
                self.ready.push(Reverse((uses.ready_ns, number)));
            }
        }
    }

    fn complete(&mut self, number: usize) {
        let Some(uses) = self.blocks.get_mut(number).filter(|uses| uses.is_pending) else { return };
        uses.is_pending = false;
        let life = uses.life;
        let now = self.event(EventKind::FreeCompleted);
        if let Some(life) = self.recorded.history.lives.get_mut(life) {
            life.completed = now;
            self.pending.remove(&life.address);
        }
    }

    /// Pending blocks within these addresses wait no longer.
    fn complete_within(&mut self, address: u64, bytes: u64) {
        let end = address.saturating_add(bytes);
        let mut over = Vec::new();
        for (_, &(its_end, number)) in self.pending.range(..end).rev() {
            if its_end <= address {
                break;
            }
            over.push(number);
        }
        for number in over {
            self.complete(number);
        }
    }

    fn hold_ended(&mut self, block: BlockNumber) {
        let Some(uses) = self.uses(block) else { return };
        uses.hold_count = uses.hold_count.saturating_sub(1);
        if uses.is_pending {
            uses.unseen_count = uses.unseen_count.saturating_sub(1);
            self.schedule(block.index());
        }
    }

    /// The host was told that something is over.
    fn seen(&mut self, subject: Subject) {
        match subject {
            Subject::Record(record) => {
                let place = usize::try_from(record.0).ok();
                if let Some((stream, count)) = place.and_then(|it| self.records.get(it)).copied() {
                    self.stream_seen(stream, count);
                }
            }
            Subject::Stream(stream) => self.stream_seen(stream.index(), usize::MAX),
            Subject::Context | Subject::Everything => {
                for stream in 0..self.queued.len() {
                    self.stream_seen(stream, usize::MAX);
                }
            }
        }
    }

    fn stream_seen(&mut self, stream: usize, count: usize) {
        let Some(queued) = self.queued.get(stream) else { return };
        let count = count.min(queued.len());
        if let Some(done) = self.done.get_mut(stream) {
            *done = count.max(*done);
        }
        let Some(unseen) = self.unseen.get_mut(stream) else { return };
        let later = unseen.split_off(&count.saturating_add(1));
        let seen = std::mem::replace(unseen, later);
        for number in seen.into_values().flatten() {
            if let Some(uses) = self.blocks.get_mut(number) {
                uses.unseen_count = uses.unseen_count.saturating_sub(1);
            }
            self.schedule(number);
        }
    }

    fn segment(&mut self, address: u64, bytes: u64, is_gain: bool) {
        if !is_gain {
            self.complete_within(address, bytes);
        }
        let kind = if is_gain { EventKind::SegmentAlloc } else { EventKind::SegmentFree };
        let moment = self.event(kind);
        // A trace does not say whose a segment is. One that grew in place came in several parts.
        let stream = self.recorded.history.streams.first().copied().unwrap_or(StreamHandle(0));
        let (pool, is_expandable) = ((0, 0), true);
        let change = Change { moment, address, bytes, stream, pool, is_gain, is_expandable };
        self.recorded.changes.push(change);
    }

    fn uses(&mut self, block: BlockNumber) -> Option<&mut Uses> {
        self.blocks.get_mut(block.index())
    }

    /// Something happens now; gives the moment after it.
    fn event(&mut self, kind: EventKind) -> u32 {
        let time_us = i64::try_from(self.now_ns / 1000).unwrap_or(i64::MAX);
        self.recorded.history.events.push(Event { kind, time_us });
        self.recorded.history.end()
    }
}
