//! What is told of streams and memory, as entries of a trace.
//!
//! The trace numbers things in the order in which they appear; here stands which number is whose.
//! What is kept is bounded by what lives: streams, blocks, operations that have not ended, and the
//! last records of events.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fs::File;
use std::io;
use std::thread::ThreadId;

use allocator::observe as memory;
use streams::observe::{self as order, RecordId};
use trace::stream_trace::{
    Access, EventId, Item, Maker, Operation, OperationKind, OperationNumber, PlaceNumber,
    RecordNumber, ServedBy, StreamKind, StreamStart, Subject, Touch, UseKind, Writer,
};
use trace::{BlockNumber, StreamNumber};

/// Records that may still be waited for. An older one that is waited for after all is a wait for
/// something unknown.
const RECORDS_KEPT: usize = 1 << 16;

/// Operations of one stream that may still get a time: more than any device has queued. Where no
/// end is ever told, as on streams that nobody could time, the oldest go.
const RUNNING_KEPT: usize = 1 << 14;

/// A block that may still be named.
#[derive(Debug)]
struct LiveBlock {
    number: BlockNumber,
    bytes: u64,
    hold_count: u32,
    is_freed: bool,
}

/// A trace under way.
#[derive(Debug)]
pub(super) struct Entries {
    writer: Writer<File>,
    streams: HashMap<u64, StreamNumber>,
    records: HashMap<RecordId, RecordNumber>,
    records_by_age: VecDeque<RecordId>,
    /// By address.
    blocks: BTreeMap<u64, LiveBlock>,
    /// Since when a thread has been waiting.
    waiting: HashMap<ThreadId, u64>,
    /// By stream: operations of which the end was not told, by their place there.
    running: HashMap<u64, VecDeque<(u64, OperationNumber)>>,
    /// The host's time when the device's began.
    device_begin_ns: u64,
    wants_times: bool,
}

impl Entries {
    pub(super) fn new(writer: Writer<File>, wants_times: bool) -> Self {
        Self {
            writer,
            streams: HashMap::new(),
            records: HashMap::new(),
            records_by_age: VecDeque::new(),
            blocks: BTreeMap::new(),
            waiting: HashMap::new(),
            running: HashMap::new(),
            device_begin_ns: 0,
            wants_times,
        }
    }

    pub(super) fn put(&mut self, now_ns: u64, item: &Item) -> io::Result<()> {
        self.writer.put(now_ns, item)
    }

    pub(super) fn finish(self) -> io::Result<()> {
        self.writer.finish().map(drop)
    }

    /// Writes what happened on a stream.
    pub(super) fn of_streams(
        &mut self,
        now_ns: u64,
        happening: &order::Happening<'_>,
    ) -> io::Result<()> {
        use order::What;
        let place = self.place(happening.place)?;
        match happening.what {
            What::StreamOpened { stream, kind, priority, .. } => {
                let kind = match kind {
                    order::StreamKind::Owned => StreamKind::Owned,
                    order::StreamKind::Legacy => StreamKind::Legacy,
                    order::StreamKind::PerThread => StreamKind::PerThread,
                    order::StreamKind::Borrowed | _ => StreamKind::Borrowed,
                };
                self.open_stream(now_ns, StreamStart { id: stream, kind, priority, place })?;
                Ok(())
            }
            What::StreamRetired { stream } => {
                let Some(stream) = self.streams.remove(&stream) else { return Ok(()) };
                self.put(now_ns, &Item::StreamEnd { stream, place })
            }
            What::HandleGivenOut { stream } => {
                let kind = OperationKind::Unknown;
                let told = Told { stream, kind, name: None, is_captured: false, place };
                self.operate(now_ns, &told, &[]).map(drop)
            }
            What::Submitted { stream, ordinal, capture, operation, accesses } => {
                let (kind, name) = named(operation);
                let is_captured = capture.is_some();
                let told = Told { stream, kind, name: Some(name), is_captured, place };
                let number = self.operate(now_ns, &told, accesses)?;
                if !is_captured && self.wants_times {
                    let running = self.running.entry(stream).or_default();
                    running.push_back((ordinal, number));
                    if RUNNING_KEPT < running.len() {
                        running.pop_front();
                    }
                }
                Ok(())
            }
            What::Recorded { .. } | What::Waited { .. } => {
                self.order(now_ns, happening.what, place)
            }
            What::SynchronizationBegun { .. } => {
                self.waiting.insert(std::thread::current().id(), now_ns);
                Ok(())
            }
            What::Passed { scope, how, .. } => self.passed(now_ns, scope, how, place),
            What::CaptureBegun { stream, .. } => self.capture(now_ns, stream, true, place),
            What::CaptureEnded { stream, .. } => self.capture(now_ns, stream, false, place),
            What::ClockStarted { .. } => {
                self.device_begin_ns = now_ns;
                Ok(())
            }
            What::Ended { stream, ordinal, nanoseconds } => {
                self.ended(now_ns, stream, (ordinal, nanoseconds))
            }
            // They change no order.
            What::WaitSkipped { .. }
            | What::NothingToWaitFor { .. }
            | What::GraphGone { .. }
            | _ => Ok(()),
        }
    }

