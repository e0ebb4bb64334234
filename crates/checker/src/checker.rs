//! The checker as a program sees it: an observer that keeps reports.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use streams::observe::Place;

use crate::judge::Judge;
use crate::report::{Kind, Report};

/// Reports at different lines that are kept; of more, only the number.
const REPORTS_MAX: usize = 256;

/// Is told of every new report.
type Sink = dyn Fn(&Report) + Send + Sync;

/// Watches a driver's streams and an allocator's memory, and keeps what it finds wrong.
///
/// One checker watches one driver. It is `Send` and `Sync`, and slows down what it watches: one
/// lock for every call. Reports are kept up to 256, each for one pair of lines and with a count of
/// how often it was found.
#[derive(Default)]
pub struct Checker {
    state: Mutex<State>,
    sink: Option<Box<Sink>>,
}

#[derive(Default)]
struct State {
    judge: Judge,
    reports: Vec<Report>,
    /// Where the report of a kind at two lines is.
    places: HashMap<(Kind, Option<Place>, Option<Place>), usize>,
    /// Found beyond what is kept.
    unlisted: u64,
}

impl Checker {
    /// A checker that has seen nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A checker that also gives each new report to `sink`, on the thread that did the later of
    /// the two things. The sink makes no call of the driver or the allocator.
    #[must_use]
    pub fn with_sink(sink: impl Fn(&Report) + Send + Sync + 'static) -> Self {
        Self { state: Mutex::default(), sink: Some(Box::new(sink)) }
    }

    /// What was found so far, in the order in which it was found first.
    #[must_use]
    pub fn reports(&self) -> Vec<Report> {
        self.lock().reports.clone()
    }

    /// The same, and forgets it.
    #[must_use]
    pub fn take_reports(&self) -> Vec<Report> {
        let mut state = self.lock();
        state.places.clear();
        std::mem::take(&mut state.reports)
    }

    /// How many more were found than are kept.
    #[must_use]
    pub fn unlisted(&self) -> u64 {
        self.lock().unlisted
    }

    /// Whether nothing was found.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        let state = self.lock();
        state.reports.is_empty() && state.unlisted == 0
    }

    /// A thread that panicked while it held the lock leaves at worst one call half noted.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn judge(&self, hear: impl FnOnce(&mut Judge)) {
        let mut state = self.lock();
        hear(&mut state.judge);
        let found = state.judge.take_found();
        let new: Vec<Report> = found.into_iter().filter_map(|report| state.keep(report)).collect();
        drop(state);
        if let Some(sink) = &self.sink {
            new.iter().for_each(sink);
        }
    }
}

impl State {
    /// Keeps a report; gives it back if it is the first of its kind at its lines.
    fn keep(&mut self, report: Report) -> Option<Report> {
        let earlier = report.earlier.as_ref().and_then(|deed| deed.line.0);
        let key = (report.kind, earlier, report.later.line.0);
        if let Some(known) = self.places.get(&key).and_then(|at| self.reports.get_mut(*at)) {
            known.count += 1;
            return None;
        }
        if REPORTS_MAX <= self.reports.len() {
            self.unlisted += 1;
            return None;
        }
        self.places.insert(key, self.reports.len());
        self.reports.push(report.clone());
        Some(report)
    }
}

impl streams::observe::Observer for Checker {
    fn observe(&self, happening: &streams::observe::Happening<'_>) {
        self.judge(|judge| judge.hear_of_streams(happening));
    }
}

impl allocator::observe::Observer for Checker {
    fn observe(&self, happening: &allocator::observe::Happening) {
        self.judge(|judge| judge.hear_of_memory(happening));
    }
}

impl fmt::Debug for Checker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.lock();
        f.debug_struct("Checker")
            .field("reports", &state.reports.len())
            .field("unlisted", &state.unlisted)
            .finish_non_exhaustive()
    }
}
