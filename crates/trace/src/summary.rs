//! What a trace recorded: counts, peaks, and the floor that whole pages set.

use crate::beginning::Beginning;
use crate::number::BlockNumber;
use crate::operations::{Operation, Operations};
use crate::pytorch::{Action, DeviceTrace, Entry, StreamHandle};
use crate::reserved::ReservedBytes;

/// PyTorch's rounding, and its smallest block.
const ROUNDING_BYTES: u64 = 512;
/// The device's page, and what the driver hands out at least.
const PAGE_BYTES: u64 = 2 << 20;
/// Requests up to here share pages.
const SMALL_BYTES_MAX: u64 = 1 << 20;

/// `requested_bytes` as PyTorch rounds them without further settings: to whole 512, at least one.
#[must_use]
pub const fn rounded_bytes(requested_bytes: u64) -> u64 {
    let bytes = if requested_bytes == 0 { 1 } else { requested_bytes };
    match bytes.checked_next_multiple_of(ROUNDING_BYTES) {
        Some(rounded) => rounded,
        None => u64::MAX,
    }
}

/// What a request adds to the page floor: whole 2 MiB pages above 1 MiB, itself up to there.
#[must_use]
pub const fn page_floor_bytes(requested_bytes: u64) -> u64 {
    if requested_bytes <= SMALL_BYTES_MAX {
        return requested_bytes;
    }
    match requested_bytes.checked_next_multiple_of(PAGE_BYTES) {
        Some(rounded) => rounded,
        None => u64::MAX,
    }
}

/// How many entries of each kind a trace has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ActionCounts {
    /// `alloc`.
    pub alloc: usize,
    /// `free`, which older files have for a free and its completion in one.
    pub free: usize,
    /// `free_requested`.
    pub free_requested: usize,
    /// `free_completed`.
    pub free_completed: usize,
    /// `segment_alloc`.
    pub segment_alloc: usize,
    /// `segment_free`.
    pub segment_free: usize,
    /// `segment_map`.
    pub segment_map: usize,
    /// `segment_unmap`.
    pub segment_unmap: usize,
    /// `snapshot`.
    pub snapshot: usize,
    /// `oom`.
    pub out_of_memory: usize,
    /// `annotate`.
    pub annotate: usize,
    /// Actions that this reader does not know.
    pub other: usize,
}

/// The most of each kind at any one time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Peaks {
    /// Blocks in use and not yet freed.
    pub allocated_blocks: usize,
    /// Their bytes, each block rounded up to 512.
    pub allocated_bytes: u64,
    /// Their bytes as requested.
    pub allocated_requested_bytes: u64,
    /// Bytes of blocks allocated or pending, rounded up to 512.
    pub active_bytes: u64,
    /// Bytes of blocks allocated or pending, as requested.
    pub active_requested_bytes: u64,
    /// Bytes of freed blocks that wait for other streams, rounded up to 512.
    pub pending_bytes: u64,
    /// Bytes of allocated blocks when each above 1 MiB takes whole pages of 2 MiB and the smaller
    /// ones are packed without waste.
    pub page_floor_bytes: u64,
}

/// What the trace of one device recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Summary {
    /// Index of the device.
    pub device: usize,
    /// Entries in the trace.
    pub entry_count: usize,
    /// The same by kind.
    pub counts: ActionCounts,
    /// The streams seen, in the order of first use.
    pub streams: Vec<StreamHandle>,
    /// Whether the file tells what was held from the driver; if not, the next three are 0.
    pub is_reserved_recorded: bool,
    /// What PyTorch held from the driver when the trace began.
    pub initial_reserved_bytes: u64,
    /// The most that PyTorch held from the driver.
    pub recorded_peak_reserved_bytes: u64,
    /// What PyTorch held at the end.
    pub final_reserved_bytes: u64,
    /// Peaks of the blocks.
    pub peaks: Peaks,
    /// Frees whose completion does not follow directly.
    pub deferred_free_count: usize,
    /// Whether blocks were in use before the first entry.
    pub lost_beginning: bool,
    /// How many, rebuilt from the segments at the end.
    pub initial_block_count: usize,
    /// What became of the beginning, as far as the file tells.
    pub beginning: Beginning,
    /// Frees and completions of blocks that nobody knows.
    pub unmatched_count: usize,
    /// Time from the first to the last entry in microseconds.
    pub duration_us: u64,
}

impl Summary {
    /// The most that PyTorch held from the driver, if the file tells.
    #[must_use]
    pub fn reserved_peak_bytes(&self) -> Option<u64> {
        self.is_reserved_recorded.then_some(self.recorded_peak_reserved_bytes)
    }

