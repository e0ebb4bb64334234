//! Step 4 of service: make the requesting stream wait, on the device, for a pending block.
//!
//! The block is reserved under its shard's lock, the waits are made without any lock, and the
//! result is published under the lock again (L1). Only fences that cover nothing submitted after
//! the free are waited on, never those of a gated stream, and never by a capturing stream (R5).
//! The block with the fewest and oldest fences is taken (R6).
//!
//! Below the bound on pending memory a wait must cost nothing: a block is waited for only if every
//! stream that still uses it has more work queued behind that use, of the depth that `pace` says.
//! Then that stream goes on while the waiting one resumes, and neither is held up by the other.

use smallvec::SmallVec;
use streams::order::{Frontier, Point, StreamSlot};
use streams::{Fence, StreamOrder};

use crate::allocator::Inner;
use crate::block::{BlockIndex, State};
use crate::carve::requirements;
use crate::config::{Sabotage, WaitDepth};
use crate::reuse::{Request, Step, Taken};
use crate::shard::ShardState;

/// How many blocks are tried before waiting is given up for one request.
const TRIES_MAX: usize = 8;

/// A growth may wait for the oldest blocks of so many times its size: a stream that works off what
/// was held up has more behind every use than the depth asks for, and yet is not to be waited for
/// to the end of it.
const GROWTH_REACH: u64 = 4;

/// What speaks for a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    /// Only that memory would grow.
    BelowBound,
    /// Pending memory has reached its bound: waiting is judged better than growing.
    AtBound,
    /// Without it the request fails.
    LastResort,
}

/// A free block, or several that lie side by side, that could serve a request after waits.
#[derive(Debug, Clone)]
pub(crate) struct Candidate {
    pub(crate) owner: StreamSlot,
    /// In address order, each with its generation.
    blocks: SmallVec<[(BlockIndex, u32); 2]>,
    /// What the requester does not know yet.
    pub(crate) unmet: Frontier,
    freed_at: u64,
}

/// What a candidate must not be.
#[derive(Debug, Default)]
pub(crate) struct Terms {
    /// If set, everything unmet lies in here.
    within: Option<Frontier>,
    /// Blocks that were tried in vain, by shard.
    refused: Vec<(StreamSlot, BlockIndex)>,
    /// Streams that may not be waited for.
    unwaitable: Vec<StreamSlot>,
    /// Points from which on streams may not be waited for.
    beyond: Vec<Point>,
}

/// Why a candidate was not taken.
#[derive(Debug)]
enum Refusal {
    /// This stream cannot be waited for now, so no block that needs it can be had.
    Stream(StreamSlot),
    /// The same from this point on.
    Beyond(Point),
    /// It was gone, or no fence covers just what it waits for, or a wait failed.
    Block,
}

