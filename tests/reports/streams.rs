//! Reports of streams that were taken for one another, or for something they are not.

use std::collections::BTreeSet;
use std::sync::{Barrier, mpsc};

use allocator::{Allocator, Config};
use cuda_sim::{DeviceProfile, Machine, Schedule};
use streams::{CaptureMode, CurrentStream, Error, Stream, StreamOptions};

use super::{built, end, is_found, on, under_every_schedule};
use crate::scenarios::rig::{Rig, WHOLE, take, without_calls};
use crate::simulated_rig::{SimulatedRig, contexts};
use crate::stage::Stage;

fn handle(rig: &SimulatedRig, stream: &Stream) -> usize {
    rig.machine().stream_with_id(stream.id()).expect("a living stream")
}

/// From rapidsai/rmm #2251 and PR #2252: a new stream with an old one's handle, on the same device
/// and on another.
#[test]
fn a_new_stream_with_an_old_handle_is_a_new_stream() {
    under_every_schedule(|rig| {
        let desk = rig.desk();
        let allocator = desk.allocator(Config::default());
        let old = desk.stream();
        let x = take(rig, &allocator, &old, WHOLE);
        let gate = desk.hold(&old);
        x.fill(&old, 1);
        let freed = x.free();
        let recycled = handle(rig, &old);
        drop(old);
        let new = desk.stream();
        assert_eq!(handle(rig, &new), recycled, "the driver recycles handles at once");
        let y = take(rig, &allocator, &new, WHOLE);
        assert_ne!(y.address(), freed, "no short way for a stream of the same handle");
        y.fill(&new, 2);
        gate.open();
    });
}

/// The other device's half of it.
#[test]
fn a_stream_of_another_device_with_an_old_handle_is_a_new_stream() {
    let builder = Machine::builder().schedule(Schedule::Lazy).device(DeviceProfile::h200());
    let machine = built(builder.device(DeviceProfile::h200()));
    let [first, second] = contexts(&machine).try_into().expect("two contexts");
    let stream = |context: &streams::Context| {
        context.create_stream(StreamOptions::default()).expect("a stream")
    };
    let allocator = Allocator::new(&first, Config::default()).expect("an allocator");
    let old = stream(&first);
    let freed = allocator.allocate(&old, WHOLE).expect("memory").address();
    let raw = |stream: &Stream| machine.stream_with_id(stream.id()).expect("a living stream");
    let recycled = raw(&old);
    drop(old);
    let new = stream(&second);
    assert_eq!(raw(&new), recycled, "handles are the driver's, not the device's");
    let refused = allocator.allocate(&new, WHOLE).expect_err("memory of another device");
    assert!(matches!(refused, allocator::AllocError::ForeignStream { .. }), "{refused}");
    let other = Allocator::new(&second, Config::default()).expect("an allocator");
    let y = other.allocate(&new, WHOLE).expect("memory");
    assert_ne!(y.address(), freed);
}

/// From NVIDIA/cuml #2632 and rapidsai/rmm PR #510: many streams allocate and go; another stream
/// then needs what they had.
#[test]
fn blocks_of_streams_that_are_gone_serve_others() {
    for is_busy in [false, true] {
        under_every_schedule(|rig| {
            let desk = rig.desk();
            let allocator = desk.allocator(Config::default().with_limit(16 * WHOLE));
            let home = desk.stream();
            for _ in 0..16 {
                let stream = desk.stream();
                let x = take(rig, &allocator, &stream, WHOLE);
                if is_busy {
                    desk.busy(&stream);
                }
                x.fill(&stream, 1);
                x.give_back();
            }
            for bytes in [WHOLE, 8 * WHOLE, 16 * WHOLE] {
                let y = take(rig, &allocator, &home, bytes);
                y.fill(&home, 2);
                y.check(&home, 2);
            }
            assert!(allocator.stats().reserved_bytes.peak <= 16 * WHOLE);
        });
    }
}

