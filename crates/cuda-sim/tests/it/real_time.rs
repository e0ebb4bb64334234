//! Operations that take real time, on a thread of the machine's own.

use std::ffi::c_void;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use cuda_sim::Schedule;

use crate::rig::{Argument, NOT_READY, Rig, SUCCESS};
use crate::{cu, ok};

#[test]
fn a_wait_takes_as_long_as_the_work() {
    let rig = Rig::new(Schedule::RealTime);
    let a = rig.stream();
    let flag = rig.pinned(4);
    let address = u64::try_from(flag.expose_provenance()).unwrap();
    for asks_again_and_again in [false, true] {
        // Behind a gate it is not over, however long this thread waits for a processor.
        rig.launch(a, "gate", &[Argument::U64(address)]);
        rig.launch(a, "spin", &[Argument::U64(60_000_000)]);
        assert_eq!(cu!(rig, stream_query(a)), NOT_READY);
        let begun = Instant::now();
        // SAFETY: the word is pinned memory that no test here frees.
        let flag = unsafe { AtomicU32::from_ptr(flag.cast()) };
        flag.store(1, Ordering::Release);
        while asks_again_and_again && cu!(rig, stream_query(a)) == NOT_READY {
            std::thread::sleep(Duration::from_millis(1));
        }
        if !asks_again_and_again {
            ok!(rig, stream_synchronize(a));
        }
        assert!(Duration::from_millis(60) <= begun.elapsed());
        assert_eq!(cu!(rig, stream_query(a)), SUCCESS);
        flag.store(0, Ordering::Release);
    }
}

unsafe extern "C" fn count(argument: *mut c_void) {
    // SAFETY: the test hands over an atomic that outlives the call.
    let counter = unsafe { AtomicU32::from_ptr(argument.cast()) };
    counter.fetch_add(1, Ordering::Relaxed);
}

#[test]
fn work_goes_on_while_nobody_calls() {
    let rig = Rig::new(Schedule::RealTime);
    let a = rig.stream();
    let block = rig.alloc(4);
    let counter = AtomicU32::new(0);
    rig.launch(a, "spin", &[Argument::U64(5_000_000)]);
    rig.put(a, block, 7);
    ok!(rig, launch_host_func(a, Some(count), counter.as_ptr().cast()));
    let begun = Instant::now();
    while counter.load(Ordering::Relaxed) == 0 {
        assert!(begun.elapsed() < Duration::from_secs(60), "the machine's thread does nothing");
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(rig.peek(block), 7);
    ok!(rig, stream_synchronize(a));
}
