//! How an allocator is to behave.

use crate::bound::{Bound, BoundCounts};
use crate::bytes::Bytes;

/// What may decide between waiting, asking the device and growing (R4, R9). Of an allocator, and of
/// each of its pools; what each may and may not do stands side by side in
/// `docs/policies-and-pools.md`.
///
/// Under every policy a request is first served from the pool of its kind: small requests (up to
/// 1 MiB) grow their own pool rather than cut into a free large block, and the other pool is
/// searched only when growth has failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Policy {
    /// Reuses what is known ordered or complete, and asks the device before it grows. Waits on the
    /// device rather than grow where that costs nothing ([`WaitDepth`]), and always rather than
    /// let pending memory pass its bound.
    #[default]
    Default,
    /// Never asks the device: decides from the calls made on it alone. Waits on the device by the
    /// same rule, but learns no depth, and when the pending bound or the limit is reached.
    ///
    /// Two runs of one program choose the same places under one limit, whatever the device does:
    /// for one thread at a time, and whether or not the program itself asks the device
    /// (`query`, `.await`), since answers settle nothing here
    /// ([`streams::Context::keep_answers_apart`], called for the whole driver when such an
    /// allocator is made: before the first stream, so that it holds for all of them). What it
    /// costs: a block is reused for another stream, and memory given back, only after order or a
    /// host synchronization shows it to be unused, not when the device merely is done with it.
    ///
    /// It holds beside allocators and pools of other policies on the same streams, too: what they
    /// do because of an answer is done apart ([`streams::StreamOrder::apart`]). Not where both run
    /// out of memory under one limit, or on a device that is full.
    Deterministic,
    /// Asks the device and grows, as PyTorch does: never waits on the device, and never hands a
    /// block to another stream.
    PyTorch,
}

impl Policy {
    /// Whether the device may be asked how far it came.
    #[must_use]
    pub const fn polls(self) -> bool {
        matches!(self, Self::Default | Self::PyTorch)
    }

    /// Whether a stream may be made to wait on the device for a pending block.
    #[must_use]
    pub const fn waits(self) -> bool {
        matches!(self, Self::Default | Self::Deterministic)
    }

    /// Whether measured times may decide how far a stream runs ahead ([`WaitDepth::Learned`]).
    #[must_use]
    pub const fn learns(self) -> bool {
        matches!(self, Self::Default)
    }

    /// Whether a block may serve a stream other than the one its segment was opened for.
    #[must_use]
    pub const fn crosses_streams(self) -> bool {
        matches!(self, Self::Default | Self::Deterministic)
    }
}

/// When a stream waits on the device for a pending block although memory may still grow: below
/// [`Config::pending_bytes_max`]. A stream that has more memory pending than waits of that depth
/// need waits for the oldest of it also where cached memory would serve the request.
///
/// A wait costs time if the stream that waits falls behind, and then whoever waits for that stream
/// stands idle. So a block is waited for only if each stream that still uses it has more bursts of
/// work queued behind that use: it goes on while the waiting stream resumes. A *burst* is what a
/// stream was given between two frees of blocks that it used. How many bursts that takes is the
/// depth: 1 is double buffering, 2 triple buffering.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum WaitDepth {
    /// [`WaitDepth::FIRST`] at first; under [`Policy::Default`] then as many bursts as the times
    /// of earlier waits say are needed, for each stream.
    #[default]
    Learned,
    /// Always so many bursts, at least one.
    Fixed(u32),
    /// Memory grows up to the bound, and only there is waited.
    Unbounded,
}

impl WaitDepth {
    /// The depth before anything was learned: double buffering, which loses nothing where every
    /// step takes its streams the same time.
    pub const FIRST: u32 = 1;

    /// The depth before anything was learned, if there is one.
    pub(crate) fn first(self) -> Option<usize> {
        let depth = match self {
            Self::Learned => Self::FIRST,
            Self::Fixed(depth) => depth.max(1),
            Self::Unbounded => return None,
        };
        usize::try_from(depth).ok()
    }
}

