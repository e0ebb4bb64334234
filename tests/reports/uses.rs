//! Reports of memory that was reused while another stream still used it.

use allocator::Config;
use streams::{Stream, StreamOptions};
use wellspring::{Builder, DeviceBuffer, PinnedBuffer, Runtime};

use super::{end, is_found, on, under_every_schedule};
use crate::scenarios::rig::{Held, Rig, WHOLE, take, without_calls};
use crate::simulated_rig::SimulatedRig;

const WORDS: usize = 512 << 10;

/// The facade, in the rig's context.
fn runtime(rig: &SimulatedRig) -> Runtime {
    Builder::new().open_in(rig.desk().context()).expect("a runtime")
}

/// A launch that is given the block, and so records its use by itself.
fn launch(rig: &SimulatedRig, stream: &Stream, block: &impl streams::launch::DeviceSlice<u32>) {
    rig.desk().check_memory(stream, block, 1);
}

/// From meta-pytorch/torchrec PR #4231: a copy to the host on a side stream, and the buffer
/// dropped at once.
#[test]
fn a_side_stream_copy_outlives_its_buffer() {
    under_every_schedule(|rig| {
        let (desk, runtime) = (rig.desk(), runtime(rig));
        let [main, side] = desk.streams();
        let mut x = DeviceBuffer::<u32>::new(&runtime, &main, WORDS).expect("memory");
        let _filled = x.fill(&main, 0xa).expect("a fill");
        side.wait_stream(&main).expect("a wait");
        let gate = desk.hold(&side);
        let mut host = PinnedBuffer::<u32>::new(&runtime, WORDS).expect("pinned memory");
        let _copied = x.copy_to_pinned(&side, &mut host).expect("a copy");
        let freed = x.address();
        drop(x);
        let mut y = DeviceBuffer::<u32>::new(&runtime, &main, WORDS).expect("memory");
        assert_ne!(y.address(), freed, "the copy still reads it");
        let _filled = y.fill(&main, 0xb).expect("a fill");
        gate.open();
        side.synchronize().expect("the copy ends");
        assert_eq!(host.as_slice().expect("the copy is done"), vec![0xa; WORDS]);
        let z = DeviceBuffer::<u32>::new(&runtime, &main, WORDS).expect("memory");
        assert_eq!(z.address(), freed, "the copy is done");
    });
}

/// The same by raw means: recorded, the block is kept; not recorded, the checker names the early
/// reuse, both streams and the allocation.
#[test]
fn a_side_stream_copy_that_nobody_recorded_is_found() {
    let program = |rig: &SimulatedRig, is_recorded: bool| {
        let desk = rig.desk();
        let allocator = desk.allocator(Config::default());
        let [main, side] = desk.streams();
        let x = take(rig, &allocator, &main, WHOLE);
        x.fill(&main, 1);
        side.wait_stream(&main).expect("a wait");
        let gate = desk.hold(&side);
        x.check(&side, 1);
        if is_recorded {
            x.block().record_stream(&side);
        }
        let freed = x.free();
        let y = take(rig, &allocator, &main, WHOLE);
        assert_eq!(y.address() != freed, is_recorded);
        y.fill(&main, 2);
        gate.open();
        if is_recorded {
            side.synchronize().expect("the reader ends");
            let z = take(rig, &allocator, &main, WHOLE);
            assert_eq!(z.address(), freed);
        }
        end(rig);
        vec![on(&main), on(&side), format!("{freed:#x}"), String::from("missing edge")]
    };
    under_every_schedule(|rig| drop(program(rig, true)));
    is_found(|rig| program(rig, false));
}

/// From deepspeedai/DeepSpeed PR #7965: short-lived buffers copied from on a reduction stream.
#[test]
fn a_reduction_outlives_its_short_lived_buffer() {
    let program = |rig: &SimulatedRig, is_recorded: bool| {
        let desk = rig.desk();
        let allocator = desk.allocator(Config::default());
        let [computing, reducing] = desk.streams();
        for word in 1..=4 {
            let b = take(rig, &allocator, &computing, WHOLE);
            b.fill(&computing, word);
            reducing.wait_stream(&computing).expect("a wait");
            b.check(&reducing, word);
            if is_recorded {
                b.block().record_stream(&reducing);
            }
            b.give_back();
            let c = take(rig, &allocator, &computing, WHOLE);
            c.fill(&computing, word + 100);
            // The first time already, not only the one that happened to go bad.
            assert_eq!(rig.is_clean(), is_recorded, "in iteration {word}");
            drop(c);
        }
        end(rig);
        vec![on(&computing), on(&reducing)]
    };
    under_every_schedule(|rig| drop(program(rig, true)));
    is_found(|rig| program(rig, false));
}

/// From pytorch/pytorch PR #18465: a flat tensor handed from a worker's stream to a third one.
#[test]
fn a_tensor_handed_to_a_third_stream_is_in_use_there() {
    under_every_schedule(|rig| {
        let desk = rig.desk();
        let allocator = desk.allocator(Config::default());
        let [worker, reducing] = desk.streams();
        let mut x = take(rig, &allocator, &worker, WHOLE);
        desk.fill_memory(&worker, x.block_mut(), 1);
        reducing.wait_stream(&worker).expect("a wait");
        let gate = desk.hold(&reducing);
        launch(rig, &reducing, x.block());
        let freed = x.free();
        let y = take(rig, &allocator, &worker, WHOLE);
        assert_ne!(y.address(), freed, "the reduction has not begun");
        y.fill(&worker, 2);
        gate.open();
    });
}

