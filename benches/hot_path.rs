//! Question: what does allocate + free cost when the block is already cached?
//! Method: on the simulated driver, whose calls are not part of the path, so only our bookkeeping
//! counts; through the public API, with statistics on, on one thread. Beside it, in the same
//! group, mimalloc's small pair: 64 bytes of host memory, the cheapest pair a general allocator
//! has. The peer and each of our ways take turns of 1,000 pairs, of which only one's are timed, so
//! that what the processor does meanwhile and what the caches hold is the same for both. `raw` is
//! [`Allocator::allocate_raw`] and [`Allocator::free_raw`], numbers in and numbers out, as
//! mimalloc's are; `Block` is the owning handle, which keeps the allocator alive.
//! `hot_path --go WAY COUNT` goes one of the ways so many times and measures nothing, for tools
//! that count instructions.
//! Not measured: the driver, the GPU, contention between threads.
//! Unfairness: alone in a loop of its own mimalloc's pair is faster than in turns on some
//! processors, by up to two fifths, and ours is not; mimalloc keeps no statistics here and serves
//! one size from a thread's own page, without a lock.
#![expect(clippy::unwrap_used, reason = "a bench that cannot be set up has nothing to measure")]
#![expect(clippy::print_stdout, reason = "the way that was gone is told to who counts")]
#![expect(clippy::indexing_slicing, reason = "the mix reduces every index to its array's length")]

use std::alloc::{GlobalAlloc, Layout};
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use allocator::observe::{Happening, Observer};
use allocator::{Allocator, Block, Bytes, Config, RawBlock};
use criterion::measurement::WallTime;
use criterion::{Bencher, BenchmarkGroup, BenchmarkId, Criterion, criterion_group};
use mimalloc::MiMalloc;
use streams::{Driver, Stream, StreamOptions};

static PEER: MiMalloc = MiMalloc;

/// How many blocks the mix keeps, of how many sizes.
const LIVE: usize = 1_000;
const SIZES: usize = 64;
/// Steps of the mix before it is measured: every block has been replaced many times by then.
const WARM_STEPS: usize = 200_000;

struct Rig {
    machine: cuda_sim::Machine,
    allocator: Allocator,
    stream: Stream,
}

impl Rig {
    fn new() -> Self {
        Self::on(cuda_sim::Schedule::Eager)
    }

    /// A rig whose streams do nothing before somebody waits for them.
    fn lazy() -> Self {
        Self::on(cuda_sim::Schedule::Lazy)
    }

