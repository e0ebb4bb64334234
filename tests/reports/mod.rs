//! Faults that users of other libraries reported, as programs here: each test is named after what
//! went wrong, says where it was reported, and asserts what is right. The kind is what is tested,
//! not the instance.

mod checked;
mod contexts;
mod errors;
mod events;
mod exit;
mod kept;
mod locks;
mod pools;
mod streams;
mod uses;

use cuda_sim::{Machine, MachineBuilder, Schedule};

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

/// Runs a program that leaves something out under every schedule: a report of the checker names
/// all of what the program gives.
fn is_found(program: impl Fn(&SimulatedRig) -> Vec<String>) {
    for schedule in schedules() {
        let rig = SimulatedRig::new(schedule.clone());
        let names = program(&rig);
        let found: Vec<_> = rig.take_hazards().iter().map(ToString::to_string).collect();
        let tells = |text: &String| names.iter().all(|name| text.contains(name.as_str()));
        assert!(found.iter().any(tells), "{schedule:?}: nothing names {names:?} in {found:#?}");
    }
}

/// Waits for all work, so that a program that left something out fails where it is meant to.
fn end(rig: &SimulatedRig) {
    rig.desk().context().synchronize().expect("all ends");
}

/// How a report names a stream.
fn on(stream: &::streams::Stream) -> String {
    format!("on stream {}", stream.id())
}

/// A machine with our kernels.
fn built(builder: MachineBuilder) -> Machine {
    let machine = builder.build();
    kernels::simulated::register(&machine);
    machine
}

/// The page of reports names every test here, and no other.
#[test]
fn the_page_of_reports_names_these_tests() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut here = Vec::new();
    for entry in root.join("tests/reports").read_dir().expect("the folder") {
        let path = entry.expect("a file").path();
        let topic = path.file_stem().expect("a name").to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&path).expect("a text");
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        let tests = lines.windows(2).filter(|pair| pair[0] == "#[test]");
        let names = tests.filter_map(|pair| pair[1].strip_prefix("fn ")?.split_once('('));
        here.extend(names.map(|(name, _)| format!("{topic}::{name}")));
    }
    here.retain(|name| !name.starts_with("mod::"));
    let page = std::fs::read_to_string(root.join("docs/reports.md")).expect("the page");
    let told = page.lines().filter_map(|line| line.strip_suffix("` |")?.rsplit_once('`'));
    let mut told: Vec<String> = told.map(|(_, name)| String::from(name)).collect();
    here.sort_unstable();
    told.sort_unstable();
    assert_eq!(told, here);
}
