//! Threads that share nothing but the allocator, or not even that: pairs of allocate and free of
//! what is already cached, as many as fit in a turn.

use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::HashMap;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Barrier, Mutex};
use std::time::{Duration, Instant};

use allocator::{Allocator, Config, RawBlock};
use cuda_sim::{DeviceProfile, Machine, Schedule};
use mimalloc::MiMalloc;
use rustix::time::ClockId;
use streams::{Driver, Stream, StreamOptions};

use crate::Extent;
use crate::figures::median;

/// Below, at, and above what the pools of small blocks keep.
const SIZES: [u64; 3] = [512, 64 << 10, 1 << 20];
/// What a general allocator is asked for, for scale.
const HOST: Layout = Layout::new::<[u8; 64]>();
/// Pairs between two looks whether the turn is over.
const BATCH: u64 = 60;
/// More threads than processors, in general.
const CROWD: usize = 32;
const DEVICES: usize = 8;
/// A thread beside others makes at least so much of the pairs that it makes alone; by the clock,
/// or, where others use the machine, by the time that it had a processor. Threads that hold each
/// other up have less by both: to sleep and to be woken costs a processor more than a pair.
const GOAL: f64 = 0.8;
/// The same where threads take turns on a processor, each of which begins with cold caches.
const GOAL_OF_A_CROWD: f64 = 0.5;

/// The way that is ours, with numbers.
const OURS: &str = "wellspring";
/// The same with handles instead of numbers.
const OURS_BY_HANDLE: &str = "wellspring_block";

/// Something that serves pairs to one thread.
type Pairs<'a> = Box<dyn FnMut(u64) + Send + 'a>;

/// An allocator and streams on one device of a machine.
struct Place {
    allocator: Allocator,
    streams: Vec<Stream>,
}

impl Place {
    fn new(driver: &Driver, ordinal: u32, stream_count: usize) -> Self {
        let context = driver.device(ordinal).unwrap().primary_context().unwrap();
        let allocator = Allocator::new(&context, Config::default()).unwrap();
        let stream = |_| context.create_stream(StreamOptions::default()).unwrap();
        let streams: Vec<Stream> = (0..stream_count).map(stream).collect();
        // All at once, and a whole segment each, so that each stream has memory of its own.
        let take =
            |stream| [1 << 20; 2].map(|bytes| allocator.allocate_raw(stream, bytes).unwrap());
        let blocks: Vec<RawBlock> = streams.iter().flat_map(take).collect();
        blocks.into_iter().for_each(|block| allocator.free_raw(block).unwrap());
        streams.iter().for_each(|stream| ours(&allocator, stream)(BATCH));
        Self { allocator, streams }
    }

    fn pairs(&self) -> u64 {
        let stats = self.allocator.stats();
        assert_eq!(stats.allocation_total, stats.free_total, "a block was lost");
        stats.free_total
    }
}

fn machine(devices: usize) -> (Machine, Driver) {
    let mut builder = Machine::builder().schedule(Schedule::Eager);
    for _ in 0..devices {
        builder = builder.device(DeviceProfile::h200());
    }
    let machine = builder.build();
    let driver = Driver::from_table(machine.table()).unwrap();
    (machine, driver)
}

/// What the threads of one turn made, in how long, and with how much of the processors.
#[derive(Debug, Clone, Copy)]
struct Turn {
    pairs: u64,
    seconds: f64,
    processor_seconds: f64,
}

/// Runs every thread for one turn, all at once.
fn turn(extent: Extent, threads: Vec<Pairs<'_>>) -> Turn {
    let start = Barrier::new(threads.len());
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (start, is_over) = (&start, &is_over);
        let running: Vec<_> = threads
            .into_iter()
            .map(|pairs| scope.spawn(move || until_over(pairs, start, is_over)))
            .collect();
        std::thread::sleep(extent.turn);
        is_over.store(true, Ordering::Relaxed);
        let ended: Vec<_> = running.into_iter().map(|thread| thread.join().unwrap()).collect();
        let first = ended.iter().map(|own| own.began).min().unwrap();
        let last = ended.iter().map(|own| own.ended).max().unwrap();
        Turn {
            pairs: ended.iter().map(|own| own.pairs).sum(),
            seconds: (last - first).as_secs_f64(),
            processor_seconds: ended.iter().map(|own| own.processor.as_secs_f64()).sum(),
        }
    })
}

/// What one thread made in a turn.
struct Own {
    pairs: u64,
    began: Instant,
    ended: Instant,
    processor: Duration,
}

