//! What serves a trace: the small trait between the engine and an allocator.

use std::error::Error;

use trace::StreamNumber;

use crate::plan::{Gate, Lane};

/// Why a target could not do what a step asks.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// There was no room. The engine counts it and goes on without the block.
    #[error("out of memory")]
    OutOfMemory,
    /// Something else failed, and the replay cannot go on.
    #[error(transparent)]
    Failed(#[from] Box<dyn Error + Send + Sync>),
}

/// Where a block lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Placed {
    /// Its first byte.
    pub address: u64,
    /// Its length; 0 for a block without memory.
    pub bytes: u64,
}

/// How many requests one way of service answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Served {
    /// The way, in a few words.
    pub by: &'static str,
    /// How many requests.
    pub count: u64,
}

/// What a target counted so far.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Figures {
    /// The most bytes in blocks that were handed out.
    pub peak_allocated_bytes: u64,
    /// The most bytes in blocks handed out, or freed and still used.
    pub peak_active_bytes: u64,
    /// The most bytes freed and still used.
    pub peak_pending_bytes: u64,
    /// The most bytes held from the device.
    pub peak_reserved_bytes: u64,
    /// Ranges of memory held from the device now.
    pub segments: u64,
    /// Calls of the device's driver, those that a replay makes for itself left out.
    pub driver_calls: u64,
    /// How requests were served, cheapest way first.
    pub served: Vec<Served>,
}

/// What checking stamps found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StampCounts {
    /// Words that were checked.
    pub checked: u64,
    /// Words that held something else than was written.
    pub wrong: u64,
}

/// An allocator on some device, or a model of one.
///
/// Streams are numbered as in the trace. A *lane* is a further stream, which other streams never
/// wait for; a *gate* holds a lane from where it was closed until it is opened.
pub trait Target {
    /// A block that was handed out.
    type Block;

    /// Gives `bytes` for `stream`.
    ///
    /// # Errors
    /// No room, or a failure.
    fn allocate(&mut self, stream: StreamNumber, bytes: u64) -> Result<Self::Block, TargetError>;

    /// Where a block lies.
    fn placed(&self, block: &Self::Block) -> Placed;

    /// Frees a block that only its own stream used.
    ///
    /// # Errors
    /// A failure.
    fn free(&mut self, block: Self::Block) -> Result<(), TargetError>;

    /// Holds `lane` from here until `gate` opens.
    ///
    /// # Errors
    /// A failure.
    fn close(&mut self, lane: Lane, gate: Gate) -> Result<(), TargetError>;

    /// Frees a block that was used by everything queued on `lane` up to now.
    ///
    /// # Errors
    /// A failure.
    fn free_used(&mut self, block: Self::Block, lane: Lane) -> Result<(), TargetError>;

    /// Opens `gate`, and returns when the lanes have passed it.
    ///
    /// # Errors
    /// A failure.
    fn open(&mut self, gate: Gate) -> Result<(), TargetError>;

    /// Writes `value` to words of a block, as work of `stream`.
    ///
    /// # Errors
    /// A failure.
    fn stamp(
        &mut self,
        placed: Placed,
        stream: StreamNumber,
        value: u32,
    ) -> Result<(), TargetError>;

    /// Checks for `value` in the words that were stamped, as work of `stream`.
    ///
    /// # Errors
    /// A failure of the check itself; what it found is told by [`Target::stamps`].
    fn check(
        &mut self,
        placed: Placed,
        stream: StreamNumber,
        value: u32,
    ) -> Result<(), TargetError>;

    /// Returns when the work of `stream` is done.
    ///
    /// # Errors
    /// A failure.
    fn settle(&mut self, stream: StreamNumber) -> Result<(), TargetError>;

    /// What all checks found, once everything queued is done.
    ///
    /// # Errors
    /// A failure.
    fn stamps(&mut self) -> Result<StampCounts, TargetError>;

    /// What was counted so far.
    fn figures(&self) -> Figures;
}
