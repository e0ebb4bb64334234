//! Failures on demand, and the count of calls.

use cuda_sim::{FaultPlan, Schedule};
use cuda_sys::CUresult;

use crate::rig::{Rig, SUCCESS};
use crate::{cu, ok};

#[test]
fn the_nth_call_fails_and_does_nothing_else() {
    let rig = Rig::new(Schedule::Seeded(1));
    let code = CUresult::CUDA_ERROR_OUT_OF_MEMORY;
    rig.machine.fail(FaultPlan { call: "cuMemAlloc", nth: 3, code, sticky: false });
    let used: Vec<u64> = (0..4)
        .map(|index| {
            let mut address = 0;
            let answer = cu!(rig, mem_alloc(&raw mut address, 512));
            assert_eq!(answer, if index == 2 { code } else { SUCCESS });
            rig.machine.used_bytes()
        })
        .collect();
    assert_eq!(used, [512, 1024, 1024, 1536]);
}

/// A failure that is planned for one thread's calls is neither met nor brought nearer by another
/// thread, which cannot take it back either.
#[test]
fn a_failure_of_one_thread_is_no_other_threads() {
    let rig = Rig::new(Schedule::Seeded(1));
    let code = CUresult::CUDA_ERROR_INVALID_VALUE;
    let record = |rig: &Rig| {
        ok!(rig, ctx_set_current(rig.context));
        cu!(rig, event_record(rig.event(), rig.stream()))
    };
    rig.machine.fail_here(FaultPlan { call: "cuEventRecord", nth: 2, code, sticky: false });
    let other = &rig;
    rig.machine.run_threads(vec![Box::new(move || {
        assert_eq!([record(other), record(other)], [SUCCESS; 2]);
        assert_eq!(other.machine.clear_faults_here(), 0);
    })]);
    assert_eq!([record(&rig), record(&rig)], [SUCCESS, code]);
    rig.machine.fail_here(FaultPlan::next("cuEventRecord", code));
    assert_eq!(rig.machine.clear_faults_here(), 1);
    assert_eq!(record(&rig), SUCCESS);
}

#[test]
fn a_sticky_failure_breaks_the_context() {
    let rig = Rig::new(Schedule::Seeded(1));
    let a = rig.stream();
    let code = CUresult::CUDA_ERROR_ECC_UNCORRECTABLE;
    rig.machine.fail(FaultPlan { call: "cuStreamQuery", nth: 1, code, sticky: true });
    assert_eq!(cu!(rig, stream_query(a)), code);
    assert_eq!(cu!(rig, stream_query(a)), code);
    assert_eq!(cu!(rig, ctx_synchronize()), code);
}

#[test]
fn the_journal_counts_every_call() {
    let rig = Rig::new(Schedule::Seeded(1));
    let (a, event) = (rig.stream(), rig.event());
    let before = rig.machine.journal();
    ok!(rig, event_record(event, a));
    ok!(rig, event_record(event, a));
    let _answer = cu!(rig, event_query(event));
    let after = rig.machine.journal();
    assert_eq!(after.total() - before.total(), 3);
    assert_eq!(after.calls("cuEventRecord") - before.calls("cuEventRecord"), 2);
    assert_eq!(after.by_name()["cuInit"], 1);
    assert_eq!(rig.machine.calls("cuEventQuery"), 1);
    assert_eq!(rig.machine.call_count(), after.total());
}

#[test]
fn a_kernel_without_a_body_is_refused_by_name() {
    let rig = Rig::new(Schedule::Seeded(1));
    let code = rig.try_launch(rig.stream(), "bodiless", &[]);
    assert_eq!(code, CUresult::CUDA_ERROR_NOT_SUPPORTED);
    assert_eq!(rig.hazard_texts(), ["no body is registered for kernel bodiless"]);
}
