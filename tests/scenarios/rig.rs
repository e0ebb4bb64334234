//! What a scenario works with: streams, gates, words written and checked on the device, and
//! blocks that somebody outside the allocator watches.
//!
//! A rig names no driver. On the simulated one it tells the machine of every block that is handed
//! out and given back, and asks it whether the memory was ready (S3); on a GPU the words that
//! kernels write and check are the only witness.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use allocator::{AllocError, Allocator, Block, Config, FreeError, ServedBy, VmmSource};
use allocator::{PlainSource, Source};
use checker::Checker;
use kernels::launch::Kernels;
use streams::launch::{DeviceSlice, DeviceSliceMut};
use streams::memory::DeviceMemory;
use streams::{Context, DeviceSpan, Gates, RawSpan, Stream, StreamOptions};

use super::raw::uncounted;

/// A size that several blocks of fit into one piece of memory.
pub const BLOCK: u64 = 64 << 10;
/// A size that fills a piece of memory, so that nothing of it is left to serve others.
pub const WHOLE: u64 = 2 << 20;
/// How long a stream is busy that is to be busy for a while.
const BUSY: Duration = Duration::from_millis(25);
const GATES: usize = 64;
/// A word in every so many is written and checked.
const STRIDE_WORDS: u64 = 16 << 10;

/// A device under test, with somebody who watches.
pub trait Rig {
    /// The tools on the device.
    fn desk(&self) -> &Desk;

    /// A block was handed out for the stream with this id.
    fn born(&self, range: DeviceSpan, stream_id: u64);

    /// A block was handed out for work that is ordered after nothing: a graph that any stream may
    /// replay.
    fn born_complete(&self, range: DeviceSpan, stream_id: u64);

    /// A block is about to be given back.
    fn dead(&self, range: DeviceSpan, stream_id: u64);

    /// How many calls the driver has had.
    fn call_count(&self) -> u64;

    /// How many calls one entry point has had, where that is counted.
    fn calls_of(&self, entry_point: &str) -> Option<u64>;

    /// How much device memory is taken, where that is known exactly.
    fn used_bytes(&self) -> Option<u64>;

    /// Lets some time pass, in which the device does what it can.
    fn pause(&self);
}

/// The tools that scenarios use on either device.
#[derive(Debug)]
pub struct Desk {
    context: Context,
    kernels: Kernels,
    gates: Gates,
    gates_used: Cell<usize>,
    /// Counts the words that were not what they should have been.
    counter: DeviceMemory,
    clerk: Stream,
    /// Watches the allocators of this desk.
    checker: Option<Arc<Checker>>,
}

impl Desk {
    /// Loads the kernels and runs each once, so that no later launch waits for a load.
    pub fn new(context: &Context) -> Self {
        let clerk = context.create_stream(StreamOptions::default()).expect("a stream");
        let kernels = Kernels::load(context).expect("the kernels load");
        let gates = kernels.gates(GATES).expect("pinned words for the gates");
        let counter = DeviceMemory::allocate(context, 512).expect("512 bytes for the counter");
        let desk = Self {
            context: context.clone(),
            kernels,
            gates,
            gates_used: Cell::new(0),
            counter,
            clerk,
            checker: None,
        };
        desk.warm_up();
        desk
    }

    /// The same, with allocators that a checker watches. The context's driver has it too.
    pub fn checked(context: &Context, checker: Arc<Checker>) -> Self {
        let mut desk = Self::new(context);
        desk.checker = Some(checker);
        desk
    }

    fn warm_up(&self) {
        let clerk = &self.clerk;
        let (mut all, mut counter) = (self.span(), self.counter());
        clerk.fill_words(&all, 0, 128, 0).expect("the counter is cleared");
        self.kernels.spin(clerk, 1).expect("a spin");
        self.kernels.fill_u32(clerk, &mut all, 0).expect("a fill");
        self.kernels
            .check_u32(clerk, &all.part(256, 4).expect("it lies inside"), 0, &mut counter)
            .expect("a check");
        self.hold(clerk).open();
        clerk.synchronize().expect("the warm-up ends");
    }

    fn span(&self) -> RawSpan {
        let range = DeviceSpan { address: self.counter.address(), bytes: self.counter.bytes() };
        uncounted(range)
    }

    fn counter(&self) -> RawSpan {
        self.span().part(0, 8).expect("the counter has its bytes")
    }

    /// The context everything lies in.
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// The kernels.
    pub fn kernels(&self) -> &Kernels {
        &self.kernels
    }

    /// So many new streams.
    pub fn streams<const N: usize>(&self) -> [Stream; N] {
        std::array::from_fn(|_| self.stream())
    }

