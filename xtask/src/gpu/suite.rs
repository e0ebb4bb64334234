//! Runs the tests of one binary, one process each, and picks out the lines meant for a report.
//!
//! A test reports by printing a line `stress: name=value name=value` (a row of the page) or
//! `probe: name=value` (a fact about the driver, kept in `probe.json`).

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::Result;

use super::manifest::Entry;
use super::process::{self, Ended};
use super::results::TestRun;

/// The names in what a test binary prints for `--list --format terse`.
pub(crate) fn listed(text: &str) -> Vec<String> {
    text.lines().filter_map(|line| line.strip_suffix(": test")).map(String::from).collect()
}

/// Runs one test; what it measured about the driver is added to `measured`.
pub(crate) fn run(
    entry: &Entry,
    test: &str,
    command: &mut Command,
    scratch: &Path,
    measured: &mut BTreeMap<String, String>,
) -> Result<TestRun> {
    command.args([test, "--exact", "--nocapture", "--test-threads", "1"]);
    let ended = process::run(command, Duration::from_secs(entry.seconds_max), scratch)?;
    let stress = reported(&ended, test, "stress: ").into_iter().map(String::from).collect();
    for line in reported(&ended, test, "probe: ") {
        if let Some((fact, value)) = line.split_once('=') {
            measured.insert(fact.trim().to_owned(), value.trim().to_owned());
        }
    }
    let passed = has_passed(&ended);
    let how = how_it_ended(&ended, passed);
    let words = if passed { String::new() } else { ended.words() };
    let (binary, test) = (entry.name.clone(), test.to_owned());
    Ok(TestRun { binary, test, passed, how, seconds: ended.seconds, stress, words })
}

/// A test that was filtered out also ends with success, so the count must say that one ran.
fn has_passed(ended: &Ended) -> bool {
    ended.succeeded() && ended.stdout.contains("test result: ok. 1 passed; 0 failed;")
}

fn how_it_ended(ended: &Ended, passed: bool) -> String {
    let missing = ended.succeeded() && !passed;
    if missing { String::from("ran no test") } else { ended.describe() }
}

/// What follows `mark` on the lines that begin with it. The harness starts a line of its own with
/// the test's name, which the first printed line then continues.
fn reported<'a>(ended: &'a Ended, test: &str, mark: &str) -> Vec<&'a str> {
    let prefix = format!("test {test} ... ");
    let lines = ended.stdout.lines().chain(ended.stderr.lines());
    lines
        .map(|line| line.strip_prefix(&prefix).unwrap_or(line))
        .filter_map(|line| line.strip_prefix(mark))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{has_passed, how_it_ended, listed, reported};
    use crate::gpu::process::{Ended, How};

    fn ended(how: How, stdout: &str) -> Ended {
        Ended { how, seconds: 0.1, stdout: stdout.to_owned(), stderr: String::new() }
    }

    #[test]
    fn listed_tests_are_found_and_benches_are_not() {
        let text = "order::a_wait: test\nspeed: benchmark\n\n1 test, 1 benchmark\n";
        assert_eq!(listed(text), ["order::a_wait"]);
    }

    #[test]
    fn success_without_a_test_is_no_pass() {
        let passed = ended(How::Exit(0), "test result: ok. 1 passed; 0 failed; 0 ignored");
        assert!(has_passed(&passed));
        let filtered = ended(How::Exit(0), "test result: ok. 0 passed; 0 failed; 0 ignored");
        assert!(!has_passed(&filtered));
        assert_eq!(how_it_ended(&filtered, false), "ran no test");
        let failed = ended(How::Exit(101), "test result: FAILED. 0 passed; 1 failed");
        assert!(!has_passed(&failed));
        assert_eq!(how_it_ended(&failed, false), "exit 101");
    }

    #[test]
    fn reported_lines_are_found_behind_the_harness_too() {
        let said = ended(How::Exit(0), "test a::b ... stress: x=1\nstress: y=2\nno stress: z=3\n");
        assert_eq!(reported(&said, "a::b", "stress: "), ["x=1", "y=2"]);
    }
}
