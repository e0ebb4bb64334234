//! The peaks, told by a count of what is handed out: exactly where one thread asks, and where many
//! do, never below what they held at any one moment.

use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};

use allocator::{Allocator, Block, Config, Stats};
use cuda_sim::{Machine, Schedule};
use random_programs::Chance;
use streams::Stream;

use crate::stage::Stage;

const STREAMS: usize = 5;
const STEPS: usize = 400;
const THREADS: usize = 4;
const ROUNDS: usize = 300;
const SIZES: [u64; 5] = [512, 4 << 10, 48 << 10, 300_000, 3 << 20];

/// One thread on many streams, with frees that are over, frees that are pending and holds that
/// end late; now and then the peaks start again.
#[test]
fn a_peak_is_the_most_that_one_thread_held() {
    for seed in 0..20 {
        let machine = Machine::builder().schedule(Schedule::Seeded(seed)).build();
        let stage = Stage::new(&machine, Config::default());
        let streams: Vec<Stream> = (0..STREAMS).map(|_| stage.stream()).collect();
        let mut chance = Chance::new(seed);
        let mut blocks: Vec<Block> = Vec::new();
        let (mut held, mut most, mut most_active) = (0, 0, 0);
        for step in 0..STEPS {
            // Every other program reads the figures at its end only: to read them is to look.
            let is_read = seed % 2 == 0 || step + 1 == STEPS;
            match chance.weighted(&[48, 24, 20, 6, 1]) {
                0 => {
                    let stream = &streams[chance.below(STREAMS)];
                    let block = stage.allocator.allocate(stream, chance.pick(&SIZES)).unwrap();
                    held += block.size();
                    blocks.push(block);
                }
                kind @ 1..=2 if !blocks.is_empty() => {
                    let block = blocks.swap_remove(chance.below(blocks.len()));
                    held -= block.size();
                    if kind == 2 {
                        block.record_stream(&streams[chance.below(STREAMS)]);
                    }
                    block.free().unwrap();
                }
                3 => streams[chance.below(STREAMS)].synchronize().unwrap(),
                4 => {
                    stage.allocator.reset_peaks();
                    (most, most_active) = (held, 0);
                }
                _ => {}
            }
            most = most.max(held);
            if is_read {
                let stats = stage.allocator.stats();
                most_active = most_active.max(stats.active_bytes.current);
                assert_eq!(
                    (stats.allocated_bytes.current, stats.allocated_bytes.peak),
                    (held, most)
                );
                assert!(most_active <= stats.active_bytes.peak, "seed {seed}, step {step}");
            }
        }
        blocks.into_iter().for_each(|block| block.free().unwrap());
    }
}

/// What threads hold now and held at most, counted beside the allocator: from after a block is
/// handed out until before it is given back.
#[derive(Default)]
struct Count {
    now: AtomicU64,
    most: AtomicU64,
}

impl Count {
    fn take(&self, allocator: &Allocator, stream: &Stream, bytes: u64) -> Block {
        let block = allocator.allocate(stream, bytes).unwrap();
        let now = self.now.fetch_add(block.size(), Ordering::SeqCst) + block.size();
        self.most.fetch_max(now, Ordering::SeqCst);
        block
    }

    fn give_back(&self, block: Block) {
        self.now.fetch_sub(block.size(), Ordering::SeqCst);
        block.free().unwrap();
    }
}

/// Threads with a stream each that now hold much, now nothing, so that what one does not need of
/// the peak is what another lacks.
#[test]
fn a_peak_is_never_below_what_threads_held_at_one_moment() {
    let stats = many(|count, allocator, stream, chance| {
        let mut blocks: Vec<Block> = Vec::new();
        for _ in 0..ROUNDS {
            for _ in 0..chance.below(6) {
                blocks.push(count.take(allocator, stream, chance.pick(&SIZES)));
            }
            while chance.below(4) < blocks.len() {
                count.give_back(blocks.swap_remove(0));
            }
        }
        blocks.into_iter().for_each(|block| count.give_back(block));
    });
    assert_eq!(stats.allocated_bytes.current, 0);
}

/// What all of them hold at once is the peak, to the byte, however they met before.
#[test]
fn what_all_threads_hold_at_once_is_the_peak() {
    let all = Barrier::new(THREADS);
    let stats = many(|count, allocator, stream, chance| {
        for _ in 0..ROUNDS {
            let block = count.take(allocator, stream, chance.pick(&SIZES));
            count.give_back(block);
        }
        let block = count.take(allocator, stream, 4 << 20);
        all.wait();
        count.give_back(block);
    });
    let all_bytes = (4 << 20) * u64::try_from(THREADS).unwrap();
    assert_eq!(stats.allocated_bytes.peak, all_bytes);
}

/// Runs one body on each thread; the figures are right about all of them together.
fn many(body: impl Fn(&Count, &Allocator, &Stream, &mut Chance) + Sync) -> Stats {
    let machine = Machine::builder().schedule(Schedule::Eager).build();
    let stage = Stage::new(&machine, Config::default());
    let streams: Vec<Stream> = (0..THREADS).map(|_| stage.stream()).collect();
    let count = Count::default();
    std::thread::scope(|scope| {
        for (seed, stream) in (0..).zip(&streams) {
            let (allocator, count, body) = (&stage.allocator, &count, &body);
            scope.spawn(move || body(count, allocator, stream, &mut Chance::new(seed)));
        }
    });
    let stats = stage.allocator.stats();
    let most = count.most.into_inner();
    assert!(most <= stats.allocated_bytes.peak, "{most} held, {stats:?}");
    assert!(stats.allocated_bytes.peak <= stats.active_bytes.peak, "{stats:?}");
    stats
}
