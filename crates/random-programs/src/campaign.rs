//! Many seeds, and what they add up to.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::draw::Wishes;
use crate::outcome::{Feature, Outcome};
use crate::program::{Broken, Program};
use crate::workers::{Learned, run_all};

/// Each feature is to be come through by one program in so many, or more.
const FEATURE_ONE_IN: u64 = 100;
/// The median of the operations that a program performs is to be at least this.
const PERFORMED_MEDIAN_MIN: u64 = 200;
const STREAMS_MIN: usize = 3;
/// Fewer programs, such as one that is repeated, are not asked what they reach.
const SHARES_FROM_PROGRAMS: u64 = 200;
/// More failing seeds than this are counted, not kept.
const FAILURES_KEPT_MAX: usize = 20;

/// What a program that hangs is said to have found.
pub const HUNG: &str = "hung";

/// The programs of a range of seeds.
#[derive(Debug, Clone)]
pub struct Campaign {
    /// Which seeds.
    pub seeds: Range<u64>,
    /// How many threads run programs.
    pub jobs: NonZeroUsize,
    /// How many host threads each program has; else the seed says, and most have one.
    pub threads: Option<usize>,
    /// What is taken out of the product.
    pub broken: Option<Broken>,
    /// No program is begun after this time.
    pub time_max: Duration,
    /// A program that is at one step for longer hangs.
    pub hang_after: Duration,
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
    /// What the verdicts of the simulator and of the checker were, and how often.
    pub verdicts: BTreeMap<String, u64>,
    /// What became of the mistakes that were made on purpose.
    pub mistakes: BTreeMap<String, u64>,
    /// How many operations were performed.
    pub performed: u64,
    /// How many requests were served.
    pub requests: u64,
    /// How often what is known was compared with what is so.
    pub comparisons: u64,
    /// The fewest streams that a program had at one time.
    pub streams_min: usize,
    /// Whether programs of one kind were asked for: then nobody asks what share reaches what.
    #[serde(skip)]
    is_selected: bool,
    /// How many programs performed so many operations.
    #[serde(skip)]
    performed_by_programs: BTreeMap<u64, u64>,
}

impl Campaign {
    /// Runs the programs. `tell` is called after each with how many have run. A program that hangs
    /// is left behind, with the threads that it has; the rest goes on.
    ///
    /// # Panics
    /// A machine could not be built.
    #[must_use]
    pub fn run(&self, tell: impl Fn(u64)) -> Summary {
        let begin = Instant::now();
        let mut sum = Summary { is_selected: self.threads.is_some(), ..Summary::default() };
        run_all(self, |learned| {
            match learned {
                Learned::Ended(seed, outcome) => sum.add(seed, &outcome),
                Learned::Hangs(seed, step) => self.add_hung(&mut sum, seed, step),
            }
            tell(sum.programs);
            !(self.stops_at_failure && 0 < sum.failed)
        });
        sum.seconds = begin.elapsed().as_secs_f64();
        sum
    }

    fn add_hung(&self, sum: &mut Summary, seed: u64, step: usize) {
        let steps = self.program(seed).steps;
        let operation = steps.get(step.saturating_sub(1)).map(|step| &step.operation);
        let seconds = self.hang_after.as_secs_f64();
        let count = steps.len();
        let text =
            format!("does not go on within {seconds} s: step {step} of {count}, {operation:?}");
        sum.add_failure(Failure { seed, kind: HUNG, text });
    }

    /// The program of one seed.
    #[must_use]
    pub fn program(&self, seed: u64) -> Program {
        let wishes = Wishes { threads: self.threads, ..Wishes::default() };
        let mut program = Program::draw_with(seed, &wishes);
        program.setup.broken = self.broken;
        program
    }
}

impl Summary {
    /// Adds what came of a seed's program.
    pub fn add(&mut self, seed: u64, outcome: &Outcome) {
        let streams = if self.reached.is_empty() { usize::MAX } else { self.streams_min };
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
        if let Some(verdict) = outcome.verdict {
            *self.verdicts.entry(format!("{verdict:?}")).or_default() += 1;
        }
        for (kind, answer) in &outcome.mistakes {
            *self.mistakes.entry(format!("{kind}: {answer}")).or_default() += 1;
        }
        if let Some(first) = outcome.findings.first() {
            let (kind, text) = (first.kind(), first.to_string());
            self.keep(Failure { seed, kind, text });
        }
    }

    /// Adds a program that came to no end.
    fn add_failure(&mut self, failure: Failure) {
        self.programs += 1;
        self.keep(failure);
    }

    fn keep(&mut self, failure: Failure) {
        self.failed += 1;
        self.failures.push(failure);
        self.failures.sort();
        self.failures.truncate(FAILURES_KEPT_MAX);
    }

    /// How many programs were watched by the checker.
    #[must_use]
    pub fn checked(&self) -> u64 {
        self.reached.get(&format!("{:?}", Feature::Checked)).copied().unwrap_or_default()
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
        if self.is_selected || self.programs < SHARES_FROM_PROGRAMS {
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
