//! Bounds on memory in flight: at which figure, and who is held up there.
//!
//! A free that takes a stream's memory, or a pool's, above its bound holds somebody up until the
//! oldest of it is done: the host, which then queues no more work, or on the device the stream
//! whose memory it is. So what is pending passes the figure by one block at most. Nobody waits for
//! a stream that is gated, or may be (R5): the host that waited might be the one to open the gate
//! later. Then the program goes on above the bound, and the statistics count it.

use smallvec::SmallVec;
use streams::order::{Frontier, Point, StreamSlot};
use streams::{Fence, StreamOrder, in_host_function};

use crate::allocator::Inner;
use crate::block::BlockIndex;
use crate::carve::requirements;
use crate::shard::{Shard, ShardState};
use crate::sync::Ordering;

/// How often somebody is held up for one free or request before it goes on.
const ROUNDS_MAX: usize = 4;

/// Who is held up at a bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Throttle {
    /// The thread that frees or asks: it **blocks** until enough has come free. This is the one
    /// case in which a drop of a block blocks.
    Host,
    /// The stream whose memory it is: it waits on the device, and the host goes on. Where the
    /// policy forbids such waits ([`Policy::PyTorch`](crate::Policy::PyTorch)) nobody is held up.
    Device,
}

/// What a bound counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum BoundCounts {
    /// Memory that was freed but is still in use by other streams. What a hold keeps is not
    /// counted: nobody could wait for it.
    #[default]
    Pending,
    /// The same and what is handed out. A request then makes room before it is served; what the
    /// program itself holds is its own affair, and only pending memory is waited for.
    InFlight,
}

/// A figure above which somebody is held up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Bound {
    /// In bytes. It is passed by at most one block.
    pub bytes: u64,
    /// What is counted.
    pub counts: BoundCounts,
    /// Who is held up.
    pub throttle: Throttle,
}

impl Bound {
    /// At `bytes` of pending memory the host is held up.
    #[must_use]
    pub const fn on_host(bytes: u64) -> Self {
        Self { bytes, counts: BoundCounts::Pending, throttle: Throttle::Host }
    }

    /// At `bytes` of pending memory the stream whose memory it is waits on the device.
    #[must_use]
    pub const fn on_device(bytes: u64) -> Self {
        Self { bytes, counts: BoundCounts::Pending, throttle: Throttle::Device }
    }

    /// The same bound on pending memory and memory handed out together.
    #[must_use]
    pub const fn with_allocated(mut self) -> Self {
        self.counts = BoundCounts::InFlight;
        self
    }
}

/// Whose memory a bound is about.
#[derive(Debug, Clone, Copy)]
enum Scope<'inner> {
    Stream(&'inner Shard),
    Pool,
}

/// What is waited for, and by whom.
#[derive(Debug)]
struct Wanted {
    owner: StreamOrder,
    points: Frontier,
}

impl Inner {
    /// Holds somebody up while a bound is passed that a free of `owner`'s memory may have passed.
    #[inline]
    pub(crate) fn keep_bounds(&self, owner: &Shard) {
        if self.config.stream_bound.is_some() || self.config.pool_bound.is_some() {
            self.keep_each_bound(owner, 0);
        }
    }

    /// The same before `more` bytes are handed out of it.
    pub(crate) fn make_room_in_bounds(&self, owner: &Shard, more: u64) {
        if self.config.bounds_allocated() {
            self.keep_each_bound(owner, more);
        }
    }

    #[cold]
    fn keep_each_bound(&self, owner: &Shard, more: u64) {
        if let Some(bound) = self.config.stream_bound {
            self.keep_bound(bound, Scope::Stream(owner), more);
        }
        if let Some(bound) = self.config.pool_bound {
            self.keep_bound(bound, Scope::Pool, more);
        }
    }

