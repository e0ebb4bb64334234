//! Runs a pack, kind by kind, and leaves the results in one folder as they come.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use tempfile::TempDir;

use super::Device;
use super::manifest::{Entry, Kind, Manifest};
use super::probe::{Packed, Probe};
use super::results::{
    BENCHES, EXAMPLES, PATTERNS, PROBE, RANDOM, REPLAYS, Results, SANITIZER, TESTS, TestRun,
};
use super::{benches, patterns, process, random, replays, sanitizer, suite};

/// Where cuBLAS lies beside CUDA.
const TOOLKIT_LIBRARIES: &str = "/usr/local/cuda/lib64";
/// How a program has ended that a rehearsal cannot run.
const NEEDS_GPU: &str = "not run, it needs a GPU";

/// How many programs and tests passed and failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Totals {
    pub(crate) passed: usize,
    pub(crate) failed: usize,
}

/// One run of one pack.
struct Run {
    pack: PathBuf,
    manifest: Manifest,
    probe: Probe,
    results: Results,
    scratch: TempDir,
    totals: Totals,
}

/// Runs everything in `pack`, or only the kinds named.
pub(crate) fn run(pack: &Path, probe: Probe, out: &Path, only: &[Kind]) -> Result<Totals> {
    let pack = pack.canonicalize().with_context(|| format!("opening {}", pack.display()))?;
    let manifest = Manifest::read(&pack)?;
    let wanted = Kind::ALL.into_iter().filter(|kind| only.is_empty() || only.contains(kind));
    let wanted: Vec<Kind> = wanted.collect();
    let stale: Vec<&str> = wanted.iter().flat_map(|kind| files_of(*kind)).copied().collect();
    let results = Results::begin(out, &stale)?;
    let scratch = tempfile::tempdir().context("making a folder for temporary files")?;
    let totals = Totals::default();
    let mut run = Run { pack, manifest, probe, results, scratch, totals };
    run.describe(&wanted)?;
    for kind in wanted {
        run.kind(kind)?;
    }
    Ok(run.totals)
}

fn files_of(kind: Kind) -> &'static [&'static str] {
    match kind {
        Kind::Test => &[TESTS],
        Kind::Replay => &[REPLAYS],
        Kind::Bench => &[BENCHES],
        Kind::Example => &[EXAMPLES],
        Kind::Pattern => &[PATTERNS],
        Kind::Random => &[RANDOM],
        Kind::Sanitize => &[SANITIZER],
    }
}

/// The commits of what ran before and is not run again, where they are not `commit`.
fn other_commits(earlier: &Probe, wanted: &[Kind], commit: &str) -> BTreeMap<String, String> {
    let kept = Kind::ALL.iter().filter(|kind| !wanted.contains(kind)).map(|kind| kind.name());
    let known = |kind: &str| earlier.commits.get(kind).unwrap_or(&earlier.commit).clone();
    let commits = kept.map(|kind| (kind.to_owned(), known(kind)));
    commits.filter(|(_, known)| known != commit).collect()
}

impl Run {
    fn describe(&mut self, wanted: &[Kind]) -> Result<()> {
        // What tests measured in an earlier part of the same run stays, and what ran in another
        // pack's.
        if let Ok(earlier) = self.results.read_json::<Probe>(PROBE) {
            self.probe.commits = other_commits(&earlier, wanted, &self.manifest.commit);
            if !wanted.contains(&Kind::Test) {
                self.probe.measured = earlier.measured;
            }
        }
        let count = |kind| self.manifest.of_kind(kind).count();
        self.probe.packed = Packed {
            tests: self.manifest.test_count(),
            replays: count(Kind::Replay),
            benches: count(Kind::Bench),
            examples: count(Kind::Example),
            patterns: count(Kind::Pattern),
            random: count(Kind::Random),
            sanitized: self.manifest.of_kind(Kind::Sanitize).map(|entry| entry.tests.len()).sum(),
        };
        self.probe.commit.clone_from(&self.manifest.commit);
        self.probe.packed_at.clone_from(&self.manifest.packed_at);
        for gpu in &self.probe.gpus {
            println!("{}, driver {}, {}", gpu.name, gpu.driver, gpu.memory);
        }
        println!("commit {}, device {}", self.probe.commit, self.probe.device.as_str());
        self.results.write_json(PROBE, &self.probe)
    }

    fn kind(&mut self, kind: Kind) -> Result<()> {
        let entries: Vec<Entry> = self.manifest.of_kind(kind).cloned().collect();
        let mut test_runs = Vec::new();
        for entry in &entries {
            match kind {
                Kind::Test => self.tests(entry, &mut test_runs)?,
                Kind::Replay => self.replay(entry)?,
                Kind::Bench => self.bench(entry)?,
                Kind::Example => self.example(entry)?,
                Kind::Pattern => self.pattern(entry)?,
                Kind::Random => self.random(entry)?,
                Kind::Sanitize => self.sanitize(entry)?,
            }
        }
        Ok(())
    }

