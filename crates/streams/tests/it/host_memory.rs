//! Host memory that a thread copies while another one captures.

use std::sync::Mutex;

use cuda_sim::{DeviceProfile, Schedule};
use streams::memory::PinnedMemory;
use streams::{CaptureMode, Error};

use crate::rig::Rig;

const SEEDS: u64 = 150;
const HALF: usize = 2048;

fn seeded(seed: u64) -> Rig {
    Rig::with(Schedule::Seeded(seed), DeviceProfile::h200())
}

/// Was: whether the stream captures was asked before the submission, and a capture that another
/// thread began in between took the copy in, whose replays would use memory that nobody holds.
#[test]
fn c3_no_capture_takes_in_a_copy_of_host_memory() {
    let (mut eager, mut refused) = (0, 0);
    for seed in 0..SEEDS {
        let rig = seeded(seed);
        let (stream, block) = (rig.stream(), rig.block());
        let pinned = PinnedMemory::allocate(&rig.context, HALF).unwrap();
        let (graph, outcome) = (Mutex::new(None), Mutex::new(None));
        let capturing = || {
            let capture = stream.begin_capture(CaptureMode::Relaxed).unwrap();
            drop(rig.context.memory_info());
            *graph.lock().unwrap() = Some(capture.end().unwrap());
        };
        let copying = || {
            let copied = stream.copy_from_pinned(&block.span, 0, &pinned, 0..HALF);
            *outcome.lock().unwrap() = Some(copied);
        };
        rig.machine.run_threads(vec![Box::new(capturing), Box::new(copying)]);
        match outcome.into_inner().unwrap().unwrap() {
            Ok(copied) => {
                assert!(!copied.is_captured(), "seed {seed}");
                eager += 1;
            }
            Err(error) => {
                assert_eq!(error, Error::Capturing { stream: stream.id() }, "seed {seed}");
                refused += 1;
            }
        }
        let graph = graph.into_inner().unwrap().unwrap();
        assert_eq!(graph.hold_count(), 0, "seed {seed}: nothing went into the graph");
    }
    assert!(0 < eager && 0 < refused, "{eager} eager, {refused} refused");
}
