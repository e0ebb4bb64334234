//! Why a replay ended before its trace did.

use crate::target::TargetError;

/// Why a replay ended before its trace did.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// The target failed at a step.
    #[error("step {step} of {step_count} failed: {source}")]
    Step {
        /// Its index.
        step: usize,
        /// How many steps there are.
        step_count: usize,
        /// What failed.
        source: TargetError,
    },
    /// The target failed when the trace had been served.
    #[error("the trace was served, but its end failed: {source}")]
    End {
        /// What failed.
        source: TargetError,
    },
    /// No target could be made.
    #[error("no target with {capacity_bytes} bytes could be made: {source}")]
    Target {
        /// What it was to hold at most.
        capacity_bytes: u64,
        /// What failed.
        source: TargetError,
    },
}
