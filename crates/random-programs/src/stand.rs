//! What the threads of one program share: a simulated machine, tools on its device, and what was
//! found wrong.

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use allocator::Block;
use checker::{Checker, Report};
use cuda_sim::{DeviceProfile, Machine};
use kernels::launch::Kernels;
use streams::launch::{DeviceSlice, DeviceSliceMut};
use streams::memory::DeviceMemory;
use streams::{Context, DeviceSpan, Driver, Gates, Stream, StreamOptions};

use crate::blocks::Piece;
use crate::draw::{GATES_MAX, MARKS_MAX};
use crate::live_ranges::LiveRanges;
use crate::meetings::Meetings;
use crate::outcome::Finding;
use crate::program::Setup;
use crate::raw::uncounted;
use crate::workers::Progress;

const DEVICE_BYTES: u64 = 1 << 30;
/// A word in every so many is written and checked.
const STRIDE_WORDS: u64 = 64 << 10;
/// How long a stream is busy that is to be busy for a while.
const BUSY_NANOSECONDS: u64 = 25_000_000;
const CELL_BYTES: u64 = 4;

/// A block on its way to another thread.
pub(crate) struct Parcel {
    pub(crate) from: usize,
    pub(crate) piece: Piece,
}

/// What the threads of one program share.
pub(crate) struct Stand {
    pub(crate) context: Context,
    pub(crate) kernels: Kernels,
    pub(crate) judge: Judge,
    gates: Gates,
    gates_used: AtomicUsize,
    /// Counts the words that were not what they should have been.
    counter: DeviceMemory,
    cells: DeviceMemory,
    ranges: Mutex<LiveRanges>,
    findings: Mutex<Vec<Finding>>,
    parcels: Mutex<Vec<Parcel>>,
    /// Watches the program, if it is to.
    pub(crate) checker: Option<Arc<Checker>>,
    /// How far the program came.
    pub(crate) progress: Arc<Progress>,
    /// Captures, and what must not meet one.
    pub(crate) meetings: Meetings,
    /// The first hazard, or hand-out that is one, in words.
    first_hazard: Mutex<Option<String>>,
    /// A mistake was made on purpose, and found: what comes after it means nothing.
    mistaken: AtomicBool,
    /// The last to go: it is told of everything that the others give back.
    pub(crate) machine: Machine,
}

/// A stream that waits for nothing, ever: what comes before its next operation is complete for
/// everybody.
pub(crate) struct Judge {
    pub(crate) stream: Stream,
    pub(crate) handle: usize,
}

impl Stand {
    pub(crate) fn new(setup: &Setup, progress: Arc<Progress>) -> Self {
        allocator::set_yield_point(cuda_sim::yield_point);
        let mut profile = DeviceProfile::small(DEVICE_BYTES);
        if setup.one_queue {
            profile = profile.with_hardware_queues(NonZeroU32::MIN);
        }
        let machine = Machine::builder().device(profile).schedule(setup.schedule.clone()).build();
        kernels::simulated::register(&machine);
        let checker = setup.checked.then(|| Arc::new(Checker::new()));
        let driver = match &checker {
            Some(checker) => Driver::from_table_observed(machine.table(), Arc::clone(checker) as _),
            None => Driver::from_table(machine.table()),
        };
        let driver = driver.expect("the simulated driver starts");
        let device = driver.device(0).expect("the machine has a device");
        let context = device.primary_context().expect("a context");
        let kernels = Kernels::load(&context).expect("the kernels load");
        let gates = kernels.gates(GATES_MAX).expect("pinned words for the gates");
        let counter = DeviceMemory::allocate(&context, 8).expect("memory for the counter");
        let cells = CELL_BYTES * u64::from(MARKS_MAX);
        let cells = DeviceMemory::allocate(&context, cells).expect("memory for the marks");
        let stream = context.create_stream(StreamOptions::default()).expect("a stream");
        let counted = DeviceSpan { address: counter.address(), bytes: 8 };
        let cleared =
            stream.fill_words(&uncounted(counted), 0, 2, 0).expect("the counter is cleared");
        cleared.wait().expect("the fill ends");
        let handle = machine.stream_with_id(stream.id()).expect("a living stream");
        let earlier = || context.create_stream(StreamOptions::default()).expect("a stream");
        let earlier: Vec<Stream> = (0..setup.earlier_streams).map(|_| earlier()).collect();
        earlier.iter().for_each(Stream::retire);
        Self {
            context,
            kernels,
            judge: Judge { stream, handle },
            gates,
            gates_used: AtomicUsize::new(0),
            counter,
            cells,
            ranges: Mutex::default(),
            findings: Mutex::default(),
            parcels: Mutex::default(),
            checker,
            progress,
            meetings: Meetings::default(),
            first_hazard: Mutex::default(),
            mistaken: AtomicBool::new(false),
            machine,
        }
    }

    pub(crate) fn stream(&self) -> Stream {
        self.context.create_stream(StreamOptions::default()).expect("a stream")
    }

    pub(crate) fn report(&self, finding: Finding) {
        lock(&self.findings).push(finding);
    }

    /// What was found so far, the machine's hazards included; after a mistake that was found,
    /// nothing but what the verdicts say.
    pub(crate) fn take_findings(&self) -> Vec<Finding> {
        let mut all = std::mem::take(&mut *lock(&self.findings));
        let hazards = self.machine.take_hazards();
        if let Some(first) = hazards.first() {
            lock(&self.first_hazard).get_or_insert_with(|| first.to_string());
        }
        if self.has_ended_with_a_mistake() {
            all.retain(|finding| matches!(finding, Finding::Verdicts(_)));
            return all;
        }
        all.extend(hazards.iter().map(|hazard| Finding::Hazard(hazard.to_string())));
        all
    }

