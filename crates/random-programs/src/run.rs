//! Runs one program.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use allocator::{
    Allocator, Config, PlainSource, Policy, Pool, Source, Stats, StrandedCause, VmmSource,
};

use crate::operation::Operation;
use crate::outcome::{Feature, Finding, Outcome};
use crate::program::{Broken, Memory, Program, Setup};
use crate::stand::Stand;
use crate::verdicts::compare_at_the_end;
use crate::workers::Progress;
use crate::world::{Memories, Tally, World};

/// Runs a program, and says what came of it. A program that panics has found something too.
#[must_use]
pub fn run(program: &Program) -> Outcome {
    run_noting(program, &Arc::default())
}

/// The same, and notes how far the program came.
pub(crate) fn run_noting(program: &Program, progress: &Arc<Progress>) -> Outcome {
    let stand = Stand::new(&program.setup, Arc::clone(progress));
    let before = stand.machine.used_bytes();
    let steps = AssertUnwindSafe(|| run_steps(program, &stand, before));
    match std::panic::catch_unwind(steps) {
        Ok(outcome) => outcome,
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string));
            let mut findings = stand.take_findings();
            findings.push(Finding::Panicked(text.unwrap_or_default()));
            Outcome { findings, ..Outcome::default() }
        }
    }
}

fn run_steps(program: &Program, stand: &Stand, before: u64) -> Outcome {
    let allocator = allocator(stand, &program.setup);
    let config = allocator.config().clone();
    let pool = program.setup.pool.map(|policy| allocator.create_pool(config.with_policy(policy)));
    let beside = program.setup.beside.map(|policy| second(stand, &program.setup, policy));
    let memories = Memories { own: &allocator, pool: pool.as_ref(), beside: beside.as_ref() };
    let is_alone = program.thread_count == 1;
    let mut tally = if is_alone {
        let mut world = World::new(stand, memories, &program.setup, 0, true);
        let steps = program.steps.iter().map(|step| &step.operation);
        // What goes wrong is told at once: what comes after it means nothing.
        steps.take_while(|_| stand.is_clean()).for_each(|operation| world.perform(operation));
        let stats = allocator.stats();
        world.check_figures(&stats, &allocator.snapshot());
        world.end();
        world.tally
    } else {
        run_threads(program, stand, memories)
    };
    for piece in stand.take_parcels() {
        stand.dead(piece.range);
        drop(piece.owner);
    }
    stand.context.synchronize().expect("everything ends");
    assert_eq!(stand.live_bytes(), 0, "the program gave everything back");
    let stats = allocator.stats();
    let findings_before_the_end = stand.take_findings();
    assert_eq!(stats.allocation_count, 0, "{findings_before_the_end:?}");
    assert_eq!((stats.allocated_bytes.current, stats.requested_bytes), (0, 0));
    check_end(stand, &allocator, tally.faults == 0);
    let mut totals = Totals::of(&stats);
    if let Some(pool) = pool {
        totals.add(&pool.allocator().stats());
        check_pool(stand, &pool, tally.faults == 0);
        drop(pool);
        allocator.poll();
        if tally.faults == 0 && !allocator.pools().is_empty() {
            stand.report(Finding::WrongFigure(String::from("a complete pool does not go")));
        }
    }
    drop((allocator, beside));
    tally.verdict = compare_at_the_end(stand, &program.setup, is_alone, tally.verdict);
    let mut findings = findings_before_the_end;
    findings.extend(stand.take_findings());
    let is_mistaken = stand.has_ended_with_a_mistake();
    match stand.mismatches() {
        0 => {}
        _ if is_mistaken => {}
        count => findings.push(Finding::LostWords(count)),
    }
    let left_behind = stand.machine.used_bytes() - before;
    // What the driver did not take back stays where it is.
    if 0 < left_behind && tally.faults == 0 && !is_mistaken {
        findings.push(Finding::LeftBehind(left_behind));
    }
    let driver_calls = stand.machine.call_count();
    reached(&mut tally, &program.setup, &stats, &totals);
    Outcome {
        findings,
        reached: tally.reached,
        verdict: tally.verdict,
        mistakes: tally.mistakes,
        performed: tally.performed,
        comparisons: tally.comparisons,
        streams: tally.streams,
        stats,
        addresses: tally.addresses,
        places: tally.places,
        driver_calls,
    }
}

/// How often somebody was held up at a bound, over the allocator and its pool.
struct Totals {
    host: u64,
    device: u64,
    passed: u64,
}

impl Totals {
    fn of(stats: &Stats) -> Self {
        Self {
            host: stats.host_throttle_total,
            device: stats.device_throttle_total,
            passed: stats.bound_passed_total,
        }
    }

    fn add(&mut self, stats: &Stats) {
        let Self { host, device, passed } = Self::of(stats);
        self.host += host;
        self.device += device;
        self.passed += passed;
    }
}

