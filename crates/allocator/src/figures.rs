//! The figures of an allocator, added up over its shards.

use streams::Stream;

use crate::allocator::{Allocator, Inner};
use crate::stats::Stats;
use crate::sync::Ordering;

impl Allocator {
    /// The figures now. Visits every shard; not for the hot path. All zero in a fork of the
    /// allocator's process.
    #[must_use]
    pub fn stats(&self) -> Stats {
        if self.inner.context.is_forked() {
            return Stats::default();
        }
        let mut stats = self.inner.stats();
        stats.stranded_bytes = self.stranded().total_bytes();
        stats
    }

    /// How many bursts of work must lie behind a use for `stream` to wait for it, below the bound
    /// on pending memory ([`WaitDepth`](crate::WaitDepth)): what was learned, or what is set.
    /// `None` if it waits at the bound only, or never.
    #[must_use]
    pub fn wait_depth(&self, stream: &Stream) -> Option<u32> {
        if self.inner.context.is_forked() {
            return None;
        }
        let depth =
            self.inner.depth(stream.order()).filter(|_| self.inner.config.policy.waits())?;
        Some(u32::try_from(depth).unwrap_or(u32::MAX))
    }

    /// Starts all peaks again from the current values.
    pub fn reset_peaks(&self) {
        if !self.inner.context.is_forked() {
            self.inner.reset_peaks();
        }
    }
}

impl Inner {
    fn stats(&self) -> Stats {
        let order = Ordering::Relaxed;
        let shared = &self.counters;
        let mut stats = Stats::default();
        for (_, shard) in self.shards.iter() {
            shard.with(|state| state.add_to(&mut stats));
        }
        self.settle_all();
        stats.allocated_bytes.current = self.allocated_bytes();
        stats.pending_bytes.current = shared.pending.load(order);
        stats.pending_bytes.peak = shared.pending_peak.load(order);
        stats.active_bytes.current = stats.allocated_bytes.current + stats.pending_bytes.current;
        let peaks = self.peaks();
        // What is so now was added up beside other threads, and may be of more than one moment.
        stats.allocated_bytes.peak = peaks.allocated.max(stats.allocated_bytes.current);
        stats.active_bytes.peak = peaks.active.max(stats.active_bytes.current);
        stats.reserved_bytes.current = shared.reserved.load(order);
        stats.reserved_bytes.peak = shared.reserved_peak.load(order);
        stats.num_device_alloc = shared.device_alloc.load(order);
        stats.num_device_free = shared.device_free.load(order);
        stats.num_alloc_retries = shared.retries.load(order);
        stats.num_ooms = shared.out_of_memory.load(order);
        stats.host_throttle_total = shared.host_throttles.load(order);
        stats.device_throttle_total = shared.device_throttles.load(order);
        stats.bound_passed_total = shared.bounds_passed.load(order);
        stats.drop_errors = shared.drop_errors.load(order);
        stats
    }
}
