//! The streams that use a shard's blocks again and again, each known by one bit.
//!
//! Most blocks that another stream uses are used by one that used the block before, too, and most
//! frees find that all of it is ordered, as it was a moment ago. So a shard keeps the few streams
//! that were named to it last by `record_stream`. A block says with one bit that one of them uses
//! it until its free, instead of keeping a list; and how far a regular is known to come before the
//! shard's own stream is remembered, so that the next free is one comparison when nothing was
//! queued there meanwhile.
//!
//! Invariants: a regular keeps its place as long as a block has its bit. A block has either bits
//! or a list of uses, never both. What was known once stays known: clocks lose settled points
//! only, and the next stream in a slot begins after all that the one before did or waited for.

use streams::StreamOrder;
use streams::order::StreamSlot;

use crate::block::{BlockIndex, BlockRecord, UseRecord};
use crate::config::Sabotage;
use crate::shard::ShardState;
use crate::view::View;

/// How many regulars a shard has at most: the bits of a [`RegularSet`].
const REGULARS_MAX: usize = 8;

/// Which regulars of the shard use a block, each until the block's free.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct RegularSet(u8);

impl RegularSet {
    pub(crate) const EMPTY: Self = Self(0);

    #[inline]
    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The place of the only bit; `None` if there are several.
    #[inline]
    fn only(self) -> Option<usize> {
        if self.0.is_power_of_two() { usize::try_from(self.0.trailing_zeros()).ok() } else { None }
    }

    /// The places whose bits are set, the lowest first.
    fn places(self) -> impl Iterator<Item = usize> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            let place = usize::try_from(rest.trailing_zeros()).ok()?;
            rest &= rest.checked_sub(1)?;
            Some(place)
        })
    }
}

/// A stream that was named before.
#[derive(Debug)]
struct Regular {
    order: StreamOrder,
    /// Blocks that have its bit.
    block_count: u32,
    /// Up to here it is known to come before the next operation of the shard's own stream.
    known_mark: u64,
}

impl Regular {
    /// Whether everything queued here until now is known to come before the next operation of
    /// `order`, the stream of the shard.
    #[inline]
    fn is_known(&mut self, order: &StreamOrder, view: View) -> bool {
        let point = self.order.settled_position();
        if self.known_mark < point.mark {
            if !view.knows(order, point) {
                return false;
            }
            self.known_mark = point.mark;
        }
        true
    }
}

/// The regulars of one shard.
#[derive(Debug, Default)]
pub(crate) struct Regulars {
    places: [Option<Regular>; REGULARS_MAX],
    /// Where the next search for a place begins.
    next: usize,
}

impl Regulars {
    /// Adds a stream to those that use a block until its free, if it is a regular; and says so.
    #[inline]
    pub(crate) fn join(&mut self, order: &StreamOrder, set: &mut RegularSet) -> bool {
        let mut bit = 1;
        for place in &mut self.places {
            if let Some(regular) = place
                && regular.order.is_same(order)
            {
                if set.0 & bit == 0 {
                    set.0 |= bit;
                    regular.block_count += 1;
                }
                return true;
            }
            bit <<= 1;
        }
        false
    }

    /// Makes a stream a regular, in the place of one that no block needs; no if there is none.
    /// Who had the place leaves, to be let go of without the shard's lock: the last to go of a
    /// stream gives back its events.
    fn admit(&mut self, order: &StreamOrder, leaving: &mut Option<StreamOrder>) -> bool {
        let round = (self.next..REGULARS_MAX).chain(0..self.next);
        let mut free = round.filter(|index| {
            let place = self.places.get(*index).and_then(Option::as_ref);
            place.is_none_or(|regular| regular.block_count == 0)
        });
        let Some(index) = free.next() else { return false };
        self.next = (index + 1) % REGULARS_MAX;
        let admitted = Regular { order: order.clone(), block_count: 0, known_mark: 0 };
        let Some(place) = self.places.get_mut(index) else { return false };
        *leaving = place.replace(admitted).map(|regular| regular.order);
        true
    }

