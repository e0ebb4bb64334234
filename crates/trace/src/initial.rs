//! Rebuilds the blocks that were in use before a trace's first entry.
//!
//! A trace is a ring that may have lost its beginning, while the segments show its end. Walking
//! backwards from the blocks at the end, each entry is undone; what is left at the first entry
//! was there before it.

use std::collections::HashMap;

use crate::pytorch::{Action, BlockState, DeviceTrace, StreamHandle};

/// A block that was in use before the trace began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct InitialBlock {
    /// Its first byte.
    pub address: u64,
    /// What was asked for.
    pub requested_bytes: u64,
    /// The stream it was allocated on.
    pub stream: StreamHandle,
    /// Whether it was freed already and waited for other streams.
    pub is_pending: bool,
}

/// The blocks in use before the first entry, by address.
pub(crate) fn rebuild(trace: &DeviceTrace<'_>) -> Vec<InitialBlock> {
    let mut blocks = at_the_end(trace);
    for entry in trace.entries().iter().rev() {
        let block = InitialBlock {
            address: entry.address,
            requested_bytes: entry.bytes,
            stream: entry.stream,
            is_pending: entry.action == Action::FreeCompleted,
        };
        match entry.action {
            Action::Alloc => {
                blocks.remove(&entry.address);
            }
            Action::Free | Action::FreeRequested | Action::FreeCompleted => {
                blocks.insert(entry.address, block);
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
    let mut blocks: Vec<_> = blocks.into_values().collect();
    blocks.sort_unstable_by_key(|block| block.address);
    blocks
}

/// The blocks in use after the last entry, by address.
fn at_the_end(trace: &DeviceTrace<'_>) -> HashMap<u64, InitialBlock> {
    let mut blocks = HashMap::new();
    for segment in trace.segments() {
        for block in &segment.blocks {
            let is_pending = match block.state {
                BlockState::Allocated => false,
                BlockState::PendingFree => true,
                BlockState::Inactive => continue,
            };
            let address = block.address;
            let requested_bytes = block.requested_bytes;
            let stream = segment.stream;
            blocks.insert(address, InitialBlock { address, requested_bytes, stream, is_pending });
        }
    }
    blocks
}