/// The settings of an allocator, with measured defaults.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Config {
    /// What may decide between waiting, asking and growing.
    pub policy: Policy,
    /// The most bytes that may be reserved of the device; `None` is all it has.
    pub limit_bytes: Option<u64>,
    /// Above this many bytes freed but still in use, a request waits on the device for one of
    /// them rather than grow. `None` is [`Config::pending_bound`] of the device's memory.
    pub pending_bytes_max: Option<u64>,
    /// When a stream waits below that bound.
    pub wait_depth: WaitDepth,
    /// A bound on what is in flight of each stream's memory, at which somebody is held up. A
    /// stream's memory is what was opened for it, also while it is lent to others.
    pub stream_bound: Option<Bound>,
    /// The same for all memory of the allocator, or of the pool, together.
    pub pool_bound: Option<Bound>,
    /// A check to leave out, so that a test can show it would be missed.
    #[doc(hidden)]
    pub sabotage: Option<Sabotage>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            policy: Policy::Default,
            limit_bytes: None,
            pending_bytes_max: None,
            wait_depth: WaitDepth::Learned,
            stream_bound: None,
            pool_bound: None,
            sabotage: None,
        }
    }
}

impl Config {
    /// The default bound on pending memory: one thirty-second of the device, at least 256 MiB.
    #[must_use]
    pub fn pending_bound(total: Bytes) -> Bytes {
        Bytes((total.0 / 32).max(256 << 20))
    }

    /// Whether the depth of waits follows from what earlier ones have cost.
    pub(crate) fn learns_depth(&self) -> bool {
        self.policy.learns() && self.wait_depth == WaitDepth::Learned
    }

    /// Whether a bound counts memory that is handed out.
    pub(crate) fn bounds_allocated(&self) -> bool {
        let counts = |bound: &Bound| bound.counts == BoundCounts::InFlight;
        self.stream_bound.as_ref().is_some_and(counts)
            || self.pool_bound.as_ref().is_some_and(counts)
    }

    /// The same settings with a bound on what is in flight of each stream's memory.
    #[must_use]
    pub fn with_stream_bound(mut self, bound: Bound) -> Self {
        self.stream_bound = Some(bound);
        self
    }

    /// The same settings with a bound on what is in flight of all memory together.
    #[must_use]
    pub fn with_pool_bound(mut self, bound: Bound) -> Self {
        self.pool_bound = Some(bound);
        self
    }

    /// The same settings with another policy.
    #[must_use]
    pub fn with_policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// The same settings with a limit on reserved bytes.
    #[must_use]
    pub fn with_limit(mut self, limit_bytes: u64) -> Self {
        self.limit_bytes = Some(limit_bytes);
        self
    }

    /// The same settings with another bound on pending bytes.
    #[must_use]
    pub fn with_pending_max(mut self, pending_bytes_max: u64) -> Self {
        self.pending_bytes_max = Some(pending_bytes_max);
        self
    }

    /// The same settings with another rule for waits below the bound.
    #[must_use]
    pub fn with_wait_depth(mut self, wait_depth: WaitDepth) -> Self {
        self.wait_depth = wait_depth;
        self
    }
}

/// A check that a test leaves out, to show that its absence is caught. Has no effect unless the
/// feature `sabotage` is on.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Sabotage {
    /// Uses recorded on a block are dropped at its free.
    IgnoreUses,
    /// A block may go to another stream without regard to its home's free point.
    IgnoreFreePoint,
    /// The device-side wait is counted but not made.
    SkipWait,
    /// The rest of a split block forgets who used the whole.
    SplitForgetsFrontier,
    /// A joined block keeps the frontier of one part only.
    MergeKeepsOneFrontier,
    /// Memory is given back as soon as it is free for its stream, complete or not.
    ReleaseIncomplete,
    /// What a policy does because of the device's answers is done for everybody. Nothing is
    /// reused too early for it, but `deterministic` beside it does not repeat itself.
    ActOpenly,
}

impl Sabotage {
    /// All that let memory be reused too early.
    pub const ALL: [Self; 6] = [
        Self::IgnoreUses,
        Self::IgnoreFreePoint,
        Self::SkipWait,
        Self::SplitForgetsFrontier,
        Self::MergeKeepsOneFrontier,
        Self::ReleaseIncomplete,
    ];
}