    pub(crate) fn new(trace: &DeviceTrace<'_>, operations: &Operations) -> Self {
        let entries = trace.entries();
        let reserved = ReservedBytes::of(trace);
        let time_us = |entry: Option<&Entry>| entry.map_or(0, |it| it.time_us);
        let duration_us = time_us(entries.last()).saturating_sub(time_us(entries.first()));
        Self {
            device: trace.device(),
            entry_count: entries.len(),
            counts: count(trace),
            streams: operations.streams.clone(),
            is_reserved_recorded: reserved.is_recorded,
            initial_reserved_bytes: clamp(reserved.first),
            recorded_peak_reserved_bytes: clamp(reserved.peak),
            final_reserved_bytes: clamp(reserved.last),
            peaks: Peaks::of(operations),
            deferred_free_count: operations.deferred_free_count,
            lost_beginning: operations.lost_beginning(),
            initial_block_count: operations.initial_block_count,
            beginning: Beginning::of(trace),
            unmatched_count: operations.unmatched_count,
            duration_us: u64::try_from(duration_us).unwrap_or(0),
        }
    }
}

fn clamp(bytes: i128) -> u64 {
    u64::try_from(bytes.max(0)).unwrap_or(u64::MAX)
}

fn count(trace: &DeviceTrace<'_>) -> ActionCounts {
    let mut counts = ActionCounts::default();
    for entry in trace.entries() {
        *match entry.action {
            Action::Alloc => &mut counts.alloc,
            Action::Free => &mut counts.free,
            Action::FreeRequested => &mut counts.free_requested,
            Action::FreeCompleted => &mut counts.free_completed,
            Action::SegmentAlloc => &mut counts.segment_alloc,
            Action::SegmentFree => &mut counts.segment_free,
            Action::SegmentMap => &mut counts.segment_map,
            Action::SegmentUnmap => &mut counts.segment_unmap,
            Action::Snapshot => &mut counts.snapshot,
            Action::OutOfMemory => &mut counts.out_of_memory,
            Action::Annotate => &mut counts.annotate,
            Action::Other(_) => &mut counts.other,
        } += 1;
    }
    counts
}

/// A level and the highest it has been. Wide, so that no file can make it overflow.
#[derive(Default)]
struct Level {
    now: u128,
    peak: u128,
}

impl Level {
    fn rise(&mut self, by: u64) {
        self.now += u128::from(by);
        self.peak = self.peak.max(self.now);
    }

    fn fall(&mut self, by: u64) {
        self.now -= u128::from(by);
    }

    /// Forgets how the level came to be what it is now.
    fn settle(&mut self) {
        self.peak = self.now;
    }

    fn peak(&self) -> u64 {
        u64::try_from(self.peak).unwrap_or(u64::MAX)
    }
}

#[derive(Default)]
struct Levels {
    blocks: Level,
    allocated: Level,
    allocated_requested: Level,
    active: Level,
    active_requested: Level,
    pending: Level,
    page_floor: Level,
}

impl Levels {
    fn allocate(&mut self, bytes: u64) {
        self.blocks.rise(1);
        self.allocated.rise(rounded_bytes(bytes));
        self.allocated_requested.rise(bytes);
        self.active.rise(rounded_bytes(bytes));
        self.active_requested.rise(bytes);
        self.page_floor.rise(page_floor_bytes(bytes));
    }

    fn free(&mut self, bytes: u64) {
        self.blocks.fall(1);
        self.allocated.fall(rounded_bytes(bytes));
        self.allocated_requested.fall(bytes);
        self.page_floor.fall(page_floor_bytes(bytes));
    }

    fn complete(&mut self, bytes: u64) {
        self.active.fall(rounded_bytes(bytes));
        self.active_requested.fall(bytes);
    }

    /// The initial blocks are set up: only from here on levels are those of the trace.
    fn settle(&mut self) {
        self.blocks.settle();
        self.allocated.settle();
        self.allocated_requested.settle();
        self.active.settle();
        self.active_requested.settle();
        self.pending.settle();
        self.page_floor.settle();
    }
}

impl Peaks {
    fn of(operations: &Operations) -> Self {
        let mut sizes = vec![0; operations.block_count];
        let size_of = |sizes: &[u64], block: BlockNumber| {
            *sizes.get(block.index()).expect("blocks are counted")
        };
        let mut levels = Levels::default();
        for (position, operation) in operations.list.iter().enumerate() {
            if position == operations.initial_operation_count {
                levels.settle();
            }
            match *operation {
                Operation::Allocate { block, bytes, .. } => {
                    *sizes.get_mut(block.index()).expect("blocks are counted") = bytes;
                    levels.allocate(bytes);
                }
                Operation::Free { block, deferred } => {
                    let bytes = size_of(&sizes, block);
                    levels.free(bytes);
                    if deferred {
                        levels.pending.rise(rounded_bytes(bytes));
                    } else {
                        levels.complete(bytes);
                    }
                }
                Operation::Complete { block } => {
                    let bytes = size_of(&sizes, block);
                    levels.complete(bytes);
                    levels.pending.fall(rounded_bytes(bytes));
                }
                Operation::OutOfMemory { .. } => {}
            }
        }
        Self {
            allocated_blocks: usize::try_from(levels.blocks.peak()).unwrap_or(usize::MAX),
            allocated_bytes: levels.allocated.peak(),
            allocated_requested_bytes: levels.allocated_requested.peak(),
            active_bytes: levels.active.peak(),
            active_requested_bytes: levels.active_requested.peak(),
            pending_bytes: levels.pending.peak(),
            page_floor_bytes: levels.page_floor.peak(),
        }
    }
}
