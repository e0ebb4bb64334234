//! A program: what it begins with, and what it does.

use std::fmt;

use allocator::{Bound, Policy, Sabotage};
use cuda_sim::Schedule;

use crate::operation::Operation;

/// How memory comes from the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Memory {
    /// Mapped in pieces at addresses that are reserved first.
    Virtual,
    /// Whole allocations.
    Plain,
}

/// What of the product is taken out, to show that the programs would find it (S11).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Broken {
    /// One check of the allocator's; needs the feature `broken`.
    Allocator(Sabotage),
    /// Waits of streams succeed without doing anything.
    SwallowedWaits,
    /// A synchronization does not return.
    Hangs,
    /// The checker that watches the program is not told of the allocator's memory.
    DeafChecker,
}

/// What a program begins with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setup {
    /// What the device does.
    pub schedule: Schedule,
    /// The allocator's policy.
    pub policy: Policy,
    /// Its limit on reserved bytes.
    pub limit_bytes: Option<u64>,
    /// Its bound on pending bytes.
    pub pending_bytes_max: Option<u64>,
    /// Its bound on each stream's memory in flight.
    pub stream_bound: Option<Bound>,
    /// Its bound on all of its memory in flight, and that of the private pool on its own.
    pub pool_bound: Option<Bound>,
    /// Whether every third block is of a private pool, of which policy.
    pub pool: Option<Policy>,
    /// Whether every third block is of a second allocator on the same streams, of which policy.
    pub beside: Option<Policy>,
    /// Its source of memory.
    pub memory: Memory,
    /// Whether all streams share one hardware queue.
    pub one_queue: bool,
    /// How many streams have come and gone before: those of the program take their slots, the last
    /// one first.
    pub earlier_streams: usize,
    /// Whether the allocator is looked at before each request.
    pub looks: bool,
    /// Whether the checker that a user can turn on watches, as a second verdict.
    pub checked: bool,
    /// What is taken out of the product.
    pub broken: Option<Broken>,
}

/// One step: an operation, and which host thread does it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// Counted from zero.
    pub thread: usize,
    /// What it does.
    pub operation: Operation,
}

/// A program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// What it begins with.
    pub setup: Setup,
    /// How many host threads there are.
    pub thread_count: usize,
    /// What they do.
    pub steps: Vec<Step>,
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:?}, {} threads", self.setup, self.thread_count)?;
        for step in &self.steps {
            if 1 < self.thread_count {
                write!(f, "  thread {}:", step.thread)?;
            }
            writeln!(f, "  {:?}", step.operation)?;
        }
        Ok(())
    }
}