/// From NVIDIA-Merlin/HierarchicalKV PR #225 and #227: whether a stream lives is known, not asked.
#[test]
fn a_free_on_the_default_stream_synchronizes_nothing() {
    under_every_schedule(|rig| {
        let desk = rig.desk();
        let allocator = desk.allocator(Config::default());
        let default = desk.context().legacy_stream().expect("the legacy stream");
        let asks = ["cuCtxSynchronize", "cuStreamSynchronize", "cuStreamQuery"];
        let asked = || asks.map(|name| rig.calls_of(name));
        let before = asked();
        for _ in 0..1000 {
            drop(allocator.allocate(&default, WHOLE).expect("memory"));
        }
        assert_eq!(asked(), before, "nothing is synchronized, and nobody asked whether it lives");
        // A stream that is gone is no handle to be tried.
        let gone = desk.stream();
        let x = take(rig, &allocator, &gone, WHOLE);
        x.fill(&gone, 1);
        drop(gone);
        x.give_back();
    });
}

/// From pytorch/pytorch #173729: the thirty-third stream is not the first one again, and a pool
/// says that its streams are shared.
#[test]
fn a_new_stream_is_a_stream_of_its_own() {
    under_every_schedule(|rig| {
        let desk = rig.desk();
        let streams: Vec<_> = (0..33).map(|_| desk.stream()).collect();
        let handles: BTreeSet<_> = streams.iter().map(|stream| handle(rig, stream)).collect();
        assert_eq!(handles.len(), streams.len(), "each has a native stream of its own");
        let allocator = desk.allocator(Config::default());
        let capture = streams[0].begin_capture(CaptureMode::ThreadLocal).expect("a capture");
        let x = take(rig, &allocator, &streams[32], WHOLE);
        x.fill(&streams[32], 1);
        assert!(!streams[32].order().is_capturing(), "eager work is not caught by the capture");
        drop(capture.end().expect("a graph"));

        let pool = desk.context().stream_pool(2, StreamOptions::default()).expect("a pool");
        let [first, _, again] = [0; 3].map(|_| pool.take_turn());
        assert_eq!((pool.streams().len(), first.id()), (2, again.id()), "shared, by its name");
        // Native identity counts: an alias of the home stream is the home stream.
        let y = take(rig, &allocator, first, WHOLE);
        y.fill(first, 1);
        y.block().record_stream(again);
        y.block().record_stream(&first.clone());
        let freed = without_calls(rig, || y.free());
        let z = without_calls(rig, || take(rig, &allocator, again, WHOLE));
        assert_eq!(z.address(), freed);
    });
}

/// From cupy/cupy #5069: the per-thread stream has one handle in every thread, and is another
/// stream in each.
#[test]
fn the_per_thread_streams_of_two_threads_are_two_streams() {
    for seed in 0..20 {
        let machine = built(Machine::builder().schedule(Schedule::Seeded(seed)));
        let stage = Stage::new(&machine, Config::default());
        let kernels = kernels::launch::Kernels::load(&stage.context).expect("the kernels load");
        let gates = kernels.gates(1).expect("a word");
        let (tell, told) = mpsc::channel();
        let (ask, asked) = mpsc::channel::<()>();
        std::thread::scope(|scope| {
            let (stage, gates) = (&stage, &gates);
            scope.spawn(move || {
                let own = stage.context.per_thread_stream().expect("a stream");
                let x = stage.allocator.allocate(&own, 40 << 10).expect("memory");
                let _closed = gates.close(&own, 0).expect("a gate");
                stage.write(&own, &x);
                let freed = x.address();
                drop(x);
                tell.send((freed, own.id())).expect("somebody listens");
                asked.recv().expect("the other thread asked");
                gates.open(0);
                own.synchronize().expect("it ends");
                let again = stage.allocator.allocate(&own, 40 << 10).expect("memory");
                assert_eq!(again.address(), freed, "its own");
            });
            scope.spawn(move || {
                let (freed, other_id) = told.recv().expect("a block was freed");
                let own = stage.context.per_thread_stream().expect("a stream");
                assert_ne!(own.id(), other_id);
                let y = stage.allocator.allocate(&own, 40 << 10).expect("memory");
                assert_ne!(y.address(), freed, "the other thread's stream still writes it");
                stage.write(&own, &y);
                own.synchronize().expect("it ends");
                ask.send(()).expect("somebody waits");
            });
        });
        drop(gates);
        stage.end();
    }
}

