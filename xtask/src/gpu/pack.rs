//! Builds tests, benches, examples and `wellspring` into one folder with a manifest and this xtask.
//!
//! Needs cargo and `strip`; needs no GPU. What is built is found in the workspace: tests called
//! `gpu` of packages with a `gpu` feature, and every example and bench.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};
use xshell::{Shell, cmd};

use super::manifest::{Entry, Kind, Manifest};
use super::suite;
use target::{Target, Use};

mod target;

/// Small enough to be copied to any machine with a GPU in a moment; a compressed archive of it is
/// a third of that.
const PACK_BYTES_MAX: u64 = 96 << 20;
/// The command that replays traces.
const COMMAND: &str = "wellspring";
const TEST_SECONDS_MAX: u64 = 180;
/// A stress test may take this long: a million allocations and their kernels.
const STRESS_SECONDS_MAX: u64 = 300;
const REPLAY_SECONDS_MAX: u64 = 120;
const BENCH_SECONDS_MAX: u64 = 300;
const EXAMPLE_SECONDS_MAX: u64 = 60;
const PATTERN_SECONDS_MAX: u64 = 420;
const RANDOM_SECONDS_MAX: u64 = 560;
const SANITIZE_SECONDS_MAX: u64 = 120;
/// The package whose tests are run once more under a checker of the device's memory, and those
/// that are not: they are about many allocations, or wrong on purpose.
const SANITIZED_PACKAGE: &str = "wellspring";
const NOT_SANITIZED: [&str; 2] = ["stress::", "controls::"];
/// Packages whose programs open the installed driver by themselves.
const NEED_GPU: [&str; 1] = ["cudarc-adapter"];
/// Programs of other libraries, run beside ours, and what they load.
const PEERS: &str = "crates/patterns/benches/peers";
const PEER_MODULE: &str = "kernels/wellspring.ptx";
/// Short enough that a run of all benches ends in minutes.
const BENCH_ARGUMENTS: &[&str] =
    &["--bench", "--noplot", "--warm-up-time", "1", "--measurement-time", "2"];

pub(crate) fn pack(folder: &Path, traces: &Path) -> Result<()> {
    let folder = &std::path::absolute(folder)?;
    let shell = Shell::new()?;
    shell.change_dir(crate::workspace_root());
    let targets = target::find(&shell)?;
    let test_count = targets.iter().filter(|target| target.usage == Use::Test).count();
    ensure!(0 < test_count, "no package has both a `gpu` feature and a test called `gpu`");
    make_empty(folder)?;
    // A pack that is given up half-way is known as one, and may be made anew.
    Manifest::new(String::from("unfinished"), String::new(), Vec::new()).write(folder)?;
    let mut entries = Vec::new();
    for target in &targets {
        let built = target.build(&shell)?;
        let file = target.file_name();
        let packed = strip(&shell, &built, folder, &file)?;
        entries.extend(entry(target, file, &packed)?);
    }
    entries.extend(pack_peers(&shell, folder)?);
    let sanitized: Vec<Entry> = entries.iter().filter_map(sanitized).collect();
    entries.extend(sanitized);
    strip(&shell, &target::build_xtask(&shell)?, folder, "xtask")?;
    if folder.join(COMMAND).exists() {
        entries.extend(pack_traces(traces, folder)?);
    } else {
        println!("no package has a binary `{COMMAND}`: no replay is packed");
    }
    let commit = commit(&shell)?;
    let packed_at = cmd!(shell, "date -u +%Y-%m-%dT%H:%MZ").read()?;
    let manifest = Manifest::new(commit, packed_at, entries);
    manifest.write(folder)?;
    let bytes = bytes_below(folder)?;
    ensure!(bytes < PACK_BYTES_MAX, "{bytes} bytes packed, {PACK_BYTES_MAX} are the most");
    print_summary(&manifest, bytes);
    Ok(())
}

/// Copies a program into the pack without what only a debugger needs.
fn strip(shell: &Shell, built: &Path, folder: &Path, file: &str) -> Result<PathBuf> {
    let packed = folder.join(file);
    shell.create_dir(packed.parent().context("a packed file lies in a folder")?)?;
    cmd!(shell, "strip -o {packed} {built}").quiet().run().context("is `strip` installed?")?;
    Ok(packed)
}

fn print_summary(manifest: &Manifest, bytes: u64) {
    let count = |kind| manifest.of_kind(kind).count();
    println!(
        "packed {} tests in {} binaries, {} replays, {} benches, {} examples, {} patterns: {} KiB \
         of {}",
        manifest.test_count(),
        count(Kind::Test),
        count(Kind::Replay),
        count(Kind::Bench),
        count(Kind::Example),
        count(Kind::Pattern),
        bytes >> 10,
        manifest.commit
    );
}