    /// A new stream.
    pub fn stream(&self) -> Stream {
        self.context.create_stream(StreamOptions::default()).expect("a stream")
    }

    /// Keeps a stream busy for a while; other streams may be made to wait for it.
    pub fn busy(&self, stream: &Stream) {
        let nanoseconds = u64::try_from(BUSY.as_nanos()).expect("a short time");
        let _running = self.kernels.spin(stream, nanoseconds).expect("a spin");
    }

    /// Holds a stream until the guard is opened or dropped.
    pub fn hold(&self, stream: &Stream) -> Gate<'_> {
        let index = self.gates_used.get();
        self.gates_used.set(index + 1);
        let _closed = self.gates.close(stream, index).expect("a gate is closed");
        Gate { gates: &self.gates, index }
    }

    /// Writes a word to both ends of a range and in many places between. No use is recorded.
    pub fn fill(&self, stream: &Stream, range: DeviceSpan, word: u32) {
        self.fill_memory(stream, &mut uncounted(range), word);
    }

    /// Counts the words that [`Desk::fill`] writes and that are not `word`. No use is recorded.
    pub fn check(&self, stream: &Stream, range: DeviceSpan, word: u32) {
        self.check_memory(stream, &uncounted(range), word);
    }

    /// The same as [`Desk::fill`] on memory that is told of the use.
    pub fn fill_memory(&self, stream: &Stream, memory: &mut impl DeviceSliceMut<u32>, word: u32) {
        let stamped = self.kernels.stamp(stream, memory, STRIDE_WORDS, word);
        let _running = stamped.expect("a stamp");
    }

    /// The same as [`Desk::check`] on memory that is told of the use.
    pub fn check_memory(&self, stream: &Stream, memory: &impl DeviceSlice<u32>, word: u32) {
        let (mut counter, kernels) = (self.counter(), &self.kernels);
        let checked = kernels.check_stamp(stream, memory, STRIDE_WORDS, word, &mut counter);
        let _running = checked.expect("a check");
    }

    /// Waits for everything and tells how many words were wrong so far.
    pub fn mismatches(&self) -> u64 {
        self.context.synchronize().expect("everything ends");
        let mut bytes = [0; 8];
        let copied = self.clerk.copy_to_host(&mut bytes, &self.counter(), 0);
        let _done = copied.expect("the counter is read");
        u64::from_le_bytes(bytes)
    }

    /// An allocator with the default source.
    pub fn allocator(&self, config: Config) -> Allocator {
        self.try_allocator(config, None).expect("an allocator")
    }

    /// An allocator with this source, or the default one.
    pub fn try_allocator(
        &self,
        config: Config,
        source: Option<Arc<dyn Source>>,
    ) -> Result<Allocator, AllocError> {
        let context = &self.context;
        match (source, self.checker.clone()) {
            (None, None) => Allocator::new(context, config),
            (Some(source), None) => Allocator::with_source(context, config, source),
            (None, Some(checker)) => Allocator::new_observed(context, config, checker),
            (Some(source), Some(checker)) => {
                Allocator::with_source_observed(context, config, source, checker)
            }
        }
    }

    /// Every source the device has.
    pub fn sources(&self) -> Vec<Arc<dyn Source>> {
        let mut sources: Vec<Arc<dyn Source>> = Vec::new();
        if let Some(vmm) = VmmSource::new(&self.context).expect("the device knows itself") {
            sources.push(Arc::new(vmm));
        }
        sources.push(Arc::new(PlainSource::new(&self.context)));
        sources
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        self.gates.open_all();
        // Nothing may use the counter and the gates when they go; a context that has failed runs
        // nothing any more.
        let _ended = self.context.synchronize();
    }
}

/// A closed gate; it opens when it is dropped.
#[derive(Debug)]
pub struct Gate<'desk> {
    gates: &'desk Gates,
    index: usize,
}

impl Gate<'_> {
    /// Lets the stream go on.
    pub fn open(&self) {
        self.gates.open(self.index);
    }
}

impl Drop for Gate<'_> {
    fn drop(&mut self) {
        self.open();
    }
}

/// A block that is watched while it is handed out.
pub struct Held<'rig> {
    rig: &'rig dyn Rig,
    block: Option<Block>,
    home_id: u64,
}

/// A block that was freed by its owner while a hold keeps it.
pub struct Estate<'rig> {
    rig: &'rig dyn Rig,
    range: DeviceSpan,
    home_id: u64,
}

