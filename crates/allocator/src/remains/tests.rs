//! Memory that cannot go back when its allocator ends goes back later, and is counted until then.

use cuda_sim::{FaultPlan, Machine, Schedule};
use cuda_sys::CUresult;
use streams::{Context, Driver, Stream, StreamOptions};

use crate::sync::{Arc, Mutex};
use crate::{AllocError, Allocator, Block, Config};

const BYTES: u64 = 2 << 20;

/// The machine goes last: its place among the machines is taken by another one at once.
struct Rig {
    streams: [Stream; 2],
    context: Context,
    driver: Driver,
    machine: Machine,
}

impl Rig {
    fn new() -> Self {
        Self::on(Schedule::Lazy)
    }

    fn on(schedule: Schedule) -> Self {
        let machine = Machine::builder().schedule(schedule).refusals(1000).build();
        let driver = Driver::from_table(machine.table()).unwrap();
        let context = driver.device(0).unwrap().primary_context().unwrap();
        let streams = [0, 1].map(|_| context.create_stream(StreamOptions::default()).unwrap());
        Self { streams, context, driver, machine }
    }

    fn allocator(&self) -> Allocator {
        Allocator::new(&self.context, Config::default()).unwrap()
    }

    /// The last block of an allocator, which the first stream uses.
    fn last_block(&self) -> Block {
        let block = self.allocator().allocate(&self.streams[0], BYTES).unwrap();
        self.streams[0].fill_bytes(&block, 0, BYTES, 1).unwrap();
        block
    }

    /// Has an allocator end in a host function on the second stream, which runs, while the first
    /// one still has its work to do.
    fn end_in_a_host_function(&self) {
        let block = self.last_block();
        self.streams[1].launch_host_function(move || drop(block)).unwrap();
        self.streams[1].synchronize().unwrap();
    }

    /// Has the device do all its work, as nobody here has seen yet: another library waits for it.
    fn work_unseen(&self) {
        let theirs = Driver::from_table(self.machine.table()).unwrap();
        theirs.device(0).unwrap().primary_context().unwrap().synchronize().unwrap();
    }

    fn assert_gone(&self) {
        assert_eq!(self.machine.used_bytes(), 0);
        assert_eq!(self.context.leftover_bytes(), 0);
        assert_eq!(self.context.silent_errors(), 0);
        assert_eq!(self.machine.hazards(), []);
    }

    fn assert_left(&self) {
        assert_eq!(self.machine.used_bytes(), BYTES);
        assert_eq!(self.context.leftover_bytes(), BYTES, "nobody is left to tell but the context");
    }
}

#[test]
fn l3_an_allocator_that_ends_in_a_host_function_gives_its_memory_back_later() {
    let rig = Rig::new();
    let block = rig.last_block();
    rig.streams[1].launch_host_function(move || drop(block)).unwrap();
    rig.context.synchronize().unwrap();
    rig.assert_gone();
}

#[test]
fn l3_no_driver_call_is_made_where_an_allocator_ends_in_a_host_function() {
    let rig = Rig::new();
    let block = rig.last_block();
    let context = rig.context.clone();
    let answer = Arc::new(Mutex::new(None));
    let told = Arc::clone(&answer);
    let ended = move || {
        let before = context.driver_calls();
        drop(block);
        *told.lock() = Some((context.driver_calls() - before, context.leftover_bytes()));
    };
    rig.streams[1].launch_host_function(ended).unwrap();
    rig.context.synchronize().unwrap();
    assert_eq!(*answer.lock(), Some((0, BYTES)));
    rig.assert_gone();
}

