//! Reports of locks that were held while the driver, or somebody's own code, ran.

use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::time::Duration;

use allocator::observe::{Happening, Observer};
use allocator::{AllocError, Allocator, Config, PlainSource, PoolKind};
use allocator::{Region, Source, SourceError};
use cuda_sim::{DeviceProfile, Machine, Schedule};
use cuda_sys::Table;
use streams::memory::{DeviceMemory, PinnedMemory};
use streams::{Context, StreamOptions};

use super::{built, under_every_schedule};
use crate::scenarios::rig::{Rig as _, WHOLE, take};
use crate::simulated_rig::{context, contexts};
use crate::stage::Stage;
use random_programs::Chance;

/// What a user does when memory is asked for; it may take locks and wait.
type Hook = Box<dyn Fn() + Send + Sync>;

/// A source with code of the user's in it.
struct Hooked {
    source: PlainSource,
    hook: Hook,
}

impl std::fmt::Debug for Hooked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hooked").finish_non_exhaustive()
    }
}

impl Source for Hooked {
    fn name(&self) -> &'static str {
        "hooked"
    }

    fn open(&self, kind: PoolKind, bytes: u64) -> Result<Arc<dyn Region>, SourceError> {
        (self.hook)();
        self.source.open(kind, bytes)
    }

    fn segment_bytes(&self, kind: PoolKind, bytes: u64) -> u64 {
        self.source.segment_bytes(kind, bytes)
    }

    fn growth_bytes(&self, kind: PoolKind) -> u64 {
        self.source.growth_bytes(kind)
    }
}

fn hooked(context: &Context, hook: impl Fn() + Send + Sync + 'static) -> Allocator {
    let source = Hooked { source: PlainSource::new(context), hook: Box::new(hook) };
    let made = Allocator::with_source(context, Config::default(), Arc::new(source));
    made.expect("an allocator")
}

/// Waits for a thread's word; none within a long time is a deadlock.
fn hears(word: &mpsc::Receiver<()>) {
    word.recv_timeout(Duration::from_secs(60)).expect("the thread hangs");
}

/// From pytorch/pytorch #97833 and PR #159352: one thread holds a lock of the user's and asks for
/// memory; the other asks for memory, and code of the user's takes that lock on the way.
#[test]
fn code_of_the_users_runs_under_no_lock_of_ours() {
    let machine = built(Machine::builder().schedule(Schedule::Eager));
    let context = context(&machine);
    let lock = Arc::new(Mutex::new(()));
    let (reached, hook_reached) = mpsc::channel();
    let hook_lock = Arc::clone(&lock);
    let allocator = hooked(&context, move || {
        let _told = reached.send(());
        drop(hook_lock.lock().expect("no panic"));
    });
    let stream = context.create_stream(StreamOptions::default()).expect("a stream");
    // A block of its own stream's, which another thread will take while the hook waits.
    drop(allocator.allocate(&stream, WHOLE).expect("memory"));
    hears(&hook_reached);
    let (done, is_done) = mpsc::channel();
    std::thread::scope(|scope| {
        let held = lock.lock().expect("no panic");
        scope.spawn(|| drop(allocator.allocate(&stream, 64 * WHOLE).expect("memory")));
        hears(&hook_reached);
        // The other thread waits for the lock that this one holds.
        scope.spawn(|| {
            drop(allocator.allocate(&stream, WHOLE).expect("a cached block"));
            done.send(()).expect("somebody listens");
        });
        hears(&is_done);
        let _figures = allocator.stats();
        drop(held);
    });
    assert_eq!(allocator.stats().allocated_bytes.current, 0);
}

/// Somebody who watches, and takes a lock of its own on one thread.
struct Watcher {
    waits_on: Mutex<Option<std::thread::ThreadId>>,
    lock: Mutex<()>,
    reached: mpsc::Sender<()>,
}

impl Observer for Watcher {
    fn observe(&self, _: &Happening) {
        let waits_on = *self.waits_on.lock().expect("no panic");
        if waits_on == Some(std::thread::current().id()) {
            let _told = self.reached.send(());
            drop(self.lock.lock().expect("no panic"));
        }
    }
}

