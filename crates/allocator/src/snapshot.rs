//! What an allocator holds, block by block, at one moment.
//!
//! Enough to compute again every figure of [`Stats`](crate::Stats) that has a current value
//! ([`Snapshot::check`]), and to ask whether a request had to wait or grow
//! ([`Snapshot::find_fit`]).

use std::collections::BTreeMap;

use streams::order::{Point, StreamSlot};
use streams::{Stream, StreamOrder};

use crate::allocator::{Allocator, Inner};
use crate::block::{BlockIndex, BlockRecord, State};
use crate::bytes::round_up;
use crate::carve::requirements;
use crate::config::Policy;
use crate::shard::{Segment, ShardState};
use crate::source::PoolKind;
use crate::stranded::{Askers, StrandedCause};
use crate::view::View;

/// The segments of an allocator with their blocks.
///
/// Taken shard by shard, each under its own lock: every segment is consistent in itself, and all
/// of it is one moment as long as no other thread uses the allocator meanwhile. Under threads a
/// block may be seen in two states at once only in the sense that two segments were looked at one
/// after the other; no block is ever missing from its segment.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Snapshot {
    /// What may decide between waiting, asking the device and growing.
    pub policy: Policy,
    /// The most bytes that may be reserved.
    pub limit_bytes: u64,
    /// Every open segment, by address.
    pub segments: Vec<SegmentSnapshot>,
    /// The ids of the streams that the slots in here stand for.
    pub stream_ids: BTreeMap<StreamSlot, u64>,
    view: View,
}

/// One region of addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SegmentSnapshot {
    /// The stream it was opened for, or the next one in that stream's slot.
    pub stream: StreamSlot,
    /// The first address.
    pub address: u64,
    /// The bytes of addresses.
    pub span_bytes: u64,
    /// Which requests it serves.
    pub kind: PoolKind,
    /// The memory behind it: first address and bytes of each piece, by address.
    pub pieces: Vec<(u64, u64)>,
    /// Its blocks, by address; they fill it without a gap.
    pub blocks: Vec<BlockSnapshot>,
}

/// One block.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct BlockSnapshot {
    /// The first address.
    pub address: u64,
    /// Its bytes, after rounding.
    pub size: u64,
    /// The bytes that were asked for, while it is handed out; else 0.
    pub requested: u64,
    /// What it is to the allocator.
    pub state: BlockState,
    /// The stream it was last handed out for.
    pub home: StreamSlot,
    /// How many holds keep it.
    pub hold_count: u32,
    /// While it is free: everything that must come before its next use, the free on its home
    /// stream first. What is complete may be among it.
    pub waits_for: Vec<Point>,
    /// What keeps it from being of use to the stream whose memory it is, if anything does.
    pub stranded: Option<StrandedCause>,
    /// While it is handed out: the streams other than its home that were said to use it.
    pub used_by: Vec<StreamSlot>,
}

/// What a block is to the allocator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BlockState {
    /// Addresses without memory behind them.
    Unmapped,
    /// Free, and the stream of its segment may use it now.
    Ready,
    /// Free, and waiting for uses on other streams.
    Pending,
    /// Handed out.
    Allocated,
    /// Freed by its owner, and kept by a hold.
    Held,
    /// In the hands of a thread that calls the driver; or memory that the driver did not take
    /// back, and that is out of use for good.
    Reserved,
}

impl BlockState {
    /// Whether the block is free memory.
    #[must_use]
    pub fn is_free(self) -> bool {
        matches!(self, Self::Ready | Self::Pending)
    }

    fn of(state: State) -> Self {
        match state {
            State::Unmapped => Self::Unmapped,
            State::Recent | State::Ready => Self::Ready,
            State::Pending => Self::Pending,
            State::Allocated => Self::Allocated,
            State::Held => Self::Held,
            State::Reserved | State::Vacant => Self::Reserved,
        }
    }
}

impl Allocator {
    /// Everything it holds now. Looks at every block of every shard, each shard under its lock:
    /// for tests, tools and questions, not for the hot path. No driver call. Empty in a fork of the
    /// allocator's process.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        self.inner.snapshot()
    }
}

impl Inner {
    fn snapshot(&self) -> Snapshot {
        if self.context.is_forked() {
            return Snapshot {
                policy: self.config.policy,
                limit_bytes: self.limit(),
                segments: Vec::new(),
                stream_ids: BTreeMap::new(),
                view: self.view,
            };
        }
        let mut segments = Vec::new();
        let askers = self.askers();
        for (_, shard) in self.shards.iter() {
            shard.with(|state| {
                // As for the figures: what has become known counts as ready.
                state.sweep();
                let shown = state.segment_indices().filter_map(|index| state.shown(index, &askers));
                segments.extend(shown);
            });
        }
        segments.sort_by_key(|segment: &SegmentSnapshot| segment.address);
        let orders = self.orders.lock();
        let stream_ids = orders.iter().map(|(slot, order)| (*slot, order.id())).collect();
        Snapshot {
            policy: self.config.policy,
            limit_bytes: self.limit(),
            segments,
            stream_ids,
            view: self.view,
        }
    }
}