    /// Writes what happened to memory.
    pub(super) fn of_memory(
        &mut self,
        now_ns: u64,
        happening: &memory::Happening,
    ) -> io::Result<()> {
        use memory::What;
        let place = self.place(happening.place)?;
        match happening.what {
            What::Opened { address, bytes } => {
                self.put(now_ns, &Item::Segment { address, bytes, opened: true })
            }
            What::Closed { address, bytes } => {
                self.put(now_ns, &Item::Segment { address, bytes, opened: false })
            }
            What::Allocated { .. } => self.allocate(now_ns, happening.what, place),
            What::Used { address, stream, kind } => {
                let kind = match kind {
                    memory::UseKind::WholeStream => UseKind::UntilFree,
                    memory::UseKind::UntilNow => UseKind::UntilNow,
                    // The operation itself says what it touches.
                    memory::UseKind::Begun
                    | memory::UseKind::Submitted
                    | memory::UseKind::Captured
                    | memory::UseKind::Cancelled
                    | _ => return Ok(()),
                };
                let Some(block) = self.block_at(address) else { return Ok(()) };
                let stream = self.stream(now_ns, stream)?;
                self.put(now_ns, &Item::Use { block, stream, kind, place })
            }
            What::Moved { address, stream } => {
                let Some(block) = self.block_at(address) else { return Ok(()) };
                let stream = self.stream(now_ns, stream)?;
                self.put(now_ns, &Item::Move { block, stream, place })
            }
            What::Held { address } => {
                let Some(live) = self.blocks.get_mut(&address) else { return Ok(()) };
                live.hold_count += 1;
                let block = live.number;
                self.put(now_ns, &Item::Hold { block, place })
            }
            What::HoldEnded { address } => {
                let Some(live) = self.blocks.get_mut(&address) else { return Ok(()) };
                live.hold_count = live.hold_count.saturating_sub(1);
                let (block, is_over) = (live.number, live.is_freed && live.hold_count == 0);
                if is_over {
                    self.blocks.remove(&address);
                }
                self.put(now_ns, &Item::HoldEnd { block })
            }
            What::Freed { address, .. } => {
                let Some(live) = self.blocks.get_mut(&address) else { return Ok(()) };
                live.is_freed = true;
                let (block, is_over) = (live.number, live.hold_count == 0);
                if is_over {
                    self.blocks.remove(&address);
                }
                self.put(now_ns, &Item::Free { block, place })
            }
            What::OutOfMemory { requested, stream } => {
                let stream = self.stream(now_ns, stream)?;
                self.put(now_ns, &Item::OutOfMemory { stream, requested_bytes: requested, place })
            }
            _ => Ok(()),
        }
    }

    fn place(&mut self, place: Option<order::Place>) -> io::Result<Option<PlaceNumber>> {
        place.map(|at| self.writer.place(at.file(), at.line(), at.column())).transpose()
    }

    fn open_stream(&mut self, now_ns: u64, start: StreamStart) -> io::Result<StreamNumber> {
        let number = self.writer.next_stream();
        self.put(now_ns, &Item::Stream(start))?;
        self.streams.insert(start.id, number);
        Ok(number)
    }

    /// The number of a stream; of one that nobody told of, a new one.
    fn stream(&mut self, now_ns: u64, id: u64) -> io::Result<StreamNumber> {
        if let Some(&number) = self.streams.get(&id) {
            return Ok(number);
        }
        let kind = StreamKind::Borrowed;
        self.open_stream(now_ns, StreamStart { id, kind, priority: 0, place: None })
    }