/// From pytorch/pytorch #188655: the stream that waited for the communication is not the one that
/// the memory belongs to.
#[test]
fn a_wait_on_one_stream_proves_nothing_about_another() {
    for reaches_home in [false, true] {
        under_every_schedule(|rig| {
            let desk = rig.desk();
            let allocator = desk.allocator(Config::default());
            let [home, caller, communicating] = desk.streams();
            let x = take(rig, &allocator, &home, WHOLE);
            x.fill(&home, 1);
            caller.wait_stream(&home).expect("a wait");
            communicating.wait_stream(&caller).expect("a wait");
            let gate = desk.hold(&communicating);
            launch(rig, &communicating, x.block());
            caller.wait_stream(&communicating).expect("a wait");
            if reaches_home {
                home.wait_stream(&caller).expect("a wait");
            }
            let freed = x.free();
            let y = if reaches_home {
                without_calls(rig, || take(rig, &allocator, &home, WHOLE))
            } else {
                take(rig, &allocator, &home, WHOLE)
            };
            assert_eq!(y.address() == freed, reaches_home);
            y.fill(&home, 2);
            gate.open();
        });
    }
}

/// From deepspeedai/DeepSpeed #8061 and PR #7898: a bucket filled from several streams, of which
/// the reader waits for one. The checker names the other.
#[test]
fn a_reader_that_waits_for_one_of_two_writers_is_found() {
    let program = |rig: &SimulatedRig, waits_for_both: bool| {
        let desk = rig.desk();
        let allocator = desk.allocator(Config::default());
        let [home, first, second, reducing] = desk.streams();
        let x: Held<'_> = take(rig, &allocator, &home, 2 * WHOLE);
        let half = |at: u64| x.range().part(at * WHOLE, WHOLE).expect("a half of it");
        for (stream, at) in [(&first, 0), (&second, 1)] {
            stream.wait_stream(&home).expect("a wait");
            if at == 1 {
                desk.busy(stream);
            }
            desk.fill(stream, half(at), 1);
            x.block().record_stream(stream);
        }
        if waits_for_both {
            // Whoever they are: the block knows.
            x.block().wait_all_users(&reducing).expect("a wait");
        } else {
            reducing.wait_stream(&first).expect("a wait");
        }
        desk.check(&reducing, half(0), 1);
        desk.check(&reducing, half(1), 1);
        x.block().record_stream(&reducing);
        end(rig);
        vec![on(&second), on(&reducing)]
    };
    under_every_schedule(|rig| drop(program(rig, true)));
    is_found(|rig| program(rig, false));
}

/// From NVlabs/cuda-oxide #619: a drop in safe code while another stream uses the buffer.
#[test]
fn a_drop_in_safe_code_is_never_early() {
    under_every_schedule(|rig| {
        let (desk, runtime) = (rig.desk(), runtime(rig));
        let [home, user] = desk.streams();
        let mut x = DeviceBuffer::<u32>::new(&runtime, &home, WORDS).expect("memory");
        let _filled = x.fill(&home, 1).expect("a fill");
        user.wait_stream(&home).expect("a wait");
        let gate = desk.hold(&user);
        desk.check_memory(&user, &x, 1);
        let freed = x.address();
        drop(x);
        let mut y = DeviceBuffer::<u32>::new(&runtime, &home, WORDS).expect("memory");
        assert_ne!(y.address(), freed, "the other stream still reads it");
        let _filled = y.fill(&home, 2).expect("a fill");
        gate.open();
    });
}

/// From NVlabs/cuda-oxide #619: a free in the wrong place is refused, and the block is still its
/// owner's.
#[test]
fn a_free_in_the_wrong_place_is_refused_and_keeps_the_block() {
    under_every_schedule(|rig| {
        let desk = rig.desk();
        let [ours, theirs] = [0, 1].map(|_| desk.allocator(Config::default()));
        let home = desk.stream();
        let raw = ours.allocate_raw(&home, WHOLE).expect("memory");
        let refused = theirs.free_raw(raw).expect_err("another allocator's");
        assert!(matches!(refused, allocator::FreeError::Foreign { .. }), "{refused}");
        assert_eq!(ours.stats().allocated_bytes.current, WHOLE, "it was not freed");
        ours.free_raw(raw).expect("its own allocator takes it");
        assert_eq!(ours.stats().allocated_bytes.current, 0);
    });
}

/// The same kind: work for a buffer on a stream of another driver is refused, and the buffer is
/// as it was.
#[test]
fn work_on_a_stream_of_another_driver_is_refused_and_keeps_the_buffer() {
    let rigs = [0, 1].map(|_| SimulatedRig::new(cuda_sim::Schedule::Eager));
    let runtime = runtime(&rigs[0]);
    let home = rigs[0].desk().stream();
    let foreign = rigs[1].desk().context().create_stream(StreamOptions::default());
    let foreign = foreign.expect("a stream");
    assert!(DeviceBuffer::<u32>::new(&runtime, &foreign, WORDS).is_err(), "no memory for it");
    let x = DeviceBuffer::from_slice(&runtime, &home, &[7_u32; 64]).expect("memory");
    assert_eq!(x.to_vec(&home).expect("it is still there"), [7; 64]);
    drop(x);
    assert_eq!(runtime.stats().allocated_bytes.current, 0);
}
