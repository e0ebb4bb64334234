//! Makes a failing program shorter, for as long as it fails in the same way.
//!
//! Runs of steps are left out, long ones first, and each attempt is run. A step that names what is
//! no longer there does nothing, so any steps can be left out.

use crate::outcome::Finding;
use crate::program::Program;
use crate::run::run;

/// How many attempts are made at most.
const ATTEMPTS_MAX: u32 = 4_000;

/// The shortest program found that fails in the way `kind` names, and what it finds. `None`: the
/// program does not fail so.
#[must_use]
pub fn shrink(program: &Program, kind: &str) -> Option<(Program, Finding)> {
    let fails = |program: &Program| {
        run(program).findings.into_iter().find(|finding| finding.kind() == kind)
    };
    let mut finding = fails(program)?;
    let mut shortest = program.clone();
    let mut length = shortest.steps.len().div_ceil(2);
    let mut attempts = 0;
    loop {
        let mut start = 0;
        let mut shorter = false;
        while start < shortest.steps.len() && attempts < ATTEMPTS_MAX {
            let end = (start + length).min(shortest.steps.len());
            let mut candidate = shortest.clone();
            candidate.steps.drain(start..end);
            attempts += 1;
            match fails(&candidate) {
                Some(found) => {
                    (shortest, finding, shorter) = (candidate, found, true);
                }
                None => start = end,
            }
        }
        if attempts == ATTEMPTS_MAX || (length == 1 && !shorter) {
            return Some((shortest, finding));
        }
        length = length.div_ceil(2);
    }
}
