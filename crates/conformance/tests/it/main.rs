//! The simulated driver answers as the real one did, case by case, each on a machine of its own.

#[path = "../simulated/mod.rs"]
mod simulated;

use conformance::{Answer, Kind, cases, judge};
use cuda_sim::DeviceProfile;

/// The probes of one case that a device of this kind answers otherwise than recorded.
fn differing(case_name: &str, device: DeviceProfile) -> Vec<String> {
    let cases = cases();
    let case = cases.iter().find(|case| case.name() == case_name).expect("the case exists");
    let report = judge(&simulated::run(case, device).0, Kind::Simulated);
    let answered = report.failed().filter(|difference| difference.given.is_some());
    answered.map(|difference| difference.probe.clone()).collect()
}

#[test]
fn the_simulated_driver_answers_as_recorded() {
    let outcomes = cases().into_iter().map(|case| simulated::run(&case, DeviceProfile::h200()));
    let answers: Vec<Answer> = outcomes.flat_map(|(answers, _)| answers).collect();
    let report = judge(&answers, Kind::Simulated);
    assert_eq!(report.failed().count(), 0, "\n{report}");
    // What is accepted is not answered at all: the child after a fork.
    assert_eq!(report.differences.len(), 5, "\n{report}");
}

/// The cases that do something wrong, and what is reported of each.
const WRONG: &[(&str, &[&str])] = &[
    ("memory", &["EndedInUse", "FreedTwice"]),
    ("plain block freed twice", &["FreedTwice"]),
    ("virtual memory", &["EndedInUse"]),
    ("streams and events", &["CallInHostFunction", "CallInHostFunction"]),
    ("calls under capture", &["Race"]),
    ("teardown", &["StaleHandle"]),
    ("destroyed handle 0", &["StaleHandle"]),
    ("destroyed handle 1", &["StaleHandle"]),
    ("destroyed handle 2", &["StaleHandle"]),
    ("destroyed handle 3", &["StaleHandle"]),
    ("destroyed handle 4", &["StaleHandle"]),
    ("destroyed handle 5", &["StaleHandle"]),
    ("destroyed handle 6", &["StaleHandle"]),
    ("sticky", &["IllegalAddress"]),
    ("plain block freed twice async", &["FreedTwice"]),
    ("unmap in use", &["EndedInUse", "IllegalAddress"]),
];

#[test]
fn hazards_are_reported_where_something_is_wrong_and_nowhere_else() {
    for case in cases() {
        let (_, hazards) = simulated::run(&case, DeviceProfile::h200());
        let texts: Vec<String> = hazards.iter().map(|hazard| format!("{hazard:?}")).collect();
        let kinds: Vec<&str> =
            texts.iter().filter_map(|text| text.split([' ', '(']).next()).collect();
        let expected = WRONG.iter().find(|(name, _)| *name == case.name());
        let expected = expected.map_or(&[][..], |(_, kinds)| kinds);
        assert_eq!(kinds, expected, "{}: {hazards:#?}", case.name());
    }
}

#[test]
fn another_device_does_not_pass_for_an_h200() {
    let differing = differing("contexts", DeviceProfile::without_vmm());
    assert_eq!(differing, ["VMM", "POOLS"]);
}

#[test]
fn a_driver_without_an_entry_point_is_told_from_one_that_has_it() {
    let device = DeviceProfile::h200().without("cuMemUnmap");
    let differing = differing("unmap in use", device);
    assert_eq!(differing, ["unmap while a queued fill will touch it"]);
}
