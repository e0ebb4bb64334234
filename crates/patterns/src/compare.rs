//! Runs several stages in turn, so that what changes over time changes for all of them.

use crate::outcome::{Outcome, Summary};
use crate::stage::{Error, Stage};

/// Runs one cold round and `warm` more of each stage, then `rounds` rounds in which the stages
/// take turns. The summaries come in the order of the stages.
///
/// # Errors
/// What a stage met first.
pub fn compare(stages: &mut [Stage], warm: usize, rounds: usize) -> Result<Vec<Summary>, Error> {
    let mut cold = Vec::new();
    for stage in stages.iter_mut() {
        cold.push(stage.round()?);
        for _ in 0..warm {
            stage.round()?;
        }
    }
    let mut outcomes: Vec<Vec<Outcome>> = vec![Vec::new(); stages.len()];
    for _ in 0..rounds {
        for (stage, outcomes) in stages.iter_mut().zip(&mut outcomes) {
            outcomes.push(stage.round()?);
        }
    }
    let summaries = cold.iter().zip(&outcomes).map(|(cold, rounds)| Summary::of(cold, rounds));
    Ok(summaries.collect())
}
