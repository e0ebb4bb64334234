//! The end of the driver, of a device's context, and of a thread, before what was made in them.

use allocator::{AllocError, Allocator, Block, Config, Hold};
use cuda_sim::Schedule;
use streams::memory::{DeviceMemory, PinnedMemory};
use streams::{CaptureMode, Context, Driver, Event, GraphExec, Stream, StreamOptions};

use crate::scenarios::rig::WHOLE;
use crate::simulated_rig::{context, machine};

/// One of everything that has a destructor, with work queued.
struct Everything {
    _blocks: Vec<Block>,
    _hold: Hold,
    _graph: GraphExec,
    _pinned: PinnedMemory,
    _memory: DeviceMemory,
    _event: Event,
    _streams: [Stream; 2],
    _allocator: Allocator,
}

fn everything(context: &Context) -> Everything {
    let allocator = Allocator::new(context, Config::default()).expect("an allocator");
    let streams = [0, 1].map(|_| context.create_stream(StreamOptions::default()).expect("one"));
    let [home, user] = &streams;
    let mut blocks: Vec<Block> =
        (0..3).map(|_| allocator.allocate(home, WHOLE).expect("memory")).collect();
    for block in &blocks {
        home.fill_bytes(block, 0, 512, 1).expect("a fill");
    }
    user.wait_stream(home).expect("a wait");
    blocks.iter().for_each(|block| block.record_stream(user));
    drop(blocks.pop());
    let hold = blocks[0].hold();
    let capture = home.begin_capture(CaptureMode::ThreadLocal).expect("a capture");
    home.fill_bytes(&blocks[0], 0, 512, 2).expect("a captured fill");
    let graph = capture.end().expect("a graph").instantiate().expect("an executable graph");
    let _replay = graph.launch(user).expect("a replay");
    Everything {
        _blocks: blocks,
        _hold: hold,
        _graph: graph,
        _pinned: PinnedMemory::allocate(context, 4096).expect("pinned memory"),
        _memory: DeviceMemory::allocate(context, 4096).expect("device memory"),
        _event: user.record_event().expect("an event"),
        _streams: streams,
        _allocator: allocator,
    }
}

/// Whatever is dropped after the driver has shut down is dropped in silence. From
/// NVIDIA/VideoProcessingFramework PR #239, libocca/occa PR #390 and vosen/ZLUDA PR #404.
#[test]
fn destructors_after_the_drivers_end_are_quiet() {
    let machine = machine(Schedule::Lazy, cuda_sim::DeviceProfile::h200());
    let context = context(&machine);
    let all = everything(&context);
    drop(machine);
    drop(all);
    assert_eq!(context.silent_errors(), 0, "a destructor had something to tell");
    let told = context.synchronize().expect_err("the driver is gone").to_string();
    assert!(told.contains("DEINITIALIZED"), "{told}");
}

/// The same from the destructor of a thread's own variable, which runs when the thread has gone.
#[test]
fn destructors_of_a_threads_own_variables_are_quiet() {
    thread_local! {
        static OWN: std::cell::RefCell<Option<Everything>> = const { std::cell::RefCell::new(None) };
    }
    for driver_goes_first in [false, true] {
        let machine = machine(Schedule::Lazy, cuda_sim::DeviceProfile::h200());
        let kept = (!driver_goes_first).then(|| machine.clone());
        let thread = std::thread::spawn(move || {
            OWN.with(|own| *own.borrow_mut() = Some(everything(&context(&machine))));
        });
        thread.join().expect("a destructor panicked");
        if let Some(machine) = kept {
            assert_eq!(machine.take_hazards(), []);
        }
    }
}

/// After the first answer that the driver has shut down, no destructor calls it. From the same
/// reports.
#[test]
fn no_destructor_calls_a_driver_that_said_it_is_gone() {
    let machine = machine(Schedule::Lazy, cuda_sim::DeviceProfile::h200());
    let context = context(&machine);
    let all = everything(&context);
    let code = cuda_sys::CUresult::CUDA_ERROR_DEINITIALIZED;
    machine.fail(cuda_sim::FaultPlan { call: "cuMemGetInfo", nth: 1, code, sticky: false });
    context.memory_info().expect_err("it shuts down");
    let before = machine.call_count();
    drop(all);
    drop(context);
    assert_eq!(machine.call_count(), before);
}