    fn on(schedule: cuda_sim::Schedule) -> Self {
        let machine = cuda_sim::Machine::builder()
            .device(cuda_sim::DeviceProfile::h200())
            .schedule(schedule)
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

    fn allocate_raw(&self, bytes: u64) -> RawBlock {
        self.allocator.allocate_raw(&self.stream, bytes).unwrap()
    }

    fn free_raw(&self, block: RawBlock) {
        self.allocator.free_raw(block).unwrap();
    }

    fn pair(&self, bytes: u64) {
        drop(black_box(self.allocate(black_box(bytes))));
    }

    fn raw_pair(&self, bytes: u64) {
        self.free_raw(black_box(self.allocate_raw(black_box(bytes))));
    }
}

/// How many pairs one way makes before it is the other's turn.
const TURN: u64 = 1_000;

/// Times `own`, which takes turns with `other`: as many pairs as are asked for would take so long
/// at the pace of the median turn. A turn in which somebody else had the processor says nothing.
fn in_turns(bencher: &mut Bencher<'_>, mut own: impl FnMut(), mut other: impl FnMut()) {
    bencher.iter_custom(|count| {
        let mut turn = || {
            (0..TURN).for_each(|_| other());
            let begun = Instant::now();
            (0..TURN).for_each(|_| own());
            begun.elapsed()
        };
        let mut turns: Vec<Duration> = (0..count.div_ceil(TURN)).map(|_| turn()).collect();
        turns.sort_unstable();
        let nanoseconds = turns[turns.len() / 2].as_nanos() * u128::from(count) / u128::from(TURN);
        Duration::from_nanos(u64::try_from(nanoseconds).unwrap())
    });
}

fn peer_pair() {
    let layout = Layout::new::<[u8; 64]>();
    // SAFETY: the layout has a size above zero.
    let pointer = unsafe { PEER.alloc(black_box(layout)) };
    // SAFETY: the pointer came from the same allocator with the same layout.
    unsafe { PEER.dealloc(black_box(pointer), layout) };
}

/// Sets how long a group is measured, and measures the peer's pair, in turns with `other`.
fn begin(group: &mut BenchmarkGroup<'_, WallTime>, mut other: impl FnMut()) {
    group.warm_up_time(Duration::from_secs(1)).measurement_time(Duration::from_secs(2));
    group.bench_function("mimalloc, 64 bytes", |b| in_turns(b, peer_pair, &mut other));
}

fn cached_pair(c: &mut Criterion) {
    let mut group = c.benchmark_group("cached_pair");
    let rig = Rig::new();
    drop(rig.allocate(512));
    begin(&mut group, || rig.pair(512));
    for bytes in [512_u64, 2 << 20, 256 << 20] {
        let rig = Rig::new();
        rig.free_raw(rig.allocate_raw(bytes));
        let calls_before = rig.machine.call_count();
        group.bench_function(BenchmarkId::new("raw", Bytes(bytes)), |b| {
            in_turns(b, || rig.raw_pair(bytes), peer_pair);
        });
        assert_eq!(calls_before, rig.machine.call_count(), "a cached pair reached the driver");
    }
    let calls_before = rig.machine.call_count();
    group.bench_function(BenchmarkId::new("Block", Bytes(512)), |b| {
        in_turns(b, || rig.pair(512), peer_pair);
    });
    assert_eq!(calls_before, rig.machine.call_count(), "a cached pair reached the driver");
    group.finish();
}

/// A second stream uses what is allocated. The home stream has waited for it, by an event that is
/// known to have passed or not. The second stream makes no progress meanwhile, so nothing is asked
/// and nothing is waited for.
struct Recorded {
    _used: Block,
    user: Stream,
    rig: Rig,
}

impl Recorded {
    fn new(is_complete: bool) -> Self {
        let rig = Rig::lazy();
        let user = rig.stream.context().create_stream(StreamOptions::default()).unwrap();
        let used = rig.allocate(2 << 20);
        let _running = user.fill_bytes(&used, 0, 2 << 20, 1).unwrap();
        rig.stream.wait_stream(&user).unwrap();
        if is_complete {
            user.synchronize().unwrap();
        }
        let recorded = Self { _used: used, user, rig };
        recorded.pair();
        recorded
    }

    fn pair(&self) {
        let block = self.rig.allocate(512);
        block.record_stream(black_box(&self.user));
        drop(black_box(block));
    }

