//! Giving cached memory back to the device.
//!
//! A piece goes back whole, when no byte of it is handed out and every earlier use of it is
//! complete; being ordered is not enough, because the device's next owner is ordered after
//! nothing (R8). No implicit wait of the driver is relied on (L5).

use streams::in_host_function;

use crate::allocator::Inner;
use crate::block::{BlockIndex, State};
use crate::carve::requirements;
use crate::config::Sabotage;
use crate::observe::What;
use crate::shard::{CommittedPiece, Shard, ShardState};
use crate::source::SourceError;
use crate::sync::Ordering;

/// A piece on its way back to the device.
#[derive(Debug)]
struct Leaving {
    address: u64,
    block: BlockIndex,
    piece: CommittedPiece,
}

impl Inner {
    /// Gives back complete cached pieces until `wanted` bytes have gone; returns how many went.
    pub(crate) fn trim(&self, wanted: u64) -> Result<u64, SourceError> {
        self.trim_where(wanted, |_| true)
    }

    /// The same for the shards in which nothing is pending. Where something is, the free memory
    /// beside it is used in turn with it, and would soon be missed.
    pub(crate) fn trim_without_pending(&self, wanted: u64) -> Result<u64, SourceError> {
        self.trim_where(wanted, |state| state.limbo.is_empty())
    }

    fn trim_where(
        &self,
        wanted: u64,
        may_trim: impl Fn(&ShardState) -> bool,
    ) -> Result<u64, SourceError> {
        let mut released = 0;
        // A piece that the driver does not take back would be lost.
        if self.context.is_blocking_forbidden() || in_host_function() {
            return Ok(released);
        }
        for (_, shard) in self.owning_shards() {
            if wanted <= released {
                break;
            }
            if shard.with(|state| may_trim(state)) {
                released += self.trim_shard(shard, wanted - released)?;
            }
        }
        Ok(released)
    }

    fn trim_shard(&self, shard: &Shard, wanted: u64) -> Result<u64, SourceError> {
        let leaving = shard.with(|state| state.reserve_idle_pieces(wanted));
        let mut released = 0;
        let mut failure = None;
        for leaving in leaving {
            let (address, bytes) = (leaving.address, leaving.piece.bytes);
            self.tell(None, || What::Closed { address, bytes });
            match leaving.piece.memory.release() {
                Ok(()) => {
                    // Dropped here, without the lock: closing addresses may be a driver call (L1).
                    let _closed = shard.with(|state| state.unmap_and_close(leaving.block));
                    self.counters.device_free.fetch_add(1, Ordering::Relaxed);
                    self.unreserve_memory(bytes);
                    released += bytes;
                }
                // The driver kept it: it stays counted, and its block stays reserved for ever, so
                // that nothing is mapped over it.
                Err(error) => failure = Some(error),
            }
            self.counters.leaving.fetch_sub(bytes, Ordering::Relaxed);
        }
        failure.map_or(Ok(released), Err)
    }
}

impl ShardState {
    /// Takes out pieces that are wholly free and complete, up to `wanted` bytes of them.
    fn reserve_idle_pieces(&mut self, wanted: u64) -> Vec<Leaving> {
        self.join_all_recent();
        let mut leaving = Vec::new();
        let mut bytes = 0;
        let segments: Vec<u32> = self.segment_indices().collect();
        for segment in segments {
            // From the end, so that what stays is compact.
            for run in self.idle_runs(segment).into_iter().rev() {
                if wanted <= bytes {
                    return leaving;
                }
                bytes += self.reserve_pieces_in(&run, wanted - bytes, &mut leaving);
            }
        }
        leaving
    }

    /// Neighbours that are all free and complete, as long as they go, in address order.
    fn idle_runs(&self, segment: u32) -> Vec<Vec<BlockIndex>> {
        let mut runs = vec![Vec::new()];
        for block in self.blocks_of(segment) {
            match runs.last_mut() {
                Some(run) if self.is_idle(block) => run.push(block),
                Some(run) if run.is_empty() => {}
                _ => runs.push(Vec::new()),
            }
        }
        runs.retain(|run| !run.is_empty());
        runs
    }

    /// Takes out the pieces that lie inside one idle run, from its end; returns their bytes.
    fn reserve_pieces_in(
        &mut self,
        run: &[BlockIndex],
        wanted: u64,
        leaving: &mut Vec<Leaving>,
    ) -> u64 {
        let (Some(first), Some(last)) = (run.first(), run.last()) else { return 0 };
        let segment = self.segment_of(*first);
        let base = segment.region.base();
        let (start, end) =
            (self.arena.at(*first).address - base, self.arena.at(*last).end() - base);
        let mut bytes = 0;
        let mut inside = Vec::new();
        for (offset, piece) in segment.pieces.range(start..end).rev() {
            if offset + piece.bytes <= end && bytes < wanted {
                bytes += piece.bytes;
                inside.push((*offset, piece.bytes));
            }
        }
        if inside.is_empty() {
            return 0;
        }
        let mut rest = self.join_run(run);
        for (offset, piece_bytes) in inside {
            let (before, block) = self.cut_out(rest, base + offset, piece_bytes);
            if let Some(piece) = self.segment_of_mut(block).pieces.remove(&offset) {
                self.shared.leaving.fetch_add(piece.bytes, Ordering::Relaxed);
                leaving.push(Leaving { address: base + offset, block, piece });
            }
            match before {
                Some(before) => rest = before,
                None => return bytes,
            }
        }
        self.settle(rest);
        bytes
    }

    /// Cuts `address..address + bytes` out of a reserved block. What lies behind goes back to the
    /// free lists; what lies before is returned beside it, still reserved.
    fn cut_out(
        &mut self,
        whole: BlockIndex,
        address: u64,
        bytes: u64,
    ) -> (Option<BlockIndex>, BlockIndex) {
        let before_bytes = address - self.arena.at(whole).address;
        let mut target = whole;
        if 0 < before_bytes
            && let Some(block) = self.cut(whole, before_bytes)
        {
            self.arena.at_mut(block).set_state(State::Reserved);
            target = block;
        }
        if let Some(behind) = self.cut(target, bytes) {
            self.arena.at_mut(behind).set_state(State::Reserved);
            self.settle(behind);
        }
        ((0 < before_bytes).then_some(whole), target)
    }

    fn is_idle(&self, block: BlockIndex) -> bool {
        let record = self.arena.at(block);
        if !record.state.is_free() {
            return false;
        }
        if self.is_sabotaged(Sabotage::ReleaseIncomplete) {
            return record.state == State::Ready;
        }
        requirements(record).all(|point| self.is_complete(point))
    }
}
