//! One thread of a program while it runs: what is there, and which operation does what.

use std::collections::{BTreeMap, BTreeSet};

use allocator::{Allocator, Policy, Pool};
use cuda_sim::FaultPlan;
use cuda_sys::CUresult;
use streams::{Event, Stream};

use crate::blocks::{Kept, Piece};
use crate::graphs::Recorded;
use crate::marks::Mark;
use crate::meetings::Side;
use crate::operation::{
    BlockName, EventName, Fault, FaultCall, GraphName, MarkName, Operation, StreamName,
    Synchronize, Trim,
};
use crate::outcome::{Feature, Reached};
use crate::program::{Broken, Setup};
use crate::stand::Stand;
use crate::verdicts::{Answer, Made, Verdict};

/// A stream of the program, with the handle by which the machine knows it.
#[derive(Clone)]
pub(crate) struct Known {
    pub(crate) stream: Stream,
    pub(crate) handle: usize,
}

/// Where a program's memory comes from.
#[derive(Clone, Copy)]
pub(crate) struct Memories<'stand> {
    pub(crate) own: &'stand Allocator,
    /// A private pool for every third block.
    pub(crate) pool: Option<&'stand Pool>,
    /// A second allocator, for another third of them.
    pub(crate) beside: Option<&'stand Allocator>,
}

impl<'stand> Memories<'stand> {
    fn at(&self, index: usize) -> Option<&'stand Allocator> {
        match index {
            0 => Some(self.own),
            1 => self.pool.map(Pool::allocator),
            _ => self.beside,
        }
    }

    /// Those whose places are noted, with their numbers.
    fn noted(&self) -> impl Iterator<Item = (usize, &'stand Allocator)> {
        let is_mixed = self.beside.is_some();
        let is_noted =
            move |memory: &Allocator| is_mixed && memory.config().policy == Policy::Deterministic;
        let all = (0..3).filter_map(|index| Some((index, self.at(index)?)));
        all.filter(move |(_, memory)| is_noted(memory))
    }
}

/// One thread of a program.
pub(crate) struct World<'stand> {
    pub(crate) stand: &'stand Stand,
    pub(crate) allocator: &'stand Allocator,
    memories: Memories<'stand>,
    /// The segments that are there of each memory whose places are noted, by address.
    segments: BTreeMap<(usize, u64), usize>,
    pub(crate) setup: &'stand Setup,
    pub(crate) thread: usize,
    /// Whether no other thread runs.
    pub(crate) alone: bool,
    pub(crate) streams: BTreeMap<StreamName, Known>,
    pub(crate) pieces: BTreeMap<BlockName, Piece>,
    pub(crate) kept: Vec<Kept>,
    pub(crate) graphs: BTreeMap<GraphName, Recorded>,
    pub(crate) marks: BTreeMap<MarkName, Mark>,
    events: BTreeMap<EventName, Event>,
    gates: Vec<usize>,
    next_word: u32,
    /// The mistake that the step has made.
    pub(crate) made: Option<Made>,
    pub(crate) tally: Tally,
}

/// What one thread came through.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) reached: Reached,
    pub(crate) performed: u64,
    pub(crate) comparisons: u64,
    pub(crate) streams: usize,
    pub(crate) faults: u64,
    /// What the verdicts said, if one of them found something.
    pub(crate) verdict: Option<Verdict>,
    pub(crate) mistakes: Vec<(&'static str, Answer)>,
    pub(crate) addresses: Vec<u64>,
    pub(crate) places: Vec<Place>,
    /// Segments that were there so far.
    segments: usize,
}

/// Which memory, and the number of the segment and the offset there.
type Place = (usize, Option<(usize, u64)>);

/// What an operation did that found what it names; nothing, if it did not.
pub(crate) type Done = Option<()>;

impl<'stand> World<'stand> {
    pub(crate) fn new(
        stand: &'stand Stand,
        memories: Memories<'stand>,
        setup: &'stand Setup,
        thread: usize,
        alone: bool,
    ) -> Self {
        let first_word = u32::try_from(thread).expect("few threads") << 24;
        Self {
            stand,
            allocator: memories.own,
            memories,
            segments: BTreeMap::new(),
            setup,
            thread,
            alone,
            streams: BTreeMap::new(),
            pieces: BTreeMap::new(),
            kept: Vec::new(),
            graphs: BTreeMap::new(),
            marks: BTreeMap::new(),
            events: BTreeMap::new(),
            gates: Vec::new(),
            next_word: first_word + 1,
            made: None,
            tally: Tally::default(),
        }
    }

