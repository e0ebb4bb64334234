//! What keeps an allocator alive: its handles, its blocks, and holds on them.
//!
//! Each shard counts who keeps its allocator through it, under its own lock, which a request and a
//! free take anyway. So a block costs no read-modify-write beyond its lock, and threads with a
//! stream each write no word in common.
//!
//! 1. A shard's keepers are the blocks of it that are handed out, except as numbers; the holds on
//!    its blocks; and one for all handles, as long as there are any. A shard is made for a request
//!    of a handle.
//! 2. While it has keepers the shard has a reference to its allocator. Whoever is the last to let
//!    go takes that reference out under the lock, and drops it without.
//! 3. Who has let go does not touch the shard again. A free that has more to do than one visit
//!    lets go at its end.
//! 4. So the allocator ends when the last of its shards has no keeper, on whatever thread. Only
//!    then are its shards emptied, and their seats taken by others (`seat`).

use crate::allocator::Inner;
use crate::shard::{Shard, ShardState};
use crate::sync::Arc;

impl ShardState {
    /// One more keeps the allocator.
    #[inline]
    pub(crate) fn keep(&mut self) {
        self.keeper_count += 1;
    }

    /// One less does. The last one gets what is to be dropped without the lock.
    #[inline]
    #[must_use = "the last reference is dropped without the lock"]
    pub(crate) fn let_go(&mut self) -> Option<Arc<Inner>> {
        self.keeper_count -= 1;
        if self.keeper_count == 0 { self.take_kept() } else { None }
    }

    #[cold]
    fn take_kept(&mut self) -> Option<Arc<Inner>> {
        self.kept.take()
    }

    /// The allocator, for who keeps it.
    pub(crate) fn kept(&self) -> &Arc<Inner> {
        self.kept.as_ref().expect("a shard with keepers has its allocator")
    }
}

impl Shard {
    /// The allocator, for who keeps it.
    #[cold]
    pub(crate) fn kept(&self) -> Arc<Inner> {
        self.with_uses(|state| Arc::clone(state.kept()))
    }

    /// One less keeps the allocator; the last one ends it.
    pub(crate) fn let_go(&self) {
        let last = self.with_uses(ShardState::let_go);
        drop(last);
    }
}

/// What the clones of one handle share.
#[derive(Debug)]
pub(crate) struct Handles {
    inner: Arc<Inner>,
}

impl Handles {
    /// The handles of an allocator that may have others.
    pub(crate) fn of(inner: &Arc<Inner>) -> Self {
        let mut group_count = inner.group_count.lock();
        if *group_count == 0 {
            for (_, shard) in inner.shards.iter() {
                shard.with_at_once(|state| {
                    state.keep();
                    state.kept.get_or_insert_with(|| Arc::clone(inner));
                });
            }
        }
        *group_count += 1;
        drop(group_count);
        Self { inner: Arc::clone(inner) }
    }

    /// Lets go of all shards, unless there are other handles; says whether there are none.
    fn end(&self) -> bool {
        let mut group_count = self.inner.group_count.lock();
        *group_count -= 1;
        let is_last = *group_count == 0;
        let let_go = |shard: &Shard| shard.with_at_once(ShardState::let_go);
        let shards = self.inner.shards.iter().filter(|_| is_last);
        let kept: Vec<_> = shards.filter_map(|(_, shard)| let_go(shard)).collect();
        drop(group_count);
        // None is the last: there is this one's.
        drop(kept);
        is_last
    }
}

impl Drop for Handles {
    fn drop(&mut self) {
        // A lock that another thread of the parent held is held for ever in its fork.
        if !self.inner.context.is_forked() && self.end() {
            self.inner.leave_if_unused();
        }
    }
}

#[cfg(all(test, not(loom)))]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that panics has failed")]
mod tests;
