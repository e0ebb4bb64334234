//! For each check, the product without it, caught; and the product with it, clean and not shy
//! (S11, R10).

use allocator::Config;
use cuda_sim::{FaultPlan, Schedule};
use cuda_sys::CUresult;

use crate::scenarios::broken::{CONTROLS, Control, Verdict};
use crate::scenarios::rig::Rig as _;
use crate::simulated_rig::SimulatedRig;

/// More waits than any of these programs makes.
const WAITS_MAX: u64 = 32;

fn schedules() -> impl Iterator<Item = Schedule> {
    let fixed = [Schedule::Eager, Schedule::Lazy, Schedule::Timed];
    fixed.into_iter().chain((0..16).map(Schedule::Seeded))
}

pub fn control(name: &str) -> &'static Control {
    CONTROLS.iter().find(|control| control.name == name).expect("a control of this name")
}

/// From now on a wait of a stream for an event succeeds and does nothing.
pub fn swallow_waits(rig: &SimulatedRig, count: u64) {
    for nth in 1..=count {
        let code = CUresult::CUDA_SUCCESS;
        rig.machine().fail(FaultPlan { call: "cuStreamWaitEvent", nth, code, sticky: false });
    }
}

/// Runs a program without its check, then with it.
fn check(name: &str) {
    let control = control(name);
    for schedule in schedules() {
        let (verdict, hazards) = run(control, schedule.clone(), true);
        let caught = hazards.iter().find(|text| names_all(text, &verdict));
        assert!(caught.is_some(), "{name} under {schedule:?}: {verdict:?}, {hazards:#?}");
        let (verdict, hazards) = run(control, schedule.clone(), false);
        assert!(hazards.is_empty(), "{name} with its check, {schedule:?}: {hazards:#?}");
        assert!(!verdict.early && verdict.late, "{name} with its check, {schedule:?}: {verdict:?}");
    }
}

fn run(control: &Control, schedule: Schedule, broken: bool) -> (Verdict, Vec<String>) {
    let rig = SimulatedRig::new(schedule);
    let mut config = Config::default();
    if broken {
        config.sabotage = control.left_out;
        if control.left_out.is_none() {
            swallow_waits(&rig, WAITS_MAX);
        }
    }
    let verdict = (control.program)(&rig, config);
    if !broken {
        assert_eq!(rig.desk().mismatches(), 0, "{}: words were lost", control.name);
    }
    let texts = rig.take_hazards().iter().map(ToString::to_string).collect();
    (verdict, texts)
}

/// Whether a report names the work, both streams and what is missing between them.
fn names_all(report: &str, verdict: &Verdict) -> bool {
    let [used, given] = verdict.streams.map(|id| format!("on stream {id})"));
    report.contains(verdict.work)
        && report.contains(&used)
        && report.contains(&given)
        && report.contains("missing edge: ")
}

macro_rules! controls {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            check(stringify!($name));
        })*

        #[test]
        fn every_control_has_its_test() {
            let tested = [$(stringify!($name)),*];
            assert!(CONTROLS.iter().all(|control| tested.contains(&control.name)));
            for sabotage in allocator::Sabotage::ALL {
                let shown = |control: &Control| control.left_out == Some(sabotage);
                assert!(CONTROLS.iter().any(shown), "{sabotage:?} is left out by no control");
            }
        }
    };
}

controls! {
    uses_are_ignored
    the_free_point_is_ignored
    a_device_side_wait_is_skipped
    a_split_forgets_the_frontier
    a_join_keeps_one_frontier
    memory_is_given_back_incomplete
    a_wait_is_swallowed
}
