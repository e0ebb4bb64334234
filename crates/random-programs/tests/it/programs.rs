//! The sound product is clean under every program, and the programs come through everything.

use std::num::NonZeroUsize;
use std::ops::Range;
use std::time::Duration;

use allocator::{Policy, Sabotage};
use cuda_sim::Schedule;
use random_programs::{Broken, Campaign, HUNG, Outcome, Program, Summary, Wishes, run};

/// How many seeds are run here.
const SEEDS: Range<u64> = 0..400;

#[test]
fn programs_are_clean_and_come_through_everything() {
    let campaign = Campaign {
        seeds: SEEDS,
        jobs: NonZeroUsize::new(2).expect("two is not zero"),
        threads: None,
        broken: None,
        time_max: Duration::from_secs(600),
        hang_after: Duration::from_secs(120),
        stops_at_failure: false,
    };
    let summary = campaign.run(|_| ());
    println!("{summary:#?}");
    if let Some(first) = summary.failures.first() {
        let seed = first.seed;
        println!("repeat it with: cargo xtask sim --seeds {seed}..{}", seed + 1);
    }
    assert_eq!(summary.shortcomings(), [""; 0]);
    assert_eq!(summary.programs, SEEDS.end);
}

/// A program that does not end holds up neither the others nor the run: it is told with its seed
/// and with the operation that it is in.
#[test]
fn a_program_that_hangs_is_left_behind_and_named() {
    let campaign = Campaign {
        seeds: 0..3,
        jobs: NonZeroUsize::new(3).expect("three is not zero"),
        threads: None,
        broken: Some(Broken::Hangs),
        time_max: Duration::from_secs(600),
        hang_after: Duration::from_secs(3),
        stops_at_failure: false,
    };
    let summary = campaign.run(|_| ());
    assert_eq!((summary.programs, summary.failed), (3, 3));
    for (failure, seed) in summary.failures.iter().zip(0..) {
        assert_eq!((failure.seed, failure.kind), (seed, HUNG));
        assert!(failure.text.contains("Some(Synchronize("), "{}", failure.text);
    }
    let sound = Campaign { broken: None, ..campaign };
    assert_eq!(sound.run(|_| ()).shortcomings(), [""; 0], "without the fault they end");
}

/// Programs that are all clean still fail where they reach too little; a few are not asked.
#[test]
fn programs_that_reach_too_little_show_too_little() {
    let summed_up = |count| {
        let mut summary = Summary::default();
        (0..count).for_each(|seed| summary.add(seed, &Outcome::default()));
        summary.shortcomings()
    };
    assert_eq!(summed_up(0), ["no program ran"]);
    assert_eq!(summed_up(1), [""; 0]);
    let all = summed_up(300);
    assert!(all.iter().any(|text| text == "only 0 of 300 programs reach Trim"), "{all:?}");
    assert!(all.iter().any(|text| text.contains("at most 0 operations")), "{all:?}");
}

fn assert_clean(name: &str, seed: u64, wishes: &Wishes) {
    let outcome = run(&Program::draw_with(seed, wishes));
    assert!(outcome.findings.is_empty(), "{name}, seed {seed}: {:#?}", outcome.findings);
}

/// No order rests on a wait for memory, so nothing changes where all streams share one hardware
/// queue (L12).
#[test]
fn programs_are_clean_with_one_hardware_queue() {
    for seed in 0..60 {
        assert_clean("one queue", seed, &Wishes { one_queue: true, ..Wishes::default() });
    }
}

#[test]
fn programs_are_clean_on_devices_that_are_quick_or_slow() {
    for schedule in [Schedule::Eager, Schedule::Lazy, Schedule::Timed] {
        for seed in 0..30 {
            let name = format!("{schedule:?}");
            let schedule = Some(schedule.clone());
            assert_clean(&name, seed, &Wishes { schedule, ..Wishes::default() });
        }
    }
}