    /// Whether nothing was found so far.
    pub(crate) fn is_clean(&self) -> bool {
        lock(&self.findings).is_empty()
            && self.machine.hazard_count() == 0
            && !self.has_ended_with_a_mistake()
    }

    /// Whether the simulator found a hazard, or a hand-out that is one.
    pub(crate) fn has_hazards(&self) -> bool {
        0 < self.machine.hazard_count() || lock(&self.first_hazard).is_some()
    }

    /// The first hazard, in words.
    pub(crate) fn first_hazard(&self) -> Option<String> {
        let known = lock(&self.first_hazard).clone();
        known.or_else(|| self.machine.hazards().first().map(ToString::to_string))
    }

    /// What the checker reports so far.
    pub(crate) fn reports(&self) -> Vec<Report> {
        self.checker.as_ref().map_or_else(Vec::new, |checker| checker.reports())
    }

    /// The program ends: a mistake that it made was found.
    pub(crate) fn end_with_a_mistake(&self) {
        self.mistaken.store(true, Ordering::Relaxed);
    }

    pub(crate) fn has_ended_with_a_mistake(&self) -> bool {
        self.mistaken.load(Ordering::Relaxed)
    }

    /// A block was handed out: it is declared, and asked about for whoever uses it next (S3).
    pub(crate) fn born(&self, range: DeviceSpan, stream: usize, asked_of: usize) {
        lock(&self.ranges).add(range);
        self.machine.born(range.address, range.bytes, stream);
        if let Err(hazard) = self.machine.probe(range.address, range.bytes, asked_of) {
            lock(&self.first_hazard).get_or_insert_with(|| hazard.to_string());
            self.report(Finding::HandedOutEarly(hazard.to_string()));
        }
    }

    /// A block is about to be given back.
    pub(crate) fn dead(&self, range: DeviceSpan) {
        lock(&self.ranges).remove(range);
        self.machine.dead(range.address, range.bytes, self.judge.handle);
    }

    /// How many bytes are handed out, by the model.
    pub(crate) fn live_bytes(&self) -> u64 {
        lock(&self.ranges).bytes()
    }

    pub(crate) fn busy(&self, stream: &Stream) {
        let _running = self.kernels.spin(stream, BUSY_NANOSECONDS).expect("a spin");
    }

    /// Holds a stream up; gives the gate, if there is one left.
    pub(crate) fn close_gate(&self, stream: &Stream) -> Option<usize> {
        let index = self.gates_used.fetch_add(1, Ordering::Relaxed);
        if GATES_MAX <= index {
            return None;
        }
        let _closed = self.gates.close(stream, index).expect("a gate is closed");
        Some(index)
    }

    pub(crate) fn open_gate(&self, index: usize) {
        self.gates.open(index);
    }

    /// Writes a word to both ends of memory and in places between.
    pub(crate) fn write(&self, stream: &Stream, memory: &mut impl DeviceSliceMut<u32>, word: u32) {
        let stamped = self.kernels.stamp(stream, memory, STRIDE_WORDS, word);
        let _running = stamped.expect("a stamp");
    }

    /// Counts the words of [`Stand::write`] that are not `word`.
    pub(crate) fn check(&self, stream: &Stream, memory: &impl DeviceSlice<u32>, word: u32) {
        let mut counter = uncounted(self.counted());
        let checked = self.kernels.check_stamp(stream, memory, STRIDE_WORDS, word, &mut counter);
        let _running = checked.expect("a check");
    }

    fn counted(&self) -> DeviceSpan {
        DeviceSpan { address: self.counter.address(), bytes: 8 }
    }

    /// The memory of one mark.
    pub(crate) fn cell(&self, mark: u32) -> DeviceSpan {
        let offset = u64::from(mark % MARKS_MAX) * CELL_BYTES;
        DeviceSpan { address: self.cells.address() + offset, bytes: CELL_BYTES }
    }

    /// How many words were wrong; everything has ended before.
    pub(crate) fn mismatches(&self) -> u64 {
        let mut bytes = [0; 8];
        let copied = self.judge.stream.copy_to_host(&mut bytes, &uncounted(self.counted()), 0);
        let _done = copied.expect("the counter is read");
        u64::from_le_bytes(bytes)
    }

    pub(crate) fn send(&self, parcel: Parcel) {
        lock(&self.parcels).push(parcel);
    }

    /// A parcel that another thread has sent.
    pub(crate) fn receive(&self, thread: usize) -> Option<Piece> {
        let mut parcels = lock(&self.parcels);
        let place = parcels.iter().position(|parcel| parcel.from != thread)?;
        Some(parcels.swap_remove(place).piece)
    }

    /// The parcels that nobody received.
    pub(crate) fn take_parcels(&self) -> Vec<Piece> {
        let parcels = std::mem::take(&mut *lock(&self.parcels));
        parcels.into_iter().map(|parcel| parcel.piece).collect()
    }
}

impl Drop for Stand {
    fn drop(&mut self) {
        // What a program that ended early left running is not to use memory that goes with it.
        self.gates.open_all();
        let _ended = self.context.synchronize();
    }
}

/// The memory of a block.
pub(crate) fn range(block: &Block) -> DeviceSpan {
    DeviceSpan { address: block.address(), bytes: block.size() }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
