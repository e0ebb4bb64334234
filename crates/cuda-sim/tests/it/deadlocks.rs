//! Gates, and waits that can never end.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use cuda_sim::{Machine, Schedule};
use cuda_sys::CUresult;

use crate::rig::{Argument, NOT_READY, Rig};
use crate::{cu, ok};

/// Longer than any busy machine keeps a thread waiting.
const AN_HOUR: Duration = Duration::from_secs(3600);

fn gated(patience: Duration) -> (Rig, cuda_sys::CUstream, &'static AtomicU32) {
    let builder = Machine::builder().schedule(Schedule::Seeded(1));
    let rig = Rig::build(builder.patience(patience));
    let stream = rig.stream();
    let flag = rig.pinned(4);
    let address = u64::try_from(flag.expose_provenance()).unwrap();
    rig.launch(stream, "gate", &[Argument::U64(address)]);
    // SAFETY: the word is pinned memory that no test here frees.
    let flag = unsafe { AtomicU32::from_ptr(flag.cast()) };
    (rig, stream, flag)
}

#[test]
fn a_gate_holds_its_stream_until_the_host_opens_it() {
    let (rig, gated, flag) = gated(AN_HOUR);
    let free = rig.stream();
    let block = rig.alloc(8);
    rig.put(gated, block, 1);
    rig.put(free, block + 4, 1);
    ok!(rig, stream_synchronize(free));
    for _ in 0..10 {
        assert_eq!(cu!(rig, stream_query(gated)), NOT_READY);
    }
    flag.store(1, Ordering::Release);
    ok!(rig, stream_synchronize(gated));
    assert_eq!(rig.peek(block), 1);
    rig.assert_no_hazards();
}

#[test]
fn s5_a_wait_that_cannot_end_is_reported_with_who_waits_for_whom() {
    let (rig, gated, _flag) = gated(Duration::from_millis(30));
    let waiting = rig.stream();
    rig.order(gated, waiting);
    let code = cu!(rig, stream_synchronize(waiting));
    assert_eq!(code, CUresult::CUDA_ERROR_LAUNCH_TIMEOUT);
    assert_eq!(
        rig.hazard_texts(),
        ["deadlock: cuStreamSynchronize waits for ever: marker (operation 3 on stream 4) waits \
          for stream 3; kernel gate (operation 1 on stream 3) waits for the host"]
    );
}

#[test]
fn a_gate_opened_by_another_thread_ends_the_wait() {
    let (rig, gated, flag) = gated(AN_HOUR);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // A call that is counted keeps the machine to itself until it waits.
            rig.machine.wait_until(|| rig.machine.calls("cuStreamSynchronize") == 1);
            flag.store(1, Ordering::Release);
        });
        ok!(rig, stream_synchronize(gated));
    });
    rig.assert_no_hazards();
}
