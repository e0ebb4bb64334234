//! A segment tiled with blocks: what lies between them is free.

use crate::pytorch::{Block, BlockState, Segment, SegmentKind, StreamHandle};

/// Segments up to here are called small, as those of PyTorch's small pool are.
const SMALL_SEGMENT_BYTES: u64 = 2 << 20;

/// The segment `start..end` with these blocks, which come by address and lie within it. A block
/// over the one before it is no memory of its own, as where a trace contradicts itself: it is
/// left out.
pub(super) fn segment(
    device: usize,
    (start, end): (u64, u64),
    stream: StreamHandle,
    used: impl Iterator<Item = Block>,
) -> Segment {
    let free = |from: u64, to: u64| Block {
        address: from,
        bytes: to - from,
        requested_bytes: 0,
        state: BlockState::Inactive,
        stack: None,
    };
    let mut blocks = Vec::new();
    let mut next = start;
    for block in used {
        let block_end = block.address.saturating_add(block.bytes);
        if block.address < next || block.bytes == 0 || end < block_end {
            continue;
        }
        if next < block.address {
            blocks.push(free(next, block.address));
        }
        blocks.push(block);
        next = block_end;
    }
    if next < end {
        blocks.push(free(next, end));
    }
    let total_bytes = end - start;
    let is_small = total_bytes <= SMALL_SEGMENT_BYTES;
    Segment {
        device,
        address: start,
        total_bytes,
        stream,
        kind: if is_small { SegmentKind::Small } else { SegmentKind::Large },
        pool_id: (0, 0),
        is_expandable: false,
        stack: None,
        blocks,
    }
}
