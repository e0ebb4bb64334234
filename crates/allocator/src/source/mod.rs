//! Ways memory arrives: one small trait, one file a way.
//!
//! A source opens regions of addresses. Memory is committed into a region piece by piece, and
//! goes back piece by piece; a source that can only give whole allocations has regions of one
//! piece. Nothing here knows of streams, blocks or free lists, and no lock of the allocator is
//! held while a source is called.

#![allow(unsafe_code, reason = "a region promises that there is memory where it says")]

use std::fmt;

use crate::bytes::SMALL_BYTES_MAX;
use crate::sync::Arc;

mod plain;
mod vmm;

pub use plain::PlainSource;
pub use vmm::VmmSource;

/// Which requests a region will serve.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PoolKind {
    /// Requests of up to 1 MiB.
    Small,
    /// Larger requests.
    Large,
}

impl PoolKind {
    /// The kind that serves requests of `size` bytes.
    #[inline]
    pub(crate) const fn of(size: u64) -> Self {
        if size <= SMALL_BYTES_MAX { Self::Small } else { Self::Large }
    }
}

/// Why a source gave nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// The device has no room for this many bytes now.
    #[error("the device has no room for {bytes} bytes")]
    OutOfMemory {
        /// What was asked of it.
        bytes: u64,
    },
    /// The driver failed for a reason other than memory.
    #[error(transparent)]
    Driver(#[from] streams::Error),
}

/// A way memory arrives. Thread-safe; calls may block in the driver.
pub trait Source: Send + Sync + fmt::Debug {
    /// A short name for statistics and command lines, such as `vmm`.
    fn name(&self) -> &'static str;

    /// Opens a region with room for at least `bytes`.
    ///
    /// # Errors
    /// No room, or the driver's failure; nothing is kept.
    fn open(&self, kind: PoolKind, bytes: u64) -> Result<Arc<dyn Region>, SourceError>;

    /// How much device memory [`Source::open`] itself takes to serve a request of `bytes`; zero
    /// where memory is taken only by [`Region::commit`].
    fn segment_bytes(&self, kind: PoolKind, bytes: u64) -> u64;

    /// The largest piece of a growth by `bytes`: a piece goes back whole or not at all.
    fn piece_bytes(&self, bytes: u64) -> u64 {
        bytes
    }

    /// Whether giving a piece back is cheap and waits for nothing, so that an idle piece is
    /// better given back than memory grown past its highest mark.
    fn recycles(&self) -> bool {
        false
    }

    /// How many bytes a growth of a pool commits at least, where there is room.
    fn growth_bytes(&self, kind: PoolKind) -> u64;
}

/// A range of addresses that memory can be committed into. Thread-safe.
///
/// Blocks are cut from what a region says, and kernels write where blocks are: so to be a region is
/// a promise. A [`Source`] that only chooses among regions, or counts them, promises nothing.
///
/// # Safety
/// - `base` and `span` never change, and the addresses between belong to this region alone while it
///   lives.
/// - What [`Region::commit`] gave is device memory of the allocator's device, readable and writable
///   by it, and nobody else uses it, from then on until the piece is released or dropped.
/// - The region, or whatever it stands for, lives as long as its pieces.
pub unsafe trait Region: Send + Sync + fmt::Debug {
    /// The first address.
    fn base(&self) -> u64;

    /// The bytes of addresses.
    fn span(&self) -> u64;

    /// Pieces start and end at multiples of this; the whole span where memory comes whole.
    fn granularity(&self) -> u64;

    /// Whether addresses outlive the memory behind them, so that a piece that was given back
    /// can be committed again.
    fn is_recommittable(&self) -> bool;

    /// Puts memory behind `offset..offset + bytes`, readable and writable by the device.
    ///
    /// # Errors
    /// No room, or the driver's failure; nothing is kept.
    fn commit(&self, offset: u64, bytes: u64) -> Result<Box<dyn Piece>, SourceError>;
}

/// Memory committed into a region. Dropping a piece gives it back as well, in silence.
pub trait Piece: Send + fmt::Debug {
    /// Gives the memory back to the device. The caller has proved that no queued work can touch
    /// it any more; no implicit wait of the driver is relied on.
    ///
    /// # Errors
    /// The driver's failure; the memory is then leaked, never reused.
    fn release(self: Box<Self>) -> Result<(), SourceError>;
}

/// The driver's answer to a request for `bytes`, told apart from its other failures.
fn source_error(error: streams::Error, bytes: u64) -> SourceError {
    if error.is_out_of_memory() {
        SourceError::OutOfMemory { bytes }
    } else {
        SourceError::Driver(error)
    }
}
