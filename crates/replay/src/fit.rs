//! Finds the smallest capacity that serves a trace, by bisection over fresh targets.
//!
//! More room is taken to be no worse; where placement makes one size fail and a smaller one serve,
//! the answer is still a capacity that served, while one grain less did not.

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

/// Where the search begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Less than any capacity that serves.
    pub low_bytes: u64,
    /// A capacity that is expected to serve.
    pub guess_bytes: u64,
    /// The largest there is.
    pub high_bytes: u64,
}

/// Goes up from the guess until a capacity serves, in steps that double, then bisects below it.
///
/// # Errors
/// A target could not be made, or failed in another way than by having no room.
pub fn smallest_capacity<T: Target>(
    plan: &Plan,
    bounds: Bounds,
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
    let high = (bounds.high_bytes / CAPACITY_GRAIN_BYTES).max(1);
    // What `fails` does not serve, and what `served` does.
    let mut served = bounds.guess_bytes.div_ceil(CAPACITY_GRAIN_BYTES).clamp(1, high);
    let mut fails = bounds.low_bytes / CAPACITY_GRAIN_BYTES;
    let mut step = (served / 64).max(1);
    while !serves(served)? {
        if high <= served {
            return Ok(Fit { capacity_bytes: None, try_count });
        }
        fails = served;
        served = served.saturating_add(step).min(high);
        step = step.saturating_mul(2);
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
