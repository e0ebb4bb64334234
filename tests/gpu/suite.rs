//! The tests by name: every scenario, each control that loses words for certain, and the stress.

use allocator::{Config, Sabotage};

use crate::checked;
use crate::device;
use crate::scenarios::{
    self,
    broken::{CONTROLS, Control},
};
use crate::stress;

const STRESS: &str = "stress::no_word_is_lost";

/// The stress with a check left out.
const BROKEN_STRESS: [(&str, Sabotage); 3] = [
    ("stress::words_are_lost_without_uses", Sabotage::IgnoreUses),
    ("stress::words_are_lost_without_free_points", Sabotage::IgnoreFreePoint),
    ("stress::words_are_lost_without_waits", Sabotage::SkipWait),
];

/// The controls that a GPU can show: those of a check of the allocator's.
fn controls() -> impl Iterator<Item = (String, &'static Control)> {
    let shown = CONTROLS.iter().filter(|control| control.loses_words && control.left_out.is_some());
    shown.map(|control| (format!("controls::{}", control.name), control))
}

/// All tests.
pub fn names() -> Vec<String> {
    let scenarios = scenarios::ALL.iter().map(|(name, _)| String::from(*name));
    let controls = controls().map(|(name, _)| name);
    let broken = BROKEN_STRESS.iter().map(|(name, _)| String::from(*name));
    scenarios
        .chain(controls)
        .chain(checked::names())
        .chain([String::from(STRESS)])
        .chain(broken)
        .collect()
}

/// Runs one test in this process.
///
/// # Panics
/// It failed, or there is no such test.
pub fn run(name: &str) {
    if let Some((_, scenario)) = scenarios::ALL.iter().find(|(known, _)| *known == name) {
        let rig = device::open();
        scenario(rig.as_ref());
        assert_eq!(rig.desk().mismatches(), 0, "words were lost");
    } else if let Some((_, control)) = controls().find(|(known, _)| known == name) {
        check(control);
    } else if checked::run(name) {
        println!("{name}: as it should be");
    } else if name == STRESS {
        stress::is_clean();
    } else if let Some((_, sabotage)) = BROKEN_STRESS.iter().find(|(known, _)| *known == name) {
        stress::loses_words_without(*sabotage);
    } else {
        panic!("there is no test `{name}`");
    }
}

/// Without its check a control loses words; with it, none, and memory is reused all the same.
fn check(control: &Control) {
    let rig = device::open();
    let mut config = Config::default();
    config.sabotage = control.left_out;
    let verdict = (control.program)(rig.as_ref(), config);
    let lost = rig.desk().mismatches();
    assert!(verdict.early && 0 < lost, "{lost} words lost without the check: {verdict:?}");
    println!("{}: {lost} words were lost without the check", control.name);
    drop(rig);
    let rig = device::open();
    let verdict = (control.program)(rig.as_ref(), Config::default());
    assert_eq!(rig.desk().mismatches(), 0, "words were lost with the check");
    assert!(!verdict.early && verdict.late, "{verdict:?}");
}
