//! How long the slowest of many calls take, at the rate of a busy server.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Barrier, Mutex};
use std::time::{Duration, Instant};

use allocator::{Allocator, RawBlock};
use streams::memory::PinnedMemory;
use streams::{Context, Stream};
use wellspring::{Builder, DeviceChoice, Runtime};

use crate::Extent;
use crate::figures::Tail;

/// 20,000 requests a second of ten allocations each, from so many threads.
const THREADS: u32 = 32;
const REQUESTS_PER_SECOND: u32 = 20_000;
const ALLOCATIONS: usize = 10;
/// Threads that meanwhile create and destroy events, so many at a time, with a pause between.
const MAKERS: usize = 2;
const EVENTS: usize = 16;
const PAUSE: Duration = Duration::from_micros(100);
/// Threads that ask for pinned memory, and how much at a time.
const PINNING: usize = 4;
const PINNED_BYTES: usize = 64 << 10;
/// Of a thousand calls at most one takes longer than a launch takes the host, in nanoseconds.
const GOAL: f64 = 5_000.0;

/// An allocator, and a lock over its structure for the way that has one.
struct Server<'a> {
    allocator: &'a Allocator,
    lock: Option<Mutex<()>>,
}

impl Server<'_> {
    /// Does something as one who touches the structure.
    fn inside<T>(&self, work: impl FnOnce() -> T) -> T {
        let _held = self.lock.as_ref().map(|lock| lock.lock().unwrap());
        work()
    }

    fn allocate(&self, stream: &Stream, bytes: u64) -> RawBlock {
        self.inside(|| self.allocator.allocate_raw(stream, bytes).unwrap())
    }

    fn free(&self, block: RawBlock) {
        self.inside(|| self.allocator.free_raw(block).unwrap());
    }

    /// Creates, records and destroys events, as an allocator does that has no pool of them.
    fn make_events(&self, context: &Context, stream: &Stream) {
        for _ in 0..EVENTS {
            self.inside(|| {
                let event = context.create_event().unwrap();
                stream.record(&event).unwrap();
            });
        }
    }
}

fn open() -> Runtime {
    Builder::new().open_choice(DeviceChoice::from_environment().unwrap()).unwrap()
}

/// How long something takes, in nanoseconds.
fn timed<T>(latencies: &mut Vec<u32>, work: impl FnOnce() -> T) -> T {
    let began = Instant::now();
    let made = work();
    latencies.push(u32::try_from(began.elapsed().as_nanos()).unwrap_or(u32::MAX));
    made
}

/// What one thread serves in a turn: requests at their times, each of which takes its memory and
/// gives it back.
fn serve(server: &Server<'_>, stream: &Stream, mut due: Instant, end: Instant) -> Vec<u32> {
    let period = Duration::from_secs(1) * THREADS / REQUESTS_PER_SECOND;
    let mut latencies = Vec::new();
    while due < end {
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        let sizes = (0..ALLOCATIONS).map(size);
        let blocks = sizes.map(|bytes| timed(&mut latencies, || server.allocate(stream, bytes)));
        let blocks: Vec<RawBlock> = black_box(blocks.collect());
        for block in blocks {
            timed(&mut latencies, || server.free(block));
        }
        due += period;
    }
    latencies
}

/// From 4 KiB to 2 MiB, each twice the one before.
fn size(index: usize) -> u64 {
    4_096 << index
}

/// One turn: all latencies, and the calls of a second.
fn turn(extent: Extent, server: &Server<'_>, streams: &[Stream], makers: &[Stream]) -> (Tail, f64) {
    let is_over = AtomicBool::new(false);
    let context = server.allocator.context();
    std::thread::scope(|scope| {
        for stream in makers {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    server.make_events(context, stream);
                    std::thread::sleep(PAUSE);
                }
            });
        }
        let began = Instant::now() + Duration::from_millis(5);
        let end = began + extent.tail_turn;
        let step = Duration::from_secs(1) / REQUESTS_PER_SECOND;
        let serving: Vec<_> = (0..THREADS)
            .zip(streams)
            .map(|(index, stream)| {
                scope.spawn(move || serve(server, stream, began + step * index, end))
            })
            .collect();
        let latencies: Vec<u32> =
            serving.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
        let seconds = began.elapsed().as_secs_f64();
        is_over.store(true, Ordering::Relaxed);
        let calls = u32::try_from(latencies.len()).unwrap();
        (Tail::of(latencies), f64::from(calls) / 2.0 / seconds)
    })
}