/// A device that another library reset is told once by every call, its old blocks are dropped
/// safely, and a context opened anew works. From JuliaGPU/CUDA.jl #16.
#[test]
fn a_reset_device_is_told_and_opened_anew() {
    let machine = machine(Schedule::Eager, cuda_sim::DeviceProfile::h200());
    let driver = Driver::from_table(machine.table()).expect("the driver starts");
    let open = || driver.device(0).expect("a device").primary_context().expect("a context");
    let old = open();
    let allocator = Allocator::new(&old, Config::default()).expect("an allocator");
    let stream = old.create_stream(StreamOptions::default()).expect("a stream");
    let block = allocator.allocate(&stream, 8).expect("memory");
    drop(allocator.allocate(&stream, 8).expect("memory"));
    machine.reset_device(0);
    old.synchronize().expect_err("the context is gone");
    let refused = allocator.allocate(&stream, 8).expect_err("and the cache with it");
    assert!(refused.to_string().contains("INVALID_CONTEXT (201)"), "{refused}");
    let new = open();
    assert_ne!(new.id(), old.id(), "another epoch");
    let again = Allocator::new(&new, Config::default()).expect("an allocator");
    let other = again.allocate(&stream, 8).expect_err("a stream of the old one");
    assert_eq!(other, AllocError::ForeignStream { stream_id: stream.id() });
    let fresh = new.create_stream(StreamOptions::default()).expect("a stream");
    let works = again.allocate(&fresh, 8).expect("memory");
    fresh.fill_bytes(&works, 0, 8, 1).expect("a fill");
    drop((block, allocator, stream, old));
    fresh.synchronize().expect("the new context is whole");
    drop((works, again, fresh, new));
    assert_eq!(machine.take_hazards(), []);
}

/// Was: pinned memory ended with its machine while the program still wrote there.
#[test]
fn pinned_memory_outlives_its_machine() {
    let machine = machine(Schedule::Eager, cuda_sim::DeviceProfile::h200());
    let context = context(&machine);
    let mut pinned = PinnedMemory::allocate(&context, 4096).expect("pinned memory");
    drop(machine);
    pinned.as_mut_slice().expect("nothing uses it").fill(7);
    assert!(pinned.as_slice().expect("nothing writes it").iter().all(|byte| *byte == 7));
}

/// A forked child leaves what it inherited alone: a drop is quiet and calls nobody, a request says
/// why there is no memory, and locks that another thread of the parent held stop nobody. From
/// PaddlePaddle/Paddle PR #78171 and tensorflow/tensorflow #57877.
#[test]
fn a_forked_child_leaves_its_parents_memory_alone() {
    const FORKS: usize = 12;
    let machine = machine(Schedule::Lazy, cuda_sim::DeviceProfile::h200());
    let context = context(&machine);
    let allocator = Allocator::new(&context, Config::default()).expect("an allocator");
    let stream = context.create_stream(StreamOptions::default()).expect("a stream");
    let is_over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                drop(allocator.allocate(&stream, 4096).expect("memory"));
            }
        });
        for _ in 0..FORKS {
            let mut all = Some(everything(&context));
            let block = allocator.allocate(&stream, WHOLE).expect("memory");
            let raw = block.into_raw();
            let ended = cuda_sim::in_forked_child(|| {
                let calls = context.driver_calls();
                drop(all.take());
                let forked = AllocError::Driver(streams::Error::Forked);
                let refused = [4096, WHOLE].map(|bytes| allocator.allocate(&stream, bytes).err());
                let are_told = refused.iter().all(|refused| refused.as_ref() == Some(&forked));
                let is_quiet = allocator.free_raw(raw).is_ok();
                let is_refused = stream.synchronize() == Err(streams::Error::Forked);
                drop((allocator.clone(), stream.clone()));
                let is_alone = context.driver_calls() == calls;
                [are_told, is_quiet, is_refused, is_alone].map(u8::from).iter().sum()
            });
            assert_eq!(ended, Some(4), "the child went wrong");
            // The parent is as it was.
            drop(all.expect("it is the parent's still"));
            allocator.free_raw(raw).expect("it is the parent's still");
        }
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    context.synchronize().expect("the parent goes on");
    assert_eq!(machine.take_hazards(), []);
}