/// The same for an observer: while it waits on one thread, another allocates and frees on the very
/// same stream.
#[test]
fn an_observer_runs_under_no_lock_of_ours() {
    let machine = built(Machine::builder().schedule(Schedule::Eager));
    let context = context(&machine);
    let (reached, is_reached) = mpsc::channel();
    let watcher = Arc::new(Watcher { waits_on: Mutex::default(), lock: Mutex::default(), reached });
    let observer: Arc<dyn Observer> = Arc::clone(&watcher) as _;
    let allocator = Allocator::new_observed(&context, Config::default(), observer);
    let allocator = allocator.expect("an allocator");
    let stream = context.create_stream(StreamOptions::default()).expect("a stream");
    std::thread::scope(|scope| {
        let held = watcher.lock.lock().expect("no panic");
        let work = || {
            let block = allocator.allocate(&stream, WHOLE).expect("memory");
            block.record_stream(&stream);
            drop(block);
        };
        let (begin, begun) = mpsc::channel::<()>();
        let watched = scope.spawn(move || {
            begun.recv().expect("it begins");
            work();
        });
        *watcher.waits_on.lock().expect("no panic") = Some(watched.thread().id());
        begin.send(()).expect("it waits");
        hears(&is_reached);
        let (done, is_done) = mpsc::channel();
        scope.spawn(move || {
            work();
            done.send(()).expect("somebody listens");
        });
        hears(&is_done);
        drop(held);
    });
    assert_eq!(allocator.stats().allocated_bytes.current, 0);
}

/// From pytorch/FBGEMM PR #5462: nothing here uses the older callbacks, under which the driver
/// holds its lock; and the allocator queues no host function of its own.
#[test]
fn no_callback_runs_under_the_drivers_lock() {
    let names = Table::ENTRY_POINTS.iter().map(|entry| entry.name);
    assert!(!names.into_iter().any(|name| name.contains("AddCallback")));
    under_every_schedule(|rig| {
        let desk = rig.desk();
        let allocator = desk.allocator(Config::default());
        let [home, user] = desk.streams();
        for _ in 0..20 {
            let x = take(rig, &allocator, &home, WHOLE);
            x.fill(&home, 1);
            user.wait_stream(&home).expect("a wait");
            x.check(&user, 1);
            x.block().record_stream(&user);
            x.give_back();
        }
        allocator.empty_cache().expect("all of it");
        assert_eq!(rig.calls_of("cuLaunchHostFunc"), Some(0));
    });
}

/// From pytorch/pytorch PR #118550: many devices in one process. While one device's memory is
/// being asked for, which may take long, every other goes on.
#[test]
fn a_device_that_is_busy_holds_up_no_other() {
    const DEVICES: usize = 8;
    let mut builder = Machine::builder().schedule(Schedule::Eager);
    for _ in 0..DEVICES {
        builder = builder.device(DeviceProfile::h200());
    }
    let machine = built(builder);
    let contexts = contexts(&machine);
    let (finish, finished) = mpsc::channel::<()>();
    let (begin, begun) = mpsc::channel();
    let finished = Mutex::new(finished);
    let stuck = hooked(&contexts[0], move || {
        let _told = begin.send(());
        let _end = finished.lock().expect("no panic").recv();
    });
    let stream =
        |context: &Context| context.create_stream(StreamOptions::default()).expect("a stream");
    let (done, is_done) = mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(|| drop(stuck.allocate(&stream(&contexts[0]), WHOLE).expect("memory")));
        hears(&begun);
        for context in &contexts[1..] {
            let done = done.clone();
            scope.spawn(move || {
                let allocator = Allocator::new(context, Config::default()).expect("an allocator");
                let stream = stream(context);
                for turn in 1..200 {
                    drop(allocator.allocate(&stream, turn * 4096).expect("memory"));
                }
                let stats = allocator.stats();
                assert_eq!(stats.allocation_total, stats.free_total);
                done.send(()).expect("somebody listens");
            });
        }
        contexts[1..].iter().for_each(|_| hears(&is_done));
        drop(finish);
    });
    assert_eq!(stuck.stats().allocated_bytes.current, 0);
}

/// From pytorch/pytorch PR #68906: pinned memory asked for and given back by many threads with
/// copies under way. Threads take turns at driver calls as a seed says: one that called the driver
/// under a lock that the others need would hold them up for a second.
#[test]
fn pinned_memory_is_asked_for_under_no_lock() {
    for seed in 0..20 {
        let machine = built(Machine::builder().schedule(Schedule::Seeded(seed)));
        let stage = Stage::new(&machine, Config::default());
        let threads = (0..4).map(|_| {
            let stage = &stage;
            Box::new(move || {
                let stream = stage.stream();
                let block = stage.allocator.allocate(&stream, 4096).expect("memory");
                for _ in 0..4 {
                    let pinned = PinnedMemory::allocate(&stage.context, 4096).expect("memory");
                    let _copied = stream.copy_from_pinned(&block, 0, &pinned, 0..4096);
                }
            }) as Box<dyn FnOnce() + Send + '_>
        });
        machine.run_threads(threads.collect());
        assert_eq!(machine.passed_over_count(), 0, "seed {seed}: threads were held up");
        stage.end();
    }
}

