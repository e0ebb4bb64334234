//! The devices that are there.

use std::process::Command;

use crate::command::{Said, wellspring};

#[test]
fn the_simulated_device_is_always_there() {
    let line = wellspring(&["devices", "--json"]).json();
    assert_eq!(line["schema"], 1);
    let devices = line["devices"].as_array().unwrap();
    let simulated = devices.iter().find(|device| device["device"] == "sim").unwrap();
    assert_eq!(simulated["simulated"], true);
    assert_eq!(simulated["vmm"], true);
    assert!(100 << 30 < simulated["total_bytes"].as_u64().unwrap());
    assert_eq!(devices.len() == 1, line["no_gpu"].is_string(), "{line}");
}

#[test]
fn the_table_has_a_row_for_each() {
    let said = wellspring(&["devices"]);
    assert_eq!((said.code, said.stderr.as_str()), (0, ""), "{said:?}");
    let mut lines = said.stdout.lines();
    let head: Vec<&str> = lines.next().unwrap().split_whitespace().collect();
    assert_eq!(head, ["device", "name", "memory", "driver", "vmm", "pools"]);
    assert!(lines.any(|line| line.starts_with("sim ")), "{said:?}");
}

#[test]
fn cargo_may_call_it_by_its_own_name() {
    let run = |arguments: &[&str]| {
        let program = env!("CARGO_BIN_EXE_cargo-wellspring");
        Said::from(Command::new(program).args(arguments).output().unwrap())
    };
    assert_eq!(run(&["wellspring", "devices"]).code, 0);
    assert_eq!(run(&["devices"]).code, 0);
    run(&["wellspring", "wellspring"]).check_failure(2, &["unrecognized subcommand"]);
}
