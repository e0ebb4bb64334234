//! Capacities that are enough, and those that are not.

use crate::command::replay;

#[test]
fn too_little_room_is_counted_and_ends_with_1() {
    for name in ["graphs", "side_stream"] {
        let said = replay(name, &["--json", "--verify", "--capacity", "100MiB"]);
        assert_eq!(said.code, 1, "{said:?}");
        let line = said.json();
        assert!(0 < line["out_of_memory"].as_u64().unwrap(), "{line}");
        assert_eq!(line["stamp_errors"], 0, "{line}");
        assert!(line["peak_reserved_bytes"].as_u64().unwrap() <= 100 << 20, "{line}");
    }
}

#[test]
fn the_smallest_capacity_serves_and_less_does_not() {
    for name in ["graphs", "streams"] {
        let said = replay(name, &["--json", "--fit"]);
        assert_eq!(said.code, 0, "{said:?}");
        let line = said.json();
        let smallest = line["smallest_capacity_bytes"].as_u64().unwrap();
        assert!(line["peak_active_bytes"].as_u64().unwrap() <= smallest, "{line}");
        assert!(smallest <= line["recorded_peak_reserved_bytes"].as_u64().unwrap(), "{line}");
        let code = |bytes: u64| replay(name, &["-q", "--capacity", &bytes.to_string()]).code;
        assert_eq!(code(smallest), 0, "{name} with {smallest}");
        assert_eq!(code(smallest - (2 << 20)), 1, "{name} with less than {smallest}");
    }
}

#[test]
fn no_capacity_below_the_given_one_may_serve() {
    let said = replay("graphs", &["--fit", "--capacity", "64MiB"]);
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.stdout.contains("the largest did not serve it either"), "{said:?}");
    let line = replay("graphs", &["--fit", "--capacity", "64MiB", "--json"]).json();
    assert!(line.get("smallest_capacity_bytes").is_none(), "{line}");
}
