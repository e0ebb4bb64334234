//! Makes a snapshot of a stream trace: entries as PyTorch writes them, and the segments at the
//! end, with the blocks that are in them.
//!
//! A block that other streams used is freed in two steps, as PyTorch does it: it is complete when
//! the host learned that those uses are over, or when its memory is given out again.

use std::collections::BTreeMap;

use super::ranges::Ranges;
use super::uses::{Point, Queues};
use super::{LeftOut, MADE_FROM, left_out, tile};
use crate::pytorch::{
    Action, Block, BlockState, Entry, Segment, Snapshot, StackId, StacksBuilder, StreamHandle,
};
use crate::stream_trace::{Item, Operation, PlaceNumber, Recording, StreamKind, UseKind};
use crate::{BlockNumber, Origin, StreamNumber};

/// The snapshot that PyTorch would have taken at the end of `recording`, and what it cannot hold.
///
/// Its one device is number 0. A stream's handle is 0 for the legacy default stream, else the
/// identity that the trace gives it. Blocks keep the length that they were given; frames are the
/// places in the source, without a function's name.
#[must_use]
pub fn snapshot_of(recording: &Recording) -> (Snapshot, Vec<LeftOut>) {
    let mut maker = Maker::new(recording);
    for entry in &recording.entries {
        maker.time_us = time_us(recording.unix_ns, entry.host_ns);
        maker.take(&entry.item);
    }
    maker.finish()
}

fn time_us(unix_ns: u64, host_ns: u64) -> i64 {
    i64::try_from(unix_ns.saturating_add(host_ns) / 1000).unwrap_or(i64::MAX)
}

/// A block of the trace.
#[derive(Debug)]
struct Life {
    address: u64,
    requested_bytes: u64,
    bytes: u64,
    stream: StreamNumber,
    stack: Option<StackId>,
    state: State,
    /// The last use by each stream but its home.
    uses: Vec<Point>,
    /// Streams that use it until its free.
    until_free: Vec<StreamNumber>,
    hold_count: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Live,
    Pending,
    Gone,
}

#[derive(Debug, Default)]
struct Counts {
    operations: usize,
    records: usize,
    waits: usize,
    synchronizations: usize,
    uses: usize,
    holds: usize,
    captures: usize,
    device_times: usize,
    settings: usize,
}

struct Maker {
    handles: Vec<StreamHandle>,
    stacks: StacksBuilder,
    place_stacks: Vec<Option<StackId>>,
    entries: Vec<Entry>,
    time_us: i64,
    blocks: Vec<Life>,
    /// Blocks that are live or pending, by address.
    present: BTreeMap<u64, BlockNumber>,
    pending: Vec<BlockNumber>,
    segments: Ranges,
    queues: Queues,
    counts: Counts,
    origin: Origin,
}

impl Maker {
    fn new(recording: &Recording) -> Self {
        let mut stacks = StacksBuilder::default();
        let place_stacks = recording
            .places
            .iter()
            .map(|place| {
                let frame = stacks.add_frame(&place.file, place.line, "")?;
                stacks.add_stack(&[frame])
            })
            .collect();
        Self {
            handles: handles(recording),
            stacks,
            place_stacks,
            entries: Vec::new(),
            time_us: 0,
            blocks: Vec::new(),
            present: BTreeMap::new(),
            pending: Vec::new(),
            segments: Ranges::default(),
            queues: Queues::default(),
            counts: Counts::default(),
            origin: origin(recording),
        }
    }

    fn take(&mut self, item: &Item) {
        match *item {
            Item::Stream(_) => self.queues.open_stream(),
            Item::Operation(ref operation) => self.operate(operation),
            Item::Record { stream, .. } => {
                self.counts.records += 1;
                self.queues.record(stream);
            }
            Item::Wait { stream, .. } => {
                self.counts.waits += 1;
                self.queues.submit(stream);
            }
            Item::Synchronize { subject, .. } | Item::Passed { subject, .. } => {
                self.counts.synchronizations += 1;
                self.queues.pass(subject);
                self.complete_passed();
            }
            Item::Allocate { stream, requested_bytes, bytes, address, place, .. } => {
                self.allocate(stream, [address, requested_bytes, bytes], place);
            }
            Item::Use { block, stream, kind, .. } => self.add_use(block, stream, kind),
            Item::UseEnd { block, stream, .. } => self.end_use(block, stream),
            Item::Hold { block, .. } => {
                self.counts.holds += 1;
                if let Some(life) = self.blocks.get_mut(block.index()) {
                    life.hold_count += 1;
                }
            }
            Item::HoldEnd { block } => {
                if let Some(life) = self.blocks.get_mut(block.index()) {
                    life.hold_count = life.hold_count.saturating_sub(1);
                }
                self.complete_passed();
            }
            Item::Free { block, place } => self.free(block, place),
            Item::Move { block, stream, .. } => {
                if let Some(life) = self.blocks.get_mut(block.index()) {
                    life.stream = stream;
                }
            }
            Item::Segment { address, bytes, opened } => self.segment(address, bytes, opened),
            Item::OutOfMemory { stream, requested_bytes, place } => {
                self.entry(Action::OutOfMemory, 0, requested_bytes, stream, place);
            }
            Item::Capture { .. } => self.counts.captures += 1,
            Item::DeviceTime { .. } => self.counts.device_times += 1,
            Item::Setting { .. } | Item::Figure { .. } => self.counts.settings += 1,
            Item::StreamEnd { .. } | Item::Text { .. } | Item::Place { .. } => {}
        }
    }

