//! Draws a program from a seed.
//!
//! A draw keeps its own account of what is there (blocks, streams, events, graphs), so that nearly
//! all operations find what they name; what the allocator makes of them it cannot know.

use allocator::Policy;
use cuda_sim::Schedule;

use crate::chance::Chance;
use crate::draw_setup::{MistakeDraw, draw_setup};
use crate::operation::{
    BlockName, CaptureStep, EventName, Fault, FaultCall, GraphName, Join, MarkName, Mistake,
    Operation, StreamName, Synchronize, Told, Trim, Way,
};
use crate::program::{Program, Step};

/// More bytes than this are never held at one time.
const HELD_BYTES_MAX: u64 = 48 << 20;
const EVENTS_MAX: usize = 6;
const GRAPHS_MAX: usize = 3;
const HOLDS_MAX: usize = 4;
/// Gates and marks each have a place of their own in the memory of the stand.
pub(crate) const GATES_MAX: usize = 40;
pub(crate) const MARKS_MAX: u32 = 120;
const SIZES: [u64; 9] =
    [512, 4 << 10, 64 << 10, 300_000, 700_000, 1 << 20, 2 << 20, 3 << 20, 5 << 20];

/// What a program is to be like, beyond what its seed says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wishes {
    /// How many operations there are, over all threads.
    pub operations: usize,
    /// What the device does; else the seed says.
    pub schedule: Option<Schedule>,
    /// The policy of the allocator, and of a pool beside it; else the seed says.
    pub policy: Option<Policy>,
    /// The policies of the allocator, of a pool of it, and of a second allocator on the same
    /// streams. Then memory has no limit: what one of them takes would be the others' affair.
    pub mixed: Option<[Policy; 3]>,
    /// Whether driver calls fail now and then; else the seed says.
    pub faults: Option<bool>,
    /// Whether the device may be asked how far it came.
    pub queries: bool,
    /// Whether streams come and go.
    pub retirement: bool,
    /// Whether there are graphs.
    pub graphs: bool,
    /// Whether all streams share one hardware queue. Then no gate is closed: it would hold up the
    /// streams that the host waits for.
    pub one_queue: bool,
    /// Whether the checker watches; else the seed says.
    pub checked: Option<bool>,
    /// Whether some of the programs that are watched make a mistake on purpose.
    pub mistakes: bool,
    /// How many host threads there are; else the seed says, and nearly always it is one.
    pub threads: Option<usize>,
}

impl Default for Wishes {
    fn default() -> Self {
        Self {
            operations: 270,
            schedule: None,
            policy: None,
            mixed: None,
            faults: None,
            queries: true,
            retirement: true,
            graphs: true,
            one_queue: false,
            checked: None,
            mistakes: true,
            threads: None,
        }
    }
}

impl Program {
    /// The program of a seed.
    #[must_use]
    pub fn draw(seed: u64) -> Self {
        Self::draw_with(seed, &Wishes::default())
    }

    /// The program of a seed, as somebody wishes it.
    #[must_use]
    pub fn draw_with(seed: u64, wishes: &Wishes) -> Self {
        let mut chance = Chance::new(seed);
        let thread_count = wishes.threads.unwrap_or(if chance.once_in(20) { 2 } else { 1 });
        let setup = draw_setup(seed, wishes, &mut chance);
        let faults = wishes.faults.unwrap_or(seed % 2 == 1);
        let sizes = [0; 4].map(|_| chance.pick(&SIZES));
        let mut names = Names::default();
        let mut drawings: Vec<Drawing<'_>> = (0..thread_count)
            .map(|_| Drawing {
                wishes,
                faults,
                alone: thread_count == 1,
                sizes,
                streams: Vec::new(),
                blocks: Vec::new(),
                events: Vec::new(),
                graphs: Vec::new(),
                marks: Vec::new(),
                holds: 0,
                gates_closed: 0,
                gates_used: 0,
            })
            .collect();
        let mut steps = Vec::new();
        for (thread, drawing) in drawings.iter_mut().enumerate() {
            let fewest = if thread_count == 1 { 3 } else { 2 };
            for _ in 0..fewest + chance.below(4) {
                let stream = names.stream();
                drawing.streams.push(stream);
                steps.push(Step { thread, operation: Operation::Create(stream) });
            }
        }
        let mut mistake = MistakeDraw::new(seed, wishes, thread_count == 1);
        while steps.len() < wishes.operations {
            if mistake.as_ref().is_some_and(|mistake| mistake.after_steps <= steps.len())
                && let (Some(mistake), Some(drawing)) = (mistake.take(), drawings.first_mut())
            {
                steps.push(Step { thread: 0, operation: drawing.mistake(mistake, &mut names) });
            }
            let thread = chance.below(thread_count);
            let drawing = drawings.get_mut(thread).expect("a thread for each place");
            let first = steps.len();
            drawing.step(&mut chance, &mut names, &mut |operation| {
                steps.push(Step { thread, operation });
            });
            debug_assert!(first <= steps.len(), "a draw only adds");
        }
        Self { setup, thread_count, steps }
    }
}

