//! The checker over every scenario: silent where all is well, and for each check that is left out
//! of the allocator a report, without the simulated device's own judge.

use checker::Kind;
use cuda_sim::Schedule;

use crate::controls::control;
use crate::scenarios;
use crate::scenarios::broken::CONTROLS;
use crate::simulated_rig::SimulatedRig;

each_scenario!(super::silent);

fn schedules() -> impl Iterator<Item = Schedule> {
    let fixed = [Schedule::Eager, Schedule::Lazy, Schedule::Timed];
    fixed.into_iter().chain((0..4).map(Schedule::Seeded))
}

/// Runs a scenario under some schedules; the checker may find nothing.
fn silent(name: &str) {
    let (_, scenario) =
        scenarios::ALL.iter().find(|(known, _)| *known == name).expect("a scenario of this name");
    for schedule in schedules() {
        let told = format!("{name} under {schedule:?}");
        let (rig, checker) = SimulatedRig::checked(schedule);
        scenario(&rig);
        drop(rig);
        let reports = checker.reports();
        let listed: String = reports.iter().map(|report| format!("\n{report}")).collect();
        assert!(checker.is_clean(), "{told}: {listed}");
    }
}

/// Every check that can be left out of the allocator is missed by the checker, and by its name.
#[test]
fn every_check_left_out_of_the_allocator_is_found() {
    for left_out in allocator::Sabotage::ALL {
        let control = CONTROLS.iter().find(|control| control.left_out == Some(left_out));
        let name = control.expect("a control for each check").name;
        for schedule in schedules() {
            let found = kinds(name, schedule.clone(), true);
            let wanted = match left_out {
                allocator::Sabotage::ReleaseIncomplete => Kind::ReturnedTooEarly,
                _ => Kind::HandedOutTooEarly,
            };
            assert!(found.contains(&wanted), "{name} under {schedule:?}: {found:?}");
            let found = kinds(name, schedule.clone(), false);
            assert!(found.is_empty(), "{name} with its check, {schedule:?}: {found:?}");
        }
    }
}

fn kinds(name: &str, schedule: Schedule, broken: bool) -> Vec<Kind> {
    let control = control(name);
    let (rig, checker) = SimulatedRig::checked(schedule);
    let mut config = allocator::Config::default();
    if broken {
        config.sabotage = control.left_out;
    }
    let _verdict = (control.program)(&rig, config);
    checker.reports().iter().map(|report| report.kind).collect()
}
