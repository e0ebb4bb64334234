//! What came of a program: what it reached, and what was found wrong.

use std::fmt;

use allocator::Stats;

pub use crate::verdicts::{Answer, Verdict};

/// Something a program can come through. Each must be come through by some programs, or a clean
/// run would say little.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the names are those of the rules and statistics")]
pub enum Feature {
    OwnStream,
    KnownOrder,
    Completion,
    DeviceWait,
    StockWait,
    Growth,
    Ladder,
    CrossStreamSplit,
    CrossStreamMerge,
    Trim,
    Capture,
    Retirement,
    InjectedFault,
    Replay,
    Hold,
    OutOfMemory,
    Threads,
    Gate,
    HostThrottle,
    DeviceThrottle,
    StreamBoundThrottle,
    PoolBoundThrottle,
    BoundPassed,
    Pool,
    Checked,
    Mistake,
    ThreadsCapture,
    ThreadsReplay,
    ThreadsFault,
}

impl Feature {
    /// All of them.
    pub const ALL: [Self; 29] = [
        Self::OwnStream,
        Self::KnownOrder,
        Self::Completion,
        Self::DeviceWait,
        Self::StockWait,
        Self::Growth,
        Self::Ladder,
        Self::CrossStreamSplit,
        Self::CrossStreamMerge,
        Self::Trim,
        Self::Capture,
        Self::Retirement,
        Self::InjectedFault,
        Self::Replay,
        Self::Hold,
        Self::OutOfMemory,
        Self::Threads,
        Self::Gate,
        Self::HostThrottle,
        Self::DeviceThrottle,
        Self::StreamBoundThrottle,
        Self::PoolBoundThrottle,
        Self::BoundPassed,
        Self::Pool,
        Self::Checked,
        Self::Mistake,
        Self::ThreadsCapture,
        Self::ThreadsReplay,
        Self::ThreadsFault,
    ];

    fn bit(self) -> u32 {
        let place = Self::ALL.iter().zip(0_u32..).find(|(feature, _)| **feature == self);
        1 << place.expect("every feature is among all").1
    }
}

/// The features that a program came through.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reached(u32);

impl Reached {
    /// Adds one.
    pub fn add(&mut self, feature: Feature) {
        self.0 |= feature.bit();
    }

    /// Adds one, if something is so.
    pub fn add_if(&mut self, condition: bool, feature: Feature) {
        if condition {
            self.add(feature);
        }
    }

    /// Adds those of another part of the program.
    pub fn join(&mut self, other: Self) {
        self.0 |= other.0;
    }

    /// Whether it is among them.
    #[must_use]
    pub fn has(self, feature: Feature) -> bool {
        self.0 & feature.bit() != 0
    }
}

/// Something that was found wrong.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Finding {
    /// The simulated driver saw a hazard.
    Hazard(String),
    /// A block was handed out that something may still touch.
    HandedOutEarly(String),
    /// `streams` claims an order that is not there.
    FalseKnowledge(String),
    /// `streams` does not know an order that was made before its eyes.
    MissingKnowledge(String),
    /// A request waited, grew or failed while a block that was ready fitted.
    Shy(String),
    /// The statistics contradict what is there.
    WrongFigure(String),
    /// The simulator and the checker do not find the same.
    Verdicts(String),
    /// So many words were not what they should have been.
    LostWords(u64),
    /// So many bytes stayed behind when all was given back.
    LeftBehind(u64),
    /// The program ended early.
    Panicked(String),
}

impl Finding {
    /// What kind it is: a shorter program must still find the same kind.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Hazard(_) => "hazard",
            Self::HandedOutEarly(_) => "handed out early",
            Self::FalseKnowledge(_) => "false knowledge",
            Self::MissingKnowledge(_) => "missing knowledge",
            Self::Shy(_) => "shy",
            Self::WrongFigure(_) => "wrong figure",
            Self::Verdicts(_) => "verdicts differ",
            Self::LostWords(_) => "lost words",
            Self::LeftBehind(_) => "left behind",
            Self::Panicked(_) => "panicked",
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = self.kind();
        match self {
            Self::Hazard(text)
            | Self::HandedOutEarly(text)
            | Self::FalseKnowledge(text)
            | Self::MissingKnowledge(text)
            | Self::Shy(text)
            | Self::WrongFigure(text)
            | Self::Verdicts(text)
            | Self::Panicked(text) => write!(f, "{kind}: {text}"),
            Self::LostWords(count) => write!(f, "{kind}: {count}"),
            Self::LeftBehind(bytes) => write!(f, "{kind}: {bytes} bytes"),
        }
    }
}

/// What came of a program.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    /// What was found wrong; nothing, if all is well.
    pub findings: Vec<Finding>,
    /// What it came through.
    pub reached: Reached,
    /// What two verdicts said, if there were two.
    pub verdict: Option<Verdict>,
    /// What became of each mistake.
    pub mistakes: Vec<(&'static str, Answer)>,
    /// How many operations found what they named, and did something.
    pub performed: u64,
    /// How many comparisons of what is known with what is so were made.
    pub comparisons: u64,
    /// How many streams there were at one time.
    pub streams: usize,
    /// The allocator's figures at the end.
    pub stats: Stats,
    /// Where each request was served.
    pub addresses: Vec<u64>,
    /// Where the requests of each memory under `deterministic` were served, in a program of mixed
    /// policies: which memory, the number of the segment there, and the offset in it; `None` for a
    /// request that failed.
    pub places: Vec<(usize, Option<(usize, u64)>)>,
    /// How many driver calls were made.
    pub driver_calls: u64,
}
