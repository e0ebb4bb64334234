//! How much of a stream's memory may be pending, and what a request waits for above it.
//!
//! What may be waited for at no cost, because everybody who still uses it has enough to do behind
//! that use, is needed only when nothing else is left. But what lies idle in the cache, from times
//! when the device stood still or more was needed, is used up first, and everything that is used
//! meanwhile stays pending: then a program has as much memory active as is cached, whatever it
//! needs. So a stream has a *stock*, the most bytes that so many bursts have handed over as the
//! depth of its waits says. A request that finds more than that pending makes its stream wait for
//! the oldest of what costs nothing, about as much as requests take, and is then served as ever. No
//! memory is taken or given back for it.

use std::collections::VecDeque;

use smallvec::SmallVec;
use streams::StreamOrder;
use streams::order::{Frontier, Point};

use crate::allocator::Inner;
use crate::bursts::MARKS_MAX;
use crate::reuse::Request;
use crate::shard::{Shard, ShardState};

/// The most bursts that are summed up: nobody can wait deeper than marks of bursts are kept.
const BURSTS_MAX: usize = MARKS_MAX;

/// After so many bursts the greatest stock before them is forgotten.
const MEMORY_BURSTS: u32 = 512;

/// The bytes of the latest bursts of a stream, and the most that there were.
#[derive(Debug)]
pub(crate) struct Stock<End = Point> {
    depth: usize,
    /// The latest `depth` bursts, and their sum.
    bursts: VecDeque<u64>,
    sum: u64,
    /// Where the latest burst ended.
    last: SmallVec<[End; 2]>,
    most: u64,
    most_before: u64,
    count: u32,
    /// For how many bytes may be waited now, less than none after a block that was larger.
    credit: i64,
    /// Nothing could be waited for, and nothing was handed over since.
    is_in_vain: bool,
}

impl<End: Copy + PartialEq> Stock<End> {
    /// Nothing was handed over yet.
    fn new(depth: usize) -> Self {
        Self {
            depth,
            bursts: VecDeque::new(),
            sum: 0,
            last: SmallVec::new(),
            most: 0,
            most_before: 0,
            count: 0,
            credit: 0,
            is_in_vain: false,
        }
    }

    /// In bytes; no limit before anything was handed over.
    #[inline]
    pub(crate) fn bytes(&self) -> u64 {
        if self.depth == 0 { u64::MAX } else { self.most.max(self.most_before) }
    }

    /// A block of `bytes` was handed over whose uses end with `ends`, by a stream that waits so
    /// deep.
    pub(crate) fn add(&mut self, ends: &[End], bytes: u64, depth: usize) {
        if depth != self.depth {
            *self = Self::new(depth);
        }
        self.is_in_vain = false;
        let is_same = ends.iter().all(|end| self.last.contains(end));
        match self.bursts.back_mut().filter(|_| is_same) {
            Some(burst) => *burst += bytes,
            None => {
                self.bursts.push_back(bytes);
                self.last = ends.iter().copied().collect();
                self.count += 1;
            }
        }
        self.sum += bytes;
        if depth.min(BURSTS_MAX) < self.bursts.len() {
            self.sum -= self.bursts.pop_front().unwrap_or(0);
        }
        if MEMORY_BURSTS < self.count {
            (self.most_before, self.most, self.count) = (self.most, 0, 0);
        }
        self.most = self.most.max(self.sum);
    }

    /// A request of `bytes` finds more pending than the stock: whether it is to look for what may
    /// be waited for.
    #[inline]
    fn is_due(&mut self, bytes: u64) -> bool {
        let more = i64::try_from(bytes + bytes / 2).unwrap_or(i64::MAX);
        let most = i64::try_from(self.bytes()).unwrap_or(i64::MAX);
        self.credit = self.credit.saturating_add(more).min(most.max(more));
        !self.is_in_vain && 0 < self.credit
    }

    /// What may be waited for now, of so many bytes above the stock.
    fn wanted(&self, above: u64) -> u64 {
        if self.is_in_vain { 0 } else { above.min(u64::try_from(self.credit).unwrap_or(0)) }
    }

    /// So many bytes were waited for.
    fn note_wait(&mut self, bytes: u64) {
        self.credit = self.credit.saturating_sub(i64::try_from(bytes).unwrap_or(i64::MAX));
        self.is_in_vain = bytes == 0;
    }
}

impl<End: Copy + PartialEq> Default for Stock<End> {
    fn default() -> Self {
        Self::new(0)
    }
}

impl Inner {
    /// Where more of the stream's memory is pending than it needs in stock, makes the stream wait
    /// for what costs nothing, the oldest first.
    ///
    /// For somewhat more than its requests take, so that what has piled up behind a gate or a slow
    /// use grows less; not for all of it at once, since the others need time to work it off.
    pub(crate) fn keep_to_stock(&self, shard: &Shard, request: &Request<'_>) {
        let wanted = shard.with(|state| state.stock.wanted(state.bytes_above_stock()));
        if wanted == 0 {
            return;
        }
        let Some(latest) = self.free_frontier(request) else {
            return shard.with(|state| state.stock.note_wait(0));
        };
        let (unmet, bytes) = shard.with(|state| state.oldest_watched(wanted, &latest));
        let wait = || !unmet.is_empty() && self.wait_until_met(request, &unmet);
        let waits = wait() || (self.is_gate_passed(&unmet) && wait());
        shard.with(|state| {
            state.stock.note_wait(if waits { bytes } else { 0 });
            state.counters.stock_waits += u64::from(waits);
        });
    }

