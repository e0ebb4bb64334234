//! What a case needs from the place it runs in.

use std::fmt;
use std::sync::Arc;

use cuda_sys::Table;

use crate::transcript::Answer;

/// The driver to ask, and what differs between a simulated one and hardware.
#[derive(Clone, Copy)]
pub struct Environment<'place> {
    /// The driver.
    pub table: &'place Arc<Table>,
    /// The module of kernels that the probes launch, as PTX.
    pub ptx: &'place str,
    /// Lets so many nanoseconds pass: sleeps on hardware, moves the virtual clock of a simulated
    /// device. Called from several threads.
    pub pass_time: &'place (dyn Fn(u64) + Sync),
    /// The time now, in nanoseconds, on the clock that `pass_time` moves.
    pub now: &'place (dyn Fn() -> u64 + Sync),
    /// Whether a hazard was reported since this was last called; hardware never reports one.
    pub hazard_seen: &'place dyn Fn() -> bool,
    /// Runs its argument in a forked child and says how the child ended; `None` where the driver
    /// cannot be forked.
    pub in_forked_child: Option<&'place InForkedChild>,
    /// Is told what is asked and answered, as it happens.
    pub announce: &'place dyn Fn(Progress<'_>),
}

impl fmt::Debug for Environment<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Environment").field("table", &self.table).finish_non_exhaustive()
    }
}

/// Runs its argument in a forked child, and says how the child ended: `exit 0`, `signal 11`.
pub type InForkedChild = dyn Fn(&dyn Fn()) -> String;

/// One step of a case. Its text is a line that [`crate::Transcript`] reads.
#[derive(Debug, Clone, Copy)]
pub enum Progress<'line> {
    /// The driver is about to be asked something that it may not survive.
    Asking {
        /// The group of the probe.
        group: &'line str,
        /// The probe.
        probe: &'line str,
    },
    /// The driver answered.
    Answered(&'line Answer),
}

impl fmt::Display for Progress<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Progress::Asking { group, probe } => write!(f, "? {group} | {probe}"),
            Progress::Answered(answer) => write!(f, "{answer}"),
        }
    }
}
