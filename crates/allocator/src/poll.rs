//! Learning what the device has done: by asking it, or by waiting for it.

use streams::order::{Point, StreamSlot};
use streams::{Fence, StreamOrder};

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
        if self.inner.context.is_forked() {
            return 0;
        }
        self.inner.reap();
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
        // What cannot be waited for stays pending, and is not given back.
        self.synchronize_until(&self.with_orders(&self.all_pending()));
        for (_, shard) in self.owning_shards() {
            shard.with(|state| state.sweep());
        }
    }

    /// Blocks the host until every cached block is complete, except behind a gate of the host.
    pub(crate) fn wait_for_open(&self) {
        if self.context.is_blocking_forbidden() {
            return;
        }
        let pending = self.all_pending();
        for (order, _) in self.with_orders(&pending) {
            // A gate that has been passed holds nobody; nobody may have asked.
            if order.is_known_gated() {
                let _unanswered = order.poll();
            }
        }
        self.wait_on_host(&pending);
        for (_, shard) in self.owning_shards() {
            shard.with(|state| state.sweep());
        }
    }

    /// Blocks the host until these points have passed; false if nothing could be waited for.
    ///
    /// All fences are there before the first is waited for, in the order of slots: a fence teaches
    /// what its stream had waited for, and what was then not recorded any more would follow from
    /// which slots the streams have (R9).
    pub(crate) fn synchronize_until(&self, points: &[(StreamOrder, Point)]) -> bool {
        let until = |(order, point): &(StreamOrder, Point)| self.view.fence_until(order, *point);
        let fences: Vec<_> = points.iter().filter_map(|point| until(point).ok()).collect();
        let is_over = |fence: &Option<Fence>| {
            fence.as_ref().is_none_or(|fence| self.view.synchronize(fence).is_ok())
        };
        fences.iter().map(is_over).fold(false, |any, is_over| any | is_over)
    }

    /// The points, each with its stream.
    pub(crate) fn with_orders(&self, points: &[Point]) -> Vec<(StreamOrder, Point)> {
        points.iter().filter_map(|point| Some((self.order_of(point.stream)?, *point))).collect()
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

#[cfg(all(test, not(loom)))]
#[allow(clippy::unwrap_used, reason = "a test that panics has failed")]
mod tests {
    use cuda_sim::{Machine, Schedule};
    use streams::{Driver, StreamOptions};

    use crate::device_bytes::uncounted;
    use crate::{Allocator, Config, Policy};

    const BYTES: u64 = 2 << 20;

    /// Was: the stream with the lowest slot was synchronized first, and what that taught of the
    /// others was not waited for again: more was settled, or less, as the slots were.
    #[test]
    fn r9_what_emptying_the_cache_settles_does_not_depend_on_which_slots_the_streams_have() {
        let machine = Machine::builder().schedule(Schedule::Lazy).build();
        let driver = Driver::from_table(machine.table()).unwrap();
        let context = driver.device(0).unwrap().primary_context().unwrap();
        let stream = || context.create_stream(StreamOptions::default()).unwrap();
        let [low, high] = [stream(), stream()];
        for [home, user] in [[&low, &high], [&high, &low]] {
            let config = Config::default().with_policy(Policy::Deterministic);
            let allocator = Allocator::new(&context, config).unwrap();
            let [block, other] = [0, 1].map(|_| allocator.allocate(home, BYTES).unwrap());
            drop(home.fill_bytes(&block, 0, BYTES, 1).unwrap());
            // An event of the program's: it is no fence that is found later.
            user.wait_event(&home.record_event().unwrap()).unwrap();
            drop(user.fill_bytes(&uncounted(&block), 0, BYTES, 2).unwrap());
            block.record_stream(user);
            drop(block);
            let last = home.fill_bytes(&other, 0, BYTES, 1).unwrap().point();
            allocator.empty_cache().unwrap();
            assert!(home.order().is_settled(last), "all that was queued is waited for");
            assert!(user.order().is_settled(user.order().position()));
        }
    }
}
