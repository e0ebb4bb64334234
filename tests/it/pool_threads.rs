//! Private pools that come and go on threads that run freely, while others poll, trim and run out
//! of memory: no byte is handed out twice, and every pool goes in the end.

use allocator::{Bound, Config, Policy, Pool};
use cuda_sim::{Machine, Schedule};
use random_programs::Chance;
use streams::Stream;

use crate::stage::Stage;

const THREADS: u64 = 4;
const ROUNDS: usize = 60;
const SIZES: [u64; 4] = [512, 300_000, 2 << 20, 5 << 20];

#[test]
fn pools_come_and_go_on_threads_that_run_freely() {
    for seed in 0..3 {
        let machine = Machine::builder().schedule(Schedule::Seeded(seed)).build();
        let stage = Stage::new(&machine, Config::default().with_limit(160 << 20));
        let shared = stage.allocator.create_pool(Config::default());
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (stage, shared) = (&stage, shared.clone());
                scope.spawn(move || work(stage, seed * 100 + thread, &shared));
            }
        });
        drop(shared);
        stage.context.synchronize().expect("all ends");
        stage.allocator.poll();
        assert!(stage.allocator.pools().is_empty(), "a pool is left that nobody has");
        let own = stage.allocator.stats().reserved_bytes.current;
        assert_eq!(stage.allocator.reserved_with_pools(), own, "budget was lost");
        stage.end();
    }
}

/// What one thread does: pools that live for a few blocks each, beside one that all share.
fn work(stage: &Stage<'_>, seed: u64, shared: &Pool) {
    let mut chance = Chance::new(seed);
    let streams = [0, 1].map(|_| stage.stream());
    let bounds = [None, Some(Bound::on_host(1 << 20)), Some(Bound::on_device(1 << 20))];
    for _ in 0..ROUNDS {
        let policies = [Policy::Default, Policy::Deterministic, Policy::PyTorch];
        let mut config = Config::default().with_policy(chance.pick(&policies));
        config.stream_bound = chance.pick(&bounds);
        let own = stage.allocator.create_pool(config);
        let count = 1 + chance.below(4);
        let blocks: Vec<_> = (0..count)
            .map(|_| {
                let pool = if chance.once_in(3) { shared } else { &own };
                let block = stage.take_from(pool.allocator(), &streams[0], chance.pick(&SIZES));
                use_it(stage, &streams, &block);
                block
            })
            .collect();
        let dropped_first = chance.once_in(2);
        let kept = (!dropped_first).then_some(own);
        blocks.into_iter().for_each(|block| stage.give_back(&streams[0], block));
        drop(kept);
        match chance.below(12) {
            0 => {
                stage.allocator.poll();
            }
            1 => {
                stage.allocator.trim(u64::MAX).expect("a trim");
            }
            2 => streams[1].synchronize().expect("a stream ends"),
            3 => {
                let block = stage.take(&streams[0], 2 << 20);
                stage.give_back(&streams[0], block);
            }
            _ => {}
        }
    }
}

/// The home writes, the other stream reads and is recorded.
fn use_it(stage: &Stage<'_>, streams: &[Stream; 2], block: &allocator::Block) {
    let [home, user] = streams;
    stage.write(home, block);
    user.wait_stream(home).expect("a wait");
    stage.write(user, block);
    block.record_stream(user);
}
