//! What was held when a trace began, rebuilt from its end, to the byte.
//!
//! A request tells what was asked for, not how long its block was: the large pool splits nothing
//! off that is not larger than 1 MiB, so a block may have that much behind it. But then no free
//! block of the large pool is as small as that: a gap of at most 1 MiB belongs to the block before
//! it. In a larger gap the free block begins where the first later request was put that went into
//! the gap while the block before it was in use.

use std::collections::{BTreeMap, HashMap};

use pytorch_model::{
    BlockNumber, HeldBlock, HeldSegment, PoolId, SMALL_REQUEST_BYTES_MAX, Settings,
};
use trace::InitialBlock;
use trace::pytorch::{Action, BlockState, DeviceTrace};

/// A segment without its blocks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Held {
    pub(super) bytes: u64,
    pub(super) stream: u64,
    pub(super) pool: PoolId,
    pub(super) is_small: bool,
}

/// The segments with the blocks that were in use; none if they contradict each other.
pub(super) fn segments(
    trace: &DeviceTrace<'_>,
    settings: &Settings,
    segments: &BTreeMap<u64, Held>,
) -> Option<Vec<HeldSegment>> {
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
                && (room - bytes <= SMALL_REQUEST_BYTES_MAX || settings.max_split_bytes <= room);
            let bytes = if is_slack { room } else { bytes };
            if !held.is_small && bytes < room {
                let place = (found.len(), blocks.len());
                gaps.add(block.address, (block.address + bytes, room_end), place);
            }
            let (address, is_pending) = (block.address, block.is_pending);
            blocks.push(HeldBlock { address, bytes, number, is_pending });
        }
        let Held { bytes, stream, pool, is_small } = *held;
        found.push(HeldSegment { address: *address, bytes, stream, pool, is_small, blocks });
    }
    for ((segment, block), free_from) in gaps.filled(trace) {
        if let Some(block) = found.get_mut(segment).and_then(|it| it.blocks.get_mut(block)) {
            block.bytes = free_from - block.address;
        }
    }
    (rest.next().is_none() && found.iter().all(HeldSegment::is_sound)).then_some(found)
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