/// Adds what the figures and the setup show that the program came through.
fn reached(tally: &mut Tally, setup: &Setup, stats: &Stats, totals: &Totals) {
    let reached = &mut tally.reached;
    let served = &stats.served_by;
    let counted = [
        (served.own_stream, Feature::OwnStream),
        (served.known_order, Feature::KnownOrder),
        (served.completion, Feature::Completion),
        (served.device_wait, Feature::DeviceWait),
        (stats.stock_wait_total, Feature::StockWait),
        (served.growth, Feature::Growth),
        (served.ladder, Feature::Ladder),
        (stats.cross_stream_splits, Feature::CrossStreamSplit),
        (stats.cross_stream_merges, Feature::CrossStreamMerge),
    ];
    for (count, feature) in counted {
        reached.add_if(0 < count, feature);
    }
    let throttled = 0 < totals.host + totals.device;
    let (of_streams, of_pool) = (setup.stream_bound.is_some(), setup.pool_bound.is_some());
    let bounds = [
        (0 < totals.host, Feature::HostThrottle),
        (0 < totals.device, Feature::DeviceThrottle),
        (throttled && of_streams && !of_pool, Feature::StreamBoundThrottle),
        (throttled && of_pool && !of_streams, Feature::PoolBoundThrottle),
        (0 < totals.passed, Feature::BoundPassed),
        (setup.checked, Feature::Checked),
        (!tally.mistakes.is_empty(), Feature::Mistake),
    ];
    for (is_so, feature) in bounds {
        reached.add_if(is_so, feature);
    }
}

/// Runs the threads of a program, one at a time, as the machine's schedule says.
fn run_threads(program: &Program, stand: &Stand, memories: Memories<'_>) -> Tally {
    let mut tallies: Vec<Tally> = Vec::new();
    tallies.resize_with(program.thread_count, Tally::default);
    let bodies = tallies.iter_mut().enumerate().map(|(thread, tally)| {
        let body: Box<dyn FnOnce() + Send + '_> = Box::new(move || {
            let mut world = World::new(stand, memories, &program.setup, thread, false);
            let own = program.steps.iter().filter(|step| step.thread == thread);
            let operations = own.map(|step| &step.operation);
            operations.for_each(|operation: &Operation| world.perform(operation));
            world.end();
            *tally = std::mem::take(&mut world.tally);
        });
        body
    });
    stand.machine.run_threads(bodies.collect());
    let mut sum = Tally::default();
    for tally in tallies {
        sum.reached.join(tally.reached);
        sum.performed += tally.performed;
        sum.comparisons += tally.comparisons;
        sum.streams += tally.streams;
        sum.faults += tally.faults;
        sum.mistakes.extend(tally.mistakes);
        sum.addresses.extend(tally.addresses);
        sum.places.extend(tally.places);
    }
    sum.reached.add(Feature::Threads);
    for (alone, feature) in [
        (Feature::Capture, Feature::ThreadsCapture),
        (Feature::Replay, Feature::ThreadsReplay),
        (Feature::InjectedFault, Feature::ThreadsFault),
    ] {
        sum.reached.add_if(sum.reached.has(alone), feature);
    }
    sum
}

/// A second allocator on the same streams.
fn second(stand: &Stand, setup: &Setup, policy: Policy) -> Allocator {
    allocator(stand, &Setup { policy, ..setup.clone() })
}

fn allocator(stand: &Stand, setup: &Setup) -> Allocator {
    let mut config = Config::default().with_policy(setup.policy);
    config.limit_bytes = setup.limit_bytes;
    config.pending_bytes_max = setup.pending_bytes_max;
    config.stream_bound = setup.stream_bound;
    config.pool_bound = setup.pool_bound;
    if let Some(Broken::Allocator(sabotage)) = setup.broken {
        let can_break = cfg!(feature = "broken");
        assert!(can_break, "built without the feature that leaves checks out");
        config.sabotage = Some(sabotage);
    }
    let plain = || -> Arc<dyn Source> { Arc::new(PlainSource::new(&stand.context)) };
    let source = match setup.memory {
        Memory::Plain => plain(),
        Memory::Virtual => match VmmSource::new(&stand.context).expect("the device knows itself") {
            Some(source) => Arc::new(source),
            None => plain(),
        },
    };
    let hears = setup.broken != Some(Broken::DeafChecker);
    let made = match stand.checker.as_ref().filter(|_| hears) {
        Some(checker) => {
            let observer = Arc::clone(checker) as _;
            Allocator::with_source_observed(&stand.context, config, source, observer)
        }
        None => Allocator::with_source(&stand.context, config, source),
    };
    made.expect("an allocator")
}

/// A private pool ends as the allocator does, and so do its figures.
fn check_pool(stand: &Stand, pool: &Pool, is_without_faults: bool) {
    let stats = pool.allocator().stats();
    assert_eq!((stats.allocation_count, stats.allocated_bytes.current), (0, 0));
    check_end(stand, pool.allocator(), is_without_faults);
}

/// The figures at the end.
fn check_end(stand: &Stand, allocator: &Allocator, is_without_faults: bool) {
    if let Err(mismatch) = allocator.snapshot().check(&allocator.stats()) {
        stand.report(Finding::WrongFigure(mismatch.to_string()));
    }
    if is_without_faults {
        check_stranded(stand, allocator);
    }
}

/// Once all is complete, and the device was asked, nothing is stranded but what the policy keeps
/// apart.
fn check_stranded(stand: &Stand, allocator: &Allocator) {
    allocator.poll();
    let stranded = allocator.stranded();
    if stranded.total_bytes() != stranded.bytes_of(StrandedCause::Policy) {
        stand.report(Finding::WrongFigure(format!("at the end: {stranded}")));
    }
}
