//! Random programs catch each broken product within ten thousand seeds (S11).
//!
//! The seeds are tried in order from the first one, so a test also says how many it took.
#![expect(clippy::print_stdout, reason = "a test says how many seeds it took")]

use allocator::Sabotage;

use crate::plan::Plan;
use crate::program::first_hazard;

/// In so many seeds each must be caught.
const SEEDS_MAX: u64 = 10_000;

/// Tries seeds until one catches the product that `change` breaks.
fn is_caught(name: &str, change: impl Fn(&mut Plan)) {
    for seed in 0..SEEDS_MAX {
        let mut plan = Plan { faults: false, ..Plan::new(seed) };
        change(&mut plan);
        if let Some(hazard) = first_hazard(&plan) {
            println!("{name}: caught by seed {seed}, after {} programs: {hazard}", seed + 1);
            let sound = Plan { sabotage: None, swallow_waits: false, ..plan };
            assert_eq!(first_hazard(&sound), None, "the sound product is clean with this seed");
            return;
        }
    }
    panic!("{name}: not caught within {SEEDS_MAX} seeds");
}

macro_rules! left_out {
    ($($name:ident $sabotage:ident)*) => {
        $(#[test]
        fn $name() {
            is_caught(stringify!($name), |plan| plan.sabotage = Some(Sabotage::$sabotage));
        })*
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
    is_caught("swallowed_waits_are_caught", |plan| plan.swallow_waits = true);
}