    fn keep_bound(&self, bound: Bound, scope: Scope<'_>, more: u64) {
        for _ in 0..ROUNDS_MAX {
            let (pending, allocated) = self.in_flight(scope);
            let counted = match bound.counts {
                BoundCounts::Pending => pending,
                BoundCounts::InFlight => pending + allocated + more,
            };
            if counted <= bound.bytes {
                return;
            }
            let wanted = self.oldest_pending(scope, counted - bound.bytes, bound.throttle);
            let held_up = wanted.iter().filter(|wanted| self.hold_up(wanted, bound.throttle));
            if held_up.count() == 0 {
                break;
            }
            self.sweep_in(scope);
        }
        let (pending, allocated) = self.in_flight(scope);
        let still = match bound.counts {
            BoundCounts::Pending => bound.bytes < pending,
            // What the program holds cannot be waited for.
            BoundCounts::InFlight => 0 < pending && bound.bytes < pending + allocated + more,
        };
        if still {
            self.counters.bounds_passed.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Bytes that are pending, and bytes that are handed out.
    fn in_flight(&self, scope: Scope<'_>) -> (u64, u64) {
        let of_shard =
            |shard: &Shard| shard.with(|state| (state.pending_free_bytes(), state.allocated));
        match scope {
            Scope::Stream(shard) => of_shard(shard),
            Scope::Pool => {
                let all = self.owning_shards().map(|(_, shard)| of_shard(shard));
                all.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
            }
        }
    }

    fn sweep_in(&self, scope: Scope<'_>) {
        match scope {
            Scope::Stream(shard) => shard.with(ShardState::sweep),
            Scope::Pool => {
                self.owning_shards().for_each(|(_, shard)| shard.with(ShardState::sweep))
            }
        }
    }

    /// What must be waited for so that at least `over` bytes come free, the oldest first; of a pool
    /// the streams with the most pending memory first, of equal ones whoever owned memory first.
    fn oldest_pending(&self, scope: Scope<'_>, over: u64, throttle: Throttle) -> Vec<Wanted> {
        let mut shards: Vec<(u64, &Shard)> = match scope {
            Scope::Stream(shard) => vec![(over, shard)],
            Scope::Pool => self
                .owning_shards()
                .map(|(_, shard)| (shard.with(|state| state.pending_free_bytes()), shard))
                .collect(),
        };
        shards.sort_by_key(|(pending, _)| std::cmp::Reverse(*pending));
        let mut wanted = Vec::new();
        let mut left = over;
        for (_, shard) in shards {
            if left == 0 {
                break;
            }
            let (owner, oldest) = shard.with(|state| (state.order.clone(), state.pending_by_age()));
            let mut points = Frontier::default();
            for (size, unmet) in oldest {
                if left == 0 {
                    break;
                }
                let can = |point: Point| self.may_hold_up(&owner, point, throttle);
                if unmet.iter().all(can) {
                    unmet.iter().for_each(|point| points.insert(point));
                    left = left.saturating_sub(size);
                }
            }
            if !points.is_empty() {
                wanted.push(Wanted { owner, points });
            }
        }
        wanted
    }

    /// Whether `point` may be waited for (R5).
    fn may_hold_up(&self, owner: &StreamOrder, point: Point, throttle: Throttle) -> bool {
        let Some(order) = self.order_of(point.stream) else { return false };
        if self.view.is_complete(&order, point) {
            return true;
        }
        match throttle {
            Throttle::Host => {
                let is_allowed = !self.context.is_blocking_forbidden() && !in_host_function();
                is_allowed && !order.is_gated()
            }
            Throttle::Device => {
                // The driver counts downwards: a lower priority is a greater number.
                let is_lower = owner.priority() < order.priority();
                let allowed = self.config.policy.waits() && owner.may_wait();
                allowed && order.may_be_waited_on() && !is_lower
            }
        }
    }

    /// Waits; false if that did not work out.
    fn hold_up(&self, wanted: &Wanted, throttle: Throttle) -> bool {
        let fences: SmallVec<[Option<Fence>; 4]> = wanted
            .points
            .iter()
            .filter(|point| !self.view.is_complete(&wanted.owner, *point))
            .map(|point| self.fence_no_later(point, throttle))
            .collect();
        let total = match throttle {
            Throttle::Host => &self.counters.host_throttles,
            Throttle::Device => &self.counters.device_throttles,
        };
        let held_up = fences.iter().flatten().filter(|fence| {
            let waited = match throttle {
                Throttle::Host => self.view.synchronize(fence),
                Throttle::Device => self.view.wait_fence(&wanted.owner, fence),
            };
            waited.is_ok()
        });
        let count = held_up.count();
        if 0 < count {
            total.fetch_add(1, Ordering::Relaxed);
        }
        0 < count
    }

    /// A fence that covers `point`; for a wait on the device nothing beyond the free (O6).
    fn fence_no_later(&self, point: Point, throttle: Throttle) -> Option<Fence> {
        let order = self.order_of(point.stream)?;
        let exact = self.exact_fence(&order, point);
        match throttle {
            Throttle::Host => exact.or_else(|| self.view.fence_covering(&order, point)),
            Throttle::Device => exact,
        }
    }
}

impl ShardState {
    /// What is pending, the oldest free first: sizes, with what each waits for.
    fn pending_by_age(&self) -> Vec<(u64, Frontier)> {
        let all = [&self.small, &self.large].into_iter().flat_map(|pool| {
            let fitting = pool.pending.fitting(&self.arena, 0);
            fitting.collect::<Vec<BlockIndex>>()
        });
        let mut aged: Vec<(u64, BlockIndex)> =
            all.map(|block| (self.arena.at(block).freed_at, block)).collect();
        aged.sort_unstable();
        let unmet = |block: BlockIndex| {
            let record = self.arena.at(block);
            let unmet = requirements(record).filter(|point| self.must_wait_for(*point)).collect();
            (record.size, unmet)
        };
        aged.into_iter().map(|(_, block)| unmet(block)).collect()
    }

    fn must_wait_for(&self, point: Point) -> bool {
        let own: StreamSlot = self.slot;
        point.stream != own && !self.knows(point)
    }
}

#[cfg(all(test, not(loom)))]
#[allow(clippy::unwrap_used, reason = "a test that panics has failed")]
mod tests {
    use cuda_sim::{Machine, Schedule};
    use streams::{Driver, StreamOptions};

    use super::{Scope, Throttle};
    use crate::{Allocator, Config};

    const BYTES: u64 = 2 << 20;

    /// Was: of streams with equally much pending memory the one with the lowest slot was held up,
    /// and slots are what earlier streams of the process have left.
    #[test]
    fn r9_who_is_held_up_in_a_pool_does_not_depend_on_which_slots_the_streams_have() {
        let machine = Machine::builder().schedule(Schedule::Lazy).build();
        let driver = Driver::from_table(machine.table()).unwrap();
        let context = driver.device(0).unwrap().primary_context().unwrap();
        let stream = || context.create_stream(StreamOptions::default()).unwrap();
        let [low, high, user] = [stream(), stream(), stream()];
        for [first, second] in [[&low, &high], [&high, &low]] {
            let allocator = Allocator::new(&context, Config::default()).unwrap();
            for home in [first, second] {
                let block = allocator.allocate(home, BYTES).unwrap();
                user.wait_stream(home).unwrap();
                let _running = user.fill_bytes(&block, 0, BYTES, 1).unwrap();
                block.record_stream(&user);
            }
            let wanted = allocator.inner.oldest_pending(Scope::Pool, BYTES, Throttle::Host);
            let owners: Vec<_> = wanted.iter().map(|wanted| wanted.owner.id()).collect();
            assert_eq!(owners, [first.order().id()]);
        }
    }
}