type Comer = (&'static str, fn(&Rig));

/// Whoever may call the driver next, once the work is done.
const COMERS: [Comer; 8] = [
    ("the context is synchronized", |rig| rig.context.synchronize().unwrap()),
    ("a stream is synchronized", |rig| rig.streams[0].synchronize().unwrap()),
    ("a stream is made", |rig| drop(rig.context.create_stream(StreamOptions::default()).unwrap())),
    ("the device is asked for its memory", |rig| {
        rig.context.memory_info().unwrap();
    }),
    ("an allocator is made", |rig| drop(rig.allocator())),
    ("an allocator grows", |rig| drop(rig.allocator().allocate(&rig.streams[1], 1).unwrap())),
    ("an allocator polls", |rig| {
        rig.allocator().poll();
    }),
    ("the context is asked", |rig| {
        rig.context.settle_leftovers();
    }),
];

#[test]
fn what_ended_in_a_host_function_goes_with_whoever_comes_by_next() {
    for (name, comes_by) in COMERS {
        let rig = Rig::new();
        rig.end_in_a_host_function();
        rig.assert_left();
        rig.work_unseen();
        comes_by(&rig);
        assert_eq!(rig.machine.used_bytes(), 0, "{name}");
        rig.assert_gone();
    }
}

/// The negative control: memory that the device may still use does not go, whoever comes by.
#[test]
fn r8_what_an_ended_allocator_left_stays_while_the_device_may_use_it() {
    let rig = Rig::new();
    rig.end_in_a_host_function();
    let other = rig.allocator();
    for _ in 0..3 {
        rig.context.memory_info().unwrap();
        assert_eq!(other.poll(), 0);
        assert_eq!(rig.context.settle_leftovers(), 0);
        rig.assert_left();
    }
    rig.streams[0].synchronize().unwrap();
    rig.assert_gone();
}

/// Was: between its last submission and its last fence a stream that another thread was retiring
/// could not be waited for, and what it had used was never given back.
#[test]
fn an_allocator_that_ends_while_a_stream_is_retired_waits_for_its_last_fence() {
    for seed in 0..100 {
        let rig = Rig::on(Schedule::Seeded(seed));
        let block = rig.last_block();
        let (retire, end) = (|| rig.streams[0].retire(), move || drop(block));
        rig.machine.run_threads(vec![Box::new(retire), Box::new(end)]);
        assert_eq!(rig.machine.used_bytes(), 0, "seed {seed}");
        rig.assert_gone();
    }
}

#[test]
fn what_cannot_be_waited_for_when_an_allocator_ends_goes_back_later() {
    let rig = Rig::new();
    let block = rig.last_block();
    let guard = rig.driver.forbid_blocking();
    drop(block);
    rig.assert_left();
    rig.work_unseen();
    assert_eq!(rig.context.settle_leftovers(), 0, "no memory may be given back now");
    rig.assert_left();
    drop(guard);
    assert_eq!(rig.context.settle_leftovers(), BYTES);
    rig.assert_gone();
}

/// Was: nobody was told of memory that the driver kept when it was given back later.
#[test]
fn what_the_driver_does_not_take_back_later_is_counted() {
    for call in ["cuMemUnmap", "cuMemRelease"] {
        let rig = Rig::new();
        rig.end_in_a_host_function();
        rig.machine.fail(FaultPlan::next(call, CUresult::CUDA_ERROR_INVALID_VALUE));
        rig.context.synchronize().unwrap();
        assert_eq!(rig.context.leftover_bytes(), 0);
        let lost = u64::from(call == "cuMemRelease");
        assert_eq!(rig.machine.used_bytes(), lost * BYTES, "{call}");
        assert_eq!(rig.context.silent_errors(), lost, "{call}");
    }
}

#[test]
fn the_last_of_a_context_waits_for_what_was_left_to_it() {
    let rig = Rig::new();
    rig.end_in_a_host_function();
    let Rig { streams, context, driver, machine } = rig;
    drop((streams, driver, context));
    assert_eq!(machine.used_bytes(), 0);
    assert_eq!(machine.hazards(), []);
}

#[test]
fn the_last_of_a_context_gives_back_what_was_behind_a_gate_that_is_passed() {
    let rig = Rig::new();
    rig.streams[0].launch_host_function(|| ()).unwrap();
    drop(rig.last_block());
    rig.assert_left();
    rig.work_unseen();
    let Rig { streams, context, driver, machine } = rig;
    drop((streams, driver, context));
    assert_eq!(machine.used_bytes(), 0);
    assert_eq!(machine.hazards(), []);
}

#[test]
fn a_context_that_goes_in_a_host_function_gives_its_memory_back_with_the_driver() {
    let rig = Rig::new();
    let block = rig.last_block();
    rig.streams[1].launch_host_function(move || drop(block)).unwrap();
    // The block is what keeps the context now.
    let Rig { streams, context, driver, machine } = rig;
    drop((streams, context));
    let theirs = Driver::from_table(machine.table()).unwrap();
    theirs.device(0).unwrap().primary_context().unwrap().synchronize().unwrap();
    drop(theirs);
    assert_eq!(machine.used_bytes(), BYTES, "nobody may call the driver there");
    drop(driver);
    assert_eq!(machine.used_bytes(), 0);
    assert_eq!(machine.hazards(), []);
}

#[test]
fn a_pool_whose_last_handle_goes_in_a_host_function_keeps_its_memory_until_later() {
    let rig = Rig::new();
    let allocator = rig.allocator();
    let pool = allocator.create_pool(Config::default());
    drop(pool.allocate(&rig.streams[0], BYTES).unwrap());
    rig.streams[1].launch_host_function(move || drop(pool)).unwrap();
    rig.streams[1].synchronize().unwrap();
    assert_eq!(rig.machine.used_bytes(), BYTES);
    allocator.poll();
    assert_eq!(rig.machine.used_bytes(), 0);
    rig.assert_gone();
}

#[test]
fn a_trim_in_a_host_function_is_refused_and_loses_nothing() {
    let rig = Rig::new();
    let allocator = rig.allocator();
    drop(allocator.allocate(&rig.streams[0], BYTES).unwrap());
    let theirs = allocator.clone();
    let answer = Arc::new(Mutex::new(None));
    let told = Arc::clone(&answer);
    let trims = move || *told.lock() = Some([theirs.trim(u64::MAX), theirs.empty_cache()]);
    rig.streams[1].launch_host_function(trims).unwrap();
    rig.context.synchronize().unwrap();
    let refused = AllocError::Driver(streams::Error::InsideHostFunction);
    assert_eq!(*answer.lock(), Some([Err(refused.clone()), Err(refused)]));
    assert_eq!(allocator.empty_cache(), Ok(BYTES));
    rig.assert_gone();
}

#[test]
fn a_request_that_finds_no_room_takes_what_an_ended_allocator_left() {
    let rig = Rig::new();
    rig.machine.set_capacity(BYTES);
    rig.end_in_a_host_function();
    let other = rig.allocator();
    let block = other.allocate(&rig.streams[1], BYTES).unwrap();
    assert_eq!(rig.context.leftover_bytes(), 0);
    drop((block, other));
    rig.assert_gone();
}

#[test]
fn what_is_handed_out_as_numbers_when_its_allocator_ends_is_counted_for_good() {
    let rig = Rig::new();
    let _numbers = rig.allocator().allocate_raw(&rig.streams[0], BYTES).unwrap();
    rig.context.synchronize().unwrap();
    rig.assert_left();
}
