//! The checker on the device: it finds the planted faults and each check that is left out of the
//! allocator, and says nothing of their repairs and of the scenarios.

use std::sync::Arc;

use allocator::{Config, Sabotage};
use checker::{Checker, Kind};
use wellspring::{Builder, DeviceChoice, Runtime};

use crate::device;
use crate::planted_faults::{self, Planted, assert_found, reports};
use crate::scenarios::{self, broken::CONTROLS};

const SCENARIOS: &str = "checker::the_scenarios_are_silent";
const CONTROLS_FOUND: &str = "checker::every_check_left_out_is_found";

/// All tests of the checker.
pub fn names() -> impl Iterator<Item = String> {
    let planted = planted_faults::all().map(|planted| format!("checker::{}", planted.name));
    planted.chain([String::from(SCENARIOS), String::from(CONTROLS_FOUND)])
}

/// Runs one of them; false if there is none of this name.
pub fn run(name: &str) -> bool {
    match name {
        SCENARIOS => scenarios_are_silent(),
        CONTROLS_FOUND => controls_are_found(),
        _ => {
            let planted = planted_faults::all()
                .find(|planted| name.strip_prefix("checker::") == Some(planted.name));
            let Some(planted) = planted else { return false };
            finds(planted);
        }
    }
    true
}

fn finds(planted: &Planted) {
    let runtime = || -> Runtime {
        let choice =
            if device::is_simulated() { DeviceChoice::Simulated } else { DeviceChoice::Gpu(0) };
        Builder::new().checked().open_choice(choice).expect("these tests need a GPU")
    };
    let found = reports(planted, runtime(), true);
    assert_found(planted, &found);
    for report in &found {
        println!("{report}");
    }
    assert_silent(planted.name, &reports(planted, runtime(), false));
}

fn assert_silent(name: &str, reports: &[checker::Report]) {
    let listed: String = reports.iter().map(|report| format!("\n{report}")).collect();
    assert!(reports.is_empty(), "{name}: {listed}");
}

fn scenarios_are_silent() {
    for (name, scenario) in scenarios::ALL {
        let checker = Arc::new(Checker::new());
        let rig = device::open_checked(&checker);
        scenario(rig.as_ref());
        drop(rig);
        assert_silent(name, &checker.reports());
    }
}

fn controls_are_found() {
    for control in CONTROLS.iter().filter(|control| control.loses_words) {
        let Some(left_out) = control.left_out else { continue };
        let kinds = |sabotage: Option<Sabotage>| -> Vec<Kind> {
            let checker = Arc::new(Checker::new());
            let rig = device::open_checked(&checker);
            let mut config = Config::default();
            config.sabotage = sabotage;
            let _verdict = (control.program)(rig.as_ref(), config);
            checker.reports().iter().map(|report| report.kind).collect()
        };
        let found = kinds(Some(left_out));
        assert!(found.contains(&Kind::HandedOutTooEarly), "{}: {found:?}", control.name);
        let found = kinds(None);
        assert!(found.is_empty(), "{} with its check: {found:?}", control.name);
    }
}
