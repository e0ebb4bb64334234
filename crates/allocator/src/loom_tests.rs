//! Models of what two threads share: the whole allocator, over the simulated driver.
//!
//! Run with `RUSTFLAGS="--cfg loom" cargo test -p allocator --lib --release loom`. The locks and
//! atomics of `streams` and of this crate are loom's, so two threads are interleaved at each of
//! them, with at most so many switches away from a thread that could go on. The driver is one
//! step, as its own lock makes it. Each model ends with every figure computed again from what is
//! there, and each is shown to find a lock that is not taken.

#![expect(clippy::print_stdout, reason = "a model says how many interleavings there were")]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use cuda_sim::{DeviceProfile, Machine, Schedule};
use loom::model::Builder;
use loom::thread;
use streams::{Context, Driver, Stream, StreamOptions};

use crate::device_bytes::uncounted;
use crate::lock::loom_tests::leave_open;
use crate::{Allocator, Block, Config, FreeError, PlainSource};

/// How often a thread that could go on is made to wait.
const SWITCHES_MAX: usize = 3;
/// More points to switch at than any model has.
const BRANCHES_MAX: usize = 100_000;
/// A model with fewer has threads that never meet.
const INTERLEAVINGS_MIN: u32 = 20;
const STACK_WORDS: usize = 1 << 17;
const BLOCK: u64 = 512;

/// What the threads of a model share. The machine goes last: its place among the machines is taken
/// by another model's at once, and what is left would be that one's.
struct Stage {
    context: Context,
    allocator: Allocator,
    /// Ranges handed out. A lock of the standard library: no switch happens while it is held.
    live: Mutex<Vec<(u64, u64)>>,
    machine: Machine,
}

impl Stage {
    fn new() -> Arc<Self> {
        let device = DeviceProfile::small(1 << 30);
        let machine = Machine::builder().device(device).schedule(Schedule::Lazy).build();
        let driver = Driver::from_table(machine.table()).unwrap();
        let context = driver.device(0).unwrap().primary_context().unwrap();
        let source = Arc::new(PlainSource::new(&context));
        let allocator = Allocator::with_source(&context, Config::default(), source).unwrap();
        Arc::new(Self { machine, context, allocator, live: Mutex::default() })
    }

    fn stream(&self) -> Stream {
        self.context.create_stream(StreamOptions::default()).unwrap()
    }

    /// Takes a block; none of its bytes may be somebody else's.
    fn take(&self, stream: &Stream, bytes: u64) -> Block {
        let block = self.allocator.allocate(stream, bytes).unwrap();
        let (start, end) = (block.address(), block.address() + block.size());
        let mut live = self.live.lock().unwrap();
        let apart = live.iter().all(|(from, to)| end <= *from || *to <= start);
        assert!(apart, "{start:#x} was handed out twice");
        live.push((start, end));
        drop(live);
        block
    }

    fn give_back(&self, block: Block) {
        let start = block.address();
        self.live.lock().unwrap().retain(|(from, _)| *from != start);
        block.free().unwrap();
    }

    /// Nothing is handed out, and every figure is what it should be.
    fn end(&self, requests: u64) {
        let stats = self.allocator.stats();
        assert_eq!((stats.allocation_total, stats.free_total), (requests, requests));
        assert_eq!((stats.allocated_bytes.current, stats.requested_bytes), (0, 0));
        self.allocator.snapshot().check(&stats).unwrap();
        assert!(self.machine.hazards().is_empty(), "{:?}", self.machine.hazards());
    }
}

/// A thread with room for a driver on its stack; loom's own are small, and count words.
fn spawn<R: Send + 'static>(body: impl FnOnce() -> R + Send + 'static) -> thread::JoinHandle<R> {
    thread::Builder::new().stack_size(STACK_WORDS).spawn(body).unwrap()
}

/// Explores a model; gives how many interleavings there were.
fn explore(model: fn()) -> u32 {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(SWITCHES_MAX);
    builder.max_branches = BRANCHES_MAX;
    let count = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&count);
    builder.check(move || {
        counted.fetch_add(1, Ordering::Relaxed);
        spawn(model).join().unwrap();
    });
    count.load(Ordering::Relaxed)
}