    fn tests(&mut self, entry: &Entry, runs: &mut Vec<TestRun>) -> Result<()> {
        ensure!(!entry.tests.is_empty(), "the manifest lists no test of {}", entry.name);
        for test in &entry.tests {
            let mut command = self.command(entry);
            let measured = &mut self.probe.measured;
            let run = suite::run(entry, test, &mut command, self.scratch.path(), measured)?;
            self.count(run.passed, &format!("{}::{test}", entry.name), &run.how, run.seconds);
            runs.push(run);
            self.results.write_json(TESTS, &runs)?;
        }
        self.results.write_json(PROBE, &self.probe)
    }

    fn replay(&mut self, entry: &Entry) -> Result<()> {
        let run = replays::run(entry, &mut self.command(entry), self.scratch.path())?;
        self.results.append(REPLAYS, &serde_json::to_string(&run)?)?;
        self.count(run.passed, &format!("replay {}", entry.name), &run.how, run.seconds);
        Ok(())
    }

    fn bench(&mut self, entry: &Entry) -> Result<()> {
        let mut command = self.command(entry);
        let (ended, passed) =
            benches::run(entry, &mut command, self.scratch.path(), &self.results)?;
        self.count(passed, &format!("bench {}", entry.name), &ended.describe(), ended.seconds);
        Ok(())
    }

    fn example(&mut self, entry: &Entry) -> Result<()> {
        if entry.needs_gpu && self.probe.device == Device::Sim {
            println!("not run example {}: it needs a GPU", entry.name);
            return self.results.append(EXAMPLES, &format!("== {}: {NEEDS_GPU}", entry.name));
        }
        let limit = Duration::from_secs(entry.seconds_max);
        let ended = process::run(&mut self.command(entry), limit, self.scratch.path())?;
        self.results.append_words(EXAMPLES, &entry.name, &ended)?;
        let name = format!("example {}", entry.name);
        self.count(ended.succeeded(), &name, &ended.describe(), ended.seconds);
        Ok(())
    }

    fn pattern(&mut self, entry: &Entry) -> Result<()> {
        let mut command = self.command(entry);
        let (ended, passed) =
            patterns::run(entry, &mut command, self.scratch.path(), &self.results)?;
        self.count(passed, &format!("pattern {}", entry.name), &ended.describe(), ended.seconds);
        Ok(())
    }

    fn random(&mut self, entry: &Entry) -> Result<()> {
        let (mut command, device) = (self.command(entry), self.probe.device);
        let ended = random::run(entry, &mut command, device, self.scratch.path(), &self.results)?;
        self.count(ended.succeeded(), &entry.name, &ended.describe(), ended.seconds);
        Ok(())
    }

    fn sanitize(&mut self, entry: &Entry) -> Result<()> {
        let device = self.probe.device;
        let tool = match sanitizer::find(device) {
            Ok(tool) => tool,
            Err(reason) => {
                println!("absent sanitizer: {reason}");
                return sanitizer::absent(&self.results, reason);
            }
        };
        let pack = self.pack.clone();
        let command = |program: &Path| {
            let mut command = Command::new(program);
            command.env("WELLSPRING_DEVICE", device.as_str()).current_dir(&pack);
            command
        };
        let scratch = self.scratch.path();
        let checked = sanitizer::run(&tool, entry, &command, scratch, &self.results)?;
        for one in checked {
            self.count(one.clean, &format!("sanitizer {}", one.test), &one.how, one.seconds);
        }
        Ok(())
    }

    fn command(&self, entry: &Entry) -> Command {
        let device = self.probe.device;
        let file = self.pack.join(&entry.file);
        let mut command = if file.extension().is_some_and(|extension| extension == "py") {
            let mut python = Command::new("python3");
            python.arg(file);
            python
        } else {
            Command::new(file)
        };
        command.args(entry.arguments_for(device, &self.pack));
        command.env("WELLSPRING_DEVICE", device.as_str()).current_dir(&self.pack);
        if entry.needs_gpu {
            let own = std::env::var("LD_LIBRARY_PATH").unwrap_or_default();
            command.env("LD_LIBRARY_PATH", format!("{own}:{TOOLKIT_LIBRARIES}"));
        }
        command
    }

    fn count(&mut self, passed: bool, name: &str, how: &str, seconds: f64) {
        if passed {
            self.totals.passed += 1;
            println!("passed {name} ({seconds:.2} s)");
        } else {
            self.totals.failed += 1;
            println!("FAILED {name}: {how}");
        }
    }
}

#[cfg(test)]
mod tests;
