//! The pools of one allocator: what they share, and what becomes of a pool that nobody has any
//! more.
//!
//! Each pool has shards, segments, figures and settings of its own; they share the device's
//! context, the source, and one limit over all of them. The family keeps every private pool until
//! its memory has gone back, so that a pool that is dropped while the device still uses its memory
//! needs nobody to wait: what is complete goes back when the next one grows, trims or polls.

use std::fmt;

use crate::allocator::Inner;
use crate::config::Policy;
use crate::sync::{Arc, AtomicU64, Mutex, OnceLock, Ordering, Weak};

/// What the pools of one allocator share.
pub(crate) struct Family {
    /// Bytes that all of them hold of the device.
    reserved: AtomicU64,
    /// The most that all of them may hold.
    limit: AtomicU64,
    /// The allocator's own pool, which the family does not keep.
    first: OnceLock<Weak<Inner>>,
    /// The private pools; `None` once the allocator itself is gone.
    private: Mutex<Option<Vec<Arc<Inner>>>>,
}

impl Family {
    pub(crate) fn new(limit: u64) -> Self {
        Self {
            reserved: AtomicU64::new(0),
            limit: AtomicU64::new(limit),
            first: OnceLock::new(),
            private: Mutex::new(Some(Vec::new())),
        }
    }

    /// Names the allocator's own pool.
    pub(crate) fn set_first(&self, first: &Arc<Inner>) {
        // There is one, and it is named once.
        let _named = self.first.set(Arc::downgrade(first));
    }

    /// Keeps a private pool. One that is made when the allocator is gone keeps itself.
    pub(crate) fn add(&self, pool: &Arc<Inner>) {
        if let Some(private) = &mut *self.private.lock() {
            private.push(Arc::clone(pool));
        }
    }

    /// The most bytes that all pools together may hold.
    pub(crate) fn limit(&self) -> u64 {
        self.limit.load(Ordering::Relaxed)
    }

    pub(crate) fn set_limit(&self, bytes: u64) {
        self.limit.store(bytes, Ordering::Relaxed);
    }

    /// Bytes that all pools together hold.
    pub(crate) fn reserved(&self) -> u64 {
        self.reserved.load(Ordering::Relaxed)
    }

    /// Takes `bytes` of what all may hold; false if there is no room.
    pub(crate) fn reserve(&self, bytes: u64) -> bool {
        let limit = self.limit();
        let fits = |reserved: u64| reserved.checked_add(bytes).filter(|after| *after <= limit);
        let order = Ordering::Relaxed;
        self.reserved.fetch_update(order, order, fits).is_ok()
    }

    /// Gives back what was taken.
    pub(crate) fn unreserve(&self, bytes: u64) {
        self.reserved.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Every private pool.
    pub(crate) fn private(&self) -> Vec<Arc<Inner>> {
        self.private.lock().iter().flatten().map(Arc::clone).collect()
    }

    /// Every pool but `me`.
    pub(crate) fn others(&self, me: &Inner) -> Vec<Arc<Inner>> {
        let first = self.first.get().and_then(Weak::upgrade);
        let all = self.private().into_iter().chain(first);
        all.filter(|pool| pool.identity() != me.identity()).collect()
    }

    /// Gives back the complete memory of pools that nobody has any more, and lets those go that
    /// have none left. Waits for nothing.
    pub(crate) fn reap(&self) {
        self.reap_with(Inner::learn_by_asking);
    }

    /// The same after waiting for their memory to be complete.
    pub(crate) fn reap_and_wait(&self) {
        self.reap_with(Inner::synchronize_pending);
    }

    /// The pools stay where others find them meanwhile: who runs out of memory waits for them.
    fn reap_with(&self, learn: impl Fn(&Inner)) {
        let abandoned = self.abandoned();
        for pool in &abandoned {
            learn(pool);
            if pool.trim(u64::MAX).is_err() {
                pool.count_drop_error();
            }
        }
        if !abandoned.is_empty() {
            // Without the lock: what goes has nothing left, and makes no call.
            drop(self.take_empty(&abandoned));
        }
    }

    /// The pools that only the family has: no handle and no block can come back.
    fn abandoned(&self) -> Vec<Arc<Inner>> {
        let private = self.private.lock();
        let only_here = private.iter().flatten().filter(|pool| Arc::strong_count(pool) == 1);
        only_here.map(Arc::clone).collect()
    }

    /// Takes out those of `abandoned` that have no memory left, and that nobody else has in hand.
    fn take_empty(&self, abandoned: &[Arc<Inner>]) -> Vec<Arc<Inner>> {
        let mut private = self.private.lock();
        let Some(private) = &mut *private else { return Vec::new() };
        let goes = |pool: &mut Arc<Inner>| {
            let is_one = abandoned.iter().any(|one| Arc::ptr_eq(one, pool));
            // What is left is in use, or was not taken back by the driver.
            is_one && Arc::strong_count(pool) == 2 && pool.reserved_bytes() == 0
        };
        private.extract_if(.., goes).collect()
    }

    /// Runs `work` while the list of pools is locked.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn with_lock<R>(&self, work: impl FnOnce() -> R) -> R {
        let _locked = self.private.lock();
        work()
    }

