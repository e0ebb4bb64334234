//! Reports of pools that lost the order between streams, or gave up the overlap of their work.

use std::sync::atomic::{AtomicBool, Ordering};

use allocator::{Allocator, Config};
use cuda_sim::{Machine, Schedule};

use super::{built, under_every_schedule};
use crate::scenarios::rig::{Rig as _, WHOLE, take, without_calls};
use crate::simulated_rig::context;
use crate::stage::Stage;

/// From microsoft/onnxruntime #32342: what nobody was told about is not the same as what is done.
/// Every request names a stream here; a stream that others may submit to hides work, and its
/// blocks go to nobody else before a proof.
#[test]
fn a_stream_that_others_use_is_not_taken_for_idle() {
    for synchronizes in [false, true] {
        under_every_schedule(|rig| {
            let desk = rig.desk();
            let allocator = desk.allocator(Config::default());
            let [hidden, next] = desk.streams();
            let _others_have_it = hidden.as_raw();
            let x = take(rig, &allocator, &hidden, WHOLE);
            let gate = desk.hold(&hidden);
            x.fill(&hidden, 1);
            let freed = x.free();
            let y = take(rig, &allocator, &next, WHOLE);
            assert_ne!(y.address(), freed, "its users are not known");
            y.fill(&next, 2);
            gate.open();
            if synchronizes {
                desk.context().synchronize().expect("all ends");
            } else {
                next.wait_stream(&hidden).expect("a wait");
            }
            let z = without_calls(rig, || take(rig, &allocator, &next, WHOLE));
            assert_eq!(z.address(), freed, "this is a proof");
            z.fill(&next, 3);
        });
    }
}

/// How many rounds two free-running threads make.
fn rounds() -> usize {
    let asked = std::env::var("WELLSPRING_SCHEDULES").ok();
    asked.map_or(200, |text| text.parse().expect("WELLSPRING_SCHEDULES is a number"))
}

/// From NVIDIA/cub PR #156: one thread frees, another asks for another stream at once.
#[test]
fn a_block_is_not_seen_before_its_point() {
    const GATES: usize = 50;
    let machine = Machine::builder().schedule(Schedule::Lazy).build();
    for _ in 0..rounds().div_ceil(GATES) {
        let stage = Stage::new(&machine, Config::default());
        let kernels = kernels::launch::Kernels::load(&stage.context).expect("the kernels load");
        let gates = kernels.gates(GATES).expect("words");
        let [home, next] = [0, 1].map(|_| stage.stream());
        for gate in 0..GATES {
            let x = stage.take(&home, WHOLE);
            let _closed = gates.close(&home, gate).expect("a gate");
            stage.write(&home, &x);
            let (freed, is_freed) = (x.address(), AtomicBool::new(false));
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    stage.give_back(&home, x);
                    is_freed.store(true, Ordering::Release);
                });
                scope.spawn(|| {
                    let mut is_last = false;
                    while !is_last {
                        is_last = is_freed.load(Ordering::Acquire);
                        let y = stage.take(&next, WHOLE);
                        assert_ne!(y.address(), freed, "its stream is held up");
                        stage.give_back(&next, y);
                    }
                });
            });
            gates.open(gate);
            home.synchronize().expect("the gate is open");
        }
        drop(gates);
        stage.end();
    }
}

/// From rapidsai/rmm #850: streams that take turns are not made to wait for each other.
#[test]
fn streams_that_take_turns_are_not_made_to_wait() {
    under_every_schedule(|rig| {
        let desk = rig.desk();
        let allocator = desk.allocator(Config::default());
        let streams: [_; 8] = desk.streams();
        let waits = || rig.calls_of("cuStreamWaitEvent");
        let before = waits();
        for turn in 0..160 {
            let stream = &streams[turn % streams.len()];
            let x = take(rig, &allocator, stream, 1 << 20);
            x.fill(stream, 1);
            x.check(stream, 1);
            x.give_back();
        }
        assert_eq!(waits(), before, "no stream waits for another");
        let stats = allocator.stats();
        assert_eq!(stats.served_by.device_wait, 0, "and the figures say so");
        assert!(stats.reserved_bytes.peak <= 8 * WHOLE, "a block for each stream is enough");
    });
}

/// From rapidsai/rmm #1887: many threads, each with a stream of its own, share no block. No block
/// is lost, the totals are the sums over the threads, and after the first round nobody calls the
/// driver.
#[test]
fn threads_with_streams_of_their_own_share_nothing() {
    const PAIRS: u64 = 400;
    for threads in [8_u64, 32] {
        let machine = built(Machine::builder().schedule(Schedule::Eager));
        let context = context(&machine);
        let allocator = Allocator::new(&context, Config::default()).expect("an allocator");
        let block = |stream, bytes| allocator.allocate(stream, bytes).expect("memory");
        let sizes = [512, 64 << 10, 1 << 20];
        let options = streams::StreamOptions::default();
        let streams: Vec<_> =
            (0..threads).map(|_| context.create_stream(options).expect("a stream")).collect();
        // All at once, so that each stream has memory of its own.
        let all = streams.iter().flat_map(|stream| sizes.map(|bytes| block(stream, bytes)));
        drop(all.collect::<Vec<_>>());
        let (calls, before) = (machine.call_count(), allocator.stats());
        std::thread::scope(|scope| {
            for stream in &streams {
                scope.spawn(|| {
                    for turn in 0..PAIRS {
                        drop(block(stream, sizes[usize::try_from(turn % 3).expect("below three")]));
                    }
                });
            }
        });
        let stats = allocator.stats();
        assert_eq!(machine.call_count(), calls, "a cached pair calls nobody");
        assert_eq!(stats.allocation_total - before.allocation_total, threads * PAIRS);
        assert_eq!(stats.free_total, stats.allocation_total, "a block was lost");
        assert_eq!(stats.allocated_bytes.current, 0);
        assert_eq!(stats.served_by.growth, before.served_by.growth, "each found its own again");
    }
}