    /// Whose memory a block is of.
    pub(crate) fn memory_of(&self, block: BlockName) -> &'stand Allocator {
        self.memories.at(self.index_of(block)).unwrap_or(self.allocator)
    }

    fn index_of(&self, block: BlockName) -> usize {
        let index = if block.0.is_multiple_of(3) { 1 } else { 2 * usize::from(block.0 % 3 == 1) };
        if self.memories.at(index).is_some() { index } else { 0 }
    }

    /// Notes where a request was served, if that is to be compared with other runs.
    pub(crate) fn note_place(&mut self, block: BlockName, address: Option<u64>) {
        let index = self.index_of(block);
        if self.memories.noted().all(|(noted, _)| noted != index) {
            return;
        }
        self.number_segments();
        let place = address.map(|address| {
            let (&(of, start), &number) =
                self.segments.range(..=(index, address)).next_back().expect("it is in a segment");
            assert_eq!(of, index, "it is in a segment of its memory");
            (number, address - start)
        });
        self.tally.places.push((index, place));
    }

    /// Gives new segments their numbers, and forgets those that are gone.
    fn number_segments(&mut self) {
        let memories = self.memories;
        for (index, memory) in memories.noted() {
            let there = memory.snapshot().segments.into_iter().map(|segment| segment.address);
            let there: BTreeSet<u64> = there.collect();
            self.segments.retain(|(of, address), _| *of != index || there.contains(address));
            for address in there {
                let next = &mut self.tally.segments;
                self.segments.entry((index, address)).or_insert_with(|| {
                    *next += 1;
                    *next
                });
            }
        }
    }

    /// Does one operation, and compares the verdicts on it.
    pub(crate) fn perform(&mut self, operation: &Operation) {
        self.stand.progress.begin_step();
        if self.attempt(operation).is_some() {
            self.tally.performed += 1;
        }
        let made = self.made.take();
        self.compare_verdicts(made);
        self.number_segments();
    }

    fn attempt(&mut self, operation: &Operation) -> Done {
        match operation {
            Operation::Create(name) => self.create_stream(*name),
            Operation::Retire(name) => {
                self.streams.remove(name)?;
                self.tally.reached.add(Feature::Retirement);
            }
            Operation::Allocate(block, stream, bytes, fault) => {
                self.allocate(*block, *stream, *bytes, *fault)?;
            }
            Operation::Free(block, way, fault) => self.free(*block, *way, *fault)?,
            Operation::FreeHeld(block) => self.free_held(*block)?,
            Operation::EndHold => self.end_hold()?,
            Operation::Use { block, stream, writes, told, join } => {
                self.use_block(*block, *stream, *writes, *told, *join)?;
            }
            Operation::Order(before, after, join) => {
                let (before, after) = (self.known(*before)?.stream, self.known(*after)?.stream);
                self.order(&before, &after, *join).then_some(())?;
            }
            Operation::OrderFails(before, after, call) => {
                self.order_fails(*before, *after, *call)?;
            }
            Operation::Record(event, stream) => self.record(*event, *stream)?,
            Operation::Wait(event, stream) => {
                let stream = self.known(*stream)?.stream;
                stream.wait_event(self.events.get(event)?).expect("a wait");
            }
            Operation::QueryStream(name) => {
                let _answer = self.known(*name)?.stream.query().expect("an answer");
            }
            Operation::QueryEvent(name) => {
                let _answer = self.events.get(name)?.query().expect("an answer");
            }
            Operation::Spin(name) => self.stand.busy(&self.known(*name)?.stream),
            Operation::Synchronize(what) => self.synchronize(*what)?,
            Operation::Trim(trim, fault) => self.trim(*trim, *fault),
            Operation::CloseGate(name) => self.close_gate(*name)?,
            Operation::OpenGate => {
                let oldest = (!self.gates.is_empty()).then(|| self.gates.remove(0))?;
                self.stand.open_gate(oldest);
            }
            Operation::Capture(graph, stream, inside) => self.capture(*graph, *stream, inside)?,
            Operation::Replay(graph, stream, join) => self.replay(*graph, *stream, *join)?,
            Operation::DropGraph(graph) => self.drop_graph(*graph)?,
            Operation::Mark(mark, stream) => self.mark(*mark, *stream)?,
            Operation::Compare(mark) => self.compare(*mark)?,
            Operation::Send(block) => self.send(*block)?,
            Operation::Receive(stream, join) => self.receive(*stream, *join)?,
            Operation::Yield => self.stand.machine.yield_point(),
            Operation::Mistake(mistake, mended) => self.make(*mistake, *mended)?,
        }
        Some(())
    }

    /// A living stream.
    pub(crate) fn known(&self, name: StreamName) -> Option<Known> {
        self.streams.get(&name).cloned()
    }

    /// A word that nobody has written.
    pub(crate) fn new_word(&mut self) -> u32 {
        self.next_word += 1;
        self.next_word
    }

    fn create_stream(&mut self, name: StreamName) {
        let stream = self.stand.stream();
        let handle = self.stand.machine.stream_with_id(stream.id()).expect("a living stream");
        self.streams.insert(name, Known { stream, handle });
        self.tally.streams = self.tally.streams.max(self.streams.len());
    }

    fn record(&mut self, event: EventName, stream: StreamName) -> Done {
        let stream = self.known(stream)?.stream;
        match self.events.get(&event) {
            Some(event) => stream.record(event).expect("a record"),
            None => {
                let new = stream.record_event().expect("an event");
                self.events.insert(event, new);
            }
        }
        Some(())
    }

    pub(crate) fn open_gates(&mut self) {
        for gate in self.gates.drain(..) {
            self.stand.open_gate(gate);
        }
    }

    fn close_gate(&mut self, name: StreamName) -> Done {
        let gate = self.stand.close_gate(&self.known(name)?.stream)?;
        self.gates.push(gate);
        self.tally.reached.add(Feature::Gate);
        Some(())
    }

    fn synchronize(&mut self, what: Synchronize) -> Done {
        self.open_gates();
        while self.setup.broken == Some(Broken::Hangs) {
            std::thread::park();
        }
        match what {
            Synchronize::Context => {
                let _under_way = self.stand.meetings.begin(Side::Crossing)?;
                self.stand.context.synchronize().expect("all ends");
            }
            Synchronize::Stream(name) => {
                self.known(name)?.stream.synchronize().expect("a stream ends");
            }
            Synchronize::Event(name) => {
                self.events.get(&name)?.synchronize().expect("an event passes");
            }
        }
        Some(())
    }

    fn trim(&mut self, trim: Trim, fault: Option<Fault>) {
        if trim == Trim::Everything {
            self.open_gates();
        }
        let (trimmed, struck) = self.with_fault(fault, |world| match trim {
            Trim::Everything => world.allocator.empty_cache(),
            Trim::Bytes(bytes) => world.allocator.trim(bytes),
        });
        match trimmed {
            Ok(bytes) => self.tally.reached.add_if(0 < bytes, Feature::Trim),
            Err(error) => assert!(struck, "a trim without a fault failed: {error}"),
        }
    }

    /// Does a call for a block's memory as [`World::with_fault`] does. In a program of mixed
    /// policies only those fail that `deterministic` makes, and no call that makes an event: how
    /// many there are of the others depends on the device.
    pub(crate) fn with_fault_for<R>(
        &mut self,
        block: BlockName,
        fault: Option<Fault>,
        call: impl FnOnce(&mut Self) -> R,
    ) -> (R, bool) {
        let index = self.index_of(block);
        let is_noted = self.memories.noted().any(|(noted, _)| noted == index);
        let is_usual = self.memories.beside.is_none();
        let is_sure =
            |fault: &Fault| is_usual || (is_noted && fault.call != FaultCall::EventCreate);
        self.with_fault(fault.filter(is_sure), call)
    }

    /// Does a call of the allocator's, with a driver call that fails inside, if there is one; says
    /// whether there was.
    pub(crate) fn with_fault<R>(
        &mut self,
        fault: Option<Fault>,
        call: impl FnOnce(&mut Self) -> R,
    ) -> (R, bool) {
        let Some(Fault { call: failing, nth }) = fault else { return (call(self), false) };
        let (entry_point, code) = entry_point(failing);
        let machine = &self.stand.machine;
        machine.fail_here(FaultPlan { call: entry_point, nth, code, sticky: false });
        let result = call(self);
        let struck = machine.clear_faults_here() == 0;
        if struck {
            self.tally.faults += 1;
            self.tally.reached.add(Feature::InjectedFault);
        }
        (result, struck)
    }

    pub(crate) fn swallows_waits(&self) -> bool {
        self.setup.broken == Some(Broken::SwallowedWaits)
    }
}

