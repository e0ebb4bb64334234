//! What a round took, and the figures made of several.

/// What one round of a pattern took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Outcome {
    /// Time on the device, from before the first operation to after the last one.
    pub nanoseconds: u64,
    /// The most bytes that were handed out, or freed and still in use.
    pub active_peak_bytes: u64,
    /// The most bytes that were freed and still in use.
    pub pending_peak_bytes: u64,
    /// The most bytes held of the device, cached ones included.
    pub reserved_peak_bytes: u64,
    /// Requests for which the allocator made a stream wait on the device.
    pub waits: u64,
    /// Requests for which the allocator took new memory.
    pub growths: u64,
    /// Calls of the driver, those of the program included.
    pub driver_calls: u64,
    /// Words that a consumer found changed.
    pub mismatches: u64,
    /// How many bursts of its consumers the producer leaves behind what it waits for, at the end;
    /// zero if it waits at the bound only.
    pub wait_depth: u64,
}

/// The median of several rounds; peaks and mismatches are the worst of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Summary {
    /// Median time of a round.
    pub nanoseconds: u64,
    /// The quickest round.
    pub nanoseconds_min: u64,
    /// The slowest round.
    pub nanoseconds_max: u64,
    /// The first round, before there was memory in the cache; not in the median.
    pub cold_nanoseconds: u64,
    /// The most of [`Outcome::active_peak_bytes`].
    pub active_peak_bytes: u64,
    /// The median of [`Outcome::active_peak_bytes`].
    pub active_peak_median_bytes: u64,
    /// The most of [`Outcome::pending_peak_bytes`].
    pub pending_peak_bytes: u64,
    /// The most of [`Outcome::reserved_peak_bytes`].
    pub reserved_peak_bytes: u64,
    /// Median waits of a round.
    pub waits: u64,
    /// Median growths of a round.
    pub growths: u64,
    /// Median driver calls of a round.
    pub driver_calls: u64,
    /// All mismatches.
    pub mismatches: u64,
    /// [`Outcome::wait_depth`] after the last round.
    pub wait_depth: u64,
}

impl Summary {
    /// Of one cold round and at least one more.
    #[must_use]
    pub fn of(cold: &Outcome, rounds: &[Outcome]) -> Self {
        let list = |pick: fn(&Outcome) -> u64| -> Vec<u64> {
            let mut values: Vec<u64> = rounds.iter().map(pick).collect();
            values.sort_unstable();
            values
        };
        let median = |pick| -> u64 {
            let values = list(pick);
            values.get(values.len() / 2).copied().unwrap_or(0)
        };
        let most = |pick| -> u64 { list(pick).last().copied().unwrap_or(0) };
        Self {
            nanoseconds: median(|outcome| outcome.nanoseconds),
            nanoseconds_min: list(|outcome| outcome.nanoseconds).first().copied().unwrap_or(0),
            nanoseconds_max: most(|outcome| outcome.nanoseconds),
            cold_nanoseconds: cold.nanoseconds,
            active_peak_bytes: most(|outcome| outcome.active_peak_bytes),
            active_peak_median_bytes: median(|outcome| outcome.active_peak_bytes),
            pending_peak_bytes: most(|outcome| outcome.pending_peak_bytes),
            reserved_peak_bytes: most(|outcome| outcome.reserved_peak_bytes),
            waits: median(|outcome| outcome.waits),
            growths: median(|outcome| outcome.growths),
            driver_calls: median(|outcome| outcome.driver_calls),
            mismatches: cold.mismatches + rounds.iter().map(|round| round.mismatches).sum::<u64>(),
            wait_depth: rounds.last().map_or(0, |round| round.wait_depth),
        }
    }

    /// One line of `name=value` pairs.
    #[must_use]
    pub fn line(&self) -> String {
        let figures = [
            ("ns", self.nanoseconds),
            ("ns_min", self.nanoseconds_min),
            ("ns_max", self.nanoseconds_max),
            ("cold_ns", self.cold_nanoseconds),
            ("active_peak_bytes", self.active_peak_bytes),
            ("active_peak_median_bytes", self.active_peak_median_bytes),
            ("pending_peak_bytes", self.pending_peak_bytes),
            ("reserved_peak_bytes", self.reserved_peak_bytes),
            ("waits", self.waits),
            ("growths", self.growths),
            ("driver_calls", self.driver_calls),
            ("mismatches", self.mismatches),
            ("wait_depth", self.wait_depth),
        ];
        let pairs = figures.map(|(name, value)| format!("{name}={value}"));
        pairs.join(" ")
    }
}

#[cfg(test)]
mod tests {
    use super::{Outcome, Summary};

    #[test]
    fn a_summary_has_the_median_time_and_the_worst_and_median_memory() {
        let round = |nanoseconds, active_peak_bytes, mismatches| Outcome {
            nanoseconds,
            active_peak_bytes,
            mismatches,
            ..Outcome::default()
        };
        let rounds = [round(30, 5, 0), round(10, 7, 1), round(20, 6, 0)];
        let summary = Summary::of(&round(99, 1, 2), &rounds);
        assert_eq!((summary.nanoseconds, summary.nanoseconds_min), (20, 10));
        assert_eq!((summary.nanoseconds_max, summary.cold_nanoseconds), (30, 99));
        assert_eq!((summary.active_peak_bytes, summary.mismatches), (7, 3));
        assert_eq!(summary.active_peak_median_bytes, 6);
        assert!(summary.line().starts_with("ns=20 ns_min=10 ns_max=30 cold_ns=99 "));
    }
}
