//! Looks for the earliest wait that makes no run longer, one group after the other.

use trace::BlockNumber;

use super::advice::{AtLag, Prediction};
use super::groups::Group;
use super::program::Program;
use super::simulate::{Change, Simulated, simulate};

/// A run may be longer by so many thousandths and still count as no longer.
const TOLERANCE_PERMILLE: u128 = 5;

impl From<&Simulated> for Prediction {
    fn from(simulated: &Simulated) -> Self {
        Self {
            time_ns: simulated.span_ns,
            peak_bytes: simulated.peak_bytes,
            stalled_ns: simulated.stalled_ns,
        }
    }
}

/// What was found for one group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    /// Without waits for this group.
    pub(super) never: Prediction,
    /// The earliest lag that makes the run no longer.
    pub(super) lag: usize,
    /// Whether waiting there needs less memory than not waiting.
    pub(super) helps: bool,
    /// One step earlier, there, one step later.
    pub(super) around: Vec<AtLag>,
}

/// Waits that were accepted for groups before.
#[derive(Debug)]
pub(super) struct Search<'a> {
    program: &'a Program,
    accepted: Vec<(usize, BlockNumber)>,
}

impl<'a> Search<'a> {
    pub(super) fn new(program: &'a Program) -> Self {
        Self { program, accepted: Vec::new() }
    }

    /// With everything that was accepted.
    pub(super) fn accepted(&self) -> Prediction {
        self.predict(self.accepted.clone())
    }

    fn predict(&self, mut moved: Vec<(usize, BlockNumber)>) -> Prediction {
        moved.sort_unstable();
        let change = Change { without_allocator_waits: true, moved };
        Prediction::from(&simulate(self.program, &change))
    }

    fn at_lag(&self, group: &Group, lag: usize) -> Prediction {
        let moves = group.moves(self.program, lag);
        let moved = self.accepted.iter().copied().chain(moves).collect();
        self.predict(moved)
    }

    /// Finds the lag of a group, and accepts it if it helps.
    pub(super) fn find(&mut self, group: &Group) -> Found {
        let never = self.accepted();
        let is_free = |predicted: &Prediction| {
            let limit = u128::from(never.time_ns) * (1000 + TOLERANCE_PERMILLE);
            u128::from(predicted.time_ns) * 1000 <= limit
        };
        // Doubling up to a lag that is free, then halving what lies between.
        let lag_max = group.lag_max();
        let (mut costs, mut free) = (None, 0);
        while free < lag_max && !is_free(&self.at_lag(group, free)) {
            costs = Some(free);
            free = (free * 2).max(1).min(lag_max);
        }
        while let Some(low) = costs
            && 1 < free - low
        {
            let middle = low + (free - low) / 2;
            if is_free(&self.at_lag(group, middle)) {
                free = middle;
            } else {
                costs = Some(middle);
            }
        }
        let around: Vec<AtLag> = (free.saturating_sub(1)..=free + 1)
            .filter(|lag| *lag <= lag_max)
            .map(|lag| AtLag { lag, predicted: self.at_lag(group, lag) })
            .collect();
        let there = around.iter().find(|tried| tried.lag == free);
        let helps = there.is_some_and(|there| there.predicted.peak_bytes < never.peak_bytes);
        if helps {
            self.accepted.extend(group.moves(self.program, free));
        }
        Found { never, lag: free, helps, around }
    }
}