    fn block_at(&self, address: u64) -> Option<BlockNumber> {
        self.blocks.get(&address).map(|live| live.number)
    }

    fn operate(
        &mut self,
        now_ns: u64,
        told: &Told<'_>,
        accesses: &[order::Accessed],
    ) -> io::Result<OperationNumber> {
        let stream = self.stream(now_ns, told.stream)?;
        let name = told.name.map(|name| self.writer.text(name)).transpose()?;
        let touches = accesses.iter().map(|accessed| self.touch(accessed)).collect();
        let number = self.writer.next_operation();
        let (kind, is_captured, place) = (told.kind, told.is_captured, told.place);
        let operation = Operation { stream, kind, is_captured, name, place, touches };
        self.put(now_ns, &Item::Operation(operation))?;
        Ok(number)
    }

    fn touch(&self, accessed: &order::Accessed) -> Touch {
        let below = self.blocks.range(..=accessed.address).next_back();
        let within = below.filter(|(start, live)| accessed.address - *start < live.bytes);
        Touch {
            block: within.map(|(_, live)| live.number),
            offset: within.map_or(accessed.address, |(start, _)| accessed.address - start),
            bytes: accessed.bytes,
            access: match accessed.access {
                streams::Access::Read => Access::Read,
                streams::Access::Write => Access::Write,
                streams::Access::ReadWrite => Access::ReadWrite,
            },
        }
    }

    /// A record or a wait; those of a capture happen with its graph.
    fn order(
        &mut self,
        now_ns: u64,
        what: order::What<'_>,
        place: Option<PlaceNumber>,
    ) -> io::Result<()> {
        let maker = |by| match by {
            order::By::Program => Maker::Program,
            order::By::Library => Maker::Library,
        };
        if let order::What::Recorded { stream, capture: None, record, by, .. } = what {
            let stream = self.stream(now_ns, stream)?;
            self.keep_record(record, self.writer.next_record());
            let (event, maker) = (EventId(record.event), maker(by));
            return self.put(now_ns, &Item::Record { stream, event, maker, place });
        }
        if let order::What::Waited { stream, capture: None, on, by, .. } = what {
            let stream = self.stream(now_ns, stream)?;
            let record = match on {
                order::WaitedFor::Record(record) => self.records.get(&record).copied(),
                order::WaitedFor::Unknown { .. } | _ => None,
            };
            return self.put(now_ns, &Item::Wait { stream, record, maker: maker(by), place });
        }
        Ok(())
    }

    fn keep_record(&mut self, record: RecordId, number: RecordNumber) {
        self.records.insert(record, number);
        self.records_by_age.push_back(record);
        if RECORDS_KEPT < self.records_by_age.len()
            && let Some(oldest) = self.records_by_age.pop_front()
        {
            self.records.remove(&oldest);
        }
    }

    fn passed(
        &mut self,
        now_ns: u64,
        scope: order::Scope,
        how: order::How,
        place: Option<PlaceNumber>,
    ) -> io::Result<()> {
        let waited = how == order::How::Synchronization;
        let begun_ns =
            if waited { self.waiting.remove(&std::thread::current().id()) } else { None };
        let subject = match scope {
            order::Scope::Record(record) => self.records.get(&record).copied().map(Subject::Record),
            order::Scope::Stream { stream } => Some(Subject::Stream(self.stream(now_ns, stream)?)),
            order::Scope::Context { .. } => Some(Subject::Context),
            order::Scope::Event { .. } | _ => None,
        };
        let (Some(subject), maker) = (subject, Maker::Program) else { return Ok(()) };
        if !waited {
            return self.put(now_ns, &Item::Passed { subject, maker, place });
        }
        let blocked_ns = begun_ns.map_or(0, |begun| now_ns.saturating_sub(begun));
        self.put(now_ns, &Item::Synchronize { subject, blocked_ns, maker, place })
    }

    fn capture(
        &mut self,
        now_ns: u64,
        stream: u64,
        begins: bool,
        place: Option<PlaceNumber>,
    ) -> io::Result<()> {
        let stream = self.stream(now_ns, stream)?;
        self.put(now_ns, &Item::Capture { stream, begins, place })
    }

