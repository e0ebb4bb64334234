//! What is left when an allocator ends: memory that cannot go back to the device now.
//!
//! Its uses may not be known to be over, because the allocator ended where the driver may not be
//! called (L3) or where nothing may be waited for, or because they cannot be waited for, as behind
//! a gate of the host. Each piece is left to the context then, with the points that must be complete first (R8), and whoever next
//! comes by there gives it back. A piece of which a part is still handed out as numbers stays for
//! good, and counts as left.

use streams::in_host_function;
use streams::order::Frontier;

use crate::allocator::Inner;
use crate::block::BlockIndex;
use crate::carve::requirements;
use crate::family::Family;
use crate::observe::{Watch, What};
use crate::shard::{CommittedPiece, Segment, ShardState};
use crate::source::Piece;
use crate::sync::Arc;

/// One piece of an allocator that has ended, on its way back to the device.
#[derive(Debug)]
struct Remains {
    address: u64,
    bytes: u64,
    /// Taken out only by `drop`.
    memory: Option<Box<dyn Piece>>,
    /// Of whom it was.
    allocator: u64,
    watch: Watch,
    family: Arc<Family>,
}

impl Drop for Remains {
    fn drop(&mut self) {
        let (address, bytes) = (self.address, self.bytes);
        self.watch.tell(self.allocator, None, || What::Closed { address, bytes });
        drop(self.memory.take());
        self.family.unreserve(bytes);
    }
}

/// A piece, where it lies, and what must be complete before it may go; `None` if that is not known.
type Left = (u64, CommittedPiece, Option<Frontier>);

impl Inner {
    /// Gives back the complete memory of pools that nobody has any more, and of allocators that
    /// have ended. Waits for nothing.
    pub(crate) fn reap(&self) {
        self.family.reap();
        self.context.settle_leftovers();
    }

    /// Gives all memory back: first the uses are waited for, as nothing else proves them over,
    /// except behind a gate of the host, which may be the one that ends the allocator (R5). What
    /// cannot go now is left to the context. On a context that has failed nothing is called,
    /// and the driver takes everything back with the context.
    pub(crate) fn end(&self) {
        if self.context.is_forked() {
            return;
        }
        if self.is_first {
            self.family.close();
        }
        if self.context.first_error().is_some() {
            return;
        }
        if !in_host_function() {
            self.wait_for_open();
            if self.trim(u64::MAX).is_err() {
                // Whoever could look at the allocator's own count is gone.
                self.context.count_silent_error();
            }
        }
        for (_, shard) in self.shards.iter() {
            // Without the lock: closing addresses may be a driver call (L1).
            let (left, _segments) = shard.with(ShardState::give_up_segments);
            left.into_iter().for_each(|left| self.leave(left));
        }
        // What others have left is no harder to see to than this.
        self.context.settle_leftovers();
    }

    fn leave(&self, (address, piece, until): Left) {
        let CommittedPiece { bytes, memory } = piece;
        let (allocator, watch) = (self.identity, self.watch.clone());
        let (memory, family) = (Some(memory), Arc::clone(&self.family));
        let remains = Remains { address, bytes, memory, allocator, watch, family };
        self.context.leave(bytes, until, remains);
    }
}

impl ShardState {
    /// Takes out every segment, and the pieces that they still have.
    fn give_up_segments(&mut self) -> (Vec<Left>, Vec<Segment>) {
        self.join_all_recent();
        let mut left = Vec::new();
        for segment in self.segment_indices().collect::<Vec<_>>() {
            let blocks: Vec<BlockIndex> = self.blocks_of(segment).collect();
            let Some(first) = blocks.first() else { continue };
            let found = self.segment_of_mut(*first);
            let (base, pieces) = (found.region.base(), std::mem::take(&mut found.pieces));
            for (offset, piece) in pieces {
                let until = self.wait_of(&blocks, (base + offset, base + offset + piece.bytes));
                left.push((base + offset, piece, until));
            }
        }
        self.unmapped.clear();
        (left, self.segments.drain(..).flatten().collect())
    }

    /// What must be complete before the memory between two addresses may go back.
    fn wait_of(&self, blocks: &[BlockIndex], (start, end): (u64, u64)) -> Option<Frontier> {
        let records = blocks.iter().map(|block| self.arena.at(*block));
        let inside = records.filter(|record| record.address < end && start < record.end());
        let mut until = Frontier::new();
        for record in inside {
            if !record.state.is_free() {
                return None;
            }
            requirements(record).filter(|point| !self.is_complete(*point)).for_each(|point| {
                until.insert(point);
            });
        }
        Some(until)
    }
}

#[cfg(all(test, not(loom)))]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that panics has failed")]
mod stress;
#[cfg(all(test, not(loom)))]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that panics has failed")]
mod tests;
