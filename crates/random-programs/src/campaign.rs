//! Many seeds over several threads, and what they add up to.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::outcome::{Feature, Outcome};
use crate::program::{Broken, Program};
use crate::run::run;

/// Each feature is to be come through by one program in so many, or more.
const FEATURE_ONE_IN: u64 = 100;
/// The median of the operations that a program performs is to be at least this.
const PERFORMED_MEDIAN_MIN: u64 = 200;
const STREAMS_MIN: usize = 3;
/// Fewer programs, such as one that is repeated, are not asked what they reach.
const SHARES_FROM_PROGRAMS: u64 = 200;
/// More failing seeds than this are counted, not kept.
const FAILURES_KEPT_MAX: usize = 20;

/// The programs of a range of seeds.
#[derive(Debug, Clone)]
pub struct Campaign {
    /// Which seeds.
    pub seeds: Range<u64>,
    /// How many threads run programs.
    pub jobs: NonZeroUsize,
    /// What is taken out of the product.
    pub broken: Option<Broken>,
    /// No program is begun after this time.
    pub time_max: Duration,
    /// No program is begun after one has failed.
    pub stops_at_failure: bool,
}

/// A seed whose program found something.
#[derive(Debug, Clone, Serialize, PartialEq, Eq, PartialOrd, Ord)]
pub struct Failure {
    /// The seed.
    pub seed: u64,
    /// What kind of finding the first one was.
    pub kind: &'static str,
    /// The finding, in words.
    pub text: String,
}

/// What the programs added up to.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Summary {
    /// How many programs ran.
    pub programs: u64,
    /// How long it took.
    pub seconds: f64,
    /// How many programs found something.
    pub failed: u64,
    /// The first of those, by seed.
    pub failures: Vec<Failure>,
    /// How many programs came through each feature.
    pub reached: BTreeMap<String, u64>,
    /// How many operations were performed.
    pub performed: u64,
    /// How many requests were served.
    pub requests: u64,
    /// How often what is known was compared with what is so.
    pub comparisons: u64,
    /// The fewest streams that a program had at one time.
    pub streams_min: usize,
    /// How many programs performed so many operations.
    #[serde(skip)]
    performed_by_programs: BTreeMap<u64, u64>,
}

impl Campaign {
    /// Runs the programs. `tell` is called after each with how many have run; from any thread.
    #[must_use]
    pub fn run(&self, tell: impl Fn(u64) + Sync) -> Summary {
        let begin = Instant::now();
        let next = AtomicU64::new(self.seeds.start);
        let (done, failed) = (AtomicU64::new(0), AtomicU64::new(0));
        let work = || {
            let mut sum = Summary::default();
            loop {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                let over = self.stops_at_failure && 0 < failed.load(Ordering::Relaxed);
                if self.seeds.end <= seed || over || self.time_max <= begin.elapsed() {
                    return sum;
                }
                let outcome = run(&self.program(seed));
                failed.fetch_add(u64::from(!outcome.findings.is_empty()), Ordering::Relaxed);
                sum.add(seed, &outcome);
                tell(done.fetch_add(1, Ordering::Relaxed) + 1);
            }
        };
        let mut sum = Summary::default();
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..self.jobs.get()).map(|_| scope.spawn(work)).collect();
            for worker in workers {
                sum.join(worker.join().expect("a worker catches what its programs panic with"));
            }
        });
        sum.seconds = begin.elapsed().as_secs_f64();
        sum
    }

    /// The program of one seed.
    #[must_use]
    pub fn program(&self, seed: u64) -> Program {
        let mut program = Program::draw(seed);
        program.setup.broken = self.broken;
        program
    }
}

impl Summary {
    /// Adds what came of a seed's program.
    pub fn add(&mut self, seed: u64, outcome: &Outcome) {
        let streams = if self.programs == 0 { usize::MAX } else { self.streams_min };
        self.streams_min = streams.min(outcome.streams);
        self.programs += 1;
        self.performed += outcome.performed;
        self.requests += outcome.stats.allocation_total;
        self.comparisons += outcome.comparisons;
        *self.performed_by_programs.entry(outcome.performed).or_default() += 1;
        for feature in Feature::ALL {
            let count = self.reached.entry(format!("{feature:?}")).or_default();
            *count += u64::from(outcome.reached.has(feature));
        }
        if let Some(first) = outcome.findings.first() {
            self.failed += 1;
            let (kind, text) = (first.kind(), first.to_string());
            self.keep(Failure { seed, kind, text });
        }
    }

    fn keep(&mut self, failure: Failure) {
        self.failures.push(failure);
        self.failures.sort();
        self.failures.truncate(FAILURES_KEPT_MAX);
    }

    fn join(&mut self, other: Self) {
        if other.programs == 0 {
            return;
        }
        let streams = if self.programs == 0 { usize::MAX } else { self.streams_min };
        self.streams_min = streams.min(other.streams_min);
        self.programs += other.programs;
        self.performed += other.performed;
        self.requests += other.requests;
        self.comparisons += other.comparisons;
        self.failed += other.failed;
        for (performed, count) in other.performed_by_programs {
            *self.performed_by_programs.entry(performed).or_default() += count;
        }
        for (feature, count) in other.reached {
            *self.reached.entry(feature).or_default() += count;
        }
        other.failures.into_iter().for_each(|failure| self.keep(failure));
    }

    /// How many operations half of the programs performed at least.
    #[must_use]
    pub fn performed_median(&self) -> u64 {
        let mut seen = 0;
        let half = self.programs.div_ceil(2);
        let found = self.performed_by_programs.iter().find(|(_, count)| {
            seen += **count;
            half <= seen
        });
        found.map_or(0, |(performed, _)| *performed)
    }

    /// Why the programs do not show what they are to show; nothing, if they do.
    #[must_use]
    pub fn shortcomings(&self) -> Vec<String> {
        let mut all = Vec::new();
        if 0 < self.failed {
            all.push(format!("{} of {} programs failed", self.failed, self.programs));
        }
        if self.programs == 0 {
            all.push(String::from("no program ran"));
        }
        if self.programs < SHARES_FROM_PROGRAMS {
            return all;
        }
        for (feature, count) in &self.reached {
            if *count * FEATURE_ONE_IN < self.programs {
                all.push(format!("only {count} of {} programs reach {feature}", self.programs));
            }
        }
        let median = self.performed_median();
        if median < PERFORMED_MEDIAN_MIN {
            all.push(format!("half of the programs perform at most {median} operations"));
        }
        if self.streams_min < STREAMS_MIN {
            all.push(format!("a program had only {} streams", self.streams_min));
        }
        all
    }
}
