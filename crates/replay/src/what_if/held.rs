//! What was held when a trace began, rebuilt from its end, to the byte.
//!
//! A request tells what was asked for, not how long its block was: the large pool splits nothing
//! off that is not larger than 1 MiB, so a block may have that much behind it. But then no free
//! block of the large pool is as small as that: a gap of at most 1 MiB belongs to the block before
//! it. In a larger gap the free block begins where the first later request was put that went into
//! the gap while the block before it was in use.

use std::collections::{BTreeMap, HashMap};

use pytorch_model::{
    BlockNumber, Driver, HeldBlock, HeldSegment, Model, PoolId, SMALL_REQUEST_BYTES_MAX, Settings,
};
use trace::InitialBlock;
use trace::pytorch::{Action, BlockState, DeviceTrace};

/// No device has addresses from here on.
const ADDRESS_END: u64 = 1 << 60;
/// No expandable segment takes less address space: nine eighths of a small device.
const RESERVE_BYTES_MIN: u64 = 4 << 30;

/// A segment without its blocks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Held {
    pub(super) bytes: u64,
    pub(super) stream: u64,
    pub(super) pool: PoolId,
    pub(super) is_small: bool,
    pub(super) is_expandable: bool,
}

/// What was held: whole segments, and the mapped ranges of expandable ones.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct AllHeld {
    pub(super) segments: Vec<HeldSegment>,
    /// The start of each expandable segment as far as the trace reaches, and its ranges.
    pub(super) expandables: Vec<(u64, Vec<HeldSegment>)>,
}

impl AllHeld {
    /// All of them, by kind.
    pub(super) fn all(&self) -> impl Iterator<Item = &HeldSegment> {
        self.segments.iter().chain(self.expandables.iter().flat_map(|(_, ranges)| ranges))
    }

    /// Has a model take over all of them.
    pub(super) fn hand_to<D: Driver>(&self, model: &mut Model<D>) {
        self.segments.iter().for_each(|segment| model.adopt(segment));
        self.expandables.iter().for_each(|(start, ranges)| model.adopt_expandable(*start, ranges));
    }
}

/// The segments with the blocks that were in use; none if they contradict each other.
pub(super) fn segments(
    trace: &DeviceTrace<'_>,
    settings: &Settings,
    segments: &BTreeMap<u64, Held>,
) -> Option<AllHeld> {
    let initial = trace.initial_blocks();
    let lengths = Lengths::of(trace, settings);
    let mut rest = (0..).map(BlockNumber).zip(&initial).peekable();
    let (mut found, mut gaps) = (Vec::new(), Gaps::default());
    for (address, held) in segments {
        let end = address.checked_add(held.bytes)?;
        let mut blocks: Vec<HeldBlock> = Vec::new();
        while let Some((number, block)) = rest.next_if(|(_, block)| block.address < end) {
            let room_end = rest.peek().map_or(end, |(_, next)| next.address.min(end));
            let room = room_end.checked_sub(block.address)?;
            let bytes = lengths.get(block).min(room);
            let is_slack = !held.is_small
                && !held.is_expandable
                && (room - bytes <= SMALL_REQUEST_BYTES_MAX || settings.max_split_bytes <= room);
            let bytes = if is_slack { room } else { bytes };
            if !held.is_small && !held.is_expandable && bytes < room {
                let place = (found.len(), blocks.len());
                gaps.add(block.address, (block.address + bytes, room_end), place);
            }
            let (address, is_pending) = (block.address, block.is_pending);
            blocks.push(HeldBlock { address, bytes, number, is_pending });
        }
        let Held { bytes, stream, pool, is_small, .. } = *held;
        found.push(HeldSegment { address: *address, bytes, stream, pool, is_small, blocks });
    }
    for ((segment, block), free_from) in gaps.filled(trace) {
        if let Some(block) = found.get_mut(segment).and_then(|it| it.blocks.get_mut(block)) {
            block.bytes = free_from - block.address;
        }
    }
    let is_sound = |segment: &HeldSegment| segment.is_sound() && segment.address < ADDRESS_END;
    let is_whole = rest.next().is_none() && found.iter().all(is_sound);
    is_whole.then(|| apart(trace, segments, found))
}