/// Requests of memory that is cached, while other threads create and destroy events. From
/// pytorch/pytorch PR #68906.
pub(crate) fn events(extent: Extent) {
    let runtime = open();
    let stream = |_| runtime.create_stream().unwrap();
    let streams: Vec<Stream> = (0..THREADS).map(stream).collect();
    let makers: Vec<Stream> = (0..MAKERS).map(|_| runtime.create_stream().unwrap()).collect();
    let allocator = runtime.allocator();
    let take =
        |stream| (0..ALLOCATIONS).map(move |index| allocator.allocate_raw(stream, size(index)));
    let warm: Vec<RawBlock> = streams.iter().flat_map(take).map(Result::unwrap).collect();
    warm.into_iter().for_each(|block| allocator.free_raw(block).unwrap());
    let growths = runtime.stats().served_by.growth;
    let ways = ["wellspring", "events_under_lock"];
    let servers = [None, Some(Mutex::new(()))].map(|lock| Server { allocator, lock });
    let mut turns = [const { Vec::new() }; 2];
    for _ in 0..extent.rounds {
        for (server, turns) in servers.iter().zip(&mut turns) {
            turns.push(turn(extent, server, &streams, &makers));
        }
    }
    let stats = runtime.stats();
    assert_eq!(stats.allocation_total, stats.free_total, "a block was lost");
    assert_eq!(stats.served_by.growth, growths, "a request was not served from the cache");
    for (way, turns) in ways.into_iter().zip(&turns) {
        print("tail", way, usize::try_from(THREADS).unwrap(), turns);
    }
}

/// Pinned memory asked for and given back: a call of the driver each.
pub(crate) fn pinned(extent: Extent) {
    let runtime = open();
    let mut turns = Vec::new();
    for _ in 0..extent.rounds {
        let start = Barrier::new(PINNING);
        let pin = || {
            let mut latencies = Vec::new();
            start.wait();
            let began = Instant::now();
            while began.elapsed() < extent.turn {
                let memory = timed(&mut latencies, || {
                    PinnedMemory::allocate(runtime.context(), PINNED_BYTES)
                });
                timed(&mut latencies, || drop(memory.unwrap()));
            }
            (latencies, began.elapsed())
        };
        let ended: Vec<_> = std::thread::scope(|scope| {
            let running: Vec<_> = (0..PINNING).map(|_| scope.spawn(pin)).collect();
            running.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let seconds = ended.iter().map(|(_, elapsed)| *elapsed).max().unwrap().as_secs_f64();
        let latencies: Vec<u32> = ended.into_iter().flat_map(|(latencies, _)| latencies).collect();
        let calls = u32::try_from(latencies.len()).unwrap();
        turns.push((Tail::of(latencies), f64::from(calls) / 2.0 / seconds));
    }
    print("pinned", "cuMemHostAlloc", PINNING, &turns);
}

fn print(program: &str, way: &str, threads: usize, turns: &[(Tail, f64)]) {
    let (tails, rates): (Vec<Tail>, Vec<f64>) = turns.iter().copied().unzip();
    let Tail { p50, p99, p999, worst } = Tail::median(&tails);
    let times = p999 / p50;
    let verdict = if way == "wellspring" {
        format!(" goal_ns={GOAL:.0} kept={}", p999 <= GOAL)
    } else {
        String::new()
    };
    println!(
        "threads: program={program} way={way} threads={threads} pairs_per_second={:.0} \
         p50_ns={p50:.0} p99_ns={p99:.0} p999_ns={p999:.0} max_ns={worst:.0} \
         p999_of_p50={times:.1}{verdict}",
        crate::figures::median(&rates),
    );
}
