//! Faults planted in small programs, each beside its repair: the checker finds the one and says
//! nothing of the other, on the simulated device and on a GPU.
//!
//! A program gets `broken`; where that is false it does what the report's remedy says.

mod lifetime;
mod order;

use checker::{Kind, Report};
use streams::{DeviceSpan, RawSpan};
use wellspring::{DeviceBuffer, Kernels, Runtime, Stream};

use crate::scenarios::raw::uncounted;

/// How many words a buffer has.
pub const WORDS: usize = 1 << 16;
/// How long a stream is busy that is to be busy for a while.
const BUSY_NANOSECONDS: u64 = 10_000_000;

/// A program with a fault.
pub struct Planted {
    /// What it is about.
    pub name: &'static str,
    /// What the checker must say.
    pub kind: Kind,
    /// The program.
    pub program: fn(&Stage, bool),
}

/// What a program works with: a runtime with its checker on, and three streams.
pub struct Stage {
    pub runtime: Runtime,
    pub kernels: Kernels,
    pub streams: [Stream; 3],
}

impl Stage {
    /// A stage on a runtime that was opened with the checker.
    pub fn new(runtime: Runtime) -> Self {
        let kernels = Kernels::load(runtime.context()).expect("the kernels load");
        let stream = |_| runtime.create_stream().expect("a stream");
        let streams = std::array::from_fn(stream);
        let stage = Self { kernels, streams, runtime };
        // Nothing that a program queues is done before the program has ended.
        stage.streams.iter().for_each(|stream| stage.busy(stream));
        stage
    }

    /// A buffer of words for a stream.
    #[track_caller]
    pub fn buffer(&self, stream: &Stream) -> DeviceBuffer<u32> {
        DeviceBuffer::new(&self.runtime, stream, WORDS).expect("memory")
    }

    /// Keeps a stream busy for a while.
    pub fn busy(&self, stream: &Stream) {
        let _running = self.kernels.spin(stream, BUSY_NANOSECONDS).expect("a spin");
    }

    /// Writes all of a buffer.
    #[track_caller]
    pub fn write(&self, stream: &Stream, buffer: &mut DeviceBuffer<u32>) {
        let _queued = self.kernels.fill_u32(stream, buffer, 1).expect("a fill");
    }

    /// Reads all of a buffer, into one that belongs to the stream.
    #[track_caller]
    pub fn read(&self, stream: &Stream, buffer: &DeviceBuffer<u32>) {
        let mut target = self.buffer(stream);
        let _queued = self.kernels.copy_u32(stream, &mut target, buffer).expect("a copy");
    }

    /// Reads all of a span, of which nobody is told.
    #[track_caller]
    pub fn read_raw(&self, stream: &Stream, span: &RawSpan) {
        let mut target = self.buffer(stream);
        let _queued = self.kernels.copy_u32(stream, &mut target, span).expect("a copy");
    }

    /// Writes all of a span, of which nobody is told.
    #[track_caller]
    pub fn write_raw(&self, stream: &Stream, span: &mut RawSpan) {
        let _queued = self.kernels.fill_u32(stream, span, 1).expect("a fill");
    }
}

/// A buffer's memory, whose uses nobody is told of.
pub fn raw(buffer: &DeviceBuffer<u32>) -> RawSpan {
    uncounted(DeviceSpan { address: buffer.address(), bytes: buffer.bytes() })
}

/// All faults.
pub fn all() -> impl Iterator<Item = &'static Planted> {
    order::ALL.iter().chain(lifetime::ALL)
}

/// Runs a program with its fault, or repaired; nothing may be left queued.
pub fn reports(planted: &Planted, runtime: Runtime, broken: bool) -> Vec<Report> {
    let stage = Stage::new(runtime);
    (planted.program)(&stage, broken);
    stage.runtime.synchronize().expect("all ends");
    stage.runtime.checker().expect("the checker is on").reports()
}

/// Fails unless the reports are the one that the fault is to give, complete in every part.
pub fn assert_found(planted: &Planted, reports: &[Report]) {
    let name = planted.name;
    let listed: String = reports.iter().map(|report| format!("\n{report}")).collect();
    let first = reports.iter().find(|report| report.kind == planted.kind);
    let Some(report) = first else { panic!("{name}: {:?} was not found: {listed}", planted.kind) };
    assert!(is_here(report.later.line), "{name}: the line of the later is named: {listed}");
    assert!(!report.remedy.is_empty(), "{name}: {listed}");
    if let Some(buffer) = report.buffer {
        assert!(is_here(buffer.allocated), "{name}: the allocation is named: {listed}");
        assert_eq!(buffer.requested, 4 << 16, "{name}: the buffer is named: {listed}");
        let earlier = report.earlier.as_ref().expect("two things conflict");
        let is_drop = earlier.what == "free" && earlier.line.0.is_none();
        assert!(is_drop || is_here(earlier.line), "{name}: both lines are named: {listed}");
        let ids = [earlier.stream.id, report.later.stream.id];
        assert!(ids.iter().all(|id| *id != 0), "{name}: both streams are named: {listed}");
    }
    let text = report.to_string();
    assert!(text.contains("remedy: "), "{name}: {text}");
}

/// Whether it is a line of the planted programs.
fn is_here(line: checker::Line) -> bool {
    line.0.is_some_and(|place| place.file().contains("/checker/"))
}
