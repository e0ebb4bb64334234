//! The text is a module that the oldest supported driver and device take, and is named in full.

use super::{PTX, entry};

#[test]
fn every_entry_of_the_module_is_named_in_order() {
    let names: Vec<&str> = PTX
        .lines()
        .filter_map(|line| line.strip_prefix(".visible .entry "))
        .map(|rest| rest.split('(').next().unwrap())
        .collect();
    assert_eq!(names, entry::ALL);
}

#[test]
fn the_module_is_for_the_oldest_supported_driver_and_device() {
    let header: Vec<&str> = PTX.lines().filter(|line| line.starts_with('.')).take(3).collect();
    assert_eq!(header, [".version 9.0", ".target sm_75", ".address_size 64"]);
}

#[test]
fn the_module_holds_no_path_of_the_machine_that_made_it() {
    assert!(!PTX.contains(".file") && !PTX.contains("/home") && !PTX.contains("/tmp"));
    assert!(!PTX.contains('\0'));
}