/// From JeffreyXiang/CuMesh PR #29: a library works on the legacy stream on memory of another
/// stream's. Blocking streams are ordered with it; for others the checker names the missing wait.
#[test]
fn the_legacy_stream_is_not_ordered_with_non_blocking_streams() {
    let program = |rig: &SimulatedRig, non_blocking: bool| {
        let desk = rig.desk();
        let allocator = desk.allocator(Config::default());
        let options = StreamOptions { non_blocking, ..StreamOptions::default() };
        let home = desk.context().create_stream(options).expect("a stream");
        assert_eq!(home.is_non_blocking(), non_blocking);
        let legacy = desk.context().legacy_stream().expect("the legacy stream");
        let mut x = take(rig, &allocator, &home, WHOLE);
        desk.busy(&home);
        desk.fill_memory(&home, x.block_mut(), 1);
        desk.check_memory(&legacy, x.block(), 1);
        end(rig);
        vec![on(&home), String::from("the legacy stream")]
    };
    under_every_schedule(|rig| drop(program(rig, false)));
    is_found(|rig| program(rig, true));
}

/// From NVlabs/cuda-oxide #761 and eyalroz/cuda-api-wrappers #243: a priority that the device does
/// not have is an error, not silently another one, and what a stream got can be read.
#[test]
fn a_priority_out_of_range_is_refused() {
    under_every_schedule(|rig| {
        let context = rig.desk().context();
        let (least, greatest) = context.priority_range().expect("a range");
        assert!(greatest < least, "the greater priority is the smaller number");
        for priority in [i32::MIN, greatest - 1, least + 1, i32::MAX] {
            let options = StreamOptions { priority, ..StreamOptions::default() };
            let refused = context.create_stream(options).expect_err("no such priority");
            assert_eq!(refused, Error::PriorityOutOfRange { priority, least, greatest });
        }
        for priority in greatest..=least {
            let options = StreamOptions { priority, ..StreamOptions::default() };
            let stream = context.create_stream(options).expect("a stream");
            assert_eq!(stream.priority(), priority);
            let allocator = rig.desk().allocator(Config::default());
            let x = take(rig, &allocator, &stream, WHOLE);
            x.fill(&stream, 1);
            let freed = x.free();
            let y = take(rig, &allocator, &stream, WHOLE);
            assert_eq!(y.address(), freed, "blocks are the stream's, whatever its priority");
        }
    });
}

/// From pytorch/pytorch PR #102739 and #143849: a stream of high priority may be the first thing
/// that a program asks for.
#[test]
fn the_first_stream_of_a_program_may_have_a_high_priority() {
    let builder = Machine::builder().schedule(Schedule::Eager).device(DeviceProfile::h200());
    let machine = built(builder.device(DeviceProfile::h200()));
    for context in contexts(&machine) {
        for priority in [-1, 0, -1] {
            let options = StreamOptions { priority, ..StreamOptions::default() };
            let stream = context.create_stream(options).expect("a stream");
            assert_eq!(stream.priority(), priority);
            stream.synchronize().expect("it works");
        }
    }
}

/// From CVCUDA/CV-CUDA #274: the current stream is the thread's, and scopes end in order, by a
/// panic too.
#[test]
fn the_current_stream_is_the_threads_own() {
    under_every_schedule(|rig| {
        let (desk, both) = (rig.desk(), Barrier::new(2));
        let streams: [_; 2] = desk.streams();
        let context = desk.context();
        let current = || CurrentStream::get(context).map(|stream| stream.id());
        std::thread::scope(|scope| {
            for stream in &streams {
                let (both, current) = (&both, &current);
                scope.spawn(move || {
                    let _entered = CurrentStream::enter(stream);
                    both.wait();
                    assert_eq!(current(), Some(stream.id()));
                });
            }
        });
        let outer = CurrentStream::enter(&streams[0]);
        let unwound = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _inner = CurrentStream::enter(&streams[1]);
            assert_eq!(current(), Some(streams[1].id()));
            std::panic::resume_unwind(Box::new("a panic of the test's own"));
        }));
        assert!(unwound.is_err());
        assert_eq!(current(), Some(streams[0].id()), "restored on unwinding");
        drop(outer);
        assert_eq!(current(), None);
    });
}