/// Everything that speaks against a candidate, whatever was found first.
type Refusals = SmallVec<[Refusal; 2]>;

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
        if need == Need::BelowBound {
            self.serve_by_free_wait(request)
        } else {
            self.serve_within(request, need, None)
        }
    }

    /// Serves a request by a wait that costs nothing, although there is room to grow.
    ///
    /// Blocks of many sizes leave holes between each other. If what may be waited for would be
    /// enough but for them, memory grows only if there is no run of neighbours with half of the
    /// depth behind them either: a greater stock is worth less than what the holes would take. A
    /// depth that was set is kept to.
    fn serve_by_free_wait(&self, request: &Request<'_>) -> Option<(StreamSlot, Taken)> {
        let depth = self.depth(request.order)?;
        let shard = self.shards.get(request.order.slot())?;
        // Nothing of this stream waits: the usual case of a stream that grows.
        if shard.with(|state| state.limbo.is_empty()) {
            return None;
        }
        let serve = |depth: usize| {
            let within = self.bursts.with_bursts_behind(depth);
            self.serve_within(request, Need::BelowBound, Some(within))
        };
        if let Some(served) = serve(depth) {
            return Some(served);
        }
        if self.config.wait_depth != WaitDepth::Learned {
            return None;
        }
        let within = self.bursts.with_bursts_behind(depth);
        let terms = Terms { within: Some(within), ..Terms::default() };
        let is_enough = shard.with(|state| request.size <= state.allowed_bytes(request, &terms));
        if !is_enough {
            return None;
        }
        (depth.div_ceil(2)..depth).rev().find_map(serve)
    }

    fn serve_within(
        &self,
        request: &Request<'_>,
        need: Need,
        within: Option<Frontier>,
    ) -> Option<(StreamSlot, Taken)> {
        if within.as_ref().is_some_and(Frontier::is_empty) {
            return None;
        }
        let mut terms = Terms { within, ..Terms::default() };
        for _ in 0..TRIES_MAX {
            let candidate = self.best_candidate(request, &terms)?;
            match self.wait_and_take(request, &candidate, need) {
                Ok(taken) => return Some((candidate.owner, taken)),
                Err(refusals) => refusals.iter().for_each(|it| terms.take_in(it, &candidate)),
            }
        }
        None
    }

    /// How many bursts must lie behind what a stream waits for below the bound.
    pub(crate) fn depth(&self, order: &StreamOrder) -> Option<usize> {
        let first = self.config.wait_depth.first()?;
        let learns = self.config.learns_depth();
        Some(if learns { self.pace.depth_of(order, first) } else { first })
    }

    /// The block with the fewest and oldest unmet requirements, over all shards; over the stream's
    /// own shard alone where only what is worth waiting for will do.
    pub(crate) fn best_candidate(&self, request: &Request<'_>, terms: &Terms) -> Option<Candidate> {
        let own = request.order.slot();
        if terms.within.is_some() {
            let shard = self.shards.get(own)?;
            return shard.with(|state| state.candidate_run(request, terms));
        }
        let mut best: Option<Candidate> = None;
        for (_, shard) in self.owning_shards() {
            if shard.free_bytes_hint() < request.size {
                continue;
            }
            let found = shard.with(|state| {
                let owner = state.order.slot();
                if owner != own && !self.config.policy.crosses_streams() {
                    return None;
                }
                state.candidate(request, terms)
            });
            let Some(found) = found else { continue };
            let better = best.as_ref().is_none_or(|best| found.rank() < best.rank());
            if better {
                best = Some(found);
            }
        }
        best.or_else(|| self.shards.get(own)?.with(|state| state.candidate_run(request, terms)))
    }

    /// Waits for a candidate's requirements, then takes it. If that cannot be, it is where it was.
    fn wait_and_take(
        &self,
        request: &Request<'_>,
        candidate: &Candidate,
        need: Need,
    ) -> Result<Taken, Refusals> {
        let gone = || Refusals::from_iter([Refusal::Block]);
        let shard = self.shards.get(candidate.owner).ok_or_else(gone)?;
        let fences = self.fences_of(request, &candidate.unmet, need)?;
        if !shard.with(|state| state.reserve(candidate, request)) {
            return Err(gone());
        }
        let waited = self.wait_for(request, &fences);
        shard.with(|state| {
            if !waited {
                candidate.blocks.iter().for_each(|(block, _)| state.settle(*block));
                return Err(gone());
            }
            let whole = state.join_reserved(candidate.blocks.iter().map(|(block, _)| *block));
            Ok(state.hand_out(whole, request, Step::DeviceWait))
        })
    }

    /// What a growth may wait for below the bound, because it costs nothing; `None` if nothing.
    pub(crate) fn free_waits(&self, request: &Request<'_>) -> Option<Terms> {
        let latest = self.free_frontier(request)?;
        let shard = self.shards.get(request.order.slot())?;
        let reach = request.size.saturating_mul(GROWTH_REACH);
        let (oldest, _) = shard.with(|state| state.oldest_watched(reach, &latest));
        let within = (!oldest.is_empty()).then_some(oldest)?;
        Some(Terms { within: Some(within), ..Terms::default() })
    }

    /// Up to where each stream may be waited for below the bound, because it costs nothing; `None`
    /// if nowhere.
    pub(crate) fn free_frontier(&self, request: &Request<'_>) -> Option<Frontier> {
        if request.complete_only || !self.config.policy.waits() || !request.order.may_wait() {
            return None;
        }
        let shard = self.shards.get(request.order.slot())?;
        if shard.with(|state| state.limbo.is_empty()) {
            return None;
        }
        let within = self.bursts.with_bursts_behind(self.depth(request.order)?);
        (!within.is_empty()).then_some(within)
    }

    /// Makes the requester wait for what its reserved memory lacks; false if that cannot be.
    pub(crate) fn wait_until_met(&self, request: &Request<'_>, unmet: &Frontier) -> bool {
        let fences = self.fences_of(request, unmet, Need::BelowBound);
        fences.is_ok_and(|fences| self.wait_for(request, &fences))
    }

    /// Waits for reserved memory; false if a wait failed.
    fn wait_for(&self, request: &Request<'_>, fences: &[Fence]) -> bool {
        if self.config.learns_depth() && !fences.is_empty() {
            self.pace.note_wait(request.order, fences);
        }
        let skip = self.is_sabotaged(Sabotage::SkipWait);
        let wait = |fence: &Fence| self.view.wait_fence(request.order, fence).is_ok();
        fences.iter().all(|fence| skip || wait(fence))
    }
}