impl ShardState {
    fn shown(&self, index: u32, askers: &Askers) -> Option<SegmentSnapshot> {
        let blocks: Vec<BlockIndex> = self.blocks_of(index).collect();
        let first = *blocks.first()?;
        let Segment { region, pieces, .. } = self.segment_of(first);
        let base = region.base();
        Some(SegmentSnapshot {
            stream: self.slot,
            address: base,
            span_bytes: region.span(),
            kind: self.kind_of(first),
            pieces: pieces.iter().map(|(offset, piece)| (base + offset, piece.bytes)).collect(),
            blocks: blocks
                .iter()
                .map(|block| self.arena.at(*block))
                .map(|record| {
                    let stranded = self.stranded_by(record, askers).map(|(cause, _)| cause);
                    BlockSnapshot { used_by: self.used_by(record), ..shown_block(record, stranded) }
                })
                .collect(),
        })
    }
}

/// What the record alone says of a block.
fn shown_block(record: &BlockRecord, stranded: Option<StrandedCause>) -> BlockSnapshot {
    let state = BlockState::of(record.state);
    let allocated = state == BlockState::Allocated;
    BlockSnapshot {
        address: record.address,
        size: record.size,
        requested: if allocated { record.requested } else { 0 },
        state,
        home: record.home,
        hold_count: record.hold_count,
        waits_for: if state.is_free() { requirements(record).collect() } else { Vec::new() },
        stranded,
        used_by: Vec::new(),
    }
}

impl Snapshot {
    /// The bytes of all blocks in one state.
    #[must_use]
    pub fn bytes_in(&self, state: BlockState) -> u64 {
        self.blocks().filter(|block| block.state == state).map(|block| block.size).sum()
    }

    /// All blocks, segment by segment.
    pub fn blocks(&self) -> impl Iterator<Item = &BlockSnapshot> {
        self.segments.iter().flat_map(|segment| &segment.blocks)
    }

    /// The bytes of all pieces of memory, and of what the driver did not take back.
    #[must_use]
    pub fn reserved_bytes(&self) -> u64 {
        let held = self.segments.iter().flat_map(|segment| &segment.pieces);
        let lost = self.segments.iter().flat_map(SegmentSnapshot::without_memory);
        held.map(|(_, bytes)| *bytes).sum::<u64>() + lost.map(|block| block.size).sum::<u64>()
    }

    /// Where a request for `bytes` on `stream` could be served at once, without a wait, a question
    /// to the device or new memory: a free block, or free neighbours, of the right pool, of which
    /// all is known to come before the stream's next operation. `None` is a reason to wait or to
    /// grow (R10). `Some` is none, with one exception: free blocks of one home that lie side by
    /// side may be joined by the request itself, and then wait for the latest of their points
    /// (`docs/design/0002-joins-at-once.md`).
    #[must_use]
    pub fn find_fit(&self, stream: &Stream, bytes: u64) -> Option<u64> {
        let order = stream.order();
        let size = round_up(bytes);
        let kind = PoolKind::of(size);
        let own = order.slot();
        let mine = |segment: &&SegmentSnapshot| {
            segment.kind == kind && (self.policy.crosses_streams() || segment.stream == own)
        };
        self.segments
            .iter()
            .filter(mine)
            .find_map(|segment| segment.find_fit(order, self.view, size))
    }
}

impl SegmentSnapshot {
    /// Blocks that are said to have no memory of their own: on their way, or lost.
    pub(crate) fn without_memory(&self) -> impl Iterator<Item = &BlockSnapshot> {
        let covered = |block: &&BlockSnapshot| {
            self.pieces.iter().any(|(address, bytes)| {
                *address < block.address + block.size && block.address < address + bytes
            })
        };
        self.blocks
            .iter()
            .filter(|block| block.state == BlockState::Reserved)
            .filter(move |block| !covered(block))
    }

    fn find_fit(&self, order: &StreamOrder, view: View, size: u64) -> Option<u64> {
        let (mut start, mut bytes) = (0, 0);
        for block in &self.blocks {
            let known = block.waits_for.iter().all(|point| view.knows(order, *point));
            if !block.state.is_free() || !known {
                bytes = 0;
                continue;
            }
            if bytes == 0 {
                start = block.address;
            }
            bytes += block.size;
            if size <= bytes {
                return Some(start);
            }
        }
        None
    }
}