/// From cupy/cupy PR #105 and PR #382: the cache is emptied by two threads while others allocate
/// close to the limit.
#[test]
fn the_cache_may_be_emptied_while_others_allocate() {
    const THREADS: usize = 6;
    let machine = built(Machine::builder().schedule(Schedule::Eager));
    let limit = 24 * WHOLE;
    let stage = Stage::new(&machine, Config::default().with_limit(limit));
    let all = Barrier::new(THREADS);
    std::thread::scope(|scope| {
        for index in 0..THREADS {
            let (stage, all) = (&stage, &all);
            scope.spawn(move || {
                let mut chance = Chance::new(u64::try_from(index).expect("a few"));
                let stream = stage.stream();
                all.wait();
                for turn in 0..120 {
                    if index < 2 && turn % 4 == 0 {
                        stage.allocator.empty_cache().expect("the idle part goes");
                        continue;
                    }
                    let bytes = chance.pick(&[4096, WHOLE / 2, WHOLE, 3 * WHOLE]);
                    let block = stage.take(&stream, bytes);
                    stage.write(&stream, &block);
                    stage.give_back(&stream, block);
                }
            });
        }
    });
    let stats = stage.allocator.stats();
    assert_eq!((stats.allocation_total, stats.allocated_bytes.current), (stats.free_total, 0));
    assert!(stats.reserved_bytes.peak <= limit);
    stage.allocator.empty_cache().expect("everything goes");
    assert_eq!(stage.allocator.stats().reserved_bytes.current, 0);
    stage.end();
}

/// From pytorch/pytorch #50925 and torch/cutorch PR #710: between the two launches of a collective
/// that wait for each other, another thread forces memory to be given back. While that is
/// forbidden, nothing that may wait for running work is called, and a request that would need it
/// fails instead of hanging; afterwards all is made up for.
#[test]
fn no_memory_goes_back_between_two_launches_that_wait_for_each_other() {
    let blocking = [
        "cuMemFree",
        "cuMemFreeHost",
        "cuMemUnmap",
        "cuMemRelease",
        "cuCtxSynchronize",
        "cuStreamSynchronize",
        "cuEventSynchronize",
    ];
    for is_plain in [false, true] {
        under_every_schedule(|rig| {
            let (desk, context) = (rig.desk(), rig.desk().context());
            let config = Config::default().with_limit(16 * WHOLE);
            let make = || match is_plain {
                true => Allocator::with_source(context, config.clone(), plain(context)),
                false => Allocator::new(context, config.clone()),
            };
            let [allocator, ending] = [0, 1].map(|_| make().expect("an allocator"));
            let [home, user] = desk.streams();
            drop(ending.allocate(&home, WHOLE).expect("memory"));
            let cached = allocator.allocate(&home, 12 * WHOLE).expect("memory");
            cached.record_stream(&user);
            let pinned = PinnedMemory::allocate(context, 4096).expect("pinned memory");
            let plain_memory = DeviceMemory::allocate(context, 4096).expect("memory");
            // The first half runs, and waits for the second, which is not launched yet.
            let gate = desk.hold(&user);
            let calls = || blocking.map(|name| rig.calls_of(name));
            let (forbidden, before) = (context.driver().forbid_blocking(), calls());
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    drop(cached);
                    let refused = allocator.allocate(&home, 10 * WHOLE).expect_err("no room");
                    assert!(matches!(refused, AllocError::OutOfMemory(_)), "{refused}");
                    assert_eq!(allocator.trim(u64::MAX), Ok(0));
                    assert_eq!(allocator.empty_cache(), Ok(0));
                    drop((ending, pinned, plain_memory));
                });
            });
            assert_eq!(calls(), before, "of {blocking:?}");
            drop(forbidden);
            gate.open();
            user.synchronize().expect("both halves end");
            assert_eq!(allocator.empty_cache(), Ok(12 * WHOLE), "made up for");
            let freed = ["cuMemFree", "cuMemFreeHost"].map(|name| rig.calls_of(name));
            assert!(freed.iter().zip([before[0], before[1]]).all(|(now, then)| then < *now));
        });
    }
}

fn plain(context: &Context) -> Arc<dyn Source> {
    Arc::new(PlainSource::new(context))
}
