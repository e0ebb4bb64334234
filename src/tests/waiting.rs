//! Waiting for everybody who used a buffer, and learning what is done.

use super::Rig;
use crate::DeviceBuffer;

const VALUES: usize = 1 << 19;
const BYTES: u64 = 2 << 20;

#[test]
fn a_stream_that_waits_for_all_users_may_write() {
    let rig = Rig::new();
    let writer = rig.runtime.create_stream().unwrap();
    let mut buffer = DeviceBuffer::<u32>::zeroed(&rig.runtime, &rig.home, VALUES).unwrap();
    rig.other.wait_stream(&rig.home).unwrap();
    let copy = DeviceBuffer::<u32>::new(&rig.runtime, &rig.other, VALUES);
    let mut copy = copy.unwrap();
    let _queued = copy.copy_from(&rig.other, &buffer).unwrap();
    let waits = rig.calls("cuStreamWaitEvent");
    buffer.wait_all_users(&writer).unwrap();
    assert_eq!(rig.calls("cuStreamWaitEvent") - waits, 1, "the reader, which is after the home");
    let _queued = buffer.fill(&writer, 7).unwrap();
    // The copy is of what was there before; the rig finds a race if there was one.
    assert_eq!(copy.to_vec(&rig.other).unwrap(), [0; VALUES]);
    assert_eq!(buffer.to_vec(&writer).unwrap(), [7; VALUES]);
}

#[test]
fn a_poll_of_the_runtime_says_what_came_free() {
    let rig = Rig::new();
    let mut buffer = DeviceBuffer::<u32>::new(&rig.runtime, &rig.home, VALUES).unwrap();
    rig.other.wait_stream(&rig.home).unwrap();
    let _queued = buffer.fill(&rig.other, 1).unwrap();
    drop(buffer);
    assert_eq!((rig.pending(), rig.runtime.stats().stranded_bytes), (BYTES, BYTES));
    let freed = (0..1000).map(|_| rig.runtime.poll()).find(|freed| 0 < *freed);
    assert_eq!(freed, Some(BYTES));
    assert_eq!((rig.pending(), rig.runtime.stats().stranded_bytes), (0, 0));
}
