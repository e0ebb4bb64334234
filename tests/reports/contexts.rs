//! Contexts and devices: two in one thread, none in another.

use allocator::{Allocator, Block, Config, PlainSource};
use cuda_sim::{DeviceProfile, Machine, Schedule};
use streams::{Context, Driver, StreamOptions};

use super::calls;
use crate::scenarios::rig::WHOLE;

fn machine() -> (Machine, [Context; 2]) {
    let builder = Machine::builder().schedule(Schedule::Eager);
    let machine = builder.device(DeviceProfile::h200()).device(DeviceProfile::h200()).build();
    kernels::simulated::register(&machine);
    let driver = Driver::from_table(machine.table()).expect("the driver starts");
    let contexts = [0, 1].map(|ordinal| {
        driver.device(ordinal).expect("two devices").primary_context().expect("a context")
    });
    (machine, contexts)
}

fn allocators(contexts: &[Context; 2], plain: bool) -> [Allocator; 2] {
    contexts.each_ref().map(|context| {
        let made = if plain {
            let source = std::sync::Arc::new(PlainSource::new(context));
            Allocator::with_source(context, Config::default(), source)
        } else {
            Allocator::new(context, Config::default())
        };
        made.expect("an allocator")
    })
}

/// A block for a stream of one device lies on that device, whatever was used last on the thread;
/// and each goes back to its own. From chelsea0x3b/cudarc #165 and NVlabs/cuda-oxide PR #92.
#[test]
fn memory_lies_on_the_device_of_its_stream_in_every_order() {
    let free_on_both = |contexts: &[Context; 2]| {
        contexts.each_ref().map(|context| context.memory_info().expect("an answer").0)
    };
    for plain in [false, true] {
        for [first, second] in [[0, 1], [1, 0]] {
            for on_a_thread in [false, true] {
                let (machine, contexts) = machine();
                let allocators = allocators(&contexts, plain);
                let streams = contexts.each_ref().map(|context| {
                    context.create_stream(StreamOptions::default()).expect("a stream")
                });
                let before = free_on_both(&contexts);
                let mut blocks: [Option<Block>; 2] = [None, None];
                for (step, at) in [first, second].into_iter().enumerate() {
                    // The other device is the one used last.
                    contexts[1 - at].memory_info().expect("an answer");
                    let block = allocators[at].allocate(&streams[at], WHOLE).expect("memory");
                    let bytes = block.size();
                    streams[at].fill_bytes(&block, 0, bytes, 7).expect("a fill");
                    blocks[at] = Some(block);
                    let now = free_on_both(&contexts);
                    assert!(now[at] < before[at], "it is not on device {at}");
                    let other = 1 - at;
                    assert_eq!(now[other] < before[other], step == 1, "device {other} gave it");
                }
                let mut end = || {
                    for at in [second, first] {
                        drop(blocks[at].take());
                        streams[at].synchronize().expect("the stream ends");
                        allocators[at].empty_cache().expect("all goes back");
                    }
                };
                if on_a_thread {
                    std::thread::scope(|scope| scope.spawn(end).join().expect("no panic"));
                } else {
                    end();
                }
                assert_eq!(free_on_both(&contexts), before, "all of it, to its own device");
                assert_eq!(machine.take_hazards(), []);
            }
        }
    }
}

/// A block freed on a thread that never used the driver makes no context there, not even with the
/// first device full. From pytorch/FBGEMM PR #530 and JuliaGPU/CUDA.jl PR #2029.
#[test]
fn a_free_on_a_fresh_thread_opens_no_context() {
    for plain in [false, true] {
        let builder = Machine::builder().schedule(Schedule::Eager);
        let machine = builder.device(DeviceProfile::h200()).device(DeviceProfile::h200()).build();
        kernels::simulated::register(&machine);
        let driver = Driver::from_table(machine.table()).expect("the driver starts");
        let context = driver.device(1).expect("two devices").primary_context().expect("a context");
        let source: std::sync::Arc<dyn allocator::Source> = if plain {
            std::sync::Arc::new(PlainSource::new(&context))
        } else {
            let vmm = allocator::VmmSource::new(&context).expect("an answer");
            std::sync::Arc::new(vmm.expect("the device has it"))
        };
        let allocator = Allocator::with_source(&context, Config::default(), source);
        let allocator = allocator.expect("an allocator");
        let home = context.create_stream(StreamOptions::default()).expect("a stream");
        let block = allocator.allocate(&home, WHOLE).expect("memory");
        let retained = || calls(&machine, &["cuDevicePrimaryCtxRetain", "cuCtxCreate"]);
        let before = retained();
        machine.set_capacity(0);
        std::thread::scope(|scope| {
            let freeing = scope.spawn(|| {
                block.free().expect("a free");
                allocator.empty_cache().expect("it goes back")
            });
            assert!(WHOLE <= freeing.join().expect("no panic"));
        });
        assert_eq!(retained(), before, "a context was opened");
        assert_eq!(machine.take_hazards(), []);
    }
}