/// The driver's name of a call, and how it fails.
pub(crate) fn entry_point(call: FaultCall) -> (&'static str, CUresult) {
    match call {
        FaultCall::MemCreate => ("cuMemCreate", CUresult::CUDA_ERROR_OUT_OF_MEMORY),
        FaultCall::MemAlloc => ("cuMemAlloc", CUresult::CUDA_ERROR_OUT_OF_MEMORY),
        FaultCall::MemMap => ("cuMemMap", CUresult::CUDA_ERROR_OUT_OF_MEMORY),
        FaultCall::MemSetAccess => ("cuMemSetAccess", CUresult::CUDA_ERROR_INVALID_VALUE),
        FaultCall::MemUnmap => ("cuMemUnmap", CUresult::CUDA_ERROR_INVALID_VALUE),
        FaultCall::EventCreate => ("cuEventCreate", CUresult::CUDA_ERROR_OUT_OF_MEMORY),
        FaultCall::EventRecord => ("cuEventRecord", CUresult::CUDA_ERROR_INVALID_VALUE),
        FaultCall::EventQuery => ("cuEventQuery", CUresult::CUDA_ERROR_INVALID_VALUE),
        FaultCall::StreamWaitEvent => ("cuStreamWaitEvent", CUresult::CUDA_ERROR_INVALID_VALUE),
    }
}
