//! The patterns: how large each buffer is, and how long each stream works on it.
//!
//! Sizes are drawn from a fixed seed, so that every run of a pattern asks for the same.

use std::fmt;

/// How many bytes one row of a buffer has: 4,096 numbers of four bytes.
const ROW_BYTES: u64 = 16 << 10;
/// The rows of the smallest buffer, and one more than those of the largest.
const ROWS_MIN: u64 = 256;
const ROWS_END: u64 = 4_096;
/// The rows that a time is given for.
const ROWS_MEAN: u64 = (ROWS_MIN + ROWS_END) / 2;
const MICROSECOND: u64 = 1_000;
/// Every so many steps a bursty consumer takes long, or a buffer goes to the slow side.
const BURST_EVERY: usize = 10;
const SIDE_EVERY: usize = 8;

/// A program of several streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Pattern {
    /// A quick producer and two consumers, one slow and one quick, which make outputs of their
    /// own: the host runs ahead by hundreds of steps. Times grow with the buffer.
    ThreeStreams,
    /// A producer as slow as its two consumers: whoever makes it wait for them doubles the time.
    Equal,
    /// A producer a little faster than a consumer that takes twenty times as long every tenth
    /// step: only some buffers in stock keep it busy.
    Bursty,
    /// A main stream that gives every eighth buffer to a side stream, which works on it nearly
    /// until the next one comes: waiting for it stops the main stream.
    SlowSide,
    /// A consumer that is held by a gate, which the host opens when it has seen the producer go
    /// on: whoever makes the producer wait for the gated stream stops until the host gives up.
    HostGate,
}

/// One buffer's way: written by the producer, read by some consumers, freed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// The size of the buffer.
    pub bytes: u64,
    /// How long the producer writes it.
    pub produce_nanoseconds: u64,
    /// How long each consumer reads it; a consumer with zero is not given it.
    pub consume_nanoseconds: [u64; 2],
}

/// When a gate closes on the second consumer, and when the host opens it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GateSteps {
    /// Before this step it is closed.
    pub closed_before: usize,
    /// Before this step the host waits until the producer has come so far, then opens it.
    pub opened_before: usize,
}

/// A time in which the host does nothing: somebody else has the processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stall {
    /// It comes before this step.
    pub before: usize,
    /// How long it lasts.
    pub nanoseconds: u64,
}

/// What a pattern does, step by step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Which pattern it is of.
    pub pattern: Pattern,
    /// The steps, in order.
    pub steps: Vec<Step>,
    /// Whether each consumer allocates an output as large as its input, on its own stream.
    pub makes_outputs: bool,
    /// The gate, if there is one.
    pub gate: Option<GateSteps>,
    /// When the host does nothing; a pattern's own plan has none.
    pub stalls: Vec<Stall>,
}

impl Pattern {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::ThreeStreams, Self::Equal, Self::Bursty, Self::SlowSide, Self::HostGate];

    /// Its name in results.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ThreeStreams => "three_streams",
            Self::Equal => "equal",
            Self::Bursty => "bursty",
            Self::SlowSide => "slow_side",
            Self::HostGate => "host_gate",
        }
    }

    /// The pattern over so many steps.
    #[must_use]
    pub fn plan(self, steps: usize) -> Plan {
        let mut rows = Rows(1);
        let gate = GateSteps { closed_before: steps / 4, opened_before: steps / 2 };
        Plan {
            pattern: self,
            steps: (0..steps).map(|index| self.step(index, rows.next())).collect(),
            makes_outputs: self == Self::ThreeStreams,
            gate: (self == Self::HostGate).then_some(gate),
            stalls: Vec::new(),
        }
    }

    fn step(self, index: usize, rows: u64) -> Step {
        let of_rows = |microseconds: u64| microseconds * MICROSECOND * rows / ROWS_MEAN;
        let is_each = |count: usize| index % count == count - 1;
        let (produce, consume) = match self {
            Self::ThreeStreams => (of_rows(40), [of_rows(400), of_rows(40)]),
            Self::Equal => (200 * MICROSECOND, [200 * MICROSECOND; 2]),
            Self::Bursty => {
                let long = if is_each(BURST_EVERY) { 20 } else { 1 };
                (100 * MICROSECOND, [long * 40 * MICROSECOND, 20 * MICROSECOND])
            }
            Self::SlowSide => {
                let side = if is_each(SIDE_EVERY) { 720 * MICROSECOND } else { 0 };
                (100 * MICROSECOND, [side, 0])
            }
            Self::HostGate => (100 * MICROSECOND, [60 * MICROSECOND; 2]),
        };
        Step { bytes: rows * ROW_BYTES, produce_nanoseconds: produce, consume_nanoseconds: consume }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Plan {
    /// The bytes of all buffers together.
    #[must_use]
    pub fn bytes_total(&self) -> u64 {
        self.steps.iter().map(|step| step.bytes).sum()
    }

    /// The largest buffer.
    #[must_use]
    pub fn bytes_max(&self) -> u64 {
        self.steps.iter().map(|step| step.bytes).max().unwrap_or(0)
    }

    /// How long the producer alone would take for the first steps.
    #[must_use]
    pub fn produce_nanoseconds(&self, steps: usize) -> u64 {
        self.steps.iter().take(steps).map(|step| step.produce_nanoseconds).sum()
    }
}

/// Draws rows, evenly, with the generator known as splitmix64.
struct Rows(u64);

impl Rows {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ROWS_MIN + (word ^ (word >> 31)) % (ROWS_END - ROWS_MIN)
    }
}

#[cfg(test)]
mod tests {
    use super::Pattern;

    #[test]
    fn a_plan_is_the_same_every_time_and_its_sizes_are_spread() {
        for pattern in Pattern::ALL {
            let plan = pattern.plan(400);
            assert_eq!(plan, pattern.plan(400));
            let least = plan.steps.iter().map(|step| step.bytes).min().unwrap();
            assert!(least < 6 << 20 && 60 << 20 < plan.bytes_max(), "{pattern}");
        }
    }

    #[test]
    fn a_bursty_consumer_is_slower_than_its_producer_and_a_side_is_not() {
        let sum = |pattern: Pattern| -> (u64, u64) {
            let steps = pattern.plan(400).steps;
            let consume = |consumer: usize| -> u64 {
                steps.iter().map(|step| step.consume_nanoseconds[consumer]).sum()
            };
            (steps.iter().map(|step| step.produce_nanoseconds).sum(), consume(0))
        };
        let (produce, consume) = sum(Pattern::Bursty);
        assert!(produce < consume);
        let (produce, consume) = sum(Pattern::SlowSide);
        assert!(consume < produce && produce * 8 < consume * 10);
    }
}
