//! Negative controls: with one call skipped that was said to have been made, the checker sees the
//! edge missing. So the tests of order can fail.

use cuda_sim::FaultPlan;
use cuda_sys::CUresult;

use crate::rig::Rig;

/// The driver answers "success" to the `nth` next call, and does nothing.
fn skipped(call: &'static str, nth: u64) -> FaultPlan {
    FaultPlan { call, nth, code: CUresult::CUDA_SUCCESS, sticky: false }
}

#[test]
fn s11_a_skipped_wait_is_a_race_that_names_both_operations() {
    for skip in [false, true] {
        let rig = Rig::lazy();
        let ([a, b], block) = (rig.streams(), rig.block());
        rig.use_on(&a, &block);
        if skip {
            rig.machine.fail(skipped("cuStreamWaitEvent", 1));
        }
        b.wait_stream(&a).unwrap();
        rig.use_on(&b, &block);
        rig.context.synchronize().unwrap();
        let found: Vec<String> =
            rig.machine.take_hazards().iter().map(ToString::to_string).collect();
        assert_eq!(found.len(), usize::from(skip), "{found:?}");
        for report in found {
            let (one, other) = (format!("stream {}", a.id()), format!("stream {}", b.id()));
            assert!(report.contains(&one) && report.contains(&other), "{report}");
            assert!(report.contains("fill"), "{report}");
        }
    }
}

#[test]
fn s11_a_skipped_record_is_an_edge_that_is_not_there() {
    let rig = Rig::lazy();
    let ([a, b], block) = (rig.streams(), rig.block());
    let used = rig.use_on(&a, &block);
    rig.machine.fail(skipped("cuEventRecord", 1));
    b.wait_stream(&a).unwrap();
    assert!(b.order().knows(used), "the engine was lied to");
    let raw = rig.machine.stream_with_id(b.id()).unwrap();
    let edge = rig.machine.probe(block.span.span().address, block.span.span().bytes, raw);
    assert!(edge.is_err(), "and the checker was not");
}

#[test]
fn s11_a_skipped_host_wait_is_caught_when_memory_is_freed() {
    let rig = Rig::lazy();
    let (a, block) = (rig.stream(), rig.block());
    rig.use_on(&a, &block);
    rig.machine.fail(skipped("cuCtxSynchronize", 1));
    drop(block);
    let found = rig.machine.take_hazards();
    assert_eq!(found.len(), 1, "{found:?}");
    a.synchronize().unwrap();
}
