//! Learning what the device has done: by asking it, or by waiting for it.

use streams::StreamOrder;
use streams::order::StreamSlot;

use crate::allocator::{Allocator, Inner};
use crate::reuse::Request;
use crate::shard::ShardState;
use crate::sync::Ordering;
use crate::table::place;

impl Allocator {
    /// Learns how far the device came, for idle phases: freed memory that waited for other streams
    /// becomes free where these are done, and the cache of streams that have ended becomes
    /// everyone's. Returns the bytes that were pending and are free now.
    ///
    /// Waits for nothing. At most one question for each stream is answered "not yet"; no driver
    /// call is made for a stream without news, so that a call in a loop costs next to nothing.
    /// Under [`Policy::Deterministic`](crate::Policy::Deterministic) nothing is asked: what the
    /// program's own calls taught is taken in, and nothing else. On a context that has failed
    /// nothing becomes free (L4).
    pub fn poll(&self) -> u64 {
        self.inner.family.reap();
        self.inner.poll_and_sweep()
    }
}

impl Inner {
    fn poll_and_sweep(&self) -> u64 {
        if self.context.first_error().is_some() {
            return 0;
        }
        self.learn_by_asking();
        if self.counters.pending.load(Ordering::Relaxed) == 0 {
            return 0;
        }
        self.owning_shards().map(|(_, shard)| shard.with(ShardState::sweep_and_count)).sum()
    }

    /// Asks the device how far the streams came whose free blocks could serve the request; false
    /// if there was nobody to ask.
    pub(crate) fn poll(&self, request: &Request<'_>) -> bool {
        let crosses = self.config.policy.crosses_streams();
        let own = request.order.slot();
        let mut slots: Vec<StreamSlot> = Vec::new();
        let others = self.owning_shards().filter(|(index, shard)| {
            *index != place(own) && crosses && request.size <= shard.free_bytes_hint()
        });
        for (_, shard) in others {
            shard.with(|state| {
                slots.extend(state.limbo.streams());
                slots.push(state.order.slot());
            });
        }
        if let Some(shard) = self.shards.get(own) {
            shard.with(|state| {
                slots.extend(state.limbo.streams());
                if request.complete_only {
                    slots.push(state.order.slot());
                }
            });
        }
        slots.sort_unstable();
        slots.dedup();
        let orders: Vec<StreamOrder> =
            slots.into_iter().filter_map(|slot| self.order_of(slot)).collect();
        for order in &orders {
            // A stream that cannot be asked stays as unknown as it was.
            let _unanswered = order.poll();
        }
        !orders.is_empty()
    }

    /// Asks the device how far every stream came.
    pub(crate) fn poll_all(&self) {
        let orders: Vec<StreamOrder> = self.orders.lock().values().cloned().collect();
        for order in orders {
            let _unanswered = order.poll();
        }
    }

    /// Blocks the host until every cached block is complete.
    pub(crate) fn synchronize_pending(&self) {
        if self.context.is_blocking_forbidden() {
            return;
        }
        for point in self.all_pending() {
            if let Some(order) = self.order_of(point.stream) {
                // What cannot be waited for stays pending, and is not given back.
                let _still_pending = self.view.synchronize_point(&order, point);
            }
        }
        for (_, shard) in self.owning_shards() {
            shard.with(|state| state.sweep());
        }
    }

    /// Asks the device about every stream, where the policy allows that.
    pub(crate) fn learn_by_asking(&self) {
        if self.config.policy.polls() {
            self.poll_all();
        }
    }
}

impl ShardState {
    /// Makes ready what has become known; says how many bytes that were.
    fn sweep_and_count(&mut self) -> u64 {
        let before = self.pending_free_bytes();
        self.sweep();
        before - self.pending_free_bytes()
    }

    /// Bytes that are free but for uses on other streams.
    pub(crate) fn pending_free_bytes(&self) -> u64 {
        self.small.pending.bytes + self.large.pending.bytes
    }
}
