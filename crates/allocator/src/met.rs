//! Which stream an allocator takes a slot for: the latest that it has met there.
//!
//! A slot is given to a new stream once its old one is retired and complete, while this allocator
//! still holds the old one. Blocks and uses name slots, so what is asked of a slot must be asked of
//! the stream that had it last: only its position covers what was queued there.

use streams::StreamOrder;
use streams::order::StreamSlot;

use crate::allocator::Inner;
use crate::shard::ShardState;
use crate::stock::Stock;

/// Whether `order` had the slot after `known` had it.
fn is_later(order: &StreamOrder, known: &StreamOrder) -> bool {
    // Two streams never have one slot at one time, and marks go on from one to the next. With
    // equal marks the later one has nothing queued, and either answers for both.
    let both_ended = known.is_retired() && order.is_retired();
    order.id() != known.id()
        && known.is_retired()
        && (!both_ended || known.position() < order.position())
}

impl Inner {
    /// A new stream has come into a recycled slot: the shard's cache is its own from now on. No if
    /// it is an earlier stream that asks: what is freed must not get the position of that.
    #[cold]
    pub(crate) fn adopt(&self, state: &mut ShardState, order: &StreamOrder) -> bool {
        let is_adopted = state.adopt(order);
        if is_adopted {
            self.meet(order);
        }
        is_adopted
    }

    /// Remembers a stream, so that its points lead back to it; not an earlier one in the place of
    /// one that had its slot later.
    pub(crate) fn meet(&self, order: &StreamOrder) {
        let mut orders = self.orders.lock();
        let known = orders.get(&order.slot());
        if known.is_none_or(|known| is_later(order, known)) {
            orders.insert(order.slot(), order.clone());
        }
    }

    /// The stream in a slot, if this allocator has met it.
    pub(crate) fn order_of(&self, slot: StreamSlot) -> Option<StreamOrder> {
        self.orders.lock().get(&slot).cloned()
    }
}

impl ShardState {
    /// The same for a stream that is met beside it.
    #[cold]
    pub(crate) fn adopt(&mut self, order: &StreamOrder) -> bool {
        if !is_later(order, &self.order) {
            return false;
        }
        self.order = order.clone();
        self.stream_id = order.id();
        self.stock = Stock::default();
        self.regulars.forget_known();
        true
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, reason = "a test that panics has failed")]
mod tests {
    use cuda_sim::{Machine, Schedule};
    use streams::{Context, Driver, Error, Point, Stream, StreamOptions};

    use crate::device_bytes::uncounted;
    use crate::{AllocError, Allocator, Config};

    const BYTES: u64 = 2 << 20;

    /// The machine goes last: its place among the machines is taken by another one at once.
    struct Rig {
        context: Context,
        machine: Machine,
    }

    impl Rig {
        fn new() -> Self {
            let machine = Machine::builder().schedule(Schedule::Lazy).build();
            let driver = Driver::from_table(machine.table()).unwrap();
            Self { context: driver.device(0).unwrap().primary_context().unwrap(), machine }
        }

        fn allocator(&self) -> Allocator {
            Allocator::new(&self.context, Config::default()).unwrap()
        }

        fn stream(&self) -> Stream {
            self.context.create_stream(StreamOptions::default()).unwrap()
        }

        /// A stream in the slot of `old`, which is complete.
        fn next_after(&self, old: &Stream) -> Stream {
            old.retire();
            let next = self.stream();
            assert_eq!(next.order().slot(), old.order().slot());
            next
        }

        /// Memory at `address`, handed out for `stream`, is ordered after `used`.
        fn assert_ordered(
            &self,
            stream: &Stream,
            allocator: &Allocator,
            address: u64,
            used: Point,
        ) {
            let block = allocator.allocate(stream, BYTES).unwrap();
            assert!(block.address() != address || stream.order().knows(used));
            stream.fill_bytes(&block, 0, BYTES, 2).unwrap();
            drop(block);
            self.context.synchronize().unwrap();
            assert_eq!(self.machine.hazards(), []);
        }
    }

    #[test]
    fn o12_a_block_of_a_dead_stream_waits_for_the_next_stream_in_its_slot() {
        let rig = Rig::new();
        let (old, other, allocator) = (rig.stream(), rig.stream(), rig.allocator());
        let block = allocator.allocate(&old, BYTES).unwrap();
        let next = rig.next_after(&old);
        let used = next.fill_bytes(&block, 0, BYTES, 1).unwrap().point();
        let address = block.address();
        drop(block);
        rig.assert_ordered(&other, &allocator, address, used);
    }

    #[test]
    fn o12_a_use_by_the_next_stream_in_a_slot_is_not_filed_under_the_dead_one() {
        let rig = Rig::new();
        let (home, old, allocator) = (rig.stream(), rig.stream(), rig.allocator());
        let block = allocator.allocate(&home, BYTES).unwrap();
        let address = block.address();
        block.record_stream(&old);
        let next = rig.next_after(&old);
        let used = next.fill_bytes(&uncounted(&block), 0, BYTES, 1).unwrap().point();
        block.record_stream(&next);
        drop(block);
        rig.assert_ordered(&home, &allocator, address, used);
    }

    #[test]
    fn o12_a_dead_stream_gets_nothing_from_the_next_one_in_its_slot() {
        let rig = Rig::new();
        let (old, other, allocator) = (rig.stream(), rig.stream(), rig.allocator());
        drop(allocator.allocate(&old, BYTES).unwrap());
        let next = rig.next_after(&old);
        let block = allocator.allocate(&next, BYTES).unwrap();
        let refused = allocator.allocate(&old, BYTES).unwrap_err();
        assert_eq!(refused, AllocError::Driver(Error::StreamGone { stream: old.id() }));
        block.record_stream(&old);
        let used = next.fill_bytes(&block, 0, BYTES, 1).unwrap().point();
        let address = block.address();
        drop(block);
        rig.assert_ordered(&other, &allocator, address, used);
    }
}
