//! What one device's part of a snapshot comes to: who holds memory at the peak or at the end, what
//! its segments and pools hold, and which requests failed.

use std::collections::{BTreeMap, HashMap};

use crate::Summary;
use crate::failed::{FailedRequest, failed_requests};
use crate::number::BlockNumber;
use crate::operations::{Operation, Operations};
use crate::owner::{OpenAnnotations, OwnerId, Owners, Pattern, size_class};
use crate::pytorch::{
    Action, Block, BlockState, DeviceTrace, Segment, Snapshot, StackId, StreamHandle, TextId,
};
use crate::summary::rounded_bytes;

/// What one device's part of a snapshot comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Digest {
    /// Index of the device.
    pub device: usize,
    /// What its trace recorded; nothing where there is no trace.
    pub summary: Option<Summary>,
    /// What its segments come to at the end.
    pub segments: SegmentSum,
    /// The same by pool, the default pool (0, 0) first.
    pub pools: Vec<PoolSum>,
    /// Who holds memory: when most of it was in use, or, without a trace, at the end.
    pub holders: Holders,
    /// The latest requests that failed for lack of memory, at most sixteen.
    pub failed: Vec<FailedRequest>,
}

/// Segments and what is in them, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct SegmentSum {
    /// How many segments.
    pub count: usize,
    /// Their length.
    pub total_bytes: u64,
    /// Blocks that are allocated.
    pub allocated_bytes: u64,
    /// Blocks that were freed and wait for streams.
    pub pending_bytes: u64,
    /// What is neither.
    pub free_bytes: u64,
    /// The longest free block.
    pub largest_free_bytes: u64,
}

/// What a pool holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoolSum {
    /// The pool.
    pub pool: (u64, u64),
    /// Its segments.
    pub segments: SegmentSum,
}

/// When holders were looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// At the first time that most memory was allocated or pending, in microseconds of Unix time.
    Peak {
        /// The time; 0 where the file does not say.
        time_us: i64,
    },
    /// When the snapshot was taken.
    End,
}

/// Who holds memory at one moment, each list with the most first.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Holders {
    /// When.
    pub moment: Moment,
    /// By owner; see [`Owners`].
    pub by_owner: Vec<Holder>,
    /// By stream.
    pub by_stream: Vec<Holder>,
    /// By size class of the request.
    pub by_size: Vec<Holder>,
}

/// Somebody that holds memory. Bytes are rounded up to 512 for each block.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Holder {
    /// Who: an owner, a stream or a size class.
    pub name: String,
    /// How many blocks, pending ones included.
    pub block_count: usize,
    /// Bytes of allocated blocks.
    pub allocated_bytes: u64,
    /// Bytes of freed blocks that wait for other streams.
    pub pending_bytes: u64,
}

impl Digest {
    /// Looks through what `snapshot` has of `device`. `owner` is the pattern that [`Owners::new`]
    /// takes. Goes through the trace six times at most and needs memory for each of its blocks.
    #[must_use]
    pub fn new(snapshot: &Snapshot, device: usize, owner: Option<Pattern<'_>>) -> Self {
        let mut owners = Owners::new(snapshot, owner);
        let trace = snapshot.trace(Some(device)).ok();
        let operations = trace.map(|trace| trace.operations());
        let of_device = || snapshot.segments.iter().filter(|segment| segment.device == device);
        let failed = match (trace, &operations) {
            (Some(trace), Some(it)) => failed_requests(snapshot, &trace, it, &mut owners),
            (Some(_) | None, _) => Vec::new(),
        };
        let holders = match (trace, &operations) {
            (Some(trace), Some(operations)) => at_peak(snapshot, &trace, operations, owners),
            (Some(_) | None, _) => at_the_end(of_device(), owners),
        };
        let mut by_pool: BTreeMap<(u64, u64), SegmentSum> = BTreeMap::new();
        let mut segments = SegmentSum::default();
        for segment in of_device() {
            segments.add(segment);
            by_pool.entry(segment.pool_id).or_default().add(segment);
        }
        Self {
            device,
            summary: trace.zip(operations.as_ref()).map(|(it, operations)| it.summary(operations)),
            segments,
            pools: by_pool.into_iter().map(|(pool, segments)| PoolSum { pool, segments }).collect(),
            holders,
            failed,
        }
    }
}

