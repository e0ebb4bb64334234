//! A simulated machine with a driver opened on it.

use cuda_sim::{DeviceProfile, Machine, Schedule};
use streams::memory::DeviceMemory;
use streams::{Context, DeviceSpan, Driver, Point, RawSpan, Stream, StreamOptions};

/// The machine goes last: its place among the machines is taken by another one at once.
pub(crate) struct Rig {
    pub(crate) context: Context,
    pub(crate) driver: Driver,
    pub(crate) machine: Machine,
}

/// A block of device memory and where it is. Dropped, it waits for the whole context first.
pub(crate) struct Block {
    context: Context,
    #[expect(dead_code, reason = "owns the memory")]
    memory: DeviceMemory,
    pub(crate) span: RawSpan,
}

impl Drop for Block {
    fn drop(&mut self) {
        let _ = self.context.synchronize();
    }
}

pub(crate) const BYTES: u64 = 4096;

impl Rig {
    /// Nothing runs until something needs it: the host runs ahead of the device.
    pub(crate) fn lazy() -> Self {
        Self::with(Schedule::Lazy, DeviceProfile::h200())
    }

    /// Everything runs at once: the device keeps up with the host.
    pub(crate) fn eager() -> Self {
        Self::with(Schedule::Eager, DeviceProfile::h200())
    }

    pub(crate) fn with(schedule: Schedule, profile: DeviceProfile) -> Self {
        let machine = Machine::builder().device(profile).schedule(schedule).build();
        Self::on(machine)
    }

    pub(crate) fn on(machine: Machine) -> Self {
        let driver = Driver::from_table(machine.table()).unwrap();
        let context = driver.device(0).unwrap().primary_context().unwrap();
        Self { machine, driver, context }
    }

    pub(crate) fn stream(&self) -> Stream {
        self.context.create_stream(StreamOptions::default()).unwrap()
    }

    pub(crate) fn streams<const N: usize>(&self) -> [Stream; N] {
        std::array::from_fn(|_| self.stream())
    }

    pub(crate) fn block(&self) -> Block {
        let memory = DeviceMemory::allocate(&self.context, BYTES).unwrap();
        // SAFETY: the block waits for everything before its memory goes.
        let span = unsafe { RawSpan::from_raw(memory.address(), memory.bytes()) };
        Block { context: self.context.clone(), memory, span }
    }

    /// Queues a use of `block` on `stream`; the point that covers it.
    pub(crate) fn use_on(&self, stream: &Stream, block: &Block) -> Point {
        stream.fill_bytes(&block.span, 0, BYTES, 1).unwrap().point()
    }

    /// How many calls of an entry point were made so far.
    pub(crate) fn calls(&self, name: &'static str) -> u64 {
        self.machine.calls(name)
    }

    /// What is known of `point` on `stream` is true: the checker, which knows the whole graph,
    /// finds an edge. Knowledge missing where there is an edge is `shy`.
    pub(crate) fn assert_known(&self, stream: &Stream, point: Point, block: &Block, known: bool) {
        assert_eq!(stream.order().knows(point), known, "{point:?}");
        let raw = self.machine.stream_with_id(stream.id()).unwrap();
        let DeviceSpan { address, bytes } = block.span.span();
        let edge = self.machine.probe(address, bytes, raw);
        assert_eq!(edge.is_ok(), known, "the checker says otherwise: {edge:?}");
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            assert_eq!(self.machine.hazards(), [], "the program of this test has a hazard");
        }
    }
}
