//! Pools through the facade: named, current, and forgotten.

use allocator::{Config, Policy};

use crate::{CurrentPool, DeviceBuffer, Runtime};

const VALUES: usize = 1 << 19;
const BYTES: u64 = 2 << 20;

fn runtime() -> Runtime {
    crate::simulated(crate::Simulation::default()).unwrap()
}

#[test]
fn a_buffer_comes_from_the_pool_that_is_named_or_current() {
    let runtime = runtime();
    let stream = runtime.create_stream().unwrap();
    let outer = runtime.create_pool(Config::default());
    let inner = runtime.create_pool(Config::default().with_policy(Policy::PyTorch));
    let make = || DeviceBuffer::<u32>::new(&runtime, &stream, VALUES).unwrap();
    let held = |pool: &allocator::Pool| pool.allocator().stats().allocated_bytes.current;

    let named = DeviceBuffer::<u32>::new_in(&outer, &stream, VALUES).unwrap();
    assert_eq!((held(&outer), held(&inner)), (BYTES, 0));
    let first = CurrentPool::enter(&outer);
    let second = CurrentPool::enter(&inner);
    let of_inner = make();
    assert_eq!((held(&outer), held(&inner)), (BYTES, BYTES));
    drop(first); // not the last one entered
    let also_inner = make();
    assert_eq!((held(&outer), held(&inner)), (BYTES, 2 * BYTES));
    drop(second);
    let own = make();
    assert_eq!(runtime.stats().allocated_bytes.current, BYTES);
    drop((named, of_inner, also_inner, own));
    assert_eq!((held(&outer), held(&inner)), (0, 0));
}

#[test]
fn a_current_pool_is_the_threads_own_and_the_runtimes_own() {
    let (runtime, other) = (runtime(), runtime());
    let stream = runtime.create_stream().unwrap();
    let pool = runtime.create_pool(Config::default());
    let _guard = CurrentPool::enter(&pool);
    let elsewhere = other.create_stream().unwrap();
    let buffer = DeviceBuffer::<u32>::new(&other, &elsewhere, VALUES).unwrap();
    assert_eq!(other.stats().allocated_bytes.current, BYTES);
    std::thread::scope(|threads| {
        threads.spawn(|| {
            let _buffer = DeviceBuffer::<u32>::new(&runtime, &stream, VALUES).unwrap();
            assert_eq!(runtime.stats().allocated_bytes.current, BYTES);
        });
    });
    assert_eq!(pool.allocator().stats().allocation_total, 0);
    drop(buffer);
}