impl Digest {
    /// Whether the file shows what was held at its end: it has segments, or its entries gave all
    /// of them back. CSV, Chrome traces and logs have none.
    #[must_use]
    pub fn knows_end(&self) -> bool {
        let gave_all_back =
            |summary: &Summary| summary.is_reserved_recorded && summary.final_reserved_bytes == 0;
        0 < self.segments.count || self.summary.as_ref().is_none_or(gave_all_back)
    }
}

impl SegmentSum {
    fn add(&mut self, segment: &Segment) {
        let add = |sum: &mut u64, bytes| *sum = sum.saturating_add(bytes);
        self.count += 1;
        add(&mut self.total_bytes, segment.total_bytes);
        let mut used_bytes = 0_u64;
        for block in &segment.blocks {
            match block.state {
                BlockState::Allocated => add(&mut self.allocated_bytes, block.bytes),
                BlockState::PendingFree => add(&mut self.pending_bytes, block.bytes),
                BlockState::Inactive => {
                    self.largest_free_bytes = self.largest_free_bytes.max(block.bytes);
                    continue;
                }
            }
            add(&mut used_bytes, block.bytes);
        }
        add(&mut self.free_bytes, segment.total_bytes.saturating_sub(used_bytes));
    }
}

/// A block of the trace, when it was allocated.
#[derive(Debug, Clone, Copy)]
struct Origin {
    stack: Option<StackId>,
    annotation: Option<TextId>,
    bytes: u64,
    stream: StreamHandle,
}

fn at_peak(
    snapshot: &Snapshot,
    trace: &DeviceTrace<'_>,
    operations: &Operations,
    owners: Owners<'_>,
) -> Holders {
    let (origins, times) = origins(snapshot, trace, operations);
    let (peak, block) = peak_position(operations, &origins);
    let allocated = block.and_then(|block| {
        block.index().checked_sub(operations.initial_block_count).and_then(|it| times.get(it))
    });
    let first = trace.entries().first().map_or(0, |entry| entry.time_us);
    let time_us = allocated.copied().unwrap_or(first);
    let mut states: HashMap<BlockNumber, bool> = HashMap::new();
    for operation in operations.list.iter().take(peak) {
        match *operation {
            Operation::Allocate { block, .. } => {
                states.insert(block, false);
            }
            Operation::Free { block, deferred: true } => {
                states.insert(block, true);
            }
            Operation::Free { block, deferred: false } | Operation::Complete { block } => {
                states.remove(&block);
            }
            Operation::OutOfMemory { .. } => {}
        }
    }
    let mut groups = Groups::new(owners);
    let mut states: Vec<_> = states.into_iter().collect();
    states.sort_unstable();
    for (block, is_pending) in states {
        if let Some(origin) = origins.get(block.index()) {
            groups.add(origin, rounded_bytes(origin.bytes), is_pending);
        }
    }
    groups.holders(Moment::Peak { time_us })
}

/// Where each block came from, initial ones first, and when each of the others did. A block that is
/// there at the end takes its stack from the segments if its entry has none.
fn origins(
    snapshot: &Snapshot,
    trace: &DeviceTrace<'_>,
    operations: &Operations,
) -> (Vec<Origin>, Vec<i64>) {
    let mut origins = Vec::with_capacity(operations.block_count);
    let mut last_at: HashMap<u64, usize> = HashMap::new();
    for block in trace.initial_blocks() {
        last_at.insert(block.address, origins.len());
        let (bytes, stream) = (block.requested_bytes, block.stream);
        origins.push(Origin { stack: None, annotation: None, bytes, stream });
    }
    let mut times = Vec::new();
    let mut annotations = OpenAnnotations::new(snapshot, trace.device());
    for entry in trace.entries().iter().filter(|entry| entry.action == Action::Alloc) {
        last_at.insert(entry.address, origins.len());
        let annotation = annotations.at(entry.time_us);
        let (stack, bytes, stream) = (entry.stack, entry.bytes, entry.stream);
        origins.push(Origin { stack, annotation, bytes, stream });
        times.push(entry.time_us);
    }
    for block in trace.segments().flat_map(|segment| &segment.blocks) {
        if block.state != BlockState::Inactive
            && let Some(origin) = last_at.get(&block.address).and_then(|it| origins.get_mut(*it))
        {
            origin.stack = origin.stack.or(block.stack);
        }
    }
    (origins, times)
}

