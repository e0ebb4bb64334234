//! Question: how much slower is a program with the checker on?
//! Method: the same two programs with it and without, on the device that `WELLSPRING_DEVICE` names
//! (a simulated one if there is no GPU): a cached allocate + free pair, the cheapest call that is
//! watched, and a step of three streams (an allocation, a fill, two waits, two launches, a free),
//! with the host waiting for the device every 64 steps.
//! Not measured: programs with many more blocks, whose map of bytes is larger.
//! Premise, asserted: the checker has found nothing, so no time goes into reports.
#![expect(clippy::unwrap_used, reason = "a bench that cannot be set up has nothing to measure")]

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use wellspring::{Builder, DeviceBuffer, DeviceChoice, Kernels, Runtime, Stream};

const LEN: usize = 1 << 14;
const STEPS_A_WAIT: u32 = 64;

fn open(checked: bool) -> Runtime {
    let builder = if checked { Builder::new().checked() } else { Builder::new() };
    builder.open_choice(DeviceChoice::from_environment().unwrap()).unwrap()
}

fn name(checked: bool) -> &'static str {
    if checked { "on" } else { "off" }
}

fn assert_silent(runtime: &Runtime) {
    if let Some(checker) = runtime.checker() {
        assert!(checker.is_clean(), "{:?}", checker.reports());
    }
}

fn cached_pair(c: &mut Criterion) {
    let mut group = c.benchmark_group("checker/cached_pair");
    for checked in [false, true] {
        let runtime = open(checked);
        let stream = runtime.create_stream().unwrap();
        let allocator = runtime.allocator();
        drop(allocator.allocate(&stream, 512).unwrap());
        group.bench_function(name(checked), |b| {
            b.iter(|| {
                let block = allocator.allocate_raw(&stream, black_box(512)).unwrap();
                allocator.free_raw(black_box(block)).unwrap();
            });
        });
        assert_silent(&runtime);
    }
    group.finish();
}

/// A producer, two consumers, and a buffer that lives for one step.
struct Program {
    runtime: Runtime,
    kernels: Kernels,
    producer: Stream,
    consumers: [Stream; 2],
    sums: [DeviceBuffer<f32>; 2],
    steps: u32,
}

impl Program {
    fn new(runtime: Runtime) -> Self {
        let kernels = Kernels::load(runtime.context()).unwrap();
        let producer = runtime.create_stream().unwrap();
        let consumers = [runtime.create_stream().unwrap(), runtime.create_stream().unwrap()];
        let sum = |stream| DeviceBuffer::<f32>::zeroed(&runtime, stream, LEN).unwrap();
        let sums = [sum(&consumers[0]), sum(&consumers[1])];
        Self { kernels, producer, consumers, sums, steps: 0, runtime }
    }

    fn step(&mut self) {
        let mut buffer = DeviceBuffer::<f32>::new(&self.runtime, &self.producer, LEN).unwrap();
        let _filled = buffer.fill(&self.producer, 1.0).unwrap();
        for (consumer, sum) in self.consumers.iter().zip(&mut self.sums) {
            consumer.wait_stream(&self.producer).unwrap();
            let _added = self.kernels.scale_add(consumer, sum, &buffer, 1.0).unwrap();
        }
        drop(buffer);
        self.steps += 1;
        if self.steps.is_multiple_of(STEPS_A_WAIT) {
            self.runtime.synchronize().unwrap();
        }
    }
}

fn three_streams(c: &mut Criterion) {
    let mut group = c.benchmark_group("checker/three_streams_step");
    for checked in [false, true] {
        let mut program = Program::new(open(checked));
        group.bench_function(name(checked), |b| b.iter(|| program.step()));
        program.runtime.synchronize().unwrap();
        assert_silent(&program.runtime);
    }
    group.finish();
}

criterion_group!(benches, cached_pair, three_streams);
criterion_main!(benches);
