//! Giving cached memory back to the device.
//!
//! A piece goes back whole, when no byte of it is handed out and every earlier use of it is
//! complete; being ordered is not enough, because the device's next owner is ordered after
//! nothing (R8). No implicit wait of the driver is relied on (L5).

use crate::allocator::Inner;
use crate::block::{BlockIndex, State};
use crate::carve::requirements;
use crate::config::Sabotage;
use crate::shard::{CommittedPiece, Shard, ShardState};
use crate::source::SourceError;
use crate::sync::Ordering;

/// A piece on its way back to the device.
#[derive(Debug)]
struct Leaving {
    block: BlockIndex,
    piece: CommittedPiece,
}

impl Inner {
    /// Gives back complete cached pieces until `wanted` bytes have gone; returns how many went.
    pub(crate) fn trim(&self, wanted: u64) -> Result<u64, SourceError> {
        let mut released = 0;
        for (_, shard) in self.shards.iter() {
            if wanted <= released {
                break;
            }
            released += self.trim_shard(shard, wanted - released)?;
        }
        Ok(released)
    }

    fn trim_shard(&self, shard: &Shard, wanted: u64) -> Result<u64, SourceError> {
        let leaving = shard.with(|state| state.reserve_idle_pieces(wanted));
        let mut released = 0;
        let mut failure = None;
        for leaving in leaving {
            let bytes = leaving.piece.bytes;
            let outcome = leaving.piece.memory.release();
            shard.with(|state| {
                state.unmap_block(leaving.block);
            });
            self.counters.device_free.fetch_add(1, Ordering::Relaxed);
            match outcome {
                Ok(()) => {
                    self.counters.unreserve(bytes);
                    released += bytes;
                }
                // The driver kept it: it stays counted, and nothing will use it again.
                Err(error) => failure = Some(error),
            }
        }
        shard.with(ShardState::drop_empty_segments);
        failure.map_or(Ok(released), Err)
    }
}

impl ShardState {
    /// Takes out pieces that are wholly free and complete, up to `wanted` bytes of them.
    fn reserve_idle_pieces(&mut self, wanted: u64) -> Vec<Leaving> {
        let mut leaving = Vec::new();
        let mut bytes = 0;
        let segments: Vec<u32> = self.segment_indices().collect();
        for segment in segments {
            let index = usize::try_from(segment).unwrap_or(usize::MAX);
            let Some(Some(found)) = self.segments.get(index) else { continue };
            let base = found.region.base();
            // From the end, so that what stays is compact.
            let pieces: Vec<(u64, u64)> =
                found.pieces.iter().rev().map(|(at, piece)| (*at, piece.bytes)).collect();
            for (offset, piece_bytes) in pieces {
                if wanted <= bytes {
                    return leaving;
                }
                let Some(block) = self.reserve_range(segment, base + offset, piece_bytes) else {
                    continue;
                };
                let piece = self.segment_of_mut(block).pieces.remove(&offset);
                if let Some(piece) = piece {
                    bytes += piece_bytes;
                    leaving.push(Leaving { block, piece });
                }
            }
        }
        leaving
    }

    /// Makes exactly `address..address + bytes` one reserved block, if all of it is free and
    /// complete.
    fn reserve_range(&mut self, segment: u32, address: u64, bytes: u64) -> Option<BlockIndex> {
        let end = address + bytes;
        let covering: Vec<BlockIndex> = self
            .blocks_of(segment)
            .skip_while(|block| self.arena.at(*block).end() <= address)
            .take_while(|block| self.arena.at(*block).address < end)
            .collect();
        let idle = covering.iter().all(|block| self.is_idle(*block));
        if covering.is_empty() || !idle {
            return None;
        }
        let whole = self.join_run(&covering);
        let mut target = whole;
        if self.arena.at(whole).address < address {
            let before = address - self.arena.at(whole).address;
            target = self.cut(whole, before)?;
            self.arena.at_mut(target).set_state(State::Reserved);
            self.settle(whole);
        }
        if let Some(rest) = self.cut(target, bytes) {
            self.arena.at_mut(rest).set_state(State::Reserved);
            self.settle(rest);
        }
        Some(target)
    }

    fn is_idle(&self, block: BlockIndex) -> bool {
        let record = self.arena.at(block);
        if !record.state.is_free() {
            return false;
        }
        if self.is_sabotaged(Sabotage::ReleaseIncomplete) {
            return record.state == State::Ready;
        }
        requirements(record).all(|point| self.order.is_complete(point))
    }

    /// Gives up every segment that still holds memory, without a call.
    pub(crate) fn leak_segments(&mut self) {
        for segment in self.segments.drain(..).flatten() {
            if !segment.pieces.is_empty() {
                let _leaked = std::mem::ManuallyDrop::new(segment);
            }
        }
    }

    fn drop_empty_segments(&mut self) {
        let firsts: Vec<BlockIndex> = self
            .segments
            .iter()
            .flatten()
            .filter(|segment| !segment.region.is_recommittable())
            .map(|segment| segment.first)
            .collect();
        for first in firsts {
            self.drop_segment_if_empty(first);
        }
    }
}