    fn operate(&mut self, operation: &Operation) {
        self.counts.operations += 1;
        let point = self.queues.submit(operation.stream);
        for touch in &operation.touches {
            if let Some(block) = touch.block {
                self.use_at(block, point);
            }
        }
    }

    fn add_use(&mut self, block: BlockNumber, stream: StreamNumber, kind: UseKind) {
        self.counts.uses += 1;
        match kind {
            UseKind::UntilFree => {
                if let Some(life) = self.blocks.get_mut(block.index()) {
                    life.until_free.push(stream);
                }
            }
            UseKind::UntilNow | UseKind::ByOperation => {
                self.use_at(block, self.queues.now(stream));
            }
        }
    }

    fn use_at(&mut self, block: BlockNumber, point: Point) {
        let Some(life) = self.blocks.get_mut(block.index()) else { return };
        if life.stream == point.stream {
            return;
        }
        match life.uses.iter_mut().find(|it| it.stream == point.stream) {
            Some(known) => known.position = known.position.max(point.position),
            None => life.uses.push(point),
        }
    }

    fn end_use(&mut self, block: BlockNumber, stream: StreamNumber) {
        if let Some(life) = self.blocks.get_mut(block.index()) {
            life.uses.retain(|point| point.stream != stream);
            life.until_free.retain(|until| *until != stream);
        }
        self.complete_passed();
    }

    fn allocate(
        &mut self,
        stream: StreamNumber,
        [address, requested_bytes, bytes]: [u64; 3],
        place: Option<PlaceNumber>,
    ) {
        self.complete_within(address, address.saturating_add(bytes.max(1)), false);
        let count = self.blocks.len();
        let number = BlockNumber(u32::try_from(count).expect("a trace numbers blocks so"));
        self.blocks.push(Life {
            address,
            requested_bytes,
            bytes,
            stream,
            stack: self.stack(place),
            state: State::Live,
            uses: Vec::new(),
            until_free: Vec::new(),
            hold_count: 0,
        });
        self.present.insert(address, number);
        self.entry(Action::Alloc, address, requested_bytes, stream, place);
    }

    fn free(&mut self, block: BlockNumber, place: Option<PlaceNumber>) {
        let Some(life) = self.blocks.get_mut(block.index()) else { return };
        if life.state != State::Live {
            return;
        }
        life.state = State::Pending;
        let (address, bytes, home) = (life.address, life.requested_bytes, life.stream);
        for stream in std::mem::take(&mut life.until_free) {
            // As PyTorch does, which records an event on that stream here.
            let point = self.queues.submit(stream);
            self.use_at(block, point);
        }
        self.entry(Action::FreeRequested, address, bytes, home, place);
        if self.is_done(block) {
            self.complete(block);
        } else {
            self.pending.push(block);
        }
    }

    fn is_done(&self, block: BlockNumber) -> bool {
        let Some(life) = self.life(block) else { return true };
        life.hold_count == 0 && life.uses.iter().all(|point| self.queues.is_over(*point))
    }

    fn complete_passed(&mut self) {
        let pending = std::mem::take(&mut self.pending);
        for block in pending {
            if self.life(block).is_none_or(|life| life.state != State::Pending) {
                continue;
            }
            if self.is_done(block) {
                self.complete(block);
            } else {
                self.pending.push(block);
            }
        }
    }

    /// The memory at `start..end` is given out again, or goes back: nobody uses it any more.
    fn complete_within(&mut self, start: u64, end: u64, only_pending: bool) {
        let before = self.present.range(..end).rev();
        let there: Vec<BlockNumber> = before
            .map(|(_, number)| *number)
            .take_while(|number| self.life(*number).is_some_and(|life| start < life.end()))
            .collect();
        for number in there {
            let is_pending = self.life(number).is_some_and(|life| life.state == State::Pending);
            if is_pending || !only_pending {
                self.complete(number);
            }
        }
    }

    /// No stream uses the memory of `block` any more, or it is given out again.
    fn complete(&mut self, block: BlockNumber) {
        let Some(life) = self.blocks.get_mut(block.index()) else { return };
        let (address, bytes, home, state) =
            (life.address, life.requested_bytes, life.stream, life.state);
        life.state = State::Gone;
        life.uses = Vec::new();
        if self.present.get(&address) == Some(&block) {
            self.present.remove(&address);
        }
        match state {
            State::Live => {
                self.entry(Action::FreeRequested, address, bytes, home, None);
                self.entry(Action::FreeCompleted, address, bytes, home, None);
            }
            State::Pending => self.entry(Action::FreeCompleted, address, bytes, home, None),
            State::Gone => {}
        }
    }

