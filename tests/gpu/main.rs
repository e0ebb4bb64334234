//! The scenarios of `tests/scenarios` on a real GPU, the stress, and the proof that both can fail.
//!
//! Speaks the language of the usual test harness (`--list`, a name with `--exact`), but is its own
//! harness: each test runs in a process of its own with a time limit, because one may break the
//! context or hang. Without a GPU every test fails. `WELLSPRING_DEVICE=sim` rehearses the same
//! tests on the simulated driver.
#![deny(unsafe_code)]
#![expect(clippy::print_stdout, reason = "a harness talks through its standard output")]
#![expect(clippy::indexing_slicing, reason = "a test that indexes wrongly is to fail")]
#![expect(dead_code, unreachable_pub, reason = "two test binaries share scenarios and rig")]

mod checked;
mod device;
#[path = "../checker/mod.rs"]
mod planted_faults;
#[macro_use]
#[path = "../scenarios/mod.rs"]
mod scenarios;
#[path = "../it/simulated_rig.rs"]
mod simulated_rig;
mod stress;
mod suite;

use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

/// How long one test may take.
const LIMIT: Duration = Duration::from_secs(280);

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [flag, name] = arguments.as_slice()
        && flag == "--case"
    {
        suite::run(name);
        return ExitCode::SUCCESS;
    }
    let has = |flag: &str| arguments.iter().any(|argument| argument == flag);
    let names: Vec<&String> =
        arguments.iter().enumerate().filter(|at| is_name(*at, &arguments)).map(|at| at.1).collect();
    let fits = |test: &str| {
        let fits =
            |name: &&String| if has("--exact") { test == *name } else { test.contains(*name) };
        names.is_empty() || names.iter().any(fits)
    };
    let chosen: Vec<String> = suite::names().into_iter().filter(|test| fits(test)).collect();
    if has("--list") {
        chosen.iter().for_each(|test| println!("{test}: test"));
        return ExitCode::SUCCESS;
    }
    run_all(&chosen)
}

/// Whether an argument names a test: it is no flag and not the value of one.
fn is_name((index, word): (usize, &String), arguments: &[String]) -> bool {
    const WITH_VALUE: [&str; 3] = ["--test-threads", "--format", "--color"];
    let before = index.checked_sub(1).and_then(|before| arguments.get(before));
    let is_value = before.is_some_and(|flag| WITH_VALUE.contains(&flag.as_str()));
    !word.starts_with('-') && !is_value
}

fn run_all(chosen: &[String]) -> ExitCode {
    let begin = Instant::now();
    println!("\nrunning {} tests", chosen.len());
    let mut failed = Vec::new();
    for test in chosen {
        let ended = run_apart(test);
        let verdict = if ended.is_ok() { "ok" } else { "FAILED" };
        println!("test {test} ... {verdict}");
        if let Err(reason) = ended {
            failed.push(format!("    {test}: {reason}"));
        }
    }
    if !failed.is_empty() {
        println!("\nfailures:\n{}", failed.join("\n"));
    }
    println!(
        "\ntest result: {}. {} passed; {} failed; 0 ignored; 0 measured; 0 filtered out; finished \
         in {:.2}s\n",
        if failed.is_empty() { "ok" } else { "FAILED" },
        chosen.len() - failed.len(),
        failed.len(),
        begin.elapsed().as_secs_f64()
    );
    if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs a test in a process of its own.
fn run_apart(test: &str) -> Result<(), String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut command = Command::new(program);
    command.args(["--case", test]).stdin(Stdio::null());
    let mut child = command.spawn().map_err(|error| error.to_string())?;
    let begin = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => return Ok(()),
            Ok(Some(status)) => return Err(status.to_string()),
            Ok(None) if begin.elapsed() < LIMIT => std::thread::sleep(Duration::from_millis(5)),
            Ok(None) => {
                let _killed = child.kill().and_then(|()| child.wait());
                return Err(format!("did not end within {} s", LIMIT.as_secs()));
            }
            Err(error) => return Err(error.to_string()),
        }
    }
}
