//! Random programs: the sound product is clean under every one; each broken one is caught.
//!
//! `WELLSPRING_SEEDS=a..b` says which seeds; a failing one prints the command that repeats it.
#![expect(clippy::print_stdout, reason = "a test says what it covered and how to repeat it")]

use std::ops::Range;
use std::time::Instant;

use allocator::Policy;
use cuda_sim::Schedule;

use crate::plan::{Outcome, Plan};
use crate::program::run;

/// How many seeds are run where nobody says otherwise.
const SEEDS: Range<u64> = 0..300;

fn seeds() -> Range<u64> {
    let Ok(text) = std::env::var("WELLSPRING_SEEDS") else { return SEEDS };
    let parsed =
        text.split_once("..").and_then(|(from, to)| Some(from.parse().ok()?..to.parse().ok()?));
    parsed.expect("WELLSPRING_SEEDS is like 0..300")
}

/// Says how to repeat a program that fails.
struct Repeat(u64);

impl Drop for Repeat {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let Self(seed) = *self;
            let next = seed + 1;
            println!(
                "repeat it with: WELLSPRING_SEEDS={seed}..{next} cargo test -p wellspring --test \
                 it random::programs_are_clean"
            );
        }
    }
}

#[test]
fn programs_are_clean() {
    let begin = Instant::now();
    let seeds = seeds();
    let mut sum = Sum::default();
    for seed in seeds.clone() {
        let repeat = Repeat(seed);
        let plan = Plan::new(seed);
        let outcome = run(&plan);
        assert!(outcome.hazards.is_empty(), "seed {seed}: {:#?}", outcome.hazards);
        assert_eq!(outcome.mismatches, 0, "seed {seed}: words were lost");
        if outcome.faults == 0 {
            assert_eq!(outcome.left_behind, 0, "seed {seed}: memory stayed behind");
        }
        sum.add(&outcome);
        drop(repeat);
    }
    println!(
        "{} programs in {:.1} s: {sum:?}",
        seeds.end - seeds.start,
        begin.elapsed().as_secs_f64()
    );
    if seeds == SEEDS {
        sum.covers_everything();
    }
}

/// What the programs came through.
#[derive(Debug, Default)]
struct Sum {
    requests: u64,
    own_stream: u64,
    known_order: u64,
    completion: u64,
    device_wait: u64,
    growth: u64,
    ladder: u64,
    cross_stream_merges: u64,
    pieces_given_back: u64,
    out_of_memory: u64,
    deferred_frees: u64,
    faults: u64,
}

impl Sum {
    fn add(&mut self, outcome: &Outcome) {
        let stats = &outcome.stats;
        self.requests += stats.allocation_total;
        self.own_stream += stats.served_by.own_stream;
        self.known_order += stats.served_by.known_order;
        self.completion += stats.served_by.completion;
        self.device_wait += stats.served_by.device_wait;
        self.growth += stats.served_by.growth;
        self.ladder += stats.served_by.ladder;
        self.cross_stream_merges += stats.cross_stream_merges;
        self.pieces_given_back += stats.num_device_free;
        self.out_of_memory += stats.num_ooms;
        self.deferred_frees += stats.deferred_free_total;
        self.faults += outcome.faults;
    }

    fn covers_everything(&self) {
        let least = [
            self.own_stream,
            self.known_order,
            self.completion,
            self.device_wait,
            self.growth,
            self.ladder,
            self.cross_stream_merges,
            self.pieces_given_back,
            self.out_of_memory,
            self.deferred_frees,
            self.faults,
        ];
        assert!(least.iter().all(|count| 10 < *count), "a step was hardly ever taken: {self:?}");
    }
}

/// No order rests on a wait for memory, so nothing changes where all streams share one hardware
/// queue (L12).
#[test]
fn programs_are_clean_with_one_hardware_queue() {
    for seed in 0..60 {
        let outcome = run(&Plan { one_queue: true, ..Plan::new(seed) });
        assert!(outcome.hazards.is_empty(), "seed {seed}: {:#?}", outcome.hazards);
        assert_eq!(outcome.mismatches, 0, "seed {seed}: words were lost");
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for seed in 0..8 {
        let [first, second] = [0, 1].map(|_| run(&Plan::new(seed)));
        assert_eq!(first.addresses, second.addresses, "seed {seed}");
        assert_eq!(first.driver_calls, second.driver_calls, "seed {seed}");
    }
}

/// The places that `deterministic` gives depend on the calls alone, whatever the device does and
/// however it answers (R9).
#[test]
fn deterministic_gives_the_same_places_under_every_schedule() {
    for seed in 0..80 {
        let plan = |schedule| Plan {
            schedule,
            policy: Some(Policy::Deterministic),
            faults: false,
            ..Plan::new(seed)
        };
        let expected = run(&plan(Schedule::Lazy)).addresses;
        for schedule in [Schedule::Eager, Schedule::Timed, Schedule::Seeded(seed)] {
            let outcome = run(&plan(schedule.clone()));
            assert_eq!(outcome.addresses, expected, "seed {seed} under {schedule:?}");
        }
    }
}