/// How many operations there are up to the first peak of active bytes, and the block that the last
/// of them allocates; none if nothing exceeded what was there before the trace.
fn peak_position(operations: &Operations, origins: &[Origin]) -> (usize, Option<BlockNumber>) {
    let bytes = |block: BlockNumber| {
        u128::from(origins.get(block.index()).map_or(0, |origin| rounded_bytes(origin.bytes)))
    };
    let (mut now, mut peak) = (0_u128, 0_u128);
    let mut found = (operations.initial_operation_count, None);
    for (position, operation) in operations.list.iter().enumerate() {
        match *operation {
            Operation::Allocate { block, .. } => {
                now += bytes(block);
                let is_initial = position < operations.initial_operation_count;
                if peak < now {
                    peak = now;
                    if !is_initial {
                        found = (position + 1, Some(block));
                    }
                }
            }
            Operation::Free { block, deferred: false } | Operation::Complete { block } => {
                now = now.saturating_sub(bytes(block));
            }
            Operation::Free { deferred: true, .. } | Operation::OutOfMemory { .. } => {}
        }
    }
    found
}

fn at_the_end<'a>(segments: impl Iterator<Item = &'a Segment>, owners: Owners<'_>) -> Holders {
    let mut groups = Groups::new(owners);
    for segment in segments {
        for block in &segment.blocks {
            let Block { stack, requested_bytes: bytes, .. } = *block;
            let origin = Origin { stack, annotation: None, bytes, stream: segment.stream };
            match block.state {
                BlockState::Allocated => groups.add(&origin, block.bytes, false),
                BlockState::PendingFree => groups.add(&origin, block.bytes, true),
                BlockState::Inactive => {}
            }
        }
    }
    groups.holders(Moment::End)
}

#[derive(Debug, Clone, Copy, Default)]
struct Held {
    block_count: usize,
    allocated_bytes: u64,
    pending_bytes: u64,
}

impl Held {
    fn add(&mut self, bytes: u64, is_pending: bool) {
        self.block_count += 1;
        let sum = if is_pending { &mut self.pending_bytes } else { &mut self.allocated_bytes };
        *sum = sum.saturating_add(bytes);
    }

    fn holder(self, name: String) -> Holder {
        let Self { block_count, allocated_bytes, pending_bytes } = self;
        Holder { name, block_count, allocated_bytes, pending_bytes }
    }
}

struct Groups<'a> {
    owners: Owners<'a>,
    by_owner: HashMap<OwnerId, Held>,
    by_stream: HashMap<StreamHandle, Held>,
    by_size: HashMap<String, Held>,
}

impl<'a> Groups<'a> {
    fn new(owners: Owners<'a>) -> Self {
        let (by_owner, by_stream) = (HashMap::new(), HashMap::new());
        Self { owners, by_owner, by_stream, by_size: HashMap::new() }
    }

    fn add(&mut self, origin: &Origin, bytes: u64, is_pending: bool) {
        let owner = self.owners.of(origin.stack, origin.bytes, origin.annotation);
        self.by_owner.entry(owner).or_default().add(bytes, is_pending);
        self.by_stream.entry(origin.stream).or_default().add(bytes, is_pending);
        self.by_size.entry(size_class(origin.bytes)).or_default().add(bytes, is_pending);
    }

    fn holders(self, moment: Moment) -> Holders {
        let names = self.owners.names();
        let name = |owner: OwnerId| names.get(owner.index()).map_or("", |it| it.trim_end());
        let owners =
            self.by_owner.into_iter().map(|(it, held)| held.holder(name(it).to_owned())).collect();
        let streams =
            self.by_stream.into_iter().map(|(it, held)| held.holder(it.to_string())).collect();
        let sizes = self.by_size.into_iter().map(|(it, held)| held.holder(it)).collect();
        Holders {
            moment,
            by_owner: sorted(owners),
            by_stream: sorted(streams),
            by_size: sorted(sizes),
        }
    }
}

fn sorted(mut holders: Vec<Holder>) -> Vec<Holder> {
    holders.sort_by(|one, other| other.bytes().cmp(&one.bytes()).then(one.name.cmp(&other.name)));
    holders
}

impl Holder {
    /// All that it holds.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.allocated_bytes.saturating_add(self.pending_bytes)
    }
}