    /// Lets go of all private pools: the allocator is gone, and they keep themselves.
    pub(crate) fn close(&self) {
        let gone = self.private.lock().take();
        // Without the lock: a pool that nobody has waits for its streams here.
        drop(gone);
    }
}

impl fmt::Debug for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not the pools: each has the family.
        f.debug_struct("Family")
            .field("reserved", &self.reserved())
            .field("limit", &self.limit())
            .finish_non_exhaustive()
    }
}

impl Inner {
    /// Takes `bytes` of the pool's own budget and of the family's; false if there is no room.
    pub(crate) fn reserve_memory(&self, bytes: u64) -> bool {
        if !self.family.reserve(bytes) {
            return false;
        }
        let fits = self.counters.reserve(bytes, self.limit());
        if !fits {
            self.family.unreserve(bytes);
        }
        fits
    }

    /// Gives back what [`Inner::reserve_memory`] took.
    pub(crate) fn unreserve_memory(&self, bytes: u64) {
        self.counters.unreserve(bytes);
        self.family.unreserve(bytes);
    }

    /// Whether `bytes` more would fit now.
    pub(crate) fn has_room_for(&self, bytes: u64) -> bool {
        let fits =
            |reserved: u64, limit| reserved.checked_add(bytes).is_some_and(|after| after <= limit);
        fits(self.reserved_bytes(), self.limit())
            && fits(self.family.reserved(), self.family.limit())
    }

    /// Bytes of device memory that this pool holds.
    pub(crate) fn reserved_bytes(&self) -> u64 {
        self.counters.reserved.load(Ordering::Relaxed)
    }

    /// The most bytes that could ever be reserved for this pool.
    pub(crate) fn reach(&self) -> u64 {
        self.limit().min(self.family.limit())
    }

    /// Whether some thread is giving memory of this pool, or of another one, back to the device.
    pub(crate) fn is_giving_back(&self) -> bool {
        let gives = |pool: &Self| 0 < pool.counters.leaving.load(Ordering::Relaxed);
        gives(self) || self.family.others(self).iter().any(|pool| gives(pool))
    }

    /// Gives back complete cached memory of the other pools; returns the bytes that went. A pool
    /// that decides from its own calls alone is left as it is (R9).
    pub(crate) fn trim_others(&self, learn: impl Fn(&Self)) -> u64 {
        let others = self.family.others(self);
        let open = others.iter().filter(|pool| pool.config.policy != Policy::Deterministic);
        open.map(|pool| {
            learn(pool);
            // The driver's failure to take memory back is no reason to fail the request.
            pool.trim(u64::MAX).unwrap_or(0)
        })
        .sum()
    }
}