/// Two and three host threads take turns at driver calls and before locks (S7).
#[test]
fn programs_of_several_threads_are_clean() {
    for seed in 0..40 {
        let threads = Some(if seed % 2 == 0 { 2 } else { 3 });
        assert_clean("threads", seed, &Wishes { threads, ..Wishes::default() });
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for seed in 0..8 {
        let [first, second] = [0, 1].map(|_| run(&Program::draw(seed)));
        assert!(!first.addresses.is_empty(), "seed {seed} asked for nothing");
        assert_eq!(first.addresses, second.addresses, "seed {seed}");
        assert_eq!(first.driver_calls, second.driver_calls, "seed {seed}");
    }
}

/// The places that `deterministic` gives depend on the calls alone, whatever the device does and
/// however it answers (R9).
#[test]
fn deterministic_gives_the_same_places_under_every_schedule() {
    for seed in 0..60 {
        assert_same_places(seed, false);
    }
}

/// A driver call that fails leaves a block without a fence, or a wait unmade: what follows depends
/// on the calls alone, too (R9).
#[test]
fn deterministic_gives_the_same_places_where_driver_calls_fail() {
    for seed in 0..40 {
        assert_same_places(seed, true);
    }
}

fn assert_same_places(seed: u64, faults: bool) {
    let program = |schedule| {
        let wishes = Wishes {
            schedule: Some(schedule),
            policy: Some(Policy::Deterministic),
            faults: Some(faults),
            graphs: false,
            threads: Some(1),
            ..Wishes::default()
        };
        Program::draw_with(seed, &wishes)
    };
    let expected = run(&program(Schedule::Lazy)).addresses;
    assert!(!expected.is_empty(), "seed {seed} asked for nothing");
    for schedule in [Schedule::Eager, Schedule::Timed, Schedule::Seeded(seed)] {
        let outcome = run(&program(schedule.clone()));
        assert_eq!(outcome.addresses, expected, "seed {seed} under {schedule:?}");
    }
}

/// Was: which stream a new one inherited memory from, what a host synchronization taught, and which
/// fences were left by waits that were given up followed the slots, which are what earlier streams
/// of the process have left: half of these programs came to other places (R9).
#[test]
fn deterministic_gives_the_same_places_whatever_streams_there_were_before() {
    for seed in 0..40 {
        let addresses = |earlier_streams| {
            let wishes = Wishes {
                policy: Some(Policy::Deterministic),
                checked: Some(false),
                graphs: false,
                threads: Some(1),
                ..Wishes::default()
            };
            let mut program = Program::draw_with(seed, &wishes);
            program.setup.earlier_streams = earlier_streams;
            let outcome = run(&program);
            assert_eq!(outcome.findings, [], "seed {seed} after {earlier_streams} streams");
            outcome.addresses
        };
        let expected = addresses(0);
        assert!(!expected.is_empty(), "seed {seed} asked for nothing");
        for earlier_streams in [9, 200] {
            let found = addresses(earlier_streams);
            assert_eq!(found, expected, "seed {seed} after {earlier_streams} streams");
        }
    }
}

/// A program of a seed in which pools and allocators of several policies work on the same streams.
fn mixed(seed: u64, schedule: &Schedule) -> Program {
    let [own, other, third] = [Policy::Deterministic, Policy::Default, Policy::PyTorch];
    let policies = match seed % 4 {
        0 => [own, other, other],
        1 => [other, own, third],
        2 => [other, own, own],
        _ => [third, other, own],
    };
    let wishes = Wishes {
        schedule: Some(schedule.clone()),
        mixed: Some(policies),
        checked: Some(false),
        faults: Some(seed.is_multiple_of(3)),
        graphs: false,
        threads: Some(1),
        ..Wishes::default()
    };
    Program::draw_with(seed, &wishes)
}

/// Two schedules of the device under which the places differ, if there are any.
fn difference(seed: u64, broken: Option<Broken>) -> Option<Schedule> {
    let places = |schedule: &Schedule| {
        let mut program = mixed(seed, schedule);
        program.setup.broken = broken;
        let outcome = run(&program);
        assert_eq!(outcome.findings, [], "seed {seed} under {schedule:?}");
        assert!(!outcome.places.is_empty(), "seed {seed} asked for nothing");
        outcome.places
    };
    let expected = places(&Schedule::Lazy);
    let others = [Schedule::Eager, Schedule::Timed, Schedule::Seeded(seed)];
    others.into_iter().find(|schedule| places(schedule) != expected)
}

/// What others on the same streams do depends on how the device answers them: their fences, their
/// waits on the device, and what they synchronize with. `deterministic` sees nothing of it (R9).
#[test]
fn deterministic_gives_the_same_places_beside_other_policies() {
    for seed in 0..40 {
        assert_eq!(difference(seed, None), None, "seed {seed}");
    }
}

/// The control: where the others' doings are everybody's, it is soon found.
#[test]
fn places_that_depend_on_what_others_were_answered_are_found() {
    let openly = Some(Broken::Allocator(Sabotage::ActOpenly));
    let found = (0..60).find(|seed| difference(*seed, openly).is_some());
    println!("found by seed {found:?}");
    assert!(found.is_some(), "nothing was seen to depend on the device");
}
