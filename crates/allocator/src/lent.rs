//! Which streams have blocks of another stream's shard, so that nobody follows them there.
//!
//! A block names its home by a slot. When a stream has ended, the slot goes to a new one, and what
//! it still had handed out then ends where the new one is: later than it must, and as the slots
//! are, which are what earlier streams of the process have left. Under a policy that goes by the
//! calls alone the slot is kept until the last of these blocks is freed (R9). Slots whose streams
//! own memory are kept for as long as the allocator lives (`owners`).

use std::collections::BTreeMap;

use streams::StreamOrder;
use streams::order::{SlotKeeper, StreamSlot};

use crate::shard::ShardState;

/// The blocks of one shard that other streams have, where their slots are kept.
#[derive(Debug, Default)]
pub(crate) struct Lent {
    by_slot: BTreeMap<StreamSlot, (u64, SlotKeeper)>,
}

impl ShardState {
    /// A block is handed out for `order`, or moves there.
    #[inline]
    pub(crate) fn lend(&mut self, order: &StreamOrder) {
        if !self.view.inherits() && order.slot() != self.slot {
            let lent = self.lent.by_slot.entry(order.slot());
            lent.or_insert_with(|| (0, order.keep_slot())).0 += 1;
        }
    }

    /// A block whose home was this slot is freed, or moves elsewhere.
    #[inline]
    pub(crate) fn return_lent(&mut self, home: StreamSlot) {
        if let Some((count, _)) = self.lent.by_slot.get_mut(&home) {
            *count -= 1;
            if *count == 0 {
                self.lent.by_slot.remove(&home);
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
#[allow(clippy::unwrap_used, reason = "a test that panics has failed")]
mod tests {
    use cuda_sim::{Machine, Schedule};
    use streams::{Context, Driver, Stream, StreamOptions, StreamSlot};

    use crate::{Allocator, Config, Policy};

    const BYTES: u64 = 2 << 20;

    fn stream(context: &Context) -> Stream {
        context.create_stream(StreamOptions::default()).unwrap()
    }

    /// Ends a stream, and gives the slots of two that are made then.
    fn followers(context: &Context, old: &Stream) -> [StreamSlot; 2] {
        context.synchronize().unwrap();
        old.retire();
        context.synchronize().unwrap();
        let next = [stream(context), stream(context)];
        next.map(|next| next.order().slot())
    }

    /// Was: a new stream inherited the memory of whoever had had its slot, and so of one stream or
    /// another as earlier streams of the process had left the slots.
    #[test]
    fn r9_nobody_inherits_memory_by_its_slot_under_deterministic() {
        for policy in [Policy::Deterministic, Policy::Default] {
            let machine = Machine::builder().schedule(Schedule::Eager).build();
            let driver = Driver::from_table(machine.table()).unwrap();
            let context = driver.device(0).unwrap().primary_context().unwrap();
            let allocator =
                Allocator::new(&context, Config::default().with_policy(policy)).unwrap();
            let owner = stream(&context);
            let block = allocator.allocate(&owner, BYTES).unwrap();
            let address = block.address();
            drop(block);
            let slot = owner.order().slot();
            let may_follow = policy == Policy::Default;
            assert_eq!(followers(&context, &owner).contains(&slot), may_follow, "{policy:?}");
            let block = allocator.allocate(&stream(&context), BYTES).unwrap();
            assert_eq!(block.address(), address, "it is everybody's");
            drop((block, allocator));
            let others = [(); 4].map(|()| stream(&context));
            let is_free = others.iter().any(|other| other.order().slot() == slot);
            assert!(is_free, "the slot is kept as long as the allocator lives");
        }
    }

    /// Was: a block that a stream still had when it ended was freed behind all that the next one in
    /// its slot had been given.
    #[test]
    fn r9_nobody_follows_a_stream_that_still_has_a_block_under_deterministic() {
        let machine = Machine::builder().schedule(Schedule::Eager).build();
        let driver = Driver::from_table(machine.table()).unwrap();
        let context = driver.device(0).unwrap().primary_context().unwrap();
        let config = Config::default().with_policy(Policy::Deterministic);
        let allocator = Allocator::new(&context, config).unwrap();
        let [owner, borrower, third] = [(); 3].map(|()| stream(&context));
        drop(allocator.allocate(&owner, BYTES).unwrap());
        context.synchronize().unwrap();
        let mut block = allocator.allocate(&borrower, BYTES).unwrap();
        assert_eq!(allocator.stats().segment_count, 1, "it is the owner's memory");
        let slot = borrower.order().slot();
        assert!(!followers(&context, &borrower).contains(&slot));
        block.move_to(&third).unwrap();
        assert!(followers(&context, &stream(&context)).contains(&slot), "nothing is there");
        let slot = third.order().slot();
        assert!(!followers(&context, &third).contains(&slot));
        drop(block);
        context.synchronize().unwrap();
        let others = [(); 6].map(|()| stream(&context));
        assert!(others.iter().any(|other| other.order().slot() == slot));
    }
}
