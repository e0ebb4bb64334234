//! Every pattern under every strategy: the work is right, and the table is printed.
#![expect(clippy::print_stdout, reason = "the table is for people")]

use patterns::{Pattern, Stage, Strategy, Summary, compare};
use wellspring::Simulation;

/// Steps of a plan: the host runs ahead of the device by hundreds.
const STEPS: usize = 400;
const ROUNDS: usize = 2;

pub(crate) fn stage(pattern: Pattern, strategy: Strategy) -> Stage {
    let runtime = strategy.builder().simulation(Simulation::default()).simulated();
    let runtime = runtime.expect("a simulated device");
    Stage::new(&runtime, pattern.plan(STEPS), strategy).expect("streams and buffers")
}

fn table(pattern: Pattern) -> Vec<(Strategy, Summary)> {
    let mut stages = Strategy::ALL.map(|strategy| stage(pattern, strategy));
    let summaries = compare(&mut stages, 0, ROUNDS).expect("rounds");
    for stage in &stages {
        let hazards = stage.runtime().machine().expect("a simulated device").hazards();
        assert!(hazards.is_empty(), "{pattern} {}: {hazards:?}", stage.strategy());
    }
    let mut rows = Vec::new();
    for (strategy, summary) in Strategy::ALL.into_iter().zip(summaries) {
        println!("pattern: pattern={pattern} strategy={strategy} {}", summary.line());
        assert_eq!(summary.mismatches, 0, "{pattern} {strategy}: words were lost");
        rows.push((strategy, summary));
    }
    rows
}

#[test]
fn three_streams() {
    table(Pattern::ThreeStreams);
}

#[test]
fn equal() {
    table(Pattern::Equal);
}

#[test]
fn bursty() {
    table(Pattern::Bursty);
}

#[test]
fn slow_side() {
    table(Pattern::SlowSide);
}

#[test]
fn host_gate() {
    table(Pattern::HostGate);
}