/// Empties a folder of ours; refuses one that holds something else.
fn make_empty(folder: &Path) -> Result<()> {
    if folder.exists() {
        let is_empty = std::fs::read_dir(folder)?.next().is_none();
        let is_ours = is_empty || folder.join("manifest.json").exists();
        ensure!(is_ours, "{} exists and is no pack: name another folder", folder.display());
        std::fs::remove_dir_all(folder)?;
    }
    std::fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))
}

/// The entry of a built program; programs that are only tools have none.
fn entry(target: &Target, file: String, packed: &Path) -> Result<Option<Entry>> {
    let (kind, seconds_max) = match target.usage {
        Use::Test => (Kind::Test, TEST_SECONDS_MAX),
        Use::Bench => (Kind::Bench, BENCH_SECONDS_MAX),
        Use::Example => (Kind::Example, EXAMPLE_SECONDS_MAX),
        Use::Pattern => (Kind::Pattern, PATTERN_SECONDS_MAX),
        Use::Random => (Kind::Random, RANDOM_SECONDS_MAX),
        Use::Tool => return Ok(None),
    };
    let arguments = match kind {
        Kind::Bench => BENCH_ARGUMENTS.iter().copied().map(String::from).collect(),
        Kind::Test
        | Kind::Replay
        | Kind::Example
        | Kind::Pattern
        | Kind::Random
        | Kind::Sanitize => Vec::new(),
    };
    let tests = if kind == Kind::Test { list_tests(packed)? } else { Vec::new() };
    let is_stress = tests.iter().any(|test| test.contains("stress"));
    let seconds_max = if is_stress { STRESS_SECONDS_MAX } else { seconds_max };
    let name = match kind {
        Kind::Test => target.package.clone(),
        Kind::Replay
        | Kind::Bench
        | Kind::Example
        | Kind::Pattern
        | Kind::Random
        | Kind::Sanitize => target.name.clone(),
    };
    let needs_gpu = NEED_GPU.contains(&target.package.as_str());
    Ok(Some(Entry { name, kind, file, arguments, tests, seconds_max, needs_gpu }))
}

/// The tests of a suite that are run once more under a checker of the device's memory.
fn sanitized(suite: &Entry) -> Option<Entry> {
    if suite.kind != Kind::Test || suite.name != SANITIZED_PACKAGE {
        return None;
    }
    let is_wanted = |test: &&String| !NOT_SANITIZED.iter().any(|not| test.starts_with(not));
    let tests = suite.tests.iter().filter(is_wanted).cloned().collect();
    let (kind, seconds_max) = (Kind::Sanitize, SANITIZE_SECONDS_MAX);
    Some(Entry { kind, tests, seconds_max, ..suite.clone() })
}

/// Copies the programs of other libraries, in Python, and the module they launch from.
fn pack_peers(shell: &Shell, pack: &Path) -> Result<Vec<Entry>> {
    let to = pack.join("peers");
    shell.create_dir(&to)?;
    shell.copy_file(PEER_MODULE, &to)?;
    let module = Path::new(PEER_MODULE).file_name().context("a file has a name")?;
    let module = format!("{{pack}}/peers/{}", module.to_string_lossy());
    let mut entries = Vec::new();
    for file in shell.read_dir(PEERS)? {
        let name = file.file_name().context("a file has a name")?.to_string_lossy().into_owned();
        let Some(stem) = name.strip_suffix(".py") else { continue };
        shell.copy_file(&file, &to)?;
        entries.push(Entry {
            name: stem.to_owned(),
            kind: Kind::Pattern,
            file: format!("peers/{name}"),
            arguments: vec![module.clone()],
            tests: Vec::new(),
            seconds_max: PATTERN_SECONDS_MAX,
            needs_gpu: false,
        });
    }
    Ok(entries)
}

/// Asks a test binary what is inside; it needs no GPU for that.
fn list_tests(binary: &Path) -> Result<Vec<String>> {
    let path = binary.canonicalize()?;
    let output = Command::new(&path).args(["--list", "--format", "terse"]).output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(output.status.success(), "{} --list failed: {text}", path.display());
    let tests = suite::listed(&text);
    ensure!(!tests.is_empty(), "{} holds no test", path.display());
    Ok(tests)
}

