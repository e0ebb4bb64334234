//! A memory snapshot as typed values: segments with their blocks, and a trace for each device.

use std::fmt;

use super::error::ReadError;
use super::word::Word;
use crate::initial::{self, InitialBlock};
use crate::{Operations, Summary};

/// What a file holds.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Snapshot {
    /// The segments that were held when the snapshot was taken, of all devices, as listed.
    pub segments: Vec<Segment>,
    /// The trace of each device; empty where nothing was recorded.
    pub device_traces: Vec<Vec<Entry>>,
    /// The allocator's settings, where the file has them.
    pub allocator_settings: Option<AllocatorSettings>,
    /// Trace entries with an action that this reader does not know. They are not in
    /// `device_traces`.
    pub unknown_action_count: usize,
}

/// A stream as PyTorch names it: the raw handle, 0 for the default stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamHandle(pub u64);

impl fmt::Display for StreamHandle {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:#x}", self.0)
    }
}

/// A range of memory that the allocator held from the driver.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Segment {
    /// Index of its device.
    pub device: usize,
    /// Its first byte.
    pub address: u64,
    /// Its length.
    pub total_bytes: u64,
    /// The stream whose requests it serves.
    pub stream: StreamHandle,
    /// Which requests it serves.
    pub kind: SegmentKind,
    /// The pool it belongs to; (0, 0) is the default pool.
    pub pool_id: (u64, u64),
    /// Whether it is a mapped range of an expandable segment.
    pub is_expandable: bool,
    /// Its blocks by address.
    pub blocks: Vec<Block>,
}

/// The pool that a segment serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SegmentKind {
    /// Requests of at most 1 MiB.
    Small,
    /// Requests above 1 MiB.
    Large,
    /// The file does not say.
    Unknown,
}

/// A part of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Block {
    /// Its first byte; older files leave it out, and it is then summed up from the sizes.
    pub address: u64,
    /// Its length.
    pub bytes: u64,
    /// What was asked for; the length where the file does not say.
    pub requested_bytes: u64,
    /// Whether it is in use.
    pub state: BlockState,
}

/// Whether a block is in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockState {
    /// Allocated.
    Allocated,
    /// Freed, but kept until other streams are done with it.
    PendingFree,
    /// Free.
    Inactive,
}

/// One line of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Entry {
    /// What happened.
    pub action: Action,
    /// Where; for [`Action::OutOfMemory`] the bytes that the device had free.
    pub address: u64,
    /// How many bytes: as requested for blocks, as held for segments.
    pub bytes: u64,
    /// On which stream.
    pub stream: StreamHandle,
    /// When, in microseconds of Unix time; 0 where the file does not say.
    pub time_us: i64,
}

/// What a trace entry records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// A block was handed out.
    Alloc,
    /// A block was freed and was available at once.
    Free,
    /// A block was freed; it is available after its [`Action::FreeCompleted`].
    FreeRequested,
    /// No stream uses a freed block any more.
    FreeCompleted,
    /// A segment was taken from the driver.
    SegmentAlloc,
    /// A segment was given back.
    SegmentFree,
    /// A part of an expandable segment was mapped.
    SegmentMap,
    /// A part of an expandable segment was unmapped.
    SegmentUnmap,
    /// A snapshot was taken.
    Snapshot,
    /// A request failed for lack of memory.
    OutOfMemory,
    /// A note was made.
    Annotate,
}

impl Action {
    /// The action that a file spells this way.
    pub(super) const fn of(word: Word) -> Option<Self> {
        #[expect(clippy::wildcard_enum_match_arm, reason = "all other words are no actions")]
        Some(match word {
            Word::Alloc => Self::Alloc,
            Word::Free => Self::Free,
            Word::FreeRequested => Self::FreeRequested,
            Word::FreeCompleted => Self::FreeCompleted,
            Word::SegmentAlloc => Self::SegmentAlloc,
            Word::SegmentFree => Self::SegmentFree,
            Word::SegmentMap => Self::SegmentMap,
            Word::SegmentUnmap => Self::SegmentUnmap,
            Word::Snapshot => Self::Snapshot,
            Word::Oom => Self::OutOfMemory,
            Word::Annotate => Self::Annotate,
            _ => return None,
        })
    }

