//! What the threads of one program share: a machine, an allocator, and what was found wrong.

use std::sync::{Arc, Mutex};

use allocator::{Allocator, Block, Config};
use checker::Checker;
use cuda_sim::Machine;
use kernels::launch::Kernels;
use random_programs::LiveRanges;
use streams::{Context, DeviceSpan, Stream, StreamOptions};

use crate::scenarios::raw::uncounted;
use crate::simulated_rig::{checked_context, context};

/// What threads share.
pub struct Stage<'machine> {
    pub machine: &'machine Machine,
    pub context: Context,
    pub allocator: Allocator,
    kernels: Kernels,
    ranges: Mutex<LiveRanges>,
    wrong: Mutex<Vec<String>>,
}

impl<'machine> Stage<'machine> {
    pub fn new(machine: &'machine Machine, config: Config) -> Self {
        let context = context(machine);
        let allocator = Allocator::new(&context, config).expect("an allocator");
        Self::with(machine, context, allocator)
    }

    /// The same with a checker that watches.
    pub fn checked(machine: &'machine Machine, config: Config, checker: &Arc<Checker>) -> Self {
        let context = checked_context(machine, checker);
        let observer = Arc::<Checker>::clone(checker);
        let allocator = Allocator::new_observed(&context, config, observer);
        Self::with(machine, context, allocator.expect("an allocator"))
    }

    fn with(machine: &'machine Machine, context: Context, allocator: Allocator) -> Self {
        allocator::set_yield_point(cuda_sim::yield_point);
        kernels::simulated::register(machine);
        let kernels = Kernels::load(&context).expect("the kernels load");
        let (ranges, wrong) = (Mutex::default(), Mutex::default());
        Self { machine, context, allocator, kernels, ranges, wrong }
    }

    pub fn stream(&self) -> Stream {
        self.context.create_stream(StreamOptions::default()).expect("a stream")
    }

    pub fn handle(&self, stream: &Stream) -> usize {
        self.machine.stream_with_id(stream.id()).expect("a living stream")
    }

    pub fn write(&self, stream: &Stream, block: &Block) {
        let mut words = uncounted(range(block));
        let _written = self.kernels.stamp(stream, &mut words, 1 << 20, 1).expect("a stamp");
    }

    /// Takes a block, and asks whether it was ready (S3).
    pub fn take(&self, stream: &Stream, bytes: u64) -> Block {
        self.take_from(&self.allocator, stream, bytes)
    }

    /// The same from the memory of another pool.
    pub fn take_from(&self, memory: &Allocator, stream: &Stream, bytes: u64) -> Block {
        let block = memory.allocate(stream, bytes).expect("memory");
        self.ranges.lock().expect("no overlap").add(range(&block));
        self.lend(stream, &block);
        block
    }

    /// Declares that a block was handed out for `stream`, and asks whether it was ready.
    pub fn lend(&self, stream: &Stream, block: &Block) {
        let (address, bytes, handle) = (block.address(), block.size(), self.handle(stream));
        self.machine.born(address, bytes, handle);
        if let Err(hazard) = self.machine.probe(address, bytes, handle) {
            self.wrong.lock().expect("no panic").push(hazard.to_string());
        }
    }

    /// Declares that a block was given back on `stream`.
    pub fn take_back(&self, stream: &Stream, block: &Block) {
        self.machine.dead(block.address(), block.size(), self.handle(stream));
    }

    /// Gives back a block that was taken for `stream`.
    pub fn give_back(&self, stream: &Stream, block: Block) {
        self.ranges.lock().expect("no overlap").remove(range(&block));
        self.take_back(stream, &block);
        block.free().expect("a free");
    }

    /// Everything ends, and nothing was wrong.
    pub fn end(self) {
        let wrong = self.found();
        assert!(wrong.is_empty(), "{wrong:#?}");
    }

    /// Everything ends; what was wrong.
    pub fn found(self) -> Vec<String> {
        self.context.synchronize().expect("all ends");
        let mut wrong = self.wrong.into_inner().expect("no panic");
        wrong.extend(self.machine.take_hazards().iter().map(ToString::to_string));
        wrong
    }
}

fn range(block: &Block) -> DeviceSpan {
    DeviceSpan { address: block.address(), bytes: block.size() }
}
