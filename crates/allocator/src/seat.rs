//! Where shards lie: in memory that outlives their allocator, and then serves another one.
//!
//! A block names its shard, and is counted there under the lock that a request and a free take
//! anyway (`keeper`). A reference of its own, with a count to write, is what it can do without, if
//! the shard is sure to be there. So the memory of a shard is never given back to the host: an
//! allocator that ends empties its shards and leaves their seats, and the next shard takes one of
//! those. There are never more seats than there were shards at one time.
//!
//! A forked child makes seats of its own and leaves none: a lock that another thread of the parent
//! held is held there for ever.

use std::ops::Deref;

use crossbeam_utils::CachePadded;
use streams::StreamOrder;

use crate::shard::{Shard, ShardSetup, ShardState};
use crate::sync::{Mutex, OnceLock};

/// A shard by its memory. In cache lines of its own: another thread's stream is another shard.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seat(&'static CachePadded<Shard>);

/// Seats that nobody has.
#[derive(Debug, Default)]
struct Vacant {
    seats: Mutex<Vec<Seat>>,
}

impl Seat {
    /// A shard for the stream.
    pub(crate) fn take(order: &StreamOrder, setup: &ShardSetup) -> Self {
        Vacant::of_this_process().take(order, setup)
    }

    /// Empties the shard of an allocator that has ended: nobody has its seat any more.
    pub(crate) fn leave(self) {
        Vacant::of_this_process().leave(self);
    }
}

impl Deref for Seat {
    type Target = Shard;

    #[inline]
    fn deref(&self) -> &Shard {
        self.0
    }
}

impl Vacant {
    fn of_this_process() -> &'static Self {
        static VACANT: OnceLock<Vacant> = OnceLock::new();
        VACANT.get_or_init(Self::default)
    }

    fn take(&self, order: &StreamOrder, setup: &ShardSetup) -> Seat {
        let generation = setup.context.generation();
        // What loom made belongs to one run of a model.
        let may_be_used = !cfg!(loom) && !generation.is_fork();
        let vacant = if may_be_used { self.seats.lock().pop() } else { None };
        let make = || Seat(Box::leak(Box::new(CachePadded::new(Shard::vacant(generation)))));
        let seat = vacant.unwrap_or_else(make);
        seat.fill(ShardState::new(order.clone(), setup));
        seat
    }

    fn leave(&self, seat: Seat) {
        if seat.is_forked() {
            return;
        }
        // Without the shard's lock: the last to go of a stream gives back its events.
        drop(seat.empty());
        if !cfg!(loom) && !seat.generation().is_fork() {
            self.seats.lock().push(seat);
        }
    }
}

#[cfg(all(test, not(loom)))]
#[allow(clippy::unwrap_used, reason = "a test that panics has failed")]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use cuda_sim::Machine;
    use streams::{Driver, StreamOptions};

    use super::{Seat, Vacant};
    use crate::{Allocator, Config};

    fn address(seat: Seat) -> usize {
        std::ptr::from_ref(&*seat).addr()
    }

    #[test]
    fn a_seat_that_was_left_is_taken_again() {
        let machine = Machine::builder().build();
        let driver = Driver::from_table(machine.table()).unwrap();
        let context = driver.device(0).unwrap().primary_context().unwrap();
        let stream = context.create_stream(StreamOptions::default()).unwrap();
        let allocator = Allocator::new(&context, Config::default()).unwrap();
        let (vacant, order, setup) = (Vacant::default(), stream.order(), &allocator.inner.setup);
        let [first, second] = [0, 1].map(|_| vacant.take(order, setup));
        first.with(|state| state.freed_count = 7);
        vacant.leave(first);
        let touched = AssertUnwindSafe(|| first.with(|state| state.freed_count));
        assert!(catch_unwind(touched).is_err(), "whoever has let go finds nothing");
        let third = vacant.take(order, setup);
        assert_eq!(address(third), address(first));
        assert_eq!(third.with(|state| state.freed_count), 0, "nothing is left of who was there");
        for _ in 0..3 {
            [second, third].into_iter().for_each(|seat| vacant.leave(seat));
            let again = [0, 1].map(|_| address(vacant.take(order, setup)));
            assert_eq!(again, [third, second].map(address));
        }
        assert!(vacant.seats.lock().is_empty());
    }
}