    fn segment(&mut self, address: u64, bytes: u64, opened: bool) {
        let end = address.saturating_add(bytes);
        if !opened {
            // What goes back to the device is used by nobody any more.
            self.complete_within(address, end, true);
        }
        let action = if opened {
            self.segments.add(address, end);
            Action::SegmentAlloc
        } else {
            self.segments.remove(address, end);
            Action::SegmentFree
        };
        self.put(action, address, bytes, StreamHandle(0), None);
    }

    fn entry(
        &mut self,
        action: Action,
        address: u64,
        bytes: u64,
        stream: StreamNumber,
        place: Option<PlaceNumber>,
    ) {
        let handle = self.handles.get(stream.index()).copied().unwrap_or(StreamHandle(0));
        let stack = self.stack(place);
        self.put(action, address, bytes, handle, stack);
    }

    fn put(
        &mut self,
        action: Action,
        address: u64,
        bytes: u64,
        stream: StreamHandle,
        stack: Option<StackId>,
    ) {
        let time_us = self.time_us;
        let (pool, metadata, compile_context) = (None, None, None);
        self.entries.push(Entry {
            action,
            address,
            bytes,
            stream,
            time_us,
            stack,
            pool,
            metadata,
            compile_context,
        });
    }

    fn stack(&self, place: Option<PlaceNumber>) -> Option<StackId> {
        let index = usize::try_from(place?.0).ok()?;
        *self.place_stacks.get(index)?
    }

    fn life(&self, block: BlockNumber) -> Option<&Life> {
        self.blocks.get(block.index())
    }

    fn finish(mut self) -> (Snapshot, Vec<LeftOut>) {
        // A log of RMM has none, and a stream trace made of one has those of its blocks at most.
        let is_log = self.origin == Origin::RmmLog;
        let segments = if is_log { Vec::new() } else { self.final_segments() };
        let (counts, origin) = (&self.counts, self.origin);
        let left_out = left_out(&[
            ("operations", counts.operations),
            ("event records", counts.records),
            ("waits of streams", counts.waits),
            ("synchronizations and queries", counts.synchronizations),
            ("uses by streams", counts.uses),
            ("holds", counts.holds),
            ("marks of captures", counts.captures),
            ("device times", counts.device_times),
            ("settings and figures", counts.settings),
        ]);
        let device_traces = vec![std::mem::take(&mut self.entries)];
        let stacks = self.stacks.build();
        (Snapshot { origin, segments, device_traces, stacks, ..Snapshot::default() }, left_out)
    }

    /// The ranges that the device has given, tiled with the blocks that are there at the end. A
    /// block outside of them, or one that lies in two, gets a segment that holds it whole.
    fn final_segments(&self) -> Vec<Segment> {
        let mut ranges = self.segments.clone();
        for number in self.present.values() {
            if let Some(life) = self.life(*number) {
                ranges.join(life.address, life.end());
            }
        }
        ranges.iter().map(|(start, end)| self.final_segment(start, end)).collect()
    }

    fn final_segment(&self, start: u64, end: u64) -> Segment {
        let present = self.present.range(start..end);
        let lives = || present.clone().filter_map(|(_, number)| self.life(*number));
        let handle = |life: &Life| self.handles.get(life.stream.index()).copied();
        let stream = lives().find_map(handle).unwrap_or(StreamHandle(0));
        let blocks = lives().map(|life| Block {
            address: life.address,
            bytes: life.bytes,
            requested_bytes: life.requested_bytes,
            state: match life.state {
                State::Live => BlockState::Allocated,
                State::Pending | State::Gone => BlockState::PendingFree,
            },
            stack: life.stack,
        });
        tile::segment(0, (start, end), stream, blocks)
    }
}

impl Life {
    fn end(&self) -> u64 {
        self.address.saturating_add(self.bytes)
    }
}

/// What the snapshot is made of: what the trace was itself made of where that was a log, which no
/// detour gives uses or segments.
fn origin(recording: &Recording) -> Origin {
    let is_log = recording.setting(MADE_FROM).and_then(Origin::of_mark) == Some(Origin::RmmLog);
    if is_log { Origin::RmmLog } else { Origin::StreamTrace }
}

/// A handle for each stream, no two alike: its identity, if no other stream has that.
fn handles(recording: &Recording) -> Vec<StreamHandle> {
    let mut taken = std::collections::HashSet::from([0]);
    let mut handles = Vec::new();
    for start in &recording.streams {
        if start.kind == StreamKind::Legacy {
            handles.push(StreamHandle(0));
            continue;
        }
        let mut handle = start.id;
        while !taken.insert(handle) {
            handle = handle.wrapping_add(1);
        }
        handles.push(StreamHandle(handle));
    }
    handles
}
