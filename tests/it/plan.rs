//! What a random program is drawn from, and what came of it.

use allocator::{Policy, Sabotage, Stats};
use cuda_sim::Schedule;

/// What a program is drawn from.
#[derive(Debug, Clone)]
pub struct Plan {
    /// What the program does.
    pub seed: u64,
    /// What the device does.
    pub schedule: Schedule,
    pub operations: usize,
    pub policy: Option<Policy>,
    /// A check that is left out.
    pub sabotage: Option<Sabotage>,
    /// Whether waits of streams succeed without doing anything.
    pub swallow_waits: bool,
    /// Whether driver calls fail now and then, whether the device may be asked, and whether
    /// streams come and go.
    pub faults: bool,
    pub queries: bool,
    pub replaces_streams: bool,
    /// Whether all streams share one hardware queue. Then no gate is closed: it would hold up the
    /// streams that the host waits for.
    pub one_queue: bool,
}

impl Plan {
    /// The sound product, with whatever the seed says.
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            schedule: Schedule::Seeded(seed),
            operations: 240,
            policy: None,
            sabotage: None,
            swallow_waits: false,
            faults: seed % 2 == 1,
            queries: true,
            replaces_streams: true,
            one_queue: false,
        }
    }
}

/// What came of a program.
#[derive(Debug)]
pub struct Outcome {
    /// What was found wrong, in words.
    pub hazards: Vec<String>,
    pub mismatches: u64,
    /// Memory that stayed behind at the end.
    pub left_behind: u64,
    pub stats: Stats,
    /// Where each request was served.
    pub addresses: Vec<u64>,
    pub driver_calls: u64,
    pub faults: u64,
}
