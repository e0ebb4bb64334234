//! Finds the smallest capacity that serves a trace, by bisection over fresh targets.
//!
//! More room is taken to be no worse, as for every allocator of use; where placement makes one
//! size fail and a smaller one serve, the answer is still a capacity that served.

use crate::engine::{Mode, Progress, run};
use crate::error::ReplayError;
use crate::plan::Plan;
use crate::target::{Target, TargetError};

/// Capacities are multiples of this: the device's page.
pub const CAPACITY_GRAIN_BYTES: u64 = 2 << 20;

/// What bisection found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Fit {
    /// The smallest capacity that served, if the largest one did.
    pub capacity_bytes: Option<u64>,
    /// How many capacities were tried.
    pub try_count: u32,
}

/// Bisects between `low_bytes`, which is less than any that serves, and `high_bytes`.
///
/// # Errors
/// A target could not be made, or failed in another way than by having no room.
pub fn smallest_capacity<T: Target>(
    plan: &Plan,
    low_bytes: u64,
    high_bytes: u64,
    mut fresh: impl FnMut(u64) -> Result<T, TargetError>,
    progress: Progress<'_>,
) -> Result<Fit, ReplayError> {
    let mut try_count = 0;
    let mut serves = |grains: u64| {
        let capacity_bytes = grains.saturating_mul(CAPACITY_GRAIN_BYTES);
        let made = fresh(capacity_bytes);
        let mut target = made.map_err(|source| ReplayError::Target { capacity_bytes, source })?;
        try_count += 1;
        let outcome = run(&mut target, plan, Mode::UntilFull, progress)?;
        Ok::<bool, ReplayError>(outcome.out_of_memory_count == 0)
    };
    // Below `fails` none serves, and `served` does.
    let mut fails = low_bytes / CAPACITY_GRAIN_BYTES;
    let mut served = high_bytes.div_ceil(CAPACITY_GRAIN_BYTES).max(1);
    if !serves(served)? {
        return Ok(Fit { capacity_bytes: None, try_count });
    }
    if served <= fails {
        fails = 0;
    }
    while 1 < served - fails {
        let middle = fails + (served - fails) / 2;
        if serves(middle)? {
            served = middle;
        } else {
            fails = middle;
        }
    }
    Ok(Fit { capacity_bytes: Some(served * CAPACITY_GRAIN_BYTES), try_count })
}
