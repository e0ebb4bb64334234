//! Medians and quantiles of what was measured.

/// The middle one; the lower of two.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[(sorted.len() - 1) / 2]
}

/// Quantiles of one turn's latencies, in nanoseconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tail {
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    pub(crate) p999: f64,
    pub(crate) worst: f64,
}

impl Tail {
    /// Of at least one latency.
    pub(crate) fn of(mut latencies: Vec<u32>) -> Self {
        latencies.sort_unstable();
        let last = latencies.len() - 1;
        // The smallest value that so many of a thousand do not exceed.
        let at = |permille: usize| f64::from(latencies[(last * permille).div_ceil(1_000)]);
        Self { p50: at(500), p99: at(990), p999: at(999), worst: at(1_000) }
    }

    /// The median of each quantile over turns; the worst is the worst of all.
    pub(crate) fn median(turns: &[Self]) -> Self {
        let of = |pick: fn(&Self) -> f64| median(&turns.iter().map(pick).collect::<Vec<_>>());
        Self {
            p50: of(|turn| turn.p50),
            p99: of(|turn| turn.p99),
            p999: of(|turn| turn.p999),
            worst: turns.iter().map(|turn| turn.worst).fold(0.0, f64::max),
        }
    }
}
