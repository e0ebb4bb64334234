//! Adds the segments that a log lacks: PyTorch's tools start from what is held at the end.

use std::collections::BTreeMap;

use super::ranges::Ranges;
use super::tile;
use crate::Origin;
use crate::pytorch::{Action, Block, BlockState, Entry, Segment, Snapshot, StreamHandle};
use crate::summary::rounded_bytes;

/// What a driver hands out at least, and what made-up segments are whole numbers of.
const PAGE_BYTES: u64 = 2 << 20;

/// Gives each device that has a trace and no segment at all the pages that its blocks lay in, with
/// the blocks that are there at the end. Says how many segments were made up: none where PyTorch
/// wrote the snapshot, whose segments are all that there were.
///
/// A log of RMM does not say what was held from the driver: made-up segments are there for tools
/// that need some, and say nothing of what was reserved.
pub fn fill_segments(snapshot: &mut Snapshot) -> usize {
    if snapshot.origin == Origin::Pytorch {
        return 0;
    }
    let mut made = Vec::new();
    for (device, entries) in snapshot.device_traces.iter().enumerate() {
        let has_segments = snapshot.segments.iter().any(|segment| segment.device == device);
        if !has_segments {
            made.extend(pages_of(device, entries));
        }
    }
    let count = made.len();
    snapshot.segments.extend(made);
    snapshot.has_made_up_segments |= 0 < count;
    count
}

fn pages_of(device: usize, entries: &[Entry]) -> Vec<Segment> {
    let mut pages = Ranges::default();
    let mut live: BTreeMap<u64, (Block, StreamHandle)> = BTreeMap::new();
    for entry in entries {
        match entry.action {
            Action::Alloc => {
                let bytes = rounded_bytes(entry.bytes);
                let end = entry.address.saturating_add(bytes);
                let Some(page_end) = end.checked_next_multiple_of(PAGE_BYTES) else { continue };
                pages.join(entry.address - entry.address % PAGE_BYTES, page_end);
                let (address, requested_bytes, stack) = (entry.address, entry.bytes, entry.stack);
                let state = BlockState::Allocated;
                let block = Block { address, bytes, requested_bytes, state, stack };
                live.insert(address, (block, entry.stream));
            }
            Action::Free | Action::FreeCompleted => {
                live.remove(&entry.address);
            }
            Action::FreeRequested => {
                if let Some((block, _)) = live.get_mut(&entry.address) {
                    block.state = BlockState::PendingFree;
                }
            }
            Action::SegmentAlloc
            | Action::SegmentFree
            | Action::SegmentMap
            | Action::SegmentUnmap
            | Action::Snapshot
            | Action::OutOfMemory
            | Action::Annotate
            | Action::Other(_) => {}
        }
    }
    let segment = |(start, end)| {
        let within = live.range(start..end);
        let stream = within.clone().next().map_or(StreamHandle(0), |(_, (_, stream))| *stream);
        tile::segment(device, (start, end), stream, within.map(|(_, (block, _))| *block))
    };
    pages.iter().map(segment).collect()
}
