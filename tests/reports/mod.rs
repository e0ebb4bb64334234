//! Faults that users of other libraries reported, as programs here: each test is named after what
//! went wrong, says where it was reported, and asserts what is right. The kind is what is tested,
//! not the instance.

mod contexts;
mod errors;
mod events;
mod exit;

use cuda_sim::{Machine, Schedule};

use crate::scenarios::rig::Rig as _;
use crate::simulated_rig::SimulatedRig;

/// How many seeds a report's program is run with.
const SEEDS: u64 = 16;

/// Every kind of schedule.
fn schedules() -> impl Iterator<Item = Schedule> {
    [Schedule::Eager, Schedule::Lazy, Schedule::Timed]
        .into_iter()
        .chain((0..SEEDS).map(Schedule::Seeded))
}

/// Runs a program under every schedule; no word may be lost and nothing found wrong.
fn under_every_schedule(program: impl Fn(&SimulatedRig)) {
    for schedule in schedules() {
        let rig = SimulatedRig::new(schedule.clone());
        program(&rig);
        assert_eq!(rig.desk().mismatches(), 0, "words were lost under {schedule:?}");
        let machine = rig.machine().clone();
        let mut hazards = rig.take_hazards();
        drop(rig);
        hazards.extend(machine.take_hazards());
        assert!(hazards.is_empty(), "under {schedule:?}: {hazards:#?}");
    }
}

/// How often an entry point was called so far.
fn calls(machine: &Machine, entry_points: &[&str]) -> u64 {
    entry_points.iter().map(|name| machine.calls(name)).sum()
}
