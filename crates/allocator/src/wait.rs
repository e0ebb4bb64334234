//! Step 4 of service: make the requesting stream wait, on the device, for a pending block.
//!
//! The block is reserved under its shard's lock, the waits are made without any lock, and the
//! result is published under the lock again (L1). Only fences that cover nothing submitted after
//! the free are waited on, never those of a gated stream, and never by a capturing stream (R5).
//! The block with the fewest and oldest fences is taken (R6).

use streams::StreamOrder;
use streams::order::{Point, StreamSlot};

use crate::allocator::Inner;
use crate::block::{BlockIndex, State};
use crate::carve::requirements;
use crate::config::Sabotage;
use crate::reuse::{Request, Step, Taken};
use crate::shard::ShardState;

/// How many blocks are tried before waiting is given up for one request.
const TRIES_MAX: usize = 8;

/// Why a stream is made to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    /// Waiting is judged better than growing.
    Preferred,
    /// Without it the request fails.
    LastResort,
}

/// A free block that could serve a request after waits.
#[derive(Debug, Clone)]
pub(crate) struct Candidate {
    pub(crate) owner: StreamSlot,
    index: BlockIndex,
    generation: u32,
    /// What the requester does not know yet.
    pub(crate) unmet: Vec<Point>,
    freed_at: u64,
}

impl Inner {
    /// Serves a request by waits on the device, if a block can be had that way.
    ///
    /// A stream of lower priority is waited for only as a last resort (R5).
    pub(crate) fn serve_by_wait(
        &self,
        request: &Request<'_>,
        need: Need,
    ) -> Option<(StreamSlot, Taken)> {
        if request.complete_only || !self.config.policy.waits() || !request.order.may_wait() {
            return None;
        }
        let mut refused = Vec::new();
        for _ in 0..TRIES_MAX {
            let candidate = self.best_candidate(request, &refused)?;
            if let Some(taken) = self.wait_and_take(request, &candidate, need) {
                return Some((candidate.owner, taken));
            }
            refused.push((candidate.owner, candidate.index));
        }
        None
    }

    /// The block with the fewest and oldest unmet requirements, over all shards.
    pub(crate) fn best_candidate(
        &self,
        request: &Request<'_>,
        refused: &[(StreamSlot, BlockIndex)],
    ) -> Option<Candidate> {
        let own = request.order.slot();
        let mut best: Option<Candidate> = None;
        for (_, shard) in self.shards.iter() {
            if shard.free_bytes_hint() < request.size {
                continue;
            }
            let found = shard.with(|state| {
                let owner = state.order.slot();
                if owner != own && !self.config.policy.crosses_streams() {
                    return None;
                }
                state.candidate(request, refused)
            });
            let Some(found) = found else { continue };
            let better = best.as_ref().is_none_or(|best| found.rank() < best.rank());
            if better {
                best = Some(found);
            }
        }
        best
    }

    /// Waits for a candidate's requirements, then takes it. `None`: it was gone, or it has a
    /// requirement that cannot be waited for on the device; then it is where it was.
    fn wait_and_take(
        &self,
        request: &Request<'_>,
        candidate: &Candidate,
        need: Need,
    ) -> Option<Taken> {
        let shard = self.shards.get(candidate.owner)?;
        let mut fences = Vec::new();
        for point in &candidate.unmet {
            let order = self.order_of(point.stream)?;
            // The driver counts downwards: a lower priority is a greater number.
            let is_lower = request.order.priority() < order.priority();
            if !order.may_be_waited_on() || (is_lower && need == Need::Preferred) {
                return None;
            }
            fences.push(exact_fence(&order, *point)?);
        }
        if !shard.with(|state| state.reserve(candidate, request)) {
            return None;
        }
        let skip = self.is_sabotaged(Sabotage::SkipWait);
        let waited = fences
            .iter()
            .try_for_each(|fence| if skip { Ok(()) } else { request.order.wait_fence(fence) });
        shard.with(|state| {
            if waited.is_err() {
                state.settle(candidate.index);
                return None;
            }
            Some(state.hand_out(candidate.index, request, Step::DeviceWait))
        })
    }
}

/// A fence that covers `point` and nothing submitted after it, recorded now if that is still
/// possible.
fn exact_fence(order: &StreamOrder, point: Point) -> Option<streams::Fence> {
    if let Some(fence) = order.fence_exactly(point) {
        return Some(fence);
    }
    let gone = order.is_retired() || order.is_capturing() || order.is_shared();
    if gone || order.position() != point {
        return None;
    }
    order.fence_now().ok().filter(|fence| fence.point().mark == point.mark)
}

impl Candidate {
    fn rank(&self) -> (usize, u64) {
        (self.unmet.len(), self.freed_at)
    }
}

impl ShardState {
    /// The best block of this shard that the requester does not know to be ready.
    fn candidate(
        &mut self,
        request: &Request<'_>,
        refused: &[(StreamSlot, BlockIndex)],
    ) -> Option<Candidate> {
        self.join_all_recent();
        let (owner, view) = (self.order.slot(), self.view);
        let pool = self.pool(request.kind);
        let pending = pool.pending.fitting(&self.arena, request.size);
        let ready = pool.ready.fitting(&self.arena, request.size);
        let candidates = pending.chain(ready).filter(|block| !refused.contains(&(owner, *block)));
        let ranked = candidates.map(|block| {
            let record = self.arena.at(block);
            let unmet = requirements(record).filter(|p| !view.knows(request.order, *p)).count();
            ((unmet, record.freed_at), block)
        });
        let (_, block) = ranked.min()?;
        let record = self.arena.at(block);
        Some(Candidate {
            owner,
            index: block,
            generation: record.generation,
            unmet: requirements(record)
                .filter(|point| !view.knows(request.order, *point))
                .collect(),
            freed_at: record.freed_at,
        })
    }

    /// Takes a candidate out of the lists, if it is still what it was: meanwhile a neighbour may
    /// have joined it and brought requirements of its own, or a piece of it gone back to the
    /// device.
    fn reserve(&mut self, candidate: &Candidate, request: &Request<'_>) -> bool {
        let Some(record) = self.arena.get(candidate.index) else { return false };
        let same = record.generation == candidate.generation
            && record.state.is_free()
            && request.size <= record.size
            && requirements(record).all(|point| {
                candidate.unmet.contains(&point) || self.view.knows(request.order, point)
            });
        if same {
            self.take_out(candidate.index, State::Reserved);
        }
        same
    }
}