    fn ended(
        &mut self,
        now_ns: u64,
        stream: u64,
        (ordinal, nanoseconds): (u64, u64),
    ) -> io::Result<()> {
        let Some(running) = self.running.get_mut(&stream) else { return Ok(()) };
        // What is before it has no time, and gets none any more.
        while running.front().is_some_and(|(first, _)| *first < ordinal) {
            running.pop_front();
        }
        let Some((_, operation)) = running.pop_front_if(|(first, _)| *first == ordinal) else {
            return Ok(());
        };
        if running.is_empty() {
            self.running.remove(&stream);
        }
        let end_ns = self.device_begin_ns.saturating_add(nanoseconds);
        self.put(now_ns, &Item::DeviceTime { operation, start_ns: None, end_ns })
    }

    fn allocate(
        &mut self,
        now_ns: u64,
        what: memory::What,
        place: Option<PlaceNumber>,
    ) -> io::Result<()> {
        let memory::What::Allocated { address, size, requested, stream, step, .. } = what else {
            return Ok(());
        };
        let served_by = match step {
            memory::ServedStep::OwnStream => ServedBy::OwnStream,
            memory::ServedStep::KnownOrder => ServedBy::KnownOrder,
            memory::ServedStep::Completion => ServedBy::Completion,
            memory::ServedStep::DeviceWait => ServedBy::DeviceWait,
            memory::ServedStep::Growth => ServedBy::Growth,
            memory::ServedStep::Ladder => ServedBy::Ladder,
            _ => ServedBy::Unknown,
        };
        let stream = self.stream(now_ns, stream)?;
        let number = self.writer.next_block();
        let live = LiveBlock { number, bytes: size, hold_count: 0, is_freed: false };
        self.blocks.insert(address, live);
        self.put(
            now_ns,
            &Item::Allocate {
                stream,
                requested_bytes: requested,
                bytes: size,
                address,
                served_by,
                place,
            },
        )
    }
}

/// An operation, but for what it touches.
struct Told<'a> {
    stream: u64,
    kind: OperationKind,
    name: Option<&'a str>,
    is_captured: bool,
    place: Option<PlaceNumber>,
}

/// The kind of an operation, and what it is called.
fn named(operation: order::Operation<'_>) -> (OperationKind, &str) {
    match operation {
        order::Operation::Launch { kernel } => (OperationKind::Launch, kernel),
        order::Operation::CopyToDevice => (OperationKind::Copy, "copy to device"),
        order::Operation::CopyToHost => (OperationKind::Copy, "copy to host"),
        order::Operation::CopyOnDevice => (OperationKind::Copy, "copy on device"),
        order::Operation::Fill => (OperationKind::Fill, "fill"),
        order::Operation::HostFunction => (OperationKind::HostFunction, "host function"),
        order::Operation::Graph { .. } => (OperationKind::GraphLaunch, "graph"),
        _ => (OperationKind::Unknown, "unknown"),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use trace::stream_trace::Writer;

    use super::{Entries, RUNNING_KEPT, order};

    /// Was: operations on a stream that nobody could time, such as the legacy default stream in a
    /// program that makes no other, were all kept for an end that never came.
    #[test]
    fn operations_that_are_never_told_to_have_ended_are_not_all_kept() {
        let path = std::env::temp_dir().join(format!("wellspring-{}-ends", std::process::id()));
        let file = File::create(&path).expect("a file");
        let mut entries = Entries::new(Writer::new(file, 0).expect("a trace"), true);
        let submit = |entries: &mut Entries, ordinal| {
            let operation = order::Operation::Fill;
            let what = order::What::Submitted {
                stream: 7,
                ordinal,
                capture: None,
                operation,
                accesses: &[],
            };
            let happening = order::Happening { place: None, what };
            entries.of_streams(0, &happening).expect("it is written");
            entries.running.get(&7).map_or(0, std::collections::VecDeque::len)
        };
        let few = (0..1000).map(|ordinal| submit(&mut entries, ordinal)).last();
        assert_eq!(few, Some(1000), "those that a device may have queued are kept");
        let kept = u64::try_from(RUNNING_KEPT).expect("a small number");
        let many = (1000..2 * kept).map(|ordinal| submit(&mut entries, ordinal)).last();
        assert_eq!(many, Some(RUNNING_KEPT));
        std::fs::remove_file(&path).expect("the file is there");
    }
}