/// What one thread does in a turn: a batch before it, and batches until it is over.
fn until_over(mut make: Pairs<'_>, start: &Barrier, is_over: &AtomicBool) -> Own {
    make(BATCH);
    start.wait();
    let (began, processor_before) = (Instant::now(), processor_time());
    let mut pairs = 0;
    while !is_over.load(Ordering::Relaxed) {
        make(BATCH);
        pairs += BATCH;
    }
    Own { pairs, began, ended: Instant::now(), processor: processor_time() - processor_before }
}

/// How long this thread has had a processor.
fn processor_time() -> Duration {
    rustix::time::clock_gettime(ClockId::ThreadCPUTime).try_into().unwrap()
}

/// Pairs of blocks of one stream.
fn ours<'a>(allocator: &'a Allocator, stream: &'a Stream) -> Pairs<'a> {
    Box::new(move |count| {
        for _ in 0..count / 3 {
            for bytes in SIZES {
                let block = allocator.allocate_raw(stream, black_box(bytes)).unwrap();
                allocator.free_raw(black_box(block)).unwrap();
            }
        }
    })
}

/// The same with handles that free their block when they are dropped, and keep the allocator.
fn ours_by_handle<'a>(allocator: &'a Allocator, stream: &'a Stream) -> Pairs<'a> {
    Box::new(move |count| {
        for _ in 0..count / 3 {
            for bytes in SIZES {
                drop(black_box(allocator.allocate(stream, black_box(bytes)).unwrap()));
            }
        }
    })
}

/// The same under one lock over the whole structure.
fn locked<'a>(allocator: &'a Mutex<&'a Allocator>, stream: &'a Stream) -> Pairs<'a> {
    Box::new(move |count| {
        for _ in 0..count / 3 {
            for bytes in SIZES {
                let taken = allocator.lock().unwrap().allocate_raw(stream, black_box(bytes));
                let block = black_box(taken.unwrap());
                allocator.lock().unwrap().free_raw(block).unwrap();
            }
        }
    })
}

/// The same where a free finds its block by its address, in one map for all devices.
fn mapped<'a>(
    allocator: &'a Allocator,
    stream: &'a Stream,
    map: &'a Mutex<HashMap<(usize, u64), RawBlock>>,
    device: usize,
) -> Pairs<'a> {
    Box::new(move |count| {
        for _ in 0..count / 3 {
            for bytes in SIZES {
                let block = allocator.allocate_raw(stream, black_box(bytes)).unwrap();
                let place = black_box((device, block.address));
                map.lock().unwrap().insert(place, block);
                let found = map.lock().unwrap().remove(&place).unwrap();
                allocator.free_raw(found).unwrap();
            }
        }
    })
}

fn general<'a, A: GlobalAlloc + Sync>(allocator: &'a A) -> Pairs<'a> {
    Box::new(move |count| {
        for _ in 0..count {
            // SAFETY: the layout has a size above zero.
            let pointer = unsafe { allocator.alloc(black_box(HOST)) };
            // SAFETY: the pointer came from the same allocator with the same layout.
            unsafe { allocator.dealloc(black_box(pointer), HOST) };
        }
    })
}

/// The medians of one way with so many threads.
struct Row {
    way: &'static str,
    threads: usize,
    /// Of all threads together.
    per_second: f64,
    /// What a pair costs a processor.
    processor_nanoseconds: f64,
}

impl Row {
    fn of(way: &'static str, threads: usize, turns: &[Turn]) -> Self {
        let median_of =
            |pick: fn(&Turn) -> f64| median(&turns.iter().map(pick).collect::<Vec<_>>());
        Self {
            way,
            threads,
            per_second: median_of(|turn| number(turn.pairs) / turn.seconds),
            processor_nanoseconds: median_of(|turn| {
                turn.processor_seconds * 1e9 / number(turn.pairs)
            }),
        }
    }

    /// What a thread makes while each has a processor, and else a processor.
    fn share(&self) -> f64 {
        self.per_second / number(u64::try_from(self.threads.min(processors())).unwrap())
    }
}

