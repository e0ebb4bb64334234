//! Compares answers with the recorded ones, and knows which differences are accepted, and why.

use std::collections::HashMap;
use std::fmt;

use crate::transcript::{Answer, HANGS, HAZARD, SIGSEGV};

/// The recorded answers.
const RECORDED: &str = include_str!("../answers.txt");

/// What was asked: a driver of hardware or one that stands in for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The installed driver.
    Hardware,
    /// A simulated driver.
    Simulated,
}

/// A difference that is accepted.
struct Accepted {
    kind: Kind,
    group: &'static str,
    /// `None` accepts the whole group.
    probe: Option<&'static str>,
    /// `None` accepts that the probe was not answered.
    answer: Option<&'static str>,
    reason: &'static str,
}

/// All of them.
const ACCEPTED: &[Accepted] = &[Accepted {
    kind: Kind::Simulated,
    group: "in a child after fork",
    probe: None,
    answer: None,
    reason: "the simulated device lives in the memory of its process, which a fork copies whole",
}];

/// A recorded answer and the one that was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// What the probe is about.
    pub group: String,
    /// The probe.
    pub probe: String,
    /// `None` for a probe that is not recorded.
    pub recorded: Option<String>,
    /// `None` for a recorded probe that was not answered.
    pub given: Option<String>,
    /// Why it is accepted, if it is.
    pub accepted: Option<&'static str>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let recorded = self.recorded.as_deref().unwrap_or("nothing");
        let given = self.given.as_deref().unwrap_or("no answer");
        write!(f, "{} | {}\n    recorded: {recorded}", self.group, self.probe)?;
        write!(f, "\n    given:    {given}")?;
        match self.accepted {
            Some(reason) => write!(f, "\n    accepted: {reason}"),
            None => Ok(()),
        }
    }
}

/// How a driver's answers compare with the recorded ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// How many recorded probes were answered as recorded.
    pub same: usize,
    /// All others, in the order of the record.
    pub differences: Vec<Difference>,
}

impl Report {
    /// The differences that nothing accepts.
    pub fn failed(&self) -> impl Iterator<Item = &Difference> {
        self.differences.iter().filter(|difference| difference.accepted.is_none())
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for difference in &self.differences {
            writeln!(f, "{difference}")?;
        }
        let failed = self.failed().count();
        let accepted = self.differences.len() - failed;
        write!(f, "{} passed, {failed} failed, {accepted} accepted", self.same)
    }
}

/// The recorded answers, in order.
///
/// # Panics
/// Never: the record is part of this crate, and a test reads all of it.
pub fn recorded() -> impl Iterator<Item = Answer> {
    RECORDED
        .lines()
        .filter(|line| !line.starts_with('#') && !line.is_empty())
        .map(|line| Answer::parse(line).expect("each line of the record holds three parts"))
}

/// Compares `answers` with the record.
#[must_use]
pub fn judge(answers: &[Answer], kind: Kind) -> Report {
    let mut given: HashMap<(String, String), Vec<&str>> = HashMap::new();
    for Answer { group, probe, answer } in answers {
        given.entry((group.clone(), probe.clone())).or_default().push(answer);
    }
    let mut report = Report { same: 0, differences: Vec::new() };
    for Answer { group, probe, answer } in recorded() {
        let key = (group, probe);
        let given = given.remove(&key).unwrap_or_default();
        if let [only] = given.as_slice()
            && agrees(&answer, only)
        {
            report.same += 1;
            continue;
        }
        let (group, probe) = key;
        let given = if given.is_empty() { None } else { Some(given.join(" and ")) };
        let accepted = accepted(kind, &group, &probe, given.as_deref());
        let recorded = Some(answer);
        report.differences.push(Difference { group, probe, recorded, given, accepted });
    }
    for Answer { group, probe, answer } in answers.iter().cloned() {
        if given.contains_key(&(group.clone(), probe.clone())) {
            let (recorded, given) = (None, Some(answer));
            report.differences.push(Difference { group, probe, recorded, given, accepted: None });
        }
    }
    report
}

/// Whether `given` is the recorded answer, or a hazard where the real driver does not survive.
fn agrees(recorded: &str, given: &str) -> bool {
    let fatal = [SIGSEGV, HANGS].into_iter().filter(|end| recorded.contains(end));
    let fatal: Vec<&str> = fatal.collect();
    given == recorded || fatal.contains(&given) || (given == HAZARD && !fatal.is_empty())
}

fn accepted(kind: Kind, group: &str, probe: &str, given: Option<&str>) -> Option<&'static str> {
    ACCEPTED
        .iter()
        .filter(|accepted| accepted.kind == kind && accepted.group == group)
        .filter(|accepted| accepted.probe.is_none_or(|accepted| accepted == probe))
        .find(|accepted| accepted.answer == given)
        .map(|accepted| accepted.reason)
}

#[cfg(test)]
mod tests;
