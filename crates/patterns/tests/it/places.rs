//! `deterministic` chooses the same places whatever the device does; the default does not.

use std::collections::BTreeSet;

use patterns::{Pattern, Place, Stage, Strategy};
use wellspring::Simulation;
use wellspring::cuda_sim::{Machine, Schedule};

const STEPS: usize = 60;
const RUNS: u64 = 20;

/// The places of a pattern's buffers, in as many runs, each with a device that behaves otherwise.
fn found(pattern: Pattern, strategy: Strategy) -> BTreeSet<Vec<Place>> {
    let mut found = BTreeSet::new();
    for seed in 0..RUNS {
        let schedule = if seed == 0 { Schedule::Timed } else { Schedule::Seeded(seed) };
        let simulation = Simulation::default().schedule(schedule);
        let runtime = strategy.builder().simulation(simulation).simulated();
        let runtime = runtime.expect("a simulated device");
        let stage = Stage::new(&runtime, pattern.plan(STEPS), strategy);
        let mut stage = stage.expect("streams and buffers");
        let outcome = stage.round().expect("a round");
        assert_eq!(outcome.mismatches, 0, "{pattern} {strategy}, seed {seed}");
        found.insert(stage.places());
    }
    found
}

#[test]
fn r9_deterministic_comes_to_the_same_places_in_every_run_of_every_pattern() {
    for pattern in Pattern::ALL {
        let found = found(pattern, Strategy::Deterministic);
        assert_eq!(found.len(), 1, "{pattern}");
        assert_eq!(found.first().map(Vec::len), Some(STEPS), "{pattern}");
    }
}

/// The control: places that depend on the device's answers differ.
#[test]
fn r9_the_default_does_not() {
    assert!(1 < found(Pattern::Equal, Strategy::OwnUses).len());
}

/// The places of so many runs one after another in one context: the slots of their streams come in
/// one order and the other, since those of the run before are taken from the end.
fn found_in_turn(pattern: Pattern, steps: usize) -> BTreeSet<Vec<Place>> {
    let machine = Machine::builder().schedule(Schedule::Timed).build();
    let builder = Strategy::Deterministic.builder();
    let first = builder.open_machine(&machine).expect("a simulated device");
    let mut slots = BTreeSet::new();
    let found = (0..4).map(|_| {
        let runtime = builder.open_in(first.context()).expect("the context of the first");
        let stage = Stage::new(&runtime, pattern.plan(steps), Strategy::Deterministic);
        let mut stage = stage.expect("streams and buffers");
        slots.insert(stage.slots());
        let outcome = stage.round().expect("a round");
        assert_eq!(outcome.mismatches, 0, "{pattern}");
        stage.places()
    });
    let found = found.collect();
    assert!(1 < slots.len(), "the control: all runs have the same slots, {slots:?}");
    found
}

/// Was: streams were searched for free memory in the order of their slots, so that places followed
/// which slots earlier streams of the process had left.
#[test]
fn r9_places_do_not_depend_on_which_slots_the_streams_have() {
    for pattern in Pattern::ALL {
        assert_eq!(found_in_turn(pattern, 200).len(), 1, "{pattern}");
    }
}