/// Prints a line for each row, compared with what one thread makes alone.
fn print(program: &str, rows: &[Row]) {
    for row in rows {
        let Row { way, threads, per_second, processor_nanoseconds } = row;
        let one = rows.iter().find(|one| one.way == *way && one.threads == 1).unwrap();
        let of_one = row.share() / one.share();
        let processor_of_one = one.processor_nanoseconds / processor_nanoseconds;
        let verdict = if [OURS, OURS_BY_HANDLE].contains(way) {
            let goal = if *threads <= processors() { GOAL } else { GOAL_OF_A_CROWD };
            format!(" goal={goal:.2} kept={}", goal <= of_one.max(processor_of_one))
        } else {
            String::new()
        };
        println!(
            "threads: program={program} way={way} threads={threads} processors={} \
             pairs_per_second={per_second:.0} of_one={of_one:.2} \
             processor_ns_per_pair={processor_nanoseconds:.1} \
             processor_of_one={processor_of_one:.2}{verdict}",
            processors(),
        );
    }
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^53 pairs")]
fn number(count: u64) -> f64 {
    count as f64
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// 1, 2, 4 … threads while each may have a processor, and then many more threads than that.
fn thread_counts(extent: Extent) -> Vec<usize> {
    let most = processors().min(extent.threads_max);
    let doubled = std::iter::successors(Some(1), |count| Some(2 * count));
    let mut counts: Vec<usize> = doubled.take_while(|count| *count <= most).collect();
    counts.push(CROWD);
    counts
}

/// Threads with a stream each on one allocator. From rapidsai/rmm #1887.
pub(crate) fn own_streams(extent: Extent) {
    let (machine, driver) = machine(1);
    let place = Place::new(&driver, 0, CROWD);
    let (calls, before) = (machine.call_count(), place.pairs());
    let lock = Mutex::new(&place.allocator);
    let mut rows = Vec::new();
    let mut made = 0;
    for threads in thread_counts(extent) {
        let streams = &place.streams[..threads];
        let mut turns = [const { Vec::new() }; 5];
        for _ in 0..extent.rounds {
            let plain = turn(extent, streams.iter().map(|s| ours(&place.allocator, s)).collect());
            let handles = streams.iter().map(|s| ours_by_handle(&place.allocator, s));
            let by_handle = turn(extent, handles.collect());
            let under_lock = turn(extent, streams.iter().map(|s| locked(&lock, s)).collect());
            let mimalloc = turn(extent, streams.iter().map(|_| general(&MiMalloc)).collect());
            let system = turn(extent, streams.iter().map(|_| general(&System)).collect());
            // Each thread has made one batch before its turn began.
            made += plain.pairs + by_handle.pairs + under_lock.pairs;
            made += 3 * BATCH * u64::try_from(threads).unwrap();
            let round = [plain, by_handle, under_lock, mimalloc, system];
            turns.iter_mut().zip(round).for_each(|(turns, turn)| turns.push(turn));
        }
        let ways = [OURS, OURS_BY_HANDLE, "one_mutex", "mimalloc", "system"];
        rows.extend(ways.into_iter().zip(&turns).map(|(way, turns)| Row::of(way, threads, turns)));
    }
    assert_eq!(machine.call_count(), calls, "a cached pair reached the driver");
    assert_eq!(place.pairs() - before, made, "the totals are not the sums over the threads");
    print("own_streams", &rows);
}

/// Eight devices in one process, a thread and then four threads each. From pytorch/pytorch PR
/// #118550.
pub(crate) fn devices(extent: Extent) {
    let (machine, driver) = machine(DEVICES);
    let places: Vec<Place> =
        (0..DEVICES).map(|device| Place::new(&driver, u32::try_from(device).unwrap(), 4)).collect();
    let calls = machine.journal().by_name();
    let map = Mutex::new(HashMap::new());
    let mut rows = Vec::new();
    for (devices, threads_each) in [(1, 1), (2, 1), (4, 1), (DEVICES, 1), (DEVICES, 4)] {
        let at: Vec<(usize, &Place, &Stream)> = (0..devices)
            .zip(&places)
            .flat_map(|(device, place)| {
                let streams = &place.streams[..threads_each];
                streams.iter().map(move |stream| (device, place, stream))
            })
            .collect();
        let mut turns = [const { Vec::new() }; 3];
        for _ in 0..extent.rounds {
            let each = at.iter();
            let plain = each.clone().map(|(_, place, stream)| ours(&place.allocator, stream));
            let by_map = each
                .clone()
                .map(|(device, place, stream)| mapped(&place.allocator, stream, &map, *device));
            let host = each.map(|_| general(&MiMalloc));
            let round = [
                turn(extent, plain.collect()),
                turn(extent, by_map.collect()),
                turn(extent, host.collect()),
            ];
            turns.iter_mut().zip(round).for_each(|(turns, turn)| turns.push(turn));
        }
        let threads = devices * threads_each;
        let ways = [OURS, "one_map", "mimalloc"];
        rows.extend(ways.into_iter().zip(&turns).map(|(way, turns)| Row::of(way, threads, turns)));
    }
    assert_eq!(machine.journal().by_name(), calls, "a cached pair reached the driver");
    places.iter().for_each(|place| assert!(0 < place.pairs()));
    print("devices", &rows);
}