    fn raw_pair(&self) {
        let block = self.rig.allocate_raw(512);
        self.rig.allocator.record_stream_raw(block, black_box(&self.user)).unwrap();
        self.rig.free_raw(black_box(block));
    }
}

/// Allocate, say that a second stream uses the block, free.
fn recorded_pair(c: &mut Criterion) {
    let mut group = c.benchmark_group("recorded_pair");
    let ordered = Recorded::new(false);
    begin(&mut group, || ordered.pair());
    for is_complete in [true, false] {
        let recorded = Recorded::new(is_complete);
        let calls_before = recorded.rig.machine.call_count();
        let name = if is_complete { "complete" } else { "ordered" };
        group.bench_function(BenchmarkId::new("Block, record_stream", name), |b| {
            in_turns(b, || recorded.pair(), peer_pair);
        });
        group.bench_function(BenchmarkId::new("raw, record_stream", name), |b| {
            in_turns(b, || recorded.raw_pair(), peer_pair);
        });
        let rig = &recorded.rig;
        assert_eq!(calls_before, rig.machine.call_count(), "a recorded pair reached the driver");
        assert_eq!(rig.allocator.stats().deferred_free_total, 0, "a free was not ordered");
    }
    group.finish();
}

/// 64 sizes over 1,000 live blocks; a step frees one, in scrambled order, and allocates the next
/// size in its place.
fn mixed_sizes(c: &mut Criterion) {
    let mut group = c.benchmark_group("mixed_sizes");
    let rig = Rig::new();
    let mut mix = Mix::new(&rig);
    (0..WARM_STEPS).for_each(|_| mix.step());
    let calls_before = rig.machine.call_count();
    begin(&mut group, || mix.step());
    group.bench_function("raw, 64 sizes over 1000 live", |b| {
        in_turns(b, || mix.step(), peer_pair);
    });
    assert_eq!(calls_before, rig.machine.call_count(), "a warm mix reached the driver");
    group.finish();
}

/// The blocks of the mix, and which comes next.
struct Mix<'rig> {
    rig: &'rig Rig,
    sizes: [u64; SIZES],
    live: Vec<RawBlock>,
    place: usize,
    size: usize,
}

impl<'rig> Mix<'rig> {
    fn new(rig: &'rig Rig) -> Self {
        // From 512 bytes to 6 MiB, in growing steps.
        let size_of = |step: usize| 512 + 1_531 * u64::try_from(step * step).unwrap();
        let sizes = std::array::from_fn(size_of);
        let live = (0..LIVE).map(|index| rig.allocate_raw(sizes[index % SIZES])).collect();
        Self { rig, sizes, live, place: 0, size: 0 }
    }

    fn step(&mut self) {
        self.place = (self.place + 619) % LIVE;
        self.size = (self.size + 37) % SIZES;
        self.rig.free_raw(self.live[self.place]);
        self.live[self.place] = self.rig.allocate_raw(self.sizes[self.size]);
    }
}

/// Goes one way so many times and measures nothing: for a tool that counts instructions, such as
/// `cargo xtask observers`. Says whether an observer is told of anything in this build.
fn go(way: &str, count: u64) {
    let is_told = {
        let rig = Rig::new();
        let told = Arc::new(Told::default());
        let context = rig.stream.context();
        let watched = Allocator::new_observed(&context, Config::default(), told.clone()).unwrap();
        drop(watched.allocate(&rig.stream, 512).unwrap());
        told.0.load(Ordering::Relaxed)
    };
    println!("observers are told: {is_told}");
    match way {
        "raw" => {
            let rig = Rig::new();
            (0..count).for_each(|_| rig.raw_pair(512));
        }
        "block" => {
            let rig = Rig::new();
            (0..count).for_each(|_| rig.pair(512));
        }
        "raw-recorded" => {
            let recorded = Recorded::new(false);
            (0..count).for_each(|_| recorded.raw_pair());
        }
        "block-recorded" => {
            let recorded = Recorded::new(false);
            (0..count).for_each(|_| recorded.pair());
        }
        "mix" => {
            let rig = Rig::new();
            let mut mix = Mix::new(&rig);
            (0..count).for_each(|_| mix.step());
        }
        _ => panic!("no such way: {way}"),
    }
}

/// Whether anything was told.
#[derive(Default)]
struct Told(AtomicBool);

impl Observer for Told {
    fn observe(&self, _happening: &Happening) {
        self.0.store(true, Ordering::Relaxed);
    }
}

criterion_group!(benches, cached_pair, recorded_pair, mixed_sizes);

fn main() {
    let mut words = std::env::args().skip_while(|word| word != "--go").skip(1);
    if let (Some(way), Some(count)) = (words.next(), words.next()) {
        return go(&way, count.parse().unwrap());
    }
    benches();
    Criterion::default().configure_from_args().final_summary();
}
