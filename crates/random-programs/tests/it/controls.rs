//! The programs catch each broken product within ten thousand seeds (S11).
//!
//! The seeds are tried in order from the first one, so a test also says how many it took.

use allocator::Sabotage;
use random_programs::{Broken, Program, run};

/// In so many seeds each must be caught.
const SEEDS_MAX: u64 = 10_000;

/// Tries seeds until one catches the broken product, in one of the ways expected.
fn is_caught(broken: Broken, kinds: &[&str]) {
    for seed in 0..SEEDS_MAX {
        let sound = Program::draw(seed);
        let mut program = sound.clone();
        program.setup.broken = Some(broken);
        let Some(found) = run(&program).findings.into_iter().next() else { continue };
        println!("{broken:?}: caught by seed {seed}, after {} programs: {found}", seed + 1);
        assert!(kinds.contains(&found.kind()), "{broken:?} found as something else: {found}");
        let findings = run(&sound).findings;
        assert!(findings.is_empty(), "the sound product is clean with this seed: {findings:?}");
        return;
    }
    panic!("{broken:?}: not caught within {SEEDS_MAX} seeds");
}

macro_rules! left_out {
    ($($name:ident $sabotage:ident)*) => {
        $(#[test]
        fn $name() {
            is_caught(Broken::Allocator(Sabotage::$sabotage), &["handed out early", "hazard"]);
        })*

        #[test]
        fn every_sabotage_has_its_test() {
            let tested = [$(Sabotage::$sabotage),*];
            assert!(Sabotage::ALL.iter().all(|sabotage| tested.contains(sabotage)));
        }
    };
}

left_out! {
    ignored_uses_are_caught IgnoreUses
    an_ignored_free_point_is_caught IgnoreFreePoint
    a_skipped_wait_is_caught SkipWait
    a_split_that_forgets_is_caught SplitForgetsFrontier
    a_join_that_forgets_is_caught MergeKeepsOneFrontier
    an_early_release_is_caught ReleaseIncomplete
}

#[test]
fn swallowed_waits_are_caught() {
    is_caught(Broken::SwallowedWaits, &["handed out early", "hazard", "false knowledge"]);
}

/// What `streams` believes of waits that did nothing is no order: the comparison of marks alone
/// finds that (S2).
#[test]
fn knowledge_from_swallowed_waits_is_found_false() {
    let found = (0..SEEDS_MAX).find_map(|seed| {
        let mut program = Program::draw(seed);
        program.setup.broken = Some(Broken::SwallowedWaits);
        let is_about_order = |step: &random_programs::Step| {
            use random_programs::Operation::{Compare, Create, Mark, Order};
            matches!(step.operation, Create(_) | Order(..) | Mark(..) | Compare(_))
        };
        program.steps.retain(is_about_order);
        let findings = run(&program).findings;
        findings.into_iter().find(|found| found.kind() == "false knowledge").map(|_| seed)
    });
    println!("found by seed {found:?}");
    assert!(found.is_some(), "false knowledge was not found within {SEEDS_MAX} seeds");
}
