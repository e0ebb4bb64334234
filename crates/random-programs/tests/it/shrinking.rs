//! A program that fails is made shorter, and still fails in the same way.

use allocator::Sabotage;
use random_programs::{Broken, Program, run, shrink};

/// In so many seeds one finds what is taken out.
const SEEDS_MAX: u64 = 1_000;

#[test]
fn a_failing_program_shrinks_to_what_fails() {
    let broken = |seed| {
        let mut program = Program::draw(seed);
        program.setup.broken = Some(Broken::Allocator(Sabotage::IgnoreFreePoint));
        let kind = run(&program).findings.first()?.kind();
        Some((program, kind))
    };
    let (program, kind) = (0..SEEDS_MAX).find_map(broken).expect("some program finds it");
    let (shortest, finding) = shrink(&program, kind).expect("it fails again");
    println!("{shortest}{finding}");
    assert!(shortest.steps.len() <= 12, "{} steps are left", shortest.steps.len());
    assert_eq!(finding.kind(), kind);
    for left_out in 0..shortest.steps.len() {
        let mut shorter = shortest.clone();
        shorter.steps.remove(left_out);
        let findings = run(&shorter).findings;
        let same = findings.iter().any(|found| found.kind() == kind);
        assert!(!same, "step {left_out} can still be left out");
    }
}

#[test]
fn a_program_that_does_not_fail_does_not_shrink() {
    assert_eq!(shrink(&Program::draw(0), "hazard"), None);
}
