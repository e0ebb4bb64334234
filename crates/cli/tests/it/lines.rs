//! Command lines that mean nothing, and devices that are not there.

use crate::command::{replay, trace_file, wellspring};

#[test]
fn a_wrong_line_ends_with_2() {
    for (line, part) in [
        (&[][..], "nothing to do"),
        (&["replay"], "<FILE>"),
        (&["reply"], "unrecognized subcommand"),
        (&["replay", "a", "b"], "unexpected argument"),
        (&["replay", "a", "--device", "rocm"], "rocm"),
        (&["replay", "a", "--device", "cuda:"], "cuda:"),
        (&["replay", "a", "--device", "cuda:-1"], "cuda:-1"),
        (&["replay", "a", "--policy", "best"], "possible values"),
        (&["replay", "a", "--source", "pool"], "possible values"),
        (&["replay", "a", "--uses", "all"], "possible values"),
        (&["replay", "a", "--verify=some"], "possible values"),
        (&["replay", "a", "--capacity", "0"], "write a size"),
        (&["replay", "a", "--capacity", "2XiB"], "write a size"),
        (&["what-if", "a", "--capacity", "24"], "its unit is missing: write 24GiB"),
        (&["replay", "a", "--trace-device", "x"], "invalid digit"),
        (&["replay", "a", "--nonsense"], "--nonsense"),
        (&["advise"], "<FILE>"),
        (&["advise", "a", "--device", "sim"], "unexpected argument"),
        (&["devices", "all"], "unexpected argument"),
    ] {
        wellspring(line).check_failure(2, &[part]);
    }
}

#[test]
fn help_and_version_are_results() {
    for (line, part) in [
        (&["--help"][..], "replay"),
        (&["help", "replay"], "--trace-device"),
        (&["replay", "--help"], "--verify"),
        (&["advise", "--help"], "WELLSPRING_RECORD"),
        (&["--version"], "wellspring 0."),
    ] {
        let said = wellspring(line);
        assert_eq!((said.code, said.stderr.as_str()), (0, ""), "{said:?}");
        assert!(said.stdout.contains(part), "{said:?}");
    }
}

#[test]
fn a_device_that_is_not_there_ends_with_3() {
    let file = trace_file("graphs");
    let said = wellspring(&["replay", file.to_str().unwrap(), "--device", "cuda:99"]);
    said.check_failure(3, &[]);
}

#[test]
fn the_file_is_judged_before_the_device() {
    let said = wellspring(&["replay", "/no/such/file", "--device", "cuda:99"]);
    said.check_failure(2, &["/no/such/file", "no such file"]);
}

#[test]
fn a_trace_device_without_a_history_ends_with_2() {
    replay("graphs", &["--trace-device", "7"]).check_failure(2, &["7"]);
    assert_eq!(replay("graphs", &["--trace-device", "0", "-q"]).code, 0);
}