impl Candidate {
    fn rank(&self) -> (usize, u64) {
        (self.unmet.len(), self.freed_at)
    }
}

impl Terms {
    /// Leaves out from now on what was tried in vain.
    fn take_in(&mut self, refusal: &Refusal, candidate: &Candidate) {
        match refusal {
            Refusal::Stream(stream) => self.unwaitable.push(*stream),
            Refusal::Beyond(point) => self.beyond.push(*point),
            Refusal::Block => {
                let blocks = candidate.blocks.iter();
                self.refused.extend(blocks.map(|(block, _)| (candidate.owner, *block)));
            }
        }
    }

    /// Whether a stream may be made to wait for `point`.
    fn allow(&self, point: Point) -> bool {
        self.within.as_ref().is_none_or(|within| within.covers(point))
            && !self.unwaitable.contains(&point.stream)
            && !self.beyond.iter().any(|b| b.stream == point.stream && b.mark <= point.mark)
    }
}

impl ShardState {
    /// The best block of this shard that the requester does not know to be ready.
    fn candidate(&mut self, request: &Request<'_>, terms: &Terms) -> Option<Candidate> {
        self.join_all_recent();
        let owner = self.order.slot();
        let pool = self.pool(request.kind);
        let pending = pool.pending.fitting(&self.arena, request.size);
        let ready = pool.ready.fitting(&self.arena, request.size);
        let candidates = pending.chain(ready);
        let ranked = candidates.filter_map(|block| {
            let unmet = self.unmet_count(block, request, terms)?;
            let refused = terms.refused.contains(&(owner, block));
            (!refused).then_some(((unmet, self.arena.at(block).freed_at), block))
        });
        let (_, block) = ranked.min()?;
        Some(self.candidate_of(&[block], request))
    }

