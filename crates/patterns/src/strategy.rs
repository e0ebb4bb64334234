//! What a program says or does so that an early free is safe.

use std::fmt;

use wellspring::{Builder, Policy};

/// How many buffers the hand-tuned schedule keeps beside the newest one.
pub(crate) const KEPT_BUFFERS: usize = 2;

/// A way to make early frees safe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Strategy {
    /// No allocator: every step has a buffer of its own, made before. As fast as the work can be.
    Unsynchronized,
    /// The program says which streams used the buffer, and frees it.
    RecordStream,
    /// The program says nothing: the launches record their uses.
    OwnUses,
    /// The program frees each buffer two steps later, after a wait on the device.
    HandTuned,
    /// The program frees each buffer, after a wait on the device, once more than so many bytes
    /// wait to be freed: the best that a bound alone can do.
    Bound(u64),
    /// As [`Strategy::RecordStream`], with the policy that polls and grows.
    AlwaysGrow,
    /// The producer waits on the device for all consumers before each free.
    WaitAtEveryFree,
    /// As [`Strategy::OwnUses`], with the policy that never asks the device.
    Deterministic,
}

impl Strategy {
    /// What the tables show, but for bounds.
    pub const ALL: [Self; 7] = [
        Self::Unsynchronized,
        Self::RecordStream,
        Self::OwnUses,
        Self::HandTuned,
        Self::AlwaysGrow,
        Self::WaitAtEveryFree,
        Self::Deterministic,
    ];

    /// The settings of the allocator it runs with.
    pub fn builder(self) -> Builder {
        let policy = match self {
            Self::AlwaysGrow => Policy::PyTorch,
            Self::Deterministic => Policy::Deterministic,
            Self::Unsynchronized
            | Self::RecordStream
            | Self::OwnUses
            | Self::HandTuned
            | Self::Bound(_)
            | Self::WaitAtEveryFree => Policy::Default,
        };
        Builder::new().policy(policy)
    }

    /// Whether launches are given buffers that count their uses.
    pub(crate) fn counts_uses(self) -> bool {
        matches!(self, Self::OwnUses | Self::Deterministic)
    }

    /// Whether the program names the streams that used a buffer.
    pub(crate) fn records_streams(self) -> bool {
        matches!(self, Self::RecordStream | Self::AlwaysGrow)
    }
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsynchronized => f.write_str("unsynchronized"),
            Self::RecordStream => f.write_str("record_stream"),
            Self::OwnUses => f.write_str("own_uses"),
            Self::HandTuned => f.write_str("hand_tuned"),
            Self::Bound(bytes) => write!(f, "bound_{}_mib", bytes >> 20),
            Self::AlwaysGrow => f.write_str("always_grow"),
            Self::WaitAtEveryFree => f.write_str("wait_at_every_free"),
            Self::Deterministic => f.write_str("deterministic"),
        }
    }
}