    /// Asks the gated ones of these streams how far they came, where the policy allows that; true
    /// if one of them is gated no more. Nobody else would ask before the cache is used up.
    fn is_gate_passed(&self, points: &Frontier) -> bool {
        let orders = points.iter().filter_map(|point| self.order_of(point.stream));
        let passes = |order: StreamOrder| {
            // A stream that cannot be asked stays as gated as it was.
            order.is_known_gated() && order.poll().is_ok() && !order.is_known_gated()
        };
        self.config.policy.polls() && orders.map(passes).fold(false, |any, passed| any | passed)
    }
}

impl ShardState {
    /// Whether a request of `bytes` is to look for what its stream may wait for before it is
    /// served.
    #[inline]
    pub(crate) fn is_to_keep_to_stock(&mut self, bytes: u64) -> bool {
        0 < self.bytes_above_stock() && self.stock.is_due(bytes)
    }

    /// How much more is pending than the stream needs in stock.
    #[inline]
    fn bytes_above_stock(&self) -> u64 {
        self.pending_free_bytes().saturating_sub(self.stock.bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::{BURSTS_MAX, MEMORY_BURSTS, Stock};

    /// Each burst is one block of so many bytes; the stock after each.
    fn stocks(stock: &mut Stock<u32>, bursts: &[(u32, u64)], depth: usize) -> Vec<u64> {
        let mut add = |&(end, bytes): &(u32, u64)| {
            stock.add(&[end], bytes, depth);
            stock.bytes()
        };
        bursts.iter().map(&mut add).collect()
    }

    #[test]
    fn nothing_is_too_much_before_something_was_handed_over() {
        assert_eq!(Stock::<u32>::default().bytes(), u64::MAX);
    }

    #[test]
    fn a_stock_is_the_most_that_so_many_bursts_took() {
        let bursts = [(1, 3), (2, 5), (3, 2), (4, 9), (5, 1), (6, 1)];
        assert_eq!(stocks(&mut Stock::default(), &bursts, 2), [3, 8, 8, 11, 11, 11]);
    }

    #[test]
    fn what_one_burst_hands_over_counts_together() {
        let bursts = [(1, 3), (1, 4), (2, 4)];
        assert_eq!(stocks(&mut Stock::default(), &bursts, 1), [3, 7, 7]);
    }

    /// Was: a depth of millions kept and added up as many bursts at each free.
    #[test]
    fn no_depth_keeps_more_bursts_than_anybody_could_wait_for() {
        let bursts: Vec<(u32, u64)> = (0..6_000).map(|end| (end, 1)).collect();
        let mut stock = Stock::default();
        let last = stocks(&mut stock, &bursts, usize::MAX).pop();
        assert_eq!((last, stock.bursts.len()), (Some(4_096), BURSTS_MAX));
    }

    #[test]
    fn another_depth_begins_anew() {
        let mut stock = Stock::default();
        assert_eq!(stocks(&mut stock, &[(1, 50)], 1), [50]);
        assert_eq!(stocks(&mut stock, &[(2, 3), (3, 4)], 2), [3, 7]);
    }

    /// Was thought of: where nobody may be waited for, each cached request would go the long way to
    /// find that out again.
    #[test]
    fn what_was_looked_for_in_vain_is_looked_for_again_after_the_next_burst_only() {
        let mut stock = Stock::default();
        stock.add(&[1], 100, 1);
        assert!(stock.is_due(10));
        stock.note_wait(0);
        assert!(!stock.is_due(10) && stock.wanted(1_000) == 0);
        stock.add(&[2], 100, 1);
        assert!(stock.is_due(10));
    }

    /// Was thought of: many small requests would have a stream wait for a large block each, and so
    /// for everything that a gate had held up.
    #[test]
    fn requests_wait_for_no_more_than_one_and_a_half_times_what_they_take() {
        let mut stock = Stock::default();
        stock.add(&[1], 100, 1);
        let mut waited = 0;
        for _ in 0..1_000 {
            if stock.is_due(10) {
                assert!(0 < stock.wanted(5_000));
                stock.note_wait(100);
                waited += 100;
            }
        }
        assert!((14_900..=15_100).contains(&waited), "{waited}");
    }

    /// Was thought of: one large buffer at the start of a program would keep its stock large for
    /// ever.
    #[test]
    fn a_burst_that_was_large_once_is_forgotten() {
        let mut bursts = vec![(0, 1_000)];
        bursts.extend((1..=2 * MEMORY_BURSTS + 2).map(|end| (end, 10)));
        assert_eq!(stocks(&mut Stock::default(), &bursts, 1).last(), Some(&10));
    }
}
