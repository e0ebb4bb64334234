//! The suite against the installed driver: one test a group of the record, each case in a process
//! of its own, so that a crash or a hang is an answer like any other.
//!
//! Speaks the language of the usual test harness (`--list`, a name with `--exact`), but is its own
//! harness, because it starts itself again: `--case NAME` asks one case and prints its answers.
//! Without a GPU every test fails. `WELLSPRING_DEVICE=sim` rehearses with the simulated driver.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test harness talks through its standard streams"
)]

mod child;
mod hardware;
#[path = "../simulated/mod.rs"]
mod simulated;

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::time::Instant;

use conformance::{Answer, Kind, cases, judge, recorded};
use cuda_sim::DeviceProfile;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let after = |flag: &str| {
        let index = arguments.iter().position(|argument| argument == flag)?;
        arguments.get(index + 1)
    };
    if let Some(name) = after("--case") {
        return child::run(name);
    }
    let names: Vec<&String> = arguments.iter().filter(|word| is_name(word, &arguments)).collect();
    let exact = arguments.iter().any(|argument| argument == "--exact");
    let chosen: Vec<String> = groups()
        .into_iter()
        .filter(|group| {
            let test = test_name(group);
            let fits = |name: &&String| if exact { test == **name } else { test.contains(*name) };
            names.is_empty() || names.iter().any(fits)
        })
        .collect();
    if arguments.iter().any(|argument| argument == "--list") {
        chosen.iter().for_each(|group| println!("{}: test", test_name(group)));
        return ExitCode::SUCCESS;
    }
    run(&chosen)
}

/// Whether an argument names a test: it is no flag and not the value of one.
fn is_name(word: &str, arguments: &[String]) -> bool {
    const WITH_VALUE: [&str; 3] = ["--test-threads", "--format", "--color"];
    let is_value = arguments
        .iter()
        .zip(arguments.iter().skip(1))
        .any(|(flag, value)| value == word && WITH_VALUE.contains(&flag.as_str()));
    !word.starts_with('-') && !is_value
}

/// The groups of the record.
fn groups() -> BTreeSet<String> {
    recorded().map(|answer| answer.group).collect()
}

fn test_name(group: &str) -> String {
    group.replace(' ', "_")
}

fn run(groups: &[String]) -> ExitCode {
    let begin = Instant::now();
    let kind = match std::env::var("WELLSPRING_DEVICE").as_deref() {
        Ok("sim") => Kind::Simulated,
        _ => Kind::Hardware,
    };
    if kind == Kind::Hardware
        && let Err(error) = cuda_sys::load()
    {
        println!("this suite needs a GPU: {error}");
        println!("test result: FAILED. 0 passed; {} failed;", groups.len());
        return ExitCode::FAILURE;
    }
    let (mut passed, mut failed, mut same, mut different) = (0, 0, 0, 0);
    for group in groups {
        let (group_same, group_different) = run_group(group, kind);
        if group_different == 0 {
            passed += 1;
        } else {
            failed += 1;
        }
        println!(
            "test {} ... {}",
            test_name(group),
            if group_different == 0 { "ok" } else { "FAILED" }
        );
        same += group_same;
        different += group_different;
    }
    println!("{same} passed, {different} failed");
    let verdict = if failed == 0 { "ok" } else { "FAILED" };
    let seconds = begin.elapsed().as_secs_f64();
    println!(
        "test result: {verdict}. {passed} passed; {failed} failed; 0 ignored; 0 measured; \
         0 filtered out; finished in {seconds:.2}s"
    );
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Asks all cases of a group; how many probes were answered as recorded, and how many were not.
fn run_group(group: &str, kind: Kind) -> (usize, usize) {
    let mut answers: Vec<Answer> = Vec::new();
    for case in cases().iter().filter(|case| case.group() == group) {
        answers.extend(match kind {
            Kind::Hardware => hardware::answers(case),
            Kind::Simulated => simulated::run(case, DeviceProfile::h200()).0,
        });
    }
    let mut report = judge(&answers, kind);
    report
        .differences
        .retain(|difference| difference.group == group || difference.recorded.is_none());
    for difference in &report.differences {
        println!("{difference}");
    }
    (report.same, report.failed().count())
}