/// Puts the ranges of each expandable segment together: those of one stream, pool and kind.
fn apart(trace: &DeviceTrace<'_>, held: &BTreeMap<u64, Held>, found: Vec<HeldSegment>) -> AllHeld {
    let mut all = AllHeld::default();
    let mut groups: Vec<Vec<HeldSegment>> = Vec::new();
    for segment in found {
        if !held.get(&segment.address).is_some_and(|held| held.is_expandable) {
            all.segments.push(segment);
            continue;
        }
        let is_like = |group: &&mut Vec<HeldSegment>| {
            group.first().is_some_and(|first| {
                (first.stream, first.pool, first.is_small)
                    == (segment.stream, segment.pool, segment.is_small)
            })
        };
        match groups.iter_mut().find(is_like) {
            Some(group) => group.push(segment),
            None => groups.push(vec![segment]),
        }
    }
    let mapped = trace.entries().iter().filter(|entry| entry.action == Action::SegmentMap);
    let starts: Vec<(u64, u64)> = mapped.map(|entry| (entry.address, entry.stream.0)).collect();
    for group in groups {
        let Some(first) = group.first() else { continue };
        // Pages that were mapped later and lie shortly below belong to it, and to no other one.
        let below = held.range(..first.address).next_back();
        let floor = below.map_or(0, |(address, held)| address + held.bytes);
        let is_below = |(address, stream): &&(u64, u64)| {
            *stream == first.stream
                && floor <= *address
                && *address < first.address
                && first.address - *address < RESERVE_BYTES_MIN
        };
        let start = starts.iter().filter(is_below).map(|(address, _)| *address).min();
        all.expandables.push((start.unwrap_or(first.address), group));
    }
    all
}

/// How long blocks are: as at the end of the trace if they still exist there, or else as long as
/// what was asked for needs.
struct Lengths<'a> {
    settings: &'a Settings,
    /// What was asked for and the length, by address.
    at_the_end: HashMap<u64, (u64, u64)>,
}

impl<'a> Lengths<'a> {
    fn of(trace: &DeviceTrace<'_>, settings: &'a Settings) -> Self {
        // A free block keeps the size that was last asked for, and may have been joined since.
        let blocks = trace.segments().flat_map(|segment| &segment.blocks);
        let blocks = blocks.filter(|block| block.state != BlockState::Inactive);
        let lengths = blocks.map(|it| (it.address, (it.requested_bytes, it.bytes)));
        Self { settings, at_the_end: lengths.collect() }
    }

    fn get(&self, block: &InitialBlock) -> u64 {
        match self.at_the_end.get(&block.address) {
            Some((requested, bytes)) if *requested == block.requested_bytes => *bytes,
            Some(_) | None => self.settings.rounded_bytes(block.requested_bytes.min(1 << 60)),
        }
    }
}

/// The index of a segment, and of a block in it.
type Place = (usize, usize);

/// Gaps behind blocks in which a free block begins somewhere.
#[derive(Default)]
struct Gaps {
    /// The start and end of each gap, and the block before it, by that block's address.
    gaps: BTreeMap<u64, (u64, u64, Place)>,
}

impl Gaps {
    fn add(&mut self, block: u64, (start, end): (u64, u64), place: Place) {
        self.gaps.insert(block, (start, end, place));
    }

    /// Where the free block begins, for each gap that tells it.
    fn filled(mut self, trace: &DeviceTrace<'_>) -> Vec<(Place, u64)> {
        let mut found = Vec::new();
        for entry in trace.entries() {
            if self.gaps.is_empty() {
                break;
            }
            match entry.action {
                Action::Alloc => {
                    let Some((&block, &(start, end, place))) =
                        self.gaps.range(..=entry.address).next_back()
                    else {
                        continue;
                    };
                    if start <= entry.address && entry.address < end {
                        self.gaps.remove(&block);
                        if entry.address - start <= SMALL_REQUEST_BYTES_MAX {
                            found.push((place, entry.address));
                        }
                    }
                }
                Action::Free | Action::FreeCompleted => {
                    self.gaps.remove(&entry.address);
                }
                Action::FreeRequested
                | Action::SegmentAlloc
                | Action::SegmentFree
                | Action::SegmentMap
                | Action::SegmentUnmap
                | Action::Snapshot
                | Action::OutOfMemory
                | Action::Annotate
                | Action::Other(_) => {}
            }
        }
        found
    }
}
