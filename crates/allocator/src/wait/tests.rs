//! What a wait that is given up leaves behind.
#![allow(clippy::unwrap_used, reason = "a test that panics has failed")]

use cuda_sim::{Machine, Schedule};
use streams::{Driver, StreamOptions};

use crate::{Allocator, Config, Policy};

const BYTES: u64 = 2 << 20;

/// Was: of the streams that a block waits for, those with lower slots than one that may not be
/// waited for got a fence before it was found, and could be waited for at that point later.
#[test]
fn r9_a_wait_that_is_given_up_leaves_no_fence_whichever_slots_the_streams_have() {
    let machine = Machine::builder().schedule(Schedule::Lazy).build();
    let driver = Driver::from_table(machine.table()).unwrap();
    let context = driver.device(0).unwrap().primary_context().unwrap();
    let stream = || context.create_stream(StreamOptions::default()).unwrap();
    let [low, high, asker] = [stream(), stream(), stream()];
    for [home, user] in [[&low, &high], [&high, &low]] {
        let config = Config::default().with_policy(Policy::Deterministic).with_pending_max(0);
        let allocator = Allocator::new(&context, config).unwrap();
        let block = allocator.allocate(home, BYTES).unwrap();
        drop(home.fill_bytes(&block, 0, BYTES, 1).unwrap());
        // An event of the program's: it is no fence that is found later.
        user.wait_event(&home.record_event().unwrap()).unwrap();
        // After a host function nobody may be made to wait for the user.
        drop(user.launch_host_function(|| {}).unwrap());
        block.record_stream(user);
        drop(block);
        let records = machine.calls("cuEventRecord");
        let asked = allocator.allocate(&asker, BYTES).unwrap();
        assert_eq!(allocator.stats().served_by.device_wait, 0, "it grew");
        assert_eq!(machine.calls("cuEventRecord"), records);
        drop(asked);
        context.synchronize().unwrap();
        assert_eq!(machine.hazards(), []);
    }
}
