//! Why a request or a free failed, told by what the caller can do next.

use std::fmt;

use crate::bytes::Bytes;
use crate::source::SourceError;

/// Why an allocation failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AllocError {
    /// Free something and retry: every step of the ladder ran and none found room.
    #[error("{0}")]
    OutOfMemory(Box<OutOfMemory>),
    /// Never retry: larger than the device or the configured limit.
    #[error("{wanted_bytes} bytes can never fit: the limit is {limit_bytes} bytes")]
    TooLarge {
        /// What was asked for, in bytes.
        wanted_bytes: u64,
        /// The most that could ever be reserved, in bytes.
        limit_bytes: u64,
    },
    /// Use a stream of the allocator's own context.
    #[error("stream {stream_id} belongs to another context than this allocator")]
    ForeignStream {
        /// The stream's id.
        stream_id: u64,
    },
    /// Stop: the driver failed for a reason other than memory.
    #[error(transparent)]
    Driver(#[from] streams::Error),
    /// Go on: the source failed to open, or to take a piece of memory back, which is then out of
    /// use for good.
    #[error("the source of memory failed: {0}")]
    Source(#[from] SourceError),
}

/// Who holds what at the moment a request found no room.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct OutOfMemory {
    /// What was asked for, in bytes, after rounding.
    pub wanted_bytes: u64,
    /// The stream it was asked for.
    pub stream_id: u64,
    /// The largest free block that this request could have used, in bytes.
    pub largest_free_bytes: u64,
    /// Device memory held by this allocator, in bytes.
    pub reserved_bytes: u64,
    /// The most it may hold, in bytes.
    pub limit_bytes: u64,
    /// Device memory held by the other pools of the same allocator, in bytes.
    pub other_pools_bytes: u64,
    /// In blocks handed out, in bytes.
    pub allocated_bytes: u64,
    /// Freed but still in use by a stream or a hold, in bytes.
    pub pending_bytes: u64,
    /// What each stream holds, largest first.
    pub streams: Vec<StreamUsage>,
}

/// What one stream holds of the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct StreamUsage {
    /// The stream's id.
    pub stream_id: u64,
    /// In blocks handed out, in bytes.
    pub allocated_bytes: u64,
    /// Free and ready for the stream, in bytes.
    pub free_bytes: u64,
    /// Freed but still in use elsewhere, in bytes.
    pub pending_bytes: u64,
}

impl fmt::Display for OutOfMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "out of memory: {} wanted on stream {}, the largest free block is {}; {} reserved \
             of a limit of {}, {} allocated, {} pending",
            Bytes(self.wanted_bytes),
            self.stream_id,
            Bytes(self.largest_free_bytes),
            Bytes(self.reserved_bytes),
            Bytes(self.limit_bytes),
            Bytes(self.allocated_bytes),
            Bytes(self.pending_bytes),
        )?;
        if 0 < self.other_pools_bytes {
            write!(f, "; other pools hold {}", Bytes(self.other_pools_bytes))?;
        }
        for usage in self.streams.iter().take(4) {
            write!(
                f,
                "; stream {} holds {} allocated, {} free, {} pending",
                usage.stream_id,
                Bytes(usage.allocated_bytes),
                Bytes(usage.free_bytes),
                Bytes(usage.pending_bytes),
            )?;
        }
        Ok(())
    }
}

/// Why a block could not be freed, or found by its raw parts.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FreeError {
    /// The raw block was freed before, or never came from this allocator's live blocks.
    #[error("the block at {address:#x} is not allocated: freed before, or never handed out")]
    NotAllocated {
        /// The block's address.
        address: u64,
    },
    /// The raw block belongs to another allocator.
    #[error("the block at {address:#x} belongs to another allocator")]
    Foreign {
        /// The block's address.
        address: u64,
    },
    /// This process is a fork of the block's, and has nothing of it.
    #[error("the block at {address:#x} is the parent's: this process was forked from it")]
    Forked {
        /// The block's address.
        address: u64,
    },
    /// The free took effect, but a fence could not be recorded: the block stays unused until
    /// its streams are synchronized.
    #[error("the block was freed, but its uses could not be fenced: {0}")]
    Unfenced(streams::Error),
}