    /// Whether the entry is about a range of memory and so needs an address.
    pub(super) const fn has_address(self) -> bool {
        !matches!(self, Self::Snapshot | Self::OutOfMemory | Self::Annotate)
    }

    /// Whether nothing can be made of the entry without its size.
    pub(super) const fn needs_size(self) -> bool {
        matches!(
            self,
            Self::Alloc
                | Self::SegmentAlloc
                | Self::SegmentFree
                | Self::SegmentMap
                | Self::SegmentUnmap
        )
    }
}

/// The settings that the allocator ran with, as far as the file has them.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct AllocatorSettings {
    /// The configuration string.
    pub configuration: Option<String>,
    /// The largest block that may be split; absent when there is no limit.
    pub max_split_bytes: Option<u64>,
    /// The fill level that starts garbage collection; 0 is off.
    pub garbage_collection_threshold: Option<f64>,
    /// Whether segments could grow.
    pub expandable_segments: Option<bool>,
    /// Steps between powers of two, by the interval's start in MiB; 0 is off.
    pub roundup_power2_divisions: Vec<(u64, u64)>,
}

impl Snapshot {
    /// The trace of `device`, or of the first device that has one.
    ///
    /// # Errors
    /// [`ReadError::NoHistory`] if nothing was recorded at all, [`ReadError::NoSuchDevice`] or
    /// [`ReadError::NoHistoryOnDevice`] if only that device has nothing.
    pub fn trace(&self, device: Option<usize>) -> Result<DeviceTrace<'_>, ReadError> {
        let device_count = self.device_traces.len();
        if let Some(device) = device
            && device_count <= device
            && 0 < device_count
        {
            return Err(ReadError::NoSuchDevice { device, device_count });
        }
        let first = self.device_traces.iter().position(|entries| !entries.is_empty());
        let first = first.ok_or(ReadError::NoHistory)?;
        let device = device.unwrap_or(first);
        match self.device_traces.get(device) {
            Some(entries) if !entries.is_empty() => {
                Ok(DeviceTrace { device, entries, snapshot: self })
            }
            _ => Err(ReadError::NoHistoryOnDevice { device, other: first }),
        }
    }
}

/// One device's part of a snapshot.
#[derive(Debug, Clone, Copy)]
pub struct DeviceTrace<'a> {
    device: usize,
    entries: &'a [Entry],
    snapshot: &'a Snapshot,
}

impl<'a> DeviceTrace<'a> {
    /// Index of the device.
    #[must_use]
    pub const fn device(&self) -> usize {
        self.device
    }

    /// What was recorded, oldest first; never empty.
    #[must_use]
    pub const fn entries(&self) -> &'a [Entry] {
        self.entries
    }

    /// The device's segments at the end of the trace.
    pub fn segments(&self) -> impl Iterator<Item = &'a Segment> + use<'a> {
        let device = self.device;
        self.snapshot.segments.iter().filter(move |segment| segment.device == device)
    }

    /// The blocks that were in use before the first entry, by address: what remains of the blocks
    /// at the end when the trace is walked backwards. None for a trace that has its beginning.
    #[must_use]
    pub fn initial_blocks(&self) -> Vec<InitialBlock> {
        initial::rebuild(self)
    }

    /// The trace as operations on numbered blocks.
    #[must_use]
    pub fn operations(&self) -> Operations {
        Operations::new(self)
    }

    /// Counts, peaks and what was lost, given the operations of this same trace.
    #[must_use]
    pub fn summary(&self, operations: &Operations) -> Summary {
        Summary::new(self, operations)
    }
}
