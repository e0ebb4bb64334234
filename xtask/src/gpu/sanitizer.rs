//! Runs tests under compute-sanitizer's memcheck, a few at a time.
//!
//! The tool comes with CUDA; where it is absent that is reported, and nothing has failed. It sees
//! memory as the driver gave it out, so it finds what lies outside of that or was given back.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::Duration;

use anyhow::{Result, anyhow};

use super::Device;
use super::manifest::Entry;
use super::process::{self, Ended};
use super::results::{Results, SANITIZER};

const TOOL: &str = "compute-sanitizer";
/// Where CUDA puts it, if it is not in the path.
const FOLDERS: [&str; 2] = ["/usr/local/cuda/bin", "/opt/cuda/bin"];
/// What it returns where the program under it is well and memory was misused.
const EXIT_MISUSE: &str = "86";
/// What it says at the end of a run without a finding.
const CLEAN: &str = "ERROR SUMMARY: 0 errors";
const WORKERS: usize = 4;
/// Tests that cannot run under the tool, and why: it waits for running work where the driver does
/// not, so what a test holds up on purpose has ended, or never ends.
const LEFT_OUT: [(&str, &str); 4] = [
    ("order::a_new_stream_does_not_inherit_the_order_of_an_old_one", STREAM_ENDS),
    ("lifecycle::a_stream_may_go_before_its_blocks", STREAM_ENDS),
    ("waits::no_stream_waits_for_a_host_function", "the tool waits for a host function"),
    ("checker::the_scenarios_are_silent", "it runs the other three"),
];
const STREAM_ENDS: &str = "the tool waits where a stream is destroyed";

/// The verdict on one test.
#[derive(Debug)]
pub(crate) struct Checked {
    pub(crate) test: String,
    pub(crate) clean: bool,
    pub(crate) how: String,
    pub(crate) seconds: f64,
}

/// Where the tool is, or why it is not used.
pub(crate) fn find(device: Device) -> Result<PathBuf, &'static str> {
    if device == Device::Sim {
        return Err("a simulated device has none");
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(FOLDERS.map(PathBuf::from));
    let mut found = folders.map(|folder| folder.join(TOOL)).filter(|tool| tool.is_file());
    found.next().ok_or("compute-sanitizer is not installed")
}

/// Says in the results that nothing was checked, and why.
pub(crate) fn absent(results: &Results, reason: &str) -> Result<()> {
    results.append(SANITIZER, &format!("sanitizer: absent={}", reason.replace(' ', "_")))
}

/// Runs every test of `entry` under the tool.
pub(crate) fn run(
    tool: &Path,
    entry: &Entry,
    command: &(dyn Fn(&Path) -> Command + Sync),
    scratch: &Path,
    results: &Results,
) -> Result<Vec<Checked>> {
    let left = Mutex::new(entry.tests.iter());
    let done = Mutex::new(Vec::new());
    let next = || left.lock().ok()?.next();
    let work = |worker: usize| -> Result<()> {
        let folder = scratch.join(format!("sanitizer-{worker}"));
        std::fs::create_dir_all(&folder)?;
        while let Some(test) = next() {
            if let Some((_, reason)) = LEFT_OUT.iter().find(|(name, _)| name == test) {
                let reason = reason.replace(' ', "_");
                results.append(SANITIZER, &format!("sanitizer: test={test} left_out={reason}"))?;
                continue;
            }
            let mut command = command(tool);
            command.args(["--tool", "memcheck", "--report-api-errors", "no"]);
            command.args(["--error-exitcode", EXIT_MISUSE]);
            command.arg(&entry.file).args(["--case", test]);
            let ended =
                process::run(&mut command, Duration::from_secs(entry.seconds_max), &folder)?;
            done.lock().map_err(|_| anyhow!("a worker panicked"))?.push((test.clone(), ended));
        }
        Ok(())
    };
    std::thread::scope(|scope| -> Result<()> {
        let workers: Vec<_> =
            (0..WORKERS).map(|worker| scope.spawn(move || work(worker))).collect();
        for worker in workers {
            worker.join().map_err(|_| anyhow!("a worker panicked"))??;
        }
        Ok(())
    })?;
    let done = done.into_inner().map_err(|_| anyhow!("a worker panicked"))?;
    done.into_iter().map(|(test, ended)| judge(test, &ended, results)).collect()
}

/// Writes the verdict down, and all that was said where it is bad.
fn judge(test: String, ended: &Ended, results: &Results) -> Result<Checked> {
    let clean = is_clean(ended);
    let (how, seconds) = (ended.describe(), ended.seconds);
    let verdict = if clean { "clean" } else { "bad" };
    let line = format!("sanitizer: test={test} verdict={verdict} seconds={seconds:.2}");
    results.append(SANITIZER, &line)?;
    if !clean {
        results.append_words(SANITIZER, &test, ended)?;
    }
    Ok(Checked { test, clean, how, seconds })
}

/// A tool that could not look at the program at all says nothing of errors.
fn is_clean(ended: &Ended) -> bool {
    ended.succeeded() && (ended.stdout.contains(CLEAN) || ended.stderr.contains(CLEAN))
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::process::Command;

    use super::run;
    use crate::gpu::manifest::{Entry, Kind};
    use crate::gpu::results::{Results, SANITIZER};

    #[test]
    fn a_test_that_the_tool_cannot_run_is_told_and_not_run() {
        let folder = crate::test_folder("sanitizer-left-out");
        let (test, _) = super::LEFT_OUT[0];
        let results = Results::at(&folder);
        let command = |_: &Path| Command::new("false");
        let entry = entry(vec![test.to_owned()]);
        let checked = run(Path::new("tool"), &entry, &command, &folder, &results).unwrap();
        assert!(checked.is_empty(), "{checked:?}");
        let text = results.read(SANITIZER).unwrap();
        assert!(text.contains(&format!("test={test} left_out=the_tool_waits")), "{text}");
        std::fs::remove_dir_all(folder).unwrap();
    }

    fn entry(tests: Vec<String>) -> Entry {
        Entry {
            name: String::from("suite"),
            kind: Kind::Sanitize,
            file: String::from("tests/suite"),
            arguments: Vec::new(),
            tests,
            seconds_max: 20,
            needs_gpu: false,
        }
    }

    /// Stands for the tool: the last argument says what it finds.
    const SCRIPT: &str = r#"
        for last; do :; done
        case "$last" in
        good) echo "========= ERROR SUMMARY: 0 errors" ;;
        bad) echo "========= ERROR SUMMARY: 2 errors"; exit 86 ;;
        blind) echo "Device not supported" ;;
        esac"#;

    #[test]
    fn only_a_run_that_was_watched_and_clean_is_clean() {
        let folder = crate::test_folder("sanitizer");
        let entry = entry(["good", "bad", "blind"].map(String::from).to_vec());
        let command = |_: &Path| {
            let mut command = Command::new("sh");
            command.args(["-c", SCRIPT, "sh"]);
            command
        };
        let results = Results::at(&folder);
        let mut checked = run(Path::new("tool"), &entry, &command, &folder, &results).unwrap();
        checked.sort_by(|left, right| left.test.cmp(&right.test));
        let found: Vec<(&str, bool)> =
            checked.iter().map(|one| (one.test.as_str(), one.clean)).collect();
        assert_eq!(found, [("bad", false), ("blind", false), ("good", true)]);
        let text = results.read(SANITIZER).unwrap();
        assert!(text.contains("sanitizer: test=good verdict=clean"), "{text}");
        assert!(text.contains("== bad: exit 86"), "{text}");
        std::fs::remove_dir_all(folder).unwrap();
    }
}