/// Explores a model with the locks, where it must hold, and without, where it must not.
fn explore_both(model: fn()) {
    let count = explore(model);
    println!("{count} interleavings");
    assert!(INTERLEAVINGS_MIN <= count, "only {count} interleavings: the threads never meet");
    let broken = AssertUnwindSafe(|| {
        leave_open(true);
        let _count = explore(model);
    });
    let found = catch_unwind(broken).is_err();
    leave_open(false);
    assert!(found, "the model does not find that locks are not taken");
}

/// Two threads ask and free on one stream, and each frees what the other was given.
#[test]
fn one_shard_hands_each_block_to_one_thread() {
    explore_both(|| {
        let stage = Stage::new();
        let stream = stage.stream();
        let [x, y] = [0, 1].map(|_| stage.take(&stream, BLOCK));
        let (other, on) = (Arc::clone(&stage), stream.clone());
        let thread = spawn(move || {
            other.give_back(x);
            let z = other.take(&on, BLOCK);
            other.give_back(z);
        });
        stage.give_back(y);
        let z = stage.take(&stream, BLOCK);
        stage.give_back(z);
        thread.join().unwrap();
        stage.end(4);
    });
}

/// A block of one stream is freed while another stream, which is ordered after it, looks for one.
#[test]
fn a_block_is_taken_over_while_it_is_freed() {
    explore_both(|| {
        let stage = Stage::new();
        let [home, thief] = [0, 1].map(|_| stage.stream());
        let x = stage.take(&home, BLOCK);
        thief.wait_stream(&home).unwrap();
        let other = Arc::clone(&stage);
        let thread = spawn(move || other.give_back(x));
        let y = stage.take(&thief, BLOCK);
        stage.give_back(y);
        thread.join().unwrap();
        stage.end(2);
    });
}

/// A free with a use on another stream, which is swept when that stream is done, beside a request.
#[test]
fn a_use_ends_while_its_block_is_wanted() {
    explore_both(|| {
        let stage = Stage::new();
        let [home, user] = [0, 1].map(|_| stage.stream());
        let x = stage.take(&home, BLOCK);
        user.wait_stream(&home).unwrap();
        x.record_stream(&user);
        let other = Arc::clone(&stage);
        let thread = spawn(move || {
            other.give_back(x);
            user.synchronize().unwrap();
        });
        let y = stage.take(&home, BLOCK);
        stage.give_back(y);
        thread.join().unwrap();
        stage.end(2);
    });
}

/// Two threads say of one block that a stream each uses it: neither use is lost.
#[test]
fn two_threads_record_a_use_each() {
    explore_both(|| {
        let stage = Stage::new();
        let [home, here, there] = [0, 1, 2].map(|_| stage.stream());
        let x = Arc::new(stage.take(&home, BLOCK));
        for (part, user) in (0..).zip([&here, &there]) {
            user.wait_stream(&home).unwrap();
            user.fill_bytes(&uncounted(&x), part, 1, 1).unwrap();
        }
        let (other, user) = (Arc::clone(&x), there.clone());
        let thread = spawn(move || other.record_stream(&user));
        x.record_stream(&here);
        thread.join().unwrap();
        let x = Arc::try_unwrap(x).unwrap();
        let address = x.address();
        stage.give_back(x);
        here.synchronize().unwrap();
        let y = stage.take(&home, BLOCK);
        assert_ne!(y.address(), address, "one use was lost");
        there.synchronize().unwrap();
        stage.give_back(y);
        stage.end(2);
    });
}