/// Copies every recorded trace; each is one replay.
fn pack_traces(from: &Path, pack: &Path) -> Result<Vec<Entry>> {
    let mut files: Vec<PathBuf> = Vec::new();
    for entry in std::fs::read_dir(from).with_context(|| format!("reading {}", from.display()))? {
        let path = entry?.path();
        if path.file_name().is_some_and(|name| name.to_string_lossy().contains(".pickle")) {
            files.push(path);
        }
    }
    files.sort();
    std::fs::create_dir_all(pack.join("traces"))?;
    let mut entries = Vec::new();
    for file in files {
        let name = file.file_name().context("a file has a name")?.to_string_lossy().into_owned();
        std::fs::copy(&file, pack.join("traces").join(&name))?;
        let trace = format!("{{pack}}/traces/{name}");
        let arguments = ["replay", &trace, "--device", "{device}", "--verify", "--json"];
        entries.push(Entry {
            name: name.split('.').next().unwrap_or_default().to_owned(),
            kind: Kind::Replay,
            file: COMMAND.to_owned(),
            arguments: arguments.map(String::from).to_vec(),
            tests: Vec::new(),
            seconds_max: REPLAY_SECONDS_MAX,
            needs_gpu: false,
        });
    }
    if entries.is_empty() {
        bail!("{} holds no trace (*.pickle*)", from.display());
    }
    Ok(entries)
}

fn commit(shell: &Shell) -> Result<String> {
    let commit = cmd!(shell, "git rev-parse --short=12 HEAD").read()?;
    let changes = cmd!(shell, "git status --porcelain").read()?;
    let is_generated = |line: &str| line.ends_with("docs/benchmarks.md");
    let has_changes = changes.lines().any(|line| !is_generated(line));
    Ok(if has_changes { format!("{commit}+changes") } else { commit })
}

fn bytes_below(folder: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        bytes += if metadata.is_dir() { bytes_below(&entry.path())? } else { metadata.len() };
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::{Entry, Kind, bytes_below, make_empty, pack_peers, pack_traces, sanitized};

    #[test]
    fn scenarios_are_checked_for_memory_and_controls_are_not() {
        let tests = ["uses::a", "stress::b", "controls::c"].map(String::from).to_vec();
        let suite = Entry {
            name: String::from("wellspring"),
            kind: Kind::Test,
            file: String::from("tests/wellspring"),
            arguments: Vec::new(),
            tests,
            seconds_max: 1,
            needs_gpu: false,
        };
        let once_more = sanitized(&suite).unwrap();
        assert_eq!(
            (once_more.kind, once_more.tests.as_slice()),
            (Kind::Sanitize, &[String::from("uses::a")][..])
        );
        assert_eq!(sanitized(&Entry { name: String::from("conformance"), ..suite }), None);
    }

    #[test]
    fn peers_travel_with_the_module_they_load() {
        let shell = xshell::Shell::new().unwrap();
        shell.change_dir(crate::workspace_root());
        let pack = crate::test_folder("peers");
        let entries = pack_peers(&shell, &pack).unwrap();
        assert!(entries.iter().any(|entry| entry.file == "peers/torch_streams.py"), "{entries:?}");
        assert!(pack.join("peers/wellspring.ptx").exists());
        std::fs::remove_dir_all(pack).unwrap();
    }

    #[test]
    fn a_folder_that_is_no_pack_is_not_emptied() {
        let folder = crate::test_folder("pack");
        std::fs::write(folder.join("precious"), "12345").unwrap();
        let refusal = make_empty(&folder).unwrap_err().to_string();
        assert!(refusal.contains("is no pack"), "{refusal}");
        assert_eq!(bytes_below(&folder).unwrap(), 5);
        std::fs::write(folder.join("manifest.json"), "{}").unwrap();
        make_empty(&folder).unwrap();
        assert_eq!(bytes_below(&folder).unwrap(), 0);
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn every_trace_is_one_replay_and_none_is_an_error() {
        let (from, to) = (crate::test_folder("traces"), crate::test_folder("packed"));
        assert!(pack_traces(&from, &to).unwrap_err().to_string().contains("holds no trace"));
        for name in ["b.pickle.zst", "a.pickle", "peaks.json"] {
            std::fs::write(from.join(name), "x").unwrap();
        }
        let entries = pack_traces(&from, &to).unwrap();
        let names: Vec<&str> = entries.iter().map(|entry| entry.name.as_str()).collect();
        assert_eq!(names, ["a", "b"]);
        assert_eq!(entries[1].arguments[1], "{pack}/traces/b.pickle.zst");
        assert!(to.join("traces/b.pickle.zst").exists());
        for folder in [from, to] {
            std::fs::remove_dir_all(folder).unwrap();
        }
    }
}
