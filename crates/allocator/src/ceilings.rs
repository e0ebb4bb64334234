//! Keeps the peaks exact without a word that every request writes.
//!
//! A shard has a ceiling for each of its [`Levels`], and the ceilings of all shards add up to the
//! peak: as long as no level is above its ceiling, no peak is passed.
//! - Ceilings, like levels, change under the shard's lock only. A request compares the two under
//!   the lock that it holds anyway.
//! - A request that is above a ceiling takes from the other shards what lies between theirs and
//!   their levels, one shard at a time, until it has enough. What nobody has raises the peak. One
//!   thread at a time does so (`Inner::settling`), and no other place moves a ceiling; so the sum
//!   holds whenever that lock is free.
//! - A shard gives no less than half of what it could, so that two shards that are never high
//!   together do not ask each other at every request.
//!
//! The peaks are exact as long as one thread at a time uses the allocator. With more they are
//! never below what was handed out at any one moment, where a request counts from its return; and
//! above the most by no more than what others freed while a request looked for its share.

use crate::allocator::Inner;
use crate::shard::{Shard, ShardState};
use crate::sync::Ordering;
use crate::table::place;

/// What a shard has of that which has a peak, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Levels {
    /// Handed out.
    pub(crate) allocated: u64,
    /// Handed out or pending.
    pub(crate) active: u64,
}

impl Levels {
    fn with(self, other: Self, each: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            allocated: each(self.allocated, other.allocated),
            active: each(self.active, other.active),
        }
    }

    fn plus(self, other: Self) -> Self {
        self.with(other, |own, other| own + other)
    }

    /// How far it is above `other`.
    fn above(self, other: Self) -> Self {
        self.with(other, u64::saturating_sub)
    }

    fn is_none(self) -> bool {
        self == Self::default()
    }
}

impl ShardState {
    /// Bytes of this shard become pending.
    pub(crate) fn pend(&mut self, bytes: u64) {
        self.shared.pend(bytes);
        self.pending += bytes;
        self.see_ceilings();
    }

    /// Bytes of this shard stop being pending.
    pub(crate) fn unpend(&mut self, bytes: u64) {
        self.shared.unpend(bytes);
        self.pending -= bytes;
        self.see_ceilings();
    }

    /// Whether what was just handed out is above a ceiling.
    #[inline]
    pub(crate) fn is_above_ceiling(&self) -> bool {
        self.allocated_max < self.allocated
    }

    fn levels(&self) -> Levels {
        Levels { allocated: self.allocated, active: self.allocated + self.pending }
    }

    /// How far the levels are above their ceilings.
    pub(crate) fn lack(&self) -> Levels {
        self.levels().above(self.ceilings)
    }

    fn set_ceilings(&mut self, ceilings: Levels) {
        self.ceilings = ceilings;
        self.see_ceilings();
    }

    /// Says in one figure how much may be handed out, so that a request has one to compare.
    fn see_ceilings(&mut self) {
        let beside_pending = self.ceilings.active.saturating_sub(self.pending);
        self.allocated_max = self.ceilings.allocated.min(beside_pending);
    }

    /// Lowers the ceilings for a shard that lacks so much; gives by how much.
    fn give(&mut self, lack: Levels) -> Levels {
        let can_give = self.ceilings.above(self.levels());
        let given =
            can_give.with(lack, |can, lack| if lack == 0 { 0 } else { can.min(lack.max(can / 2)) });
        self.set_ceilings(self.ceilings.above(given));
        given
    }
}

impl Inner {
    /// Raises the ceilings of a shard to its levels, and the peaks if need be.
    #[cold]
    pub(crate) fn settle(&self, wanting: &Shard) {
        let _one_at_a_time = self.settling.lock();
        let (slot, lack) = wanting.with_at_once(|state| (state.slot, state.lack()));
        let own = place(slot);
        // Everybody begins behind itself, so that not all ask the same one first.
        let behind = self.owning_shards().filter(|(index, _)| own < *index);
        let before = self.owning_shards().filter(|(index, _)| *index < own);
        let mut got = Levels::default();
        for (_, shard) in behind.chain(before) {
            let rest = lack.above(got);
            if rest.is_none() {
                break;
            }
            got = got.plus(shard.with_at_once(|state| state.give(rest)));
        }
        let rest = lack.above(got);
        if !rest.is_none() {
            self.counters.raise_peaks(rest);
        }
        wanting.with_at_once(|state| state.set_ceilings(state.ceilings.plus(got).plus(rest)));
    }

    /// Settles every shard that is above a ceiling without a request of its own: what was free may
    /// have joined what is pending.
    pub(crate) fn settle_all(&self) {
        for (_, shard) in self.shards.iter() {
            if !shard.with_uses(|state| state.lack()).is_none() {
                self.settle(shard);
            }
        }
    }

    /// Starts the peaks again from what is handed out and pending now.
    pub(crate) fn reset_peaks(&self) {
        let _one_at_a_time = self.settling.lock();
        let mut sum = Levels::default();
        for (_, shard) in self.shards.iter() {
            let levels = shard.with_at_once(|state| {
                state.set_ceilings(state.levels());
                state.levels()
            });
            sum = sum.plus(levels);
        }
        self.counters.reset_peaks(sum);
    }

    /// The peaks now.
    pub(crate) fn peaks(&self) -> Levels {
        let order = Ordering::Relaxed;
        let allocated = self.counters.allocated_peak.load(order);
        Levels { allocated, active: self.counters.active_peak.load(order) }
    }
}
