//! The comparison finds every kind of difference.

use std::collections::HashSet;

use super::{ACCEPTED, Kind, judge, recorded};
use crate::transcript::{Answer, HANGS, HAZARD, SIGSEGV};

/// The record with the answer to one probe replaced, judged.
fn failures_with(group: &str, probe: &str, answer: Option<&str>, kind: Kind) -> Vec<String> {
    let mut answers: Vec<Answer> = recorded().collect();
    let index = answers
        .iter()
        .position(|known| known.group == group && known.probe == probe)
        .expect("the probe is recorded");
    match answer {
        Some(answer) => answers[index].answer = answer.to_owned(),
        None => drop(answers.remove(index)),
    }
    let report = judge(&answers, kind);
    report.failed().map(|difference| difference.probe.clone()).collect()
}

#[test]
fn each_probe_is_recorded_once() {
    let probes: Vec<(String, String)> = recorded().map(|line| (line.group, line.probe)).collect();
    let distinct: HashSet<_> = probes.iter().collect();
    assert_eq!(distinct.len(), probes.len());
    assert_eq!(probes.len(), 302);
}

#[test]
fn the_record_agrees_with_itself() {
    let answers: Vec<Answer> = recorded().collect();
    let report = judge(&answers, Kind::Hardware);
    assert_eq!((report.same, report.differences.len()), (answers.len(), 0));
}

#[test]
fn another_answer_no_answer_and_two_answers_are_differences() {
    let check = |answer| failures_with("memory", "cuMemFree(0)", answer, Kind::Simulated);
    assert_eq!(check(Some("INVALID_VALUE")), ["cuMemFree(0)"]);
    assert_eq!(check(None), ["cuMemFree(0)"]);
    let mut answers: Vec<Answer> = recorded().collect();
    answers.push(answers[0].clone());
    assert_eq!(judge(&answers, Kind::Simulated).failed().count(), 1);
}

#[test]
fn an_answer_that_is_not_recorded_is_a_difference() {
    let mut answers: Vec<Answer> = recorded().collect();
    answers.push(Answer::parse("memory | something new | SUCCESS").unwrap());
    let report = judge(&answers, Kind::Hardware);
    assert!(report.to_string().contains("something new\n    recorded: nothing"), "{report}");
}

#[test]
fn a_hazard_stands_for_a_crash_and_for_nothing_else() {
    let crash = |answer| {
        let probe = "query a destroyed event";
        failures_with("destroyed handles", probe, Some(answer), Kind::Simulated).len()
    };
    assert_eq!([SIGSEGV, HAZARD, HANGS, "SUCCESS"].map(crash), [0, 0, 1, 1]);
    let hazard = failures_with("memory", "cuMemFree(0)", Some(HAZARD), Kind::Simulated);
    assert_eq!(hazard.len(), 1);
}

#[test]
fn a_call_recorded_as_hanging_or_crashing_may_do_either() {
    let probe = "synchronise the stream after a plain block was freed twice with cuMemFreeAsync";
    let end = |answer| failures_with("memory", probe, Some(answer), Kind::Hardware).len();
    assert_eq!([SIGSEGV, HANGS, "SUCCESS"].map(end), [0, 0, 1]);
}

#[test]
fn what_is_accepted_of_one_driver_is_not_of_the_other() {
    let fork = |kind| failures_with("in a child after fork", "cuInit", None, kind).len();
    assert_eq!([Kind::Simulated, Kind::Hardware].map(fork), [0, 1]);
}

#[test]
fn what_is_accepted_is_recorded() {
    let recorded: Vec<Answer> = recorded().collect();
    for accepted in ACCEPTED {
        let found = recorded.iter().any(|line| {
            line.group == accepted.group && accepted.probe.is_none_or(|probe| line.probe == probe)
        });
        assert!(found, "{} is accepted and not recorded", accepted.group);
    }
}
