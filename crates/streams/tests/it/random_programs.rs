//! Random programs: what the engine says is known is what the checker, which sees the whole graph
//! and shares no code with the engine, says is ordered; no more, and no less.

use cuda_sim::{DeviceProfile, FaultPlan, Schedule};
use cuda_sys::CUresult;
use streams::{Error, Event, Fence, Point, Stream};

use crate::rig::{BYTES, Block, Rig};

/// A small generator of our own: a seed printed by a failure repeats the program.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap() % sides
    }
}

/// The rig goes last, with the machine.
struct Program {
    dice: Dice,
    streams: Vec<Stream>,
    events: Vec<Event>,
    fences: Vec<Fence>,
    /// Each block, and the points of the operations that read it.
    blocks: Vec<(Block, Vec<Point>)>,
    scratch: Vec<Block>,
    known: usize,
    unknown: usize,
    rig: Rig,
}

impl Program {
    fn new(seed: u64) -> Self {
        let schedule = match seed % 3 {
            0 => Schedule::Lazy,
            1 => Schedule::Eager,
            _ => Schedule::Seeded(seed),
        };
        let rig = Rig::with(schedule, DeviceProfile::h200());
        let streams: Vec<Stream> = (0..4).map(|_| rig.stream()).collect();
        let events = (0..3).map(|_| rig.context.create_event().unwrap()).collect();
        let blocks = (0..5).map(|_| (rig.block(), Vec::new())).collect();
        let scratch = (0..4).map(|_| rig.block()).collect();
        let dice = Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        let fences = Vec::new();
        Self { rig, dice, streams, events, fences, blocks, scratch, known: 0, unknown: 0 }
    }

    fn stream(&mut self) -> Stream {
        let at = self.dice.roll(self.streams.len());
        self.streams[at].clone()
    }

    fn event(&mut self) -> Event {
        let at = self.dice.roll(self.events.len());
        self.events[at].clone()
    }

    fn fence(&mut self) -> Option<Fence> {
        let count = self.fences.len();
        (0 < count).then(|| self.fences[self.dice.roll(count)].clone())
    }

    fn wait_event(&mut self) {
        let waited = self.stream().wait_event(&self.event());
        assert!(matches!(waited, Ok(()) | Err(Error::NeverRecorded)), "{waited:?}");
    }

    fn step(&mut self) {
        match self.dice.roll(40) {
            0..=11 => self.read(),
            12..=16 => self.stream().record(&self.event()).unwrap(),
            17..=21 => self.wait_event(),
            22..=24 => {
                let (waiter, other) = (self.stream(), self.stream());
                waiter.wait_stream(&other).unwrap();
            }
            25..=26 => drop(self.event().query().unwrap()),
            27 => self.event().synchronize().unwrap(),
            28 => drop(self.stream().query().unwrap()),
            29..=31 => self.stream().order().poll().unwrap(),
            32..=33 => {
                let fence = self.stream().order().fence_now().unwrap();
                self.fences.push(fence);
            }
            34..=35 => {
                if let Some(fence) = self.fence() {
                    self.stream().order().wait_fence(&fence).unwrap();
                }
            }
            36 => drop(self.fence().map(|fence| fence.query().unwrap())),
            37 => self.fences.truncate(1),
            38 => self.replace_a_stream(),
            _ => match self.dice.roll(4) {
                0 => self.rig.context.synchronize().unwrap(),
                1 => self.stream().synchronize().unwrap(),
                _ => drop(self.stream().as_raw()),
            },
        }
    }

    fn read(&mut self) {
        let (at, on) = (self.dice.roll(self.blocks.len()), self.dice.roll(self.streams.len()));
        let (block, uses) = &mut self.blocks[at];
        let (stream, to) = (&self.streams[on], &self.scratch[on]);
        let read = stream.copy_on_device(&to.span, 0, &block.span, 0, BYTES).unwrap();
        uses.push(read.point());
    }

    /// The old one goes with its work still queued.
    fn replace_a_stream(&mut self) {
        let on = self.dice.roll(self.streams.len());
        self.streams[on] = self.rig.stream();
    }

    /// Whether engine and checker agree on one block and one stream.
    fn check(&mut self, stream: &Stream, at: usize) -> bool {
        let (block, uses) = &self.blocks[at];
        let known = uses.iter().all(|&point| stream.order().knows(point));
        let raw = self.rig.machine.stream_with_id(stream.id()).unwrap();
        let edge = self.rig.machine.probe(block.span.span().address, BYTES, raw);
        if known {
            self.known += 1;
        } else {
            self.unknown += 1;
        }
        known == edge.is_ok()
    }

    /// Runs to the end; gives how often something was known and was not, if all agreed.
    fn run(mut self) -> Option<(usize, usize)> {
        let mut agreed = true;
        for _ in 0..60 {
            self.step();
            let (stream, at) = (self.stream(), self.dice.roll(self.blocks.len()));
            agreed &= self.check(&stream, at);
        }
        for stream in self.streams.clone() {
            for at in 0..self.blocks.len() {
                agreed &= self.check(&stream, at);
            }
        }
        self.rig.context.synchronize().unwrap();
        // The reads of one stream after another's write of its scratch are races by intent.
        drop(self.rig.machine.take_hazards());
        agreed.then_some((self.known, self.unknown))
    }
}

#[test]
fn s2_engine_and_checker_agree_on_random_programs() {
    let (mut known, mut unknown) = (0, 0);
    for seed in 1..=600 {
        let agreed = Program::new(seed).run();
        let (more_known, more_unknown) = agreed.unwrap_or_else(|| panic!("seed {seed} disagrees"));
        known += more_known;
        unknown += more_unknown;
    }
    assert!(10_000 < known && 10_000 < unknown, "{known} known and {unknown} not: too one-sided");
}

#[test]
fn s11_random_programs_catch_a_call_that_was_skipped() {
    for call in ["cuStreamWaitEvent", "cuEventRecord"] {
        let caught = (1..=300).filter(|&seed| {
            let program = Program::new(seed);
            let code = CUresult::CUDA_SUCCESS;
            program.rig.machine.fail(FaultPlan { call, nth: 1 + seed % 5, code, sticky: false });
            program.run().is_none()
        });
        let caught = caught.count();
        assert!(15 < caught, "{call} skipped was caught in {caught} programs of 300");
    }
}
