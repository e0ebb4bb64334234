//! Question: what does an early free cost, in time and memory, under each way to make it safe?
//! Method: on the device that `WELLSPRING_DEVICE` names, every pattern under every strategy, one
//! cold and three warm rounds each, in which the allocator learns, then nine rounds in which the
//! strategies take turns; the median. For some patterns also a row of hand-made bounds, for a plot
//! of time against memory. Then each pattern 20 times, each in a new allocator with the policy
//! `deterministic`, to see whether all its buffers come to lie in the same places.
//! Not measured: kernels that compete for the device; each lasts as long as the plan says.
//! Its lines are `pattern: name=value …` and `places: name=value …`; it fails where a consumer
//! found changed words, and where places differ.
#![expect(clippy::print_stdout, reason = "a bench says what it measured")]

use std::collections::BTreeSet;
use std::error::Error;
use std::process::ExitCode;
use std::time::Instant;

use patterns::{Pattern, Stage, Strategy, compare};
use wellspring::DeviceChoice;

/// Steps of a plan, and rounds after the warm ones.
const STEPS: usize = 400;
const WARM: usize = 3;
const ROUNDS: usize = 9;
/// Runs of each pattern that must choose the same places, and their steps.
const RUNS: usize = 20;
const RUN_STEPS: usize = 200;
/// Bounds in MiB, for the patterns of the plot.
const BOUNDS: [u64; 14] = [0, 32, 64, 96, 128, 192, 256, 384, 512, 768, 1_024, 1_536, 2_048, 4_096];
const PLOTTED: [Pattern; 2] = [Pattern::ThreeStreams, Pattern::Bursty];

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let choice = DeviceChoice::from_environment()?;
    let begin = Instant::now();
    let mut is_right = true;
    for pattern in Pattern::ALL {
        is_right &= measure(choice, pattern, &strategies(pattern))?;
        println!("after {:.1} s", begin.elapsed().as_secs_f64());
    }
    // Last: once there is such an allocator, its driver keeps answers apart for everybody.
    for pattern in Pattern::ALL {
        is_right &= measure(choice, pattern, &[Strategy::Deterministic])?;
        is_right &= repeat(choice, pattern)?;
    }
    println!("after {:.1} s", begin.elapsed().as_secs_f64());
    Ok(if is_right { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn stage(
    choice: DeviceChoice,
    pattern: Pattern,
    strategy: Strategy,
    steps: usize,
) -> Result<Stage, Box<dyn Error>> {
    let runtime = strategy.builder().open_choice(choice)?;
    Ok(Stage::new(&runtime, pattern.plan(steps), strategy)?)
}

fn strategies(pattern: Pattern) -> Vec<Strategy> {
    let mut strategies = Strategy::ALL.to_vec();
    strategies.retain(|strategy| *strategy != Strategy::Deterministic);
    if PLOTTED.contains(&pattern) {
        strategies.extend(BOUNDS.map(|mib| Strategy::Bound(mib << 20)));
    }
    strategies
}

/// Prints a line for each strategy; whether no word was lost.
fn measure(
    choice: DeviceChoice,
    pattern: Pattern,
    strategies: &[Strategy],
) -> Result<bool, Box<dyn Error>> {
    let stages = strategies.iter().map(|strategy| stage(choice, pattern, *strategy, STEPS));
    let mut stages: Vec<Stage> = stages.collect::<Result<_, _>>()?;
    let summaries = compare(&mut stages, WARM, ROUNDS)?;
    let mut is_right = true;
    for (stage, summary) in stages.iter().zip(&summaries) {
        let (strategy, plan) = (stage.strategy(), stage.plan());
        let (steps, asked) = (plan.steps.len(), plan.bytes_total());
        println!(
            "pattern: pattern={pattern} strategy={strategy} steps={steps} rounds={ROUNDS} \
             asked_bytes={asked} {}",
            summary.line()
        );
        is_right &= summary.mismatches == 0;
    }
    Ok(is_right)
}

/// Prints whether a pattern comes to the same places in each run; whether it does.
fn repeat(choice: DeviceChoice, pattern: Pattern) -> Result<bool, Box<dyn Error>> {
    let mut found = BTreeSet::new();
    for _ in 0..RUNS {
        let mut stage = stage(choice, pattern, Strategy::Deterministic, RUN_STEPS)?;
        stage.round()?;
        found.insert(stage.places());
    }
    let (distinct, allocations) = (found.len(), found.first().map_or(0, Vec::len));
    println!(
        "places: pattern={pattern} policy=deterministic runs={RUNS} allocations={allocations} \
         distinct={distinct}"
    );
    Ok(distinct == 1 && allocations == RUN_STEPS)
}
