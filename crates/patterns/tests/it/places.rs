//! `deterministic` chooses the same places whatever the device does; the default does not.

use std::collections::BTreeSet;

use patterns::{Pattern, Place, Stage, Strategy};
use wellspring::Simulation;
use wellspring::cuda_sim::Schedule;

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