impl<'rig> Held<'rig> {
    /// Watches a block that was handed out for `stream`.
    pub fn new(rig: &'rig dyn Rig, block: Block, stream: &Stream) -> Self {
        let held = Self { rig, block: Some(block), home_id: stream.id() };
        if stream.order().is_capturing() {
            rig.born_complete(held.range(), held.home_id);
        } else {
            rig.born(held.range(), held.home_id);
        }
        held
    }

    /// The block.
    pub fn block(&self) -> &Block {
        self.block.as_ref().expect("the block leaves only when it is freed")
    }

    /// The block, to be given to a kernel that writes it.
    pub fn block_mut(&mut self) -> &mut Block {
        self.block.as_mut().expect("the block leaves only when it is freed")
    }

    /// Its memory.
    pub fn range(&self) -> DeviceSpan {
        Self::range_of(self.block())
    }

    /// A block's memory.
    pub fn range_of(block: &Block) -> DeviceSpan {
        DeviceSpan { address: block.address(), bytes: block.size() }
    }

    /// Where it begins.
    pub fn address(&self) -> u64 {
        self.block().address()
    }

    /// Writes a word all through it. No use is recorded.
    pub fn fill(&self, stream: &Stream, word: u32) {
        self.rig.desk().fill(stream, self.range(), word);
    }

    /// Counts the words in it that are not `word`. No use is recorded.
    pub fn check(&self, stream: &Stream, word: u32) {
        self.rig.desk().check(stream, self.range(), word);
    }

    /// Gives it back; its former address.
    pub fn free(self) -> u64 {
        let address = self.address();
        self.try_free().expect("a free");
        address
    }

    /// Gives it back.
    pub fn give_back(self) {
        self.try_free().expect("a free");
    }

    /// Gives it back and says what went wrong.
    pub fn try_free(self) -> Result<(), FreeError> {
        self.free_by(Block::free)
    }

    /// Gives it back by another way.
    pub fn free_by(
        mut self,
        free: impl FnOnce(Block) -> Result<(), FreeError>,
    ) -> Result<(), FreeError> {
        self.rig.dead(self.range(), self.home_id);
        free(self.block.take().expect("the block leaves only when it is freed"))
    }

    /// Gives it back although something that still uses it holds it.
    pub fn free_while_held(mut self) -> Estate<'rig> {
        let (rig, range, home_id) = (self.rig, self.range(), self.home_id);
        drop(self.block.take());
        Estate { rig, range, home_id }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        if let Some(block) = self.block.take() {
            let range = DeviceSpan { address: block.address(), bytes: block.size() };
            self.rig.dead(range, self.home_id);
        }
    }
}

impl Estate<'_> {
    /// Where it begins.
    pub fn address(&self) -> u64 {
        self.range.address
    }

    /// The last one that used it is gone.
    pub fn end(self) {
        self.rig.dead(self.range, self.home_id);
    }
}

/// Takes a block; that there is none is a failure of the test.
pub fn take<'rig>(
    rig: &'rig dyn Rig,
    allocator: &Allocator,
    stream: &Stream,
    bytes: u64,
) -> Held<'rig> {
    try_take(rig, allocator, stream, bytes).expect("memory")
}

/// Takes a block that its home writes, and that a user reads after it and is recorded for.
pub fn take_used<'rig>(
    rig: &'rig dyn Rig,
    allocator: &Allocator,
    [home, user]: [&Stream; 2],
) -> Held<'rig> {
    let block = take(rig, allocator, home, WHOLE);
    block.fill(home, 1);
    user.wait_stream(home).expect("a wait");
    block.check(user, 1);
    block.block().record_stream(user);
    block
}

/// Takes a block, if there is one.
pub fn try_take<'rig>(
    rig: &'rig dyn Rig,
    allocator: &Allocator,
    stream: &Stream,
    bytes: u64,
) -> Result<Held<'rig>, AllocError> {
    Ok(Held::new(rig, allocator.allocate(stream, bytes)?, stream))
}

/// Does `work` and insists that it makes no driver call.
pub fn without_calls<R>(rig: &dyn Rig, work: impl FnOnce() -> R) -> R {
    let before = rig.call_count();
    let result = work();
    assert_eq!(rig.call_count() - before, 0, "driver calls where order was known");
    result
}

/// Does `work` and gives how often it called an entry point, where that is counted.
pub fn calls_of<R>(rig: &dyn Rig, entry_point: &str, work: impl FnOnce() -> R) -> (R, Option<u64>) {
    let before = rig.calls_of(entry_point);
    let result = work();
    let after = rig.calls_of(entry_point);
    (result, after.zip(before).map(|(after, before)| after - before))
}

/// How requests were served so far.
pub fn served(allocator: &Allocator) -> ServedBy {
    allocator.stats().served_by
}
