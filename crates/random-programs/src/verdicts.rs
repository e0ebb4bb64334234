//! Two verdicts on one program: that of the simulated driver, and that of the checker which a user
//! can turn on for any program. Neither shares code with the other, or with what decides inside
//! the library, so where they differ one of them is wrong.
//!
//! A program of one thread is judged after each step, and ends with the first one in which
//! something was found. Several threads are judged at their end: the checker hears of a hand-out
//! before the rig can ask about it, and what another thread does in between may have put it right.
//! Of a mistake that is made on purpose nothing is left but what became of it.

use std::fmt;

use checker::{Kind, Report};

use crate::operation::Mistake;
use crate::outcome::Finding;
use crate::program::{Broken, Setup};
use crate::stand::Stand;
use crate::world::World;

/// What two verdicts on a program said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Verdict {
    /// Neither found anything.
    BothClean,
    /// Both found something.
    BothFound,
    /// One found what the other did not.
    Differ,
}

/// What became of a mistake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Answer {
    /// Both found it.
    Found,
    /// The checker found it, and the simulator does not look for it: nothing came before in this
    /// memory that could have been disturbed.
    FoundByTheChecker,
    /// Neither found it: what was left out was there already, or made up for.
    Harmless,
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Found => "found by both",
            Self::FoundByTheChecker => "found by the checker alone",
            Self::Harmless => "made up for",
        })
    }
}

/// A mistake that was just made.
#[derive(Debug)]
pub(crate) struct Made {
    pub(crate) mistake: Mistake,
    /// What the simulator answered when it was asked; a hazard it reports by itself.
    pub(crate) asked: Option<String>,
}

impl Made {
    /// The words that the checker has for the mistake.
    fn expects(&self) -> &'static [Kind] {
        match self.mistake {
            Mistake::Untold { .. } => &[Kind::UntoldUse],
            Mistake::AfterFree { .. } => &[Kind::UseAfterFree],
            // A wait for what is known to be done is not made, and so not seen.
            Mistake::WrongEvent { .. } => &[Kind::WrongEvent, Kind::UnorderedAccess],
            // Of an earlier wait, for something else, the checker says that it does not cover this.
            Mistake::Unordered { .. } => &[Kind::UnorderedAccess, Kind::WrongEvent],
            Mistake::BeforeAllocation { .. } => &[Kind::UseBeforeAllocation],
        }
    }

    /// Whether the checker may find it where the simulator has nothing to compare with.
    fn may_be_the_checkers(&self) -> bool {
        matches!(self.mistake, Mistake::BeforeAllocation { .. })
    }
}

/// Whether there are two verdicts to compare. The checker believes a wait that was swallowed, as
/// everybody above the driver does.
pub(crate) fn are_compared(setup: &Setup) -> bool {
    setup.checked && setup.broken != Some(Broken::SwallowedWaits)
}

impl World<'_> {
    /// Compares the verdicts after a step of a program of one thread, in which a mistake may have
    /// been made.
    pub(crate) fn compare_verdicts(&mut self, made: Option<Made>) {
        if !self.alone || !are_compared(self.setup) {
            return;
        }
        let stand = self.stand;
        match made {
            Some(made) => {
                let answer = judge(&made, stand);
                self.tally.mistakes.extend(answer.map(|answer| (made.mistake.kind(), answer)));
                if let Some(Answer::Found | Answer::FoundByTheChecker) = answer {
                    stand.end_with_a_mistake();
                }
            }
            None => {
                let verdict = compare(stand);
                if verdict != Verdict::BothClean {
                    self.tally.verdict = Some(verdict);
                }
            }
        }
    }
}

/// What became of a mistake; nothing, if the verdicts differ.
fn judge(made: &Made, stand: &Stand) -> Option<Answer> {
    let reports = stand.reports();
    let hazard = made.asked.clone().or_else(|| stand.first_hazard());
    let expected = |report: &Report| made.expects().contains(&report.kind);
    let kind = made.mistake.kind();
    match (hazard, reports.first()) {
        (None, None) => return Some(Answer::Harmless),
        (Some(_), Some(report)) if expected(report) => return Some(Answer::Found),
        (None, Some(report)) if made.may_be_the_checkers() && expected(report) => {
            return Some(Answer::FoundByTheChecker);
        }
        (hazard, report) => {
            let simulator = hazard.unwrap_or_else(|| String::from("nothing"));
            let checker = report.map_or_else(|| String::from("nothing"), ToString::to_string);
            let text = format!("{kind}: the simulator finds {simulator}; the checker {checker}");
            stand.report(Finding::Verdicts(text));
        }
    }
    None
}

/// Compares what both found so far, and reports it if one of them found nothing.
fn compare(stand: &Stand) -> Verdict {
    let reports = stand.reports();
    match (stand.has_hazards(), reports.first()) {
        (false, None) => Verdict::BothClean,
        (true, Some(_)) => Verdict::BothFound,
        (true, None) => {
            let hazard = stand.first_hazard().unwrap_or_default();
            stand.report(Finding::Verdicts(format!("the checker does not find this: {hazard}")));
            Verdict::Differ
        }
        (false, Some(report)) => {
            stand.report(Finding::Verdicts(format!("the checker alone finds this: {report}")));
            Verdict::Differ
        }
    }
}

/// The verdicts at the end of a program, when everything was given back; nothing, if they are not
/// compared, or were on a mistake alone.
pub(crate) fn compare_at_the_end(
    stand: &Stand,
    setup: &Setup,
    is_alone: bool,
    so_far: Option<Verdict>,
) -> Option<Verdict> {
    if !are_compared(setup) {
        return None;
    }
    if stand.has_ended_with_a_mistake() || so_far.is_some() {
        return so_far;
    }
    // The rig asks later than the checker looks.
    let may_be_later = !is_alone && setup.broken.is_some();
    if may_be_later && !stand.has_hazards() {
        return Some(Verdict::BothClean);
    }
    Some(compare(stand))
}
