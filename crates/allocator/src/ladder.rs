//! Step 6 of service: what is tried, rung by rung, before a request fails.
//!
//! Each rung is followed by a search, so a block that one rung set free is found before the next
//! is climbed. The host waits only for the cheapest block that would be enough, and for
//! everything only when no single block is.

use streams::StreamOrder;
use streams::order::{Point, StreamSlot};

use crate::allocator::Inner;
use crate::error::{AllocError, OutOfMemory, StreamUsage};
use crate::grow::GrowthError;
use crate::reuse::{Request, Step, Taken};
use crate::shard::{Shard, ShardState};
use crate::source::PoolKind;
use crate::sync::{Ordering, yield_now};
use crate::wait::{Need, Terms};

/// How many single blocks the host waits for before it waits for everything.
const HOST_WAITS_MAX: usize = 4;

/// How often a request looks again while another thread is giving memory back.
const LEAVING_LOOKS_MAX: usize = 4_096;

type Served = Option<(StreamSlot, Taken)>;

impl Inner {
    /// Climbs the ladder.
    #[cold]
    pub(crate) fn climb(
        &self,
        shard: &Shard,
        request: &Request<'_>,
    ) -> Result<(StreamSlot, Taken), AllocError> {
        self.counters.retries.fetch_add(1, Ordering::Relaxed);
        // Rung 1: the other pool's free memory, and what the device has finished meanwhile.
        if let Some(served) = self.search_everything(shard, request) {
            return Ok(served);
        }
        // Rung 2: a wait on the device, whatever the bound and the priorities say.
        if let Some(served) = self.serve_by_wait(request, Need::LastResort) {
            return Ok(served);
        }
        // Rung 3: cached memory goes back to make room for growth, then that of other pools.
        if let Some(served) = self.trim_and_grow(shard, request)? {
            return Ok(served);
        }
        if let Some(served) = self.trim_others_and_grow(shard, request, Self::learn_by_asking)? {
            return Ok(served);
        }
        // Rung 4: the host waits for the cheapest block that would be enough.
        for _ in 0..HOST_WAITS_MAX {
            let Some(candidate) = self.best_candidate(request, &Terms::default()) else { break };
            let unmet: Vec<Point> = candidate.unmet.iter().collect();
            if unmet.is_empty() || !self.wait_on_host(&unmet) {
                break;
            }
            if let Some(served) = self.search_everything(shard, request) {
                return Ok(served);
            }
        }
        // Rung 5: the host waits for everything that is pending, then as rungs 1 and 3; and then
        // for the other pools.
        if self.wait_on_host(&self.all_pending()) {
            if let Some(served) = self.search_everything(shard, request) {
                return Ok(served);
            }
            if let Some(served) = self.trim_and_grow(shard, request)? {
                return Ok(served);
            }
        }
        let wait_for_all = |pool: &Self| {
            pool.wait_on_host(&pool.all_pending());
        };
        if let Some(served) = self.trim_others_and_grow(shard, request, wait_for_all)? {
            return Ok(served);
        }
        // What allocators that have ended had left.
        if self.context.finish_leftovers().is_ok_and(|bytes| 0 < bytes)
            && let Some(served) = self.grow_at_last(shard, request)?
        {
            return Ok(served);
        }
        // Rung 6: what another thread is giving back is waited for.
        if let Some(served) = self.wait_for_leaving(shard, request)? {
            return Ok(served);
        }
        self.counters.out_of_memory.fetch_add(1, Ordering::Relaxed);
        Err(AllocError::OutOfMemory(Box::new(self.explain(request))))
    }

    /// Searches both pools after asking the device, where the policy allows that.
    fn search_everything(&self, shard: &Shard, request: &Request<'_>) -> Served {
        if self.config.policy.polls() {
            self.poll(request);
        }
        let other = match request.kind {
            PoolKind::Small => PoolKind::Large,
            PoolKind::Large => PoolKind::Small,
        };
        [request.kind, other].into_iter().find_map(|kind| {
            let request = Request { kind, ..*request };
            self.search(shard, &request)
        })
    }

    fn trim_and_grow(&self, shard: &Shard, request: &Request<'_>) -> Result<Served, AllocError> {
        // The driver's failure to take memory back is no reason to fail the request.
        let trimmed = self.trim(u64::MAX).unwrap_or(0);
        if trimmed == 0 {
            return Ok(None);
        }
        self.grow_at_last(shard, request)
    }

    /// As the rung before, with the memory of the allocator's other pools, once `learn` has learned
    /// what is complete there.
    fn trim_others_and_grow(
        &self,
        shard: &Shard,
        request: &Request<'_>,
        learn: impl Fn(&Self),
    ) -> Result<Served, AllocError> {
        if self.trim_others(learn) == 0 {
            return Ok(None);
        }
        self.grow_at_last(shard, request)
    }