/// The numbers of two blocks are used to free them by two threads: each time one of them succeeds.
#[test]
fn numbers_free_a_block_once() {
    explore_both(|| {
        let stage = Stage::new();
        let stream = stage.stream();
        let [x, y] = [0, 1].map(|_| stage.allocator.allocate_raw(&stream, BLOCK).unwrap());
        let other = Arc::clone(&stage);
        let thread = spawn(move || [x, y].map(|raw| other.allocator.free_raw(raw).is_ok()));
        let here = [x, y].map(|raw| stage.allocator.free_raw(raw));
        let there = thread.join().unwrap();
        for (here, there) in here.into_iter().zip(there) {
            assert_ne!(there, here.is_ok(), "one thread frees it");
            if let Err(error) = here {
                assert!(matches!(error, FreeError::NotAllocated { .. }), "{error}");
            }
        }
        stage.end(2);
    });
}

/// A stream goes and another gets its slot, and its shard, while a block of the first is freed.
#[test]
fn a_slot_is_recycled_while_a_block_of_it_is_freed() {
    explore_both(|| {
        let stage = Stage::new();
        let gone = stage.stream();
        let x = stage.take(&gone, BLOCK);
        let other = Arc::clone(&stage);
        let thread = spawn(move || other.give_back(x));
        gone.synchronize().unwrap();
        drop(gone);
        let come = stage.stream();
        let y = stage.take(&come, BLOCK);
        stage.give_back(y);
        thread.join().unwrap();
        stage.end(2);
    });
}

/// Two threads ask on a stream each, and each wants the share of the peak that the other had.
#[test]
fn two_shards_ask_each_other_for_their_share_of_the_peak() {
    explore_both(|| {
        let stage = Stage::new();
        let [here, there] = [0, 1].map(|_| stage.stream());
        for stream in [&here, &there] {
            let warm = stage.take(stream, BLOCK);
            stage.give_back(warm);
        }
        stage.allocator.reset_peaks();
        let other = Arc::clone(&stage);
        let thread = spawn(move || {
            let x = other.take(&there, BLOCK);
            other.give_back(x);
            other.take(&there, BLOCK)
        });
        let y = stage.take(&here, BLOCK);
        let x = thread.join().unwrap();
        let stats = stage.allocator.stats();
        for gauge in [stats.allocated_bytes, stats.active_bytes] {
            assert_eq!((gauge.current, gauge.peak), (2 * BLOCK, 2 * BLOCK));
        }
        [x, y].into_iter().for_each(|block| stage.give_back(block));
        stage.end(5);
    });
}

/// The last handle goes while two threads free the last blocks, one of which another stream still
/// uses, so that its free records a fence: the allocator ends once, after everybody has let go.
#[test]
fn the_last_handle_and_the_last_blocks_go_at_once() {
    explore_both(|| {
        let Ok(stage) = Arc::try_unwrap(Stage::new()) else { return };
        let [home, user] = [0, 1].map(|_| stage.stream());
        let [x, y] = [0, 1].map(|_| stage.allocator.allocate(&home, BLOCK).unwrap());
        user.wait_stream(&home).unwrap();
        user.fill_bytes(&uncounted(&y), 0, 1, 1).unwrap();
        y.record_stream(&user);
        let Stage { context, allocator, machine, .. } = stage;
        let inner = Arc::downgrade(&allocator.inner);
        let threads = [x, y].map(|block| spawn(move || drop(block)));
        drop(allocator);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert!(inner.upgrade().is_none(), "nothing keeps it");
        assert_eq!(machine.used_bytes(), 0);
        drop((home, user, context));
    });
}

/// A handle of a pool is found again while its last block is freed, and the one before goes.
#[test]
fn a_pool_is_found_again_while_it_is_let_go() {
    explore_both(|| {
        let stage = Stage::new();
        let stream = stage.stream();
        let pool = stage.allocator.create_pool(Config::default());
        let x = pool.allocate(&stream, BLOCK).unwrap();
        let thread = spawn(move || drop((pool, x)));
        if let Some(found) = stage.allocator.pools().pop() {
            drop(found.allocate(&stream, BLOCK).unwrap());
        }
        thread.join().unwrap();
        stage.allocator.empty_cache().unwrap();
        assert_eq!(stage.allocator.pools().len(), 0);
        assert_eq!(stage.allocator.reserved_with_pools(), 0);
        stage.end(0);
    });
}
