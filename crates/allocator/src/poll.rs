//! Learning what the device has done, where no request asks for it.

use crate::allocator::{Allocator, Inner};
use crate::shard::ShardState;
use crate::sync::Ordering;

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
        self.inner.poll_and_sweep()
    }
}

impl Inner {
    fn poll_and_sweep(&self) -> u64 {
        if self.context.first_error().is_some() {
            return 0;
        }
        if self.config.policy.polls() {
            self.poll_all();
        }
        if self.counters.pending.load(Ordering::Relaxed) == 0 {
            return 0;
        }
        self.shards.iter().map(|(_, shard)| shard.with(ShardState::sweep_and_count)).sum()
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
