//! Every scenario, under every kind of schedule.

use cuda_sim::Schedule;

use crate::scenarios;
use crate::scenarios::rig::Rig as _;
use crate::simulated_rig::SimulatedRig;

/// How many seeds each scenario is run with.
const SEEDS: u64 = 32;

each_scenario!(super::under_every_schedule);

/// Runs a scenario under each schedule; nothing may be found wrong, and no word may be lost.
fn under_every_schedule(name: &str) {
    let (_, scenario) =
        scenarios::ALL.iter().find(|(known, _)| *known == name).expect("a scenario of this name");
    let fixed = [Schedule::Eager, Schedule::Lazy, Schedule::Timed];
    let seeded = (0..SEEDS).map(Schedule::Seeded);
    for schedule in fixed.into_iter().chain(seeded) {
        let told = format!("{name} under {schedule:?}");
        let hint = Hint(&told);
        let rig = SimulatedRig::new(schedule);
        scenario(&rig);
        assert_eq!(rig.desk().mismatches(), 0, "{told}: words were lost");
        let hazards = rig.take_hazards();
        assert!(hazards.is_empty(), "{told}: {}", listed(&hazards));
        let machine = rig.machine().clone();
        drop(rig);
        let hazards = machine.take_hazards();
        assert!(hazards.is_empty(), "{told}, at the end: {}", listed(&hazards));
        drop(hint);
    }
}

fn listed(hazards: &[cuda_sim::Hazard]) -> String {
    hazards.iter().map(|hazard| format!("\n  {hazard}")).collect()
}

/// Says under which schedule a scenario failed.
struct Hint<'a>(&'a str);

impl Drop for Hint<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            #[expect(clippy::print_stderr, reason = "a test says which run failed")]
            {
                eprintln!("failed: {}", self.0);
            }
        }
    }
}
