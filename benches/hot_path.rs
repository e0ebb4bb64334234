//! Question: what does allocate + free cost when the block is already cached?
//! Method: on the simulated driver, whose calls are not part of the path, so only our bookkeeping
//! counts; through the public API, with statistics on. Beside it, in the same run, mimalloc's
//! small pair: 64 bytes of host memory, the cheapest pair a general allocator has.
//! Not measured: the driver, the GPU, contention between threads.
//! Unfairness: mimalloc keeps no statistics here and serves one size from a thread's own page.
#![expect(clippy::unwrap_used, reason = "a bench that cannot be set up has nothing to measure")]
#![expect(missing_docs, reason = "criterion's macros define public functions")]

use std::alloc::{GlobalAlloc, Layout};
use std::hint::black_box;

use allocator::{Allocator, Block, Config};
use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use mimalloc::MiMalloc;
use streams::{Driver, Stream, StreamOptions};

static PEER: MiMalloc = MiMalloc;

struct Rig {
    machine: cuda_sim::Machine,
    allocator: Allocator,
    stream: Stream,
}

impl Rig {
    fn new() -> Self {
        let machine = cuda_sim::Machine::builder()
            .device(cuda_sim::DeviceProfile::h200())
            .schedule(cuda_sim::Schedule::Eager)
            .build();

        let driver = Driver::from_table(machine.table()).unwrap();
        let context = driver.device(0).unwrap().primary_context().unwrap();
        let stream = context.create_stream(StreamOptions::default()).unwrap();
        let allocator = Allocator::new(&context, Config::default()).unwrap();
        Self { machine, allocator, stream }
    }

    fn allocate(&self, bytes: u64) -> Block {
        self.allocator.allocate(&self.stream, bytes).unwrap()
    }
}

fn cached_pair(c: &mut Criterion) {
    let mut group = c.benchmark_group("hot_path/cached_pair");
    group.bench_function("mimalloc 64 B", |b| {
        let layout = Layout::new::<[u8; 64]>();
        b.iter(|| {
            // SAFETY: the layout has a size above zero.
            let pointer = unsafe { PEER.alloc(black_box(layout)) };
            // SAFETY: the pointer came from the same allocator with the same layout.
            unsafe { PEER.dealloc(black_box(pointer), layout) };
        });
    });
    for bytes in [512_u64, 2 << 20, 256 << 20] {
        let rig = Rig::new();
        drop(rig.allocate(bytes));
        let calls_before = rig.machine.call_count();
        group.bench_function(BenchmarkId::from_parameter(bytes), |b| {
            b.iter(|| black_box(rig.allocate(black_box(bytes))));
        });
        assert_eq!(calls_before, rig.machine.call_count(), "a cached pair reached the driver");
    }
    group.finish();
}

/// 64 sizes over 1,000 live blocks; each step frees one, in scrambled order, and allocates the
/// next size in its place.
fn mixed_sizes(c: &mut Criterion) {
    const LIVE: usize = 1_000;
    let sizes: Vec<u64> = (0..64_u64).map(|step| 512 + step * step * 1_531).collect();
    let rig = Rig::new();
    let mut live: Vec<Option<Block>> =
        (0..LIVE).map(|index| Some(rig.allocate(sizes[index % 64]))).collect();
    let mut group = c.benchmark_group("hot_path/mixed_sizes");
    let (mut place, mut size) = (0, 0);
    let mut step = || {
        place = (place + 619) % LIVE;
        size = (size + 37) % 64;
        live[place] = None;
        live[place] = Some(rig.allocate(sizes[size]));
    };
    (0..200_000).for_each(|_| step());
    let calls_before = rig.machine.call_count();
    group.bench_function("64 sizes, 1000 live", |b| b.iter(&mut step));
    assert_eq!(calls_before, rig.machine.call_count(), "a warm mix reached the driver");
    group.finish();
}

criterion_group!(benches, cached_pair, mixed_sizes);
criterion_main!(benches);