    fn grow_at_last(&self, shard: &Shard, request: &Request<'_>) -> Result<Served, AllocError> {
        match self.serve_by_growth(shard, request, Step::Ladder) {
            Ok(taken) => Ok(Some((request.order.slot(), taken))),
            Err(GrowthError::NoRoom) => Ok(None),
            Err(GrowthError::Failed(error)) => Err(error),
        }
    }

    /// Pieces on their way back to the device are nobody's: while there are any, the request has
    /// not failed.
    fn wait_for_leaving(&self, shard: &Shard, request: &Request<'_>) -> Result<Served, AllocError> {
        for _ in 0..LEAVING_LOOKS_MAX {
            let was_leaving = self.is_giving_back();
            if let Some(served) = self.search_everything(shard, request) {
                return Ok(Some(served));
            }
            match self.serve_by_growth(shard, request, Step::Ladder) {
                Ok(taken) => return Ok(Some((request.order.slot(), taken))),
                Err(GrowthError::NoRoom) if was_leaving => self.let_others_run()?,
                Err(GrowthError::NoRoom) => return Ok(None),
                Err(GrowthError::Failed(error)) => return Err(error),
            }
        }
        Ok(None)
    }

    /// Gives the threads that are in the driver a turn: a driver call waits for its lock.
    fn let_others_run(&self) -> Result<(), AllocError> {
        yield_now();
        self.context.memory_info()?;
        Ok(())
    }

    /// Blocks the host until the points have passed, except those behind a gate of the host;
    /// false if nothing could be waited for.
    pub(crate) fn wait_on_host(&self, points: &[Point]) -> bool {
        let mut waited = false;
        if self.context.is_blocking_forbidden() {
            return waited;
        }
        let mut left = self.with_orders(points);
        // What is learned on the way may show that a gate has been passed.
        loop {
            // The host that waits for a gate may be the one that opens it later (R5).
            let is_held = |(order, point): &(StreamOrder, Point)| {
                order.is_known_gated() && !self.view.is_complete(order, *point)
            };
            let (held, open): (Vec<_>, Vec<_>) = left.into_iter().partition(is_held);
            if open.is_empty() {
                return waited;
            }
            waited |= self.synchronize_until(&open);
            left = held;
        }
    }

    /// The latest point of each stream that some free block waits for.
    pub(crate) fn all_pending(&self) -> Vec<Point> {
        let mut all = streams::order::Frontier::default();
        for (_, shard) in self.owning_shards() {
            shard.with(|state| state.add_requirements(&mut all));
        }
        all.iter().collect()
    }

    /// The figures of an out-of-memory error.
    fn explain(&self, request: &Request<'_>) -> OutOfMemory {
        let mut streams = Vec::new();
        let mut largest_free_bytes = 0;
        for (_, shard) in self.shards.iter() {
            let (usage, largest) = shard.with(|state| state.usage(request));
            streams.push(usage);
            largest_free_bytes = largest_free_bytes.max(largest);
        }
        streams.sort_by_key(|usage| std::cmp::Reverse(usage.allocated_bytes + usage.free_bytes));
        let order = Ordering::Relaxed;
        OutOfMemory {
            wanted_bytes: request.size,
            stream_id: request.order.id(),
            largest_free_bytes,
            reserved_bytes: self.counters.reserved.load(order),
            limit_bytes: self.reach(),
            other_pools_bytes: self.family.reserved().saturating_sub(self.reserved_bytes()),
            allocated_bytes: self.allocated_bytes(),
            pending_bytes: self.counters.pending.load(order),
            streams,
        }
    }
}

impl ShardState {
    /// Adds everything that free blocks of this shard wait for and that is not complete.
    fn add_requirements(&mut self, all: &mut streams::order::Frontier) {
        self.join_all_recent();
        for segment in self.segment_indices() {
            for block in self.blocks_of(segment) {
                let record = self.arena.at(block);
                if !record.state.is_free() {
                    continue;
                }
                for point in crate::carve::requirements(record) {
                    if !self.is_complete(point) {
                        all.insert(point);
                    }
                }
            }
        }
    }

    /// What this shard holds, and its largest free block that the request could use.
    fn usage(&mut self, request: &Request<'_>) -> (StreamUsage, u64) {
        self.join_all_recent();
        let mut usage = StreamUsage {
            stream_id: self.order.id(),
            allocated_bytes: 0,
            free_bytes: 0,
            pending_bytes: 0,
        };
        let mut largest = 0;
        for segment in self.segment_indices() {
            for block in self.blocks_of(segment) {
                let record = self.arena.at(block);
                match record.state {
                    crate::block::State::Allocated => usage.allocated_bytes += record.size,
                    crate::block::State::Ready => usage.free_bytes += record.size,
                    crate::block::State::Pending | crate::block::State::Held => {
                        usage.pending_bytes += record.size;
                    }
                    crate::block::State::Vacant
                    | crate::block::State::Recent
                    | crate::block::State::Unmapped
                    | crate::block::State::Reserved => {}
                }
                if record.state.is_free() && self.is_known(block, request) {
                    largest = largest.max(record.size);
                }
            }
        }
        (usage, largest)
    }
}