/// The names given so far.
#[derive(Debug, Default)]
struct Names {
    streams: u32,
    blocks: u32,
    events: u32,
    graphs: u32,
    marks: u32,
}

fn next(count: &mut u32) -> u32 {
    *count += 1;
    *count - 1
}

impl Names {
    fn stream(&mut self) -> StreamName {
        StreamName(next(&mut self.streams))
    }

    fn block(&mut self) -> BlockName {
        BlockName(next(&mut self.blocks))
    }
}

/// What is there for one thread, as far as the draw knows.
struct Drawing<'wishes> {
    wishes: &'wishes Wishes,
    faults: bool,
    /// Whether there is no other thread.
    alone: bool,
    sizes: [u64; 4],
    streams: Vec<StreamName>,
    blocks: Vec<(BlockName, u64)>,
    events: Vec<EventName>,
    graphs: Vec<GraphName>,
    marks: Vec<MarkName>,
    holds: usize,
    gates_closed: usize,
    gates_used: usize,
}

impl Drawing<'_> {
    fn step(&mut self, chance: &mut Chance, names: &mut Names, out: &mut impl FnMut(Operation)) {
        let graphs = usize::from(self.wishes.graphs);
        let threads = usize::from(!self.alone);
        let weights = [
            30,
            22,
            40,
            8,
            6,
            6 * usize::from(self.wishes.queries),
            6,
            3,
            3,
            3 * usize::from(self.alone && !self.wishes.one_queue),
            2 * usize::from(self.wishes.retirement),
            3,
            3 * usize::from(self.faults),
            2 * graphs,
            4 * graphs,
            4,
            5,
            8 * threads,
        ];
        match chance.weighted(&weights) {
            0 => self.allocate(chance, names, out),
            1 => self.free(chance, out),
            2 => self.use_block(chance, out),
            3 => {
                let (before, after) = (self.stream(chance), self.stream(chance));
                out(Operation::Order(before, after, join(chance)));
            }
            4 => self.event(chance, names, out),
            5 => self.ask(chance, out),
            6 => out(Operation::Spin(self.stream(chance))),
            7 => self.synchronize(chance, out),
            8 => self.trim(chance, out),
            9 => self.gate(chance, out),
            10 => self.replace_stream(chance, names, out),
            11 => self.hold(chance, out),
            12 => {
                let (before, after) = (self.stream(chance), self.stream(chance));
                let call = chance.pick(&[FaultCall::StreamWaitEvent, FaultCall::EventRecord]);
                out(Operation::OrderFails(before, after, call));
            }
            13 => self.capture(chance, names, out),
            14 => self.replay(chance, out),
            15 => self.mark(chance, names, out),
            16 => self.compare(chance, out),
            _ => self.other_threads(chance, out),
        }
    }

    fn mistake(&mut self, mut draw: MistakeDraw, names: &mut Names) -> Operation {
        let [bytes, ..] = self.sizes;
        let new = (names.block(), bytes);
        let (mistake, mended, freed) = draw.draw(&self.blocks, &self.streams, new);
        if let Some(place) = freed {
            self.blocks.swap_remove(place);
        }
        if let Mistake::BeforeAllocation { .. } = mistake {
            self.blocks.push(new);
        }
        Operation::Mistake(mistake, mended)
    }

    fn stream(&self, chance: &mut Chance) -> StreamName {
        chance.pick(&self.streams)
    }

    fn held_bytes(&self) -> u64 {
        self.blocks.iter().map(|(_, bytes)| bytes).sum()
    }

    /// A block that is there, by its place.
    fn place(&self, chance: &mut Chance) -> Option<usize> {
        (!self.blocks.is_empty()).then(|| chance.below(self.blocks.len()))
    }

    fn fault(&self, chance: &mut Chance) -> Option<Fault> {
        (self.faults && chance.once_in(12))
            .then(|| Fault { call: chance.pick(&FaultCall::ALL), nth: chance.pick(&[1, 1, 2]) })
    }

    fn new_block(&mut self, chance: &mut Chance, names: &mut Names) -> (BlockName, u64) {
        let block = (names.block(), chance.pick(&self.sizes));
        self.blocks.push(block);
        block
    }

    fn allocate(
        &mut self,
        chance: &mut Chance,
        names: &mut Names,
        out: &mut impl FnMut(Operation),
    ) {
        if HELD_BYTES_MAX < self.held_bytes() {
            return self.free(chance, out);
        }
        let stream = self.stream(chance);
        let (block, bytes) = self.new_block(chance, names);
        out(Operation::Allocate(block, stream, bytes, self.fault(chance)));
    }

    fn free(&mut self, chance: &mut Chance, out: &mut impl FnMut(Operation)) {
        let Some(place) = self.place(chance) else { return };
        let (block, _) = self.blocks.swap_remove(place);
        let way = chance.pick(&[Way::Raw, Way::Drop, Way::Free, Way::Free]);
        out(Operation::Free(block, way, self.fault(chance)));
    }

    fn use_block(&mut self, chance: &mut Chance, out: &mut impl FnMut(Operation)) {
        let Some(place) = self.place(chance) else { return };
        let Some((block, _)) = self.blocks.get(place).copied() else { return };
        let told = [
            Told::StreamBefore,
            Told::StreamAfter,
            Told::Exactly,
            Told::Announced,
            Told::ByTheLaunch,
        ];
        out(Operation::Use {
            block,
            stream: self.stream(chance),
            writes: chance.once_in(2),
            told: chance.pick(&told),
            join: join(chance),
        });
    }

    fn event(&mut self, chance: &mut Chance, names: &mut Names, out: &mut impl FnMut(Operation)) {
        let stream = self.stream(chance);
        if self.events.is_empty() || (self.events.len() < EVENTS_MAX && chance.once_in(4)) {
            let event = EventName(next(&mut names.events));
            self.events.push(event);
            out(Operation::Record(event, stream));
        } else if chance.once_in(2) {
            out(Operation::Record(chance.pick(&self.events), stream));
        } else {
            out(Operation::Wait(chance.pick(&self.events), stream));
        }
    }

    fn ask(&mut self, chance: &mut Chance, out: &mut impl FnMut(Operation)) {
        if self.events.is_empty() || chance.once_in(2) {
            out(Operation::QueryStream(self.stream(chance)));
        } else {
            out(Operation::QueryEvent(chance.pick(&self.events)));
        }
    }

    fn synchronize(&mut self, chance: &mut Chance, out: &mut impl FnMut(Operation)) {
        self.gates_closed = 0;
        let what = match chance.below(4) {
            0 => Synchronize::Context,
            1 if !self.events.is_empty() => Synchronize::Event(chance.pick(&self.events)),
            _ => Synchronize::Stream(self.stream(chance)),
        };
        out(Operation::Synchronize(what));
    }

    fn trim(&mut self, chance: &mut Chance, out: &mut impl FnMut(Operation)) {
        let all = [Trim::Everything, Trim::Bytes(u64::MAX), Trim::Bytes(2 << 20)];
        let trim = chance.pick(&all);
        if trim == Trim::Everything {
            self.gates_closed = 0;
        }
        out(Operation::Trim(trim, self.fault(chance)));
    }

    fn gate(&mut self, chance: &mut Chance, out: &mut impl FnMut(Operation)) {
        if self.gates_used < GATES_MAX && chance.once_in(2) {
            self.gates_used += 1;
            self.gates_closed += 1;
            out(Operation::CloseGate(self.stream(chance)));
        } else if 0 < self.gates_closed {
            self.gates_closed -= 1;
            out(Operation::OpenGate);
        }
    }

    fn replace_stream(
        &mut self,
        chance: &mut Chance,
        names: &mut Names,
        out: &mut impl FnMut(Operation),
    ) {
        let gone = self.streams.swap_remove(chance.below(self.streams.len()));
        let come = names.stream();
        self.streams.push(come);
        out(Operation::Retire(gone));
        out(Operation::Create(come));
    }

    fn hold(&mut self, chance: &mut Chance, out: &mut impl FnMut(Operation)) {
        if 0 < self.holds && (chance.once_in(2) || HOLDS_MAX < self.holds) {
            self.holds -= 1;
            out(Operation::EndHold);
        } else if let Some(place) = self.place(chance) {
            self.holds += 1;
            let (block, _) = self.blocks.swap_remove(place);
            out(Operation::FreeHeld(block));
        }
    }

    fn capture(&mut self, chance: &mut Chance, names: &mut Names, out: &mut impl FnMut(Operation)) {
        if GRAPHS_MAX <= self.graphs.len() {
            let gone = self.graphs.swap_remove(chance.below(self.graphs.len()));
            return out(Operation::DropGraph(gone));
        }
        let stream = self.stream(chance);
        let mut inside = Vec::new();
        for _ in 0..2 + chance.below(4) {
            match chance.below(5) {
                0 if self.held_bytes() < HELD_BYTES_MAX => {
                    let (block, bytes) = self.new_block(chance, names);
                    inside.push(CaptureStep::Allocate(block, bytes));
                    inside.push(CaptureStep::Touch(block));
                }
                1 if self.held_bytes() < HELD_BYTES_MAX => {
                    let beside = self.stream(chance);
                    let (block, bytes) = self.new_block(chance, names);
                    inside.push(CaptureStep::AllocateBeside(block, beside, bytes));
                }
                2 => {
                    if let Some(place) = self.place(chance) {
                        let (block, _) = self.blocks.swap_remove(place);
                        inside.push(CaptureStep::Free(block));
                    }
                }
                _ => {
                    if let Some((block, _)) = self.place(chance).and_then(|at| self.blocks.get(at))
                    {
                        inside.push(CaptureStep::Touch(*block));
                    }
                }
            }
        }
        let graph = GraphName(next(&mut names.graphs));
        self.graphs.push(graph);
        out(Operation::Capture(graph, stream, inside));
    }

    fn replay(&mut self, chance: &mut Chance, out: &mut impl FnMut(Operation)) {
        if self.graphs.is_empty() {
            return;
        }
        let place = chance.below(self.graphs.len());
        if chance.once_in(5) {
            out(Operation::DropGraph(self.graphs.swap_remove(place)));
        } else if let Some(graph) = self.graphs.get(place) {
            out(Operation::Replay(*graph, self.stream(chance), join(chance)));
        }
    }

    fn mark(&mut self, chance: &mut Chance, names: &mut Names, out: &mut impl FnMut(Operation)) {
        if names.marks < MARKS_MAX {
            let mark = MarkName(next(&mut names.marks));
            self.marks.push(mark);
            out(Operation::Mark(mark, self.stream(chance)));
        }
    }

    fn compare(&mut self, chance: &mut Chance, out: &mut impl FnMut(Operation)) {
        // A late one is of more interest: an early one has been complete for long.
        let late = self.marks.len().saturating_sub(4);
        if let Some(recent) = self.marks.get(late..).filter(|recent| !recent.is_empty()) {
            out(Operation::Compare(chance.pick(recent)));
        }
    }

    fn other_threads(&mut self, chance: &mut Chance, out: &mut impl FnMut(Operation)) {
        match chance.below(3) {
            0 => {
                if let Some(place) = self.place(chance) {
                    out(Operation::Send(self.blocks.swap_remove(place).0));
                }
            }
            1 => out(Operation::Receive(self.stream(chance), join(chance))),
            _ => out(Operation::Yield),
        }
    }
}

fn join(chance: &mut Chance) -> Join {
    chance.pick(&[Join::Stream, Join::Event])
}