    /// Ends the uses of a block that has these bits, if everything queued until now on each of
    /// them is known to come before the next operation of the shard's own stream `order`. No driver
    /// call; no read-modify-write either where that was known at the free before this one.
    #[inline(never)]
    pub(crate) fn end(&mut self, set: &mut RegularSet, order: &StreamOrder, view: View) -> bool {
        let Some(only) = set.only() else { return self.end_several(set, order, view) };
        let Some(Some(regular)) = self.places.get_mut(only) else { return false };
        let is_known = regular.is_known(order, view);
        if is_known {
            regular.block_count -= 1;
            *set = RegularSet::EMPTY;
        }
        is_known
    }

    #[cold]
    fn end_several(&mut self, set: &mut RegularSet, order: &StreamOrder, view: View) -> bool {
        let are_known = set.places().all(|place| {
            let regular = self.places.get_mut(place).and_then(Option::as_mut);
            regular.is_some_and(|regular| regular.is_known(order, view))
        });
        if are_known {
            self.leave(std::mem::take(set));
        }
        are_known
    }

    /// A block gives up its bits.
    pub(crate) fn leave(&mut self, set: RegularSet) {
        for place in set.places() {
            if let Some(Some(regular)) = self.places.get_mut(place) {
                regular.block_count -= 1;
            }
        }
    }

    /// The streams whose bits are set.
    pub(crate) fn streams(&self, set: RegularSet) -> impl Iterator<Item = &StreamOrder> {
        set.places().filter_map(|place| Some(&self.places.get(place)?.as_ref()?.order))
    }

    /// What the bits say, as uses of a list.
    pub(crate) fn as_uses(&self, set: RegularSet) -> impl Iterator<Item = UseRecord> {
        self.streams(set)
            .map(|order| UseRecord { whole_stream: true, ..UseRecord::new(order.clone()) })
    }

    /// Another stream has the shard from now on: what was known of the one before is forgotten.
    pub(crate) fn forget_known(&mut self) {
        self.places.iter_mut().flatten().for_each(|regular| regular.known_mark = 0);
    }
}

impl BlockRecord {
    /// Whether a use of `order` may be one bit.
    #[inline]
    fn takes_bit_of(&self, order: &StreamOrder) -> bool {
        self.home != order.slot() && self.is_home_only()
    }
}

impl ShardState {
    /// Says that `order` uses the whole of an allocated block until its free, if that takes one
    /// bit: the stream is a regular and not the home, and the block has no list of uses.
    #[inline]
    pub(crate) fn note_regular(&mut self, block: BlockIndex, order: &StreamOrder) -> bool {
        let record = self.arena.at_mut(block);
        record.takes_bit_of(order) && self.regulars.join(order, &mut record.regulars)
    }

    /// The same for a stream that is to be a regular if there is room; it may take the place of one
    /// that is `leaving`.
    pub(crate) fn admit_regular(
        &mut self,
        block: BlockIndex,
        order: &StreamOrder,
        leaving: &mut Option<StreamOrder>,
    ) -> bool {
        // Without regulars every use is in a list, where the check can be left out.
        !self.is_sabotaged(Sabotage::IgnoreUses)
            && self.arena.at(block).takes_bit_of(order)
            // Another thread may have admitted it meanwhile.
            && (self.note_regular(block, order)
                || (self.regulars.admit(order, leaving) && self.note_regular(block, order)))
    }

    /// Turns the bits of a block into a list of uses, to be added to or taken away.
    pub(crate) fn list_uses(&mut self, block: BlockIndex) {
        let record = self.arena.at_mut(block);
        let set = std::mem::take(&mut record.regulars);
        if set.is_empty() {
            return;
        }
        record.uses_mut(&mut self.spare).extend(self.regulars.as_uses(set));
        self.regulars.leave(set);
    }

    /// The streams that were said to use a block since it was handed out.
    pub(crate) fn used_by(&self, record: &BlockRecord) -> Vec<StreamSlot> {
        let listed = record.uses().iter().map(|used| &used.order);
        listed.chain(self.regulars.streams(record.regulars)).map(StreamOrder::slot).collect()
    }
}

#[cfg(test)]
mod tests;
