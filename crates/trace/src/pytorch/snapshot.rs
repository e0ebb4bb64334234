//! A memory snapshot as typed values: segments with their blocks, and a trace for each device.

use std::fmt;

#[cfg(doc)]
use super::entry::Action;
use super::entry::Entry;
use super::error::ReadError;
use super::pools::Pools;
use super::stacks::{StackId, Stacks, TextId, Texts};
use crate::initial::{self, InitialBlock};
use crate::{Operations, Origin, Summary};

/// What a file holds.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct Snapshot {
    /// What it was made of. Only of [`Origin::Pytorch`] are settings and segments PyTorch's.
    pub origin: Origin,
    /// Whether its segments were made up, by [`crate::convert::fill_segments`]. A file says so, and
    /// they are left out when it is read.
    pub has_made_up_segments: bool,
    /// The segments that were held when the snapshot was taken, of all devices, as listed.
    pub segments: Vec<Segment>,
    /// The trace of each device; empty where nothing was recorded.
    pub device_traces: Vec<Vec<Entry>>,
    /// Whether each device's trace lost its beginning because its ring was full, as far as the
    /// file says.
    pub device_overflows: Vec<Option<bool>>,
    /// Pinned host memory that was held; recent versions of PyTorch list it.
    pub host_segments: Vec<HostSegment>,
    /// What was recorded of pinned host memory.
    pub host_traces: Vec<Vec<Entry>>,
    /// When parts of the program began and ended, by time.
    pub annotations: Vec<Annotation>,
    /// The allocator's settings, where the file has them.
    pub allocator_settings: Option<AllocatorSettings>,
    /// The call stacks that segments, blocks and entries name.
    pub stacks: Stacks,
    /// The texts that entries and annotations name.
    pub texts: Texts,
    /// The pools that entries name.
    pub pools: Pools,
    /// Actions that this reader does not know, by the number in [`Action::Other`], and how many
    /// entries have each, in the traces of devices and of the host.
    pub unknown_actions: Vec<(String, usize)>,
    /// How many keys of the file's outermost dictionary, and how many settings, are not kept: no
    /// version of PyTorch that is known here writes them, or not with such values.
    pub passed_over_count: usize,
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
    /// Where in the program it was taken, if that was recorded.
    pub stack: Option<StackId>,
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
    /// Where in the program it was allocated, if that was recorded.
    pub stack: Option<StackId>,
}

/// A range of pinned host memory. No version of PyTorch documents these keys: what is not found
/// is 0 or absent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct HostSegment {
    /// Its first byte (`address`).
    pub address: u64,
    /// Its length (`total_size` or `size`).
    pub bytes: u64,
    /// How much of it is in use (`allocated_size`).
    pub allocated_bytes: Option<u64>,
    /// How much of it is in use or waits for streams (`active_size`).
    pub active_bytes: Option<u64>,
    /// The pool it belongs to (`segment_pool_id` or `pool_id`).
    pub pool: Option<(u64, u64)>,
    /// Where in the program it was taken (`frames`).
    pub stack: Option<StackId>,
}

/// A part of the program that began or ended (`external_annotations`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Annotation {
    /// Which of the two.
    pub stage: Stage,
    /// The part's name; empty where the file does not say.
    pub name: TextId,
    /// The device it was noted for, where the file says.
    pub device: Option<usize>,
    /// When, in microseconds of Unix time; 0 where the file does not say.
    pub time_us: i64,
}

/// Whether an annotation begins or ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// `START`.
    Start,
    /// `END`.
    End,
    /// Something else, or nothing.
    Other,
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
    /// The settings that are not looked at, by name, at most 256.
    pub others: Vec<(String, SettingValue)>,
}

/// What a setting is set to that is not looked at.
#[derive(Debug, Clone, PartialEq)]
pub enum SettingValue {
    /// `None`.
    Nothing,
    /// `True` or `False`.
    Bool(bool),
    /// An integer.
    Integer(i64),
    /// A floating-point number.
    Float(f64),
    /// A text.
    Text(String),
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

    /// What its snapshot was made of.
    #[must_use]
    pub const fn origin(&self) -> Origin {
        self.snapshot.origin
    }

    /// What was recorded, oldest first; never empty.
    #[must_use]
    pub const fn entries(&self) -> &'a [Entry] {
        self.entries
    }

    /// Whether its ring of entries was full, where the file says.
    #[must_use]
    pub fn overflowed(&self) -> Option<bool> {
        self.snapshot.device_overflows.get(self.device).copied().flatten()
    }

    /// The device's segments at the end of the trace.
    pub fn segments(&self) -> impl Iterator<Item = &'a Segment> + use<'a> {
        let device = self.device;
        self.snapshot.segments.iter().filter(move |segment| segment.device == device)
    }

    /// The id of the pool that an entry of this trace names; (0, 0) is the default pool.
    ///
    /// # Panics
    /// If the entry is of another snapshot, and this one has fewer pools.
    #[must_use]
    pub fn pool_id(&self, entry: &Entry) -> Option<(u64, u64)> {
        entry.pool.map(|pool| self.snapshot.pools.get(pool))
    }

    /// The settings that the allocator ran with, where the file has them.
    #[must_use]
    pub const fn allocator_settings(&self) -> Option<&'a AllocatorSettings> {
        self.snapshot.allocator_settings.as_ref()
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