    /// The block, or the neighbours that are large enough together, that were freed the longest
    /// ago.
    fn candidate_run(&mut self, request: &Request<'_>, terms: &Terms) -> Option<Candidate> {
        self.join_all_recent();
        let owner = self.order.slot();
        if self.pool(request.kind).free_bytes() < request.size {
            return None;
        }
        let mut best: Option<(u64, Vec<BlockIndex>)> = None;
        for segment in self.segment_indices() {
            let (mut run, mut run_bytes) = (Vec::<BlockIndex>::new(), 0);
            for block in self.blocks_of(segment) {
                let record = self.arena.at(block);
                if self.kind_of(block) != request.kind {
                    break;
                }
                let fits = record.state.is_free()
                    && self.unmet_count(block, request, terms).is_some()
                    && !terms.refused.contains(&(owner, block));
                if !fits {
                    run.clear();
                    run_bytes = 0;
                    continue;
                }
                run.push(block);
                run_bytes += record.size;
                // What is not needed at the front is left out.
                while let Some(first) = run.first()
                    && request.size <= run_bytes - self.arena.at(*first).size
                {
                    run_bytes -= self.arena.at(*first).size;
                    run.remove(0);
                }
                if request.size <= run_bytes {
                    let freed_at = run.iter().map(|block| self.arena.at(*block).freed_at).max();
                    let freed_at = freed_at.unwrap_or_default();
                    if best.as_ref().is_none_or(|(oldest, _)| freed_at < *oldest) {
                        best = Some((freed_at, run.clone()));
                    }
                }
            }
        }
        Some(self.candidate_of(&best?.1, request))
    }

    /// How many bytes may be had after waits, wherever they lie.
    fn allowed_bytes(&self, request: &Request<'_>, terms: &Terms) -> u64 {
        let pool = self.pool(request.kind);
        let all = pool.pending.fitting(&self.arena, 0).chain(pool.ready.fitting(&self.arena, 0));
        let allowed = all.filter(|block| self.unmet_count(*block, request, terms).is_some());
        allowed.map(|block| self.arena.at(block).size).sum()
    }

    /// How many requirements of a free block the requester does not know to be met; `None` if one
    /// of them is not to be waited for.
    pub(crate) fn unmet_count(
        &self,
        block: BlockIndex,
        request: &Request<'_>,
        terms: &Terms,
    ) -> Option<usize> {
        let unmet = self.unmet_of(block, request);
        unmet.map(|point| terms.allow(point).then_some(1)).sum()
    }

    /// The requirements of a free block that the requester does not know to be met.
    pub(crate) fn unmet_of(
        &self,
        block: BlockIndex,
        request: &Request<'_>,
    ) -> impl Iterator<Item = Point> {
        requirements(self.arena.at(block)).filter(|p| !self.view.knows(request.order, *p))
    }

    fn candidate_of(&self, blocks: &[BlockIndex], request: &Request<'_>) -> Candidate {
        let records = || blocks.iter().map(|block| self.arena.at(*block));
        let unmet = blocks.iter().flat_map(|block| self.unmet_of(*block, request));
        Candidate {
            owner: self.order.slot(),
            blocks: blocks.iter().map(|block| (*block, self.arena.at(*block).generation)).collect(),
            unmet: unmet.collect(),
            freed_at: records().map(|record| record.freed_at).max().unwrap_or_default(),
        }
    }

    /// Takes a candidate out of the lists, if it is still what it was: meanwhile a neighbour may
    /// have joined a block of it and brought requirements of its own, or a piece of it gone back to
    /// the device.
    fn reserve(&mut self, candidate: &Candidate, request: &Request<'_>) -> bool {
        let mut size = 0;
        let mut end = None;
        for (block, generation) in &candidate.blocks {
            let Some(record) = self.arena.get(*block) else { return false };
            let same = record.generation == *generation
                && record.state.is_free()
                && end.is_none_or(|end| end == record.address)
                && requirements(record).all(|point| {
                    candidate.unmet.covers(point) || self.view.knows(request.order, point)
                });
            if !same {
                return false;
            }
            size += record.size;
            end = Some(record.end());
        }
        let fits = request.size <= size;
        if fits {
            for (block, _) in &candidate.blocks {
                self.take_out(*block, State::Reserved);
            }
        }
        fits
    }
}

mod fences;
#[cfg(all(test, not(loom)))]
mod tests;
