//! Threads that run freely share one allocator and hand each other blocks.

use std::sync::{Arc, Barrier, mpsc};

use allocator::{Block, Config};
use checker::Checker;
use cuda_sim::{Machine, Schedule};
use streams::Stream;

use crate::stage::Stage;
use random_programs::Chance;

const THREADS: usize = 4;
const ROUNDS: usize = 400;
const SIZES: [u64; 4] = [512, 8 << 10, 300_000, 2 << 20];
/// Blocks that a thread holds at one time.
const HELD_MAX: usize = 12;

/// A block on its way to another thread, with the stream that it was made for and that wrote it.
type Parcel = (Block, Stream);

/// Allocations, uses, frees, frees of others' blocks, trims and synchronisations by four threads
/// at once: no byte is handed out twice, and no block before it is ready.
#[test]
fn threads_that_run_freely_share_an_allocator() {
    for (seed, bound) in [(0, None), (1, Some(0)), (2, Some(4 << 20))] {
        let machine = Machine::builder().schedule(Schedule::Seeded(seed)).build();
        let mut config = Config::default().with_limit(512 << 20);
        config.pending_bytes_max = bound;
        let stage = Stage::new(&machine, config);
        run(&stage, seed);
        stage.end();
    }
}

/// The same program under the checker, which is told by four threads at once and finds nothing.
#[test]
fn the_checker_is_silent_on_threads_that_run_freely() {
    for (seed, bound) in [(3, None), (4, Some(0)), (5, Some(4 << 20))] {
        let machine = Machine::builder().schedule(Schedule::Seeded(seed)).build();
        let mut config = Config::default().with_limit(512 << 20);
        config.pending_bytes_max = bound;
        let checker = Arc::new(Checker::new());
        let stage = Stage::checked(&machine, config, &checker);
        run(&stage, seed);
        stage.end();
        let listed: String = checker.reports().iter().map(|report| format!("\n{report}")).collect();
        assert!(checker.is_clean(), "seed {seed}: {listed}");
    }
}

/// Four threads that hand each other blocks in a ring.
fn run(stage: &Stage<'_>, seed: u64) {
    let (senders, receivers): (Vec<_>, Vec<_>) =
        (0..THREADS).map(|_| mpsc::channel::<Parcel>()).unzip();
    let all_sent = Barrier::new(THREADS);
    std::thread::scope(|scope| {
        for (index, receiver) in receivers.into_iter().enumerate() {
            let all_sent = &all_sent;
            let next = senders[(index + 1) % THREADS].clone();
            scope.spawn(move || {
                let own = u64::try_from(index).expect("few threads");
                work(stage, seed * 100 + own, &next, &receiver, all_sent);
            });
        }
        drop(senders);
    });
    let stats = stage.allocator.stats();
    assert_eq!(stats.allocation_total, stats.free_total, "every block came back");
    assert_eq!(stats.allocated_bytes.current, 0);
}

/// What one thread does.
fn work(
    stage: &Stage<'_>,
    seed: u64,
    next: &mpsc::Sender<Parcel>,
    inbox: &mpsc::Receiver<Parcel>,
    all_sent: &Barrier,
) {
    let mut chance = Chance::new(seed);
    let streams = [0, 1].map(|_| stage.stream());
    let mut held: Vec<(Block, usize)> = Vec::new();
    for _ in 0..ROUNDS {
        let home = chance.below(2);
        let block = stage.take(&streams[home], chance.pick(&SIZES));
        stage.write(&streams[home], &block);
        held.push((block, home));
        while let Ok((block, writer)) = inbox.try_recv() {
            let user = &streams[chance.below(2)];
            user.wait_stream(&writer).expect("a wait");
            stage.write(user, &block);
            block.record_stream(user);
            stage.give_back(&writer, block);
        }
        if HELD_MAX < held.len() {
            let (block, home) = held.swap_remove(chance.below(held.len()));
            if chance.once_in(2) {
                next.send((block, streams[home].clone())).expect("the other thread still runs");
            } else {
                stage.give_back(&streams[home], block);
            }
        }
        if chance.once_in(40) {
            stage.allocator.trim(8 << 20).expect("a trim");
        }
        if chance.once_in(60) {
            streams[chance.below(2)].synchronize().expect("a stream ends");
        }
    }
    for (block, home) in held {
        stage.give_back(&streams[home], block);
    }
    all_sent.wait();
    while let Ok((block, home)) = inbox.try_recv() {
        stage.give_back(&home, block);
    }
}
