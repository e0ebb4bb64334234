//! What a pack holds: one entry for each program, written by `pack`, obeyed by `run`.
//!
//! Adding a program to a pack is adding one entry. `{device}` and `{pack}` in its arguments are
//! replaced when it runs; `WELLSPRING_DEVICE` is set for every program.

use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use super::Device;

const SCHEMA: u32 = 1;
const FILE_NAME: &str = "manifest.json";

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Manifest {
    pub(crate) schema: u32,
    /// The commit that was built; `+changes` if the tree held more than that.
    pub(crate) commit: String,
    /// When it was built, in UTC.
    pub(crate) packed_at: String,
    pub(crate) entries: Vec<Entry>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    /// The program, relative to the pack; a name that ends in `.py` is run by Python.
    pub(crate) file: String,
    #[serde(default)]
    pub(crate) arguments: Vec<String>,
    /// The tests inside, if the program is a test binary: each runs in a process of its own.
    #[serde(default)]
    pub(crate) tests: Vec<String>,
    /// How long one process may run.
    pub(crate) seconds_max: u64,
    /// Whether it opens the installed driver whatever it is told, so that no rehearsal can run it.
    #[serde(default)]
    pub(crate) needs_gpu: bool,
}

/// What a program is for, which says how it is run and where its results go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    /// A test binary.
    Test,
    /// One recorded trace served by the `wellspring` command.
    Replay,
    /// A criterion benchmark.
    Bench,
    /// An example of the facade.
    Example,
    /// A program that prints what patterns of several streams take.
    Pattern,
    /// The random programs, which need processors and no GPU.
    Random,
    /// Tests to be run once more, under a checker of the device's memory.
    Sanitize,
}

impl Kind {
    /// All of them, in the order they run in.
    pub(crate) const ALL: [Self; 7] = [
        Self::Test,
        Self::Replay,
        Self::Example,
        Self::Bench,
        Self::Pattern,
        Self::Random,
        Self::Sanitize,
    ];

    /// As it is written on a command line.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Test => "test",
            Self::Replay => "replay",
            Self::Bench => "bench",
            Self::Example => "example",
            Self::Pattern => "pattern",
            Self::Random => "random",
            Self::Sanitize => "sanitize",
        }
    }
}

impl Entry {
    /// The arguments with their placeholders filled in.
    pub(crate) fn arguments_for(&self, device: Device, pack: &Path) -> Vec<String> {
        let pack = pack.display().to_string();
        let fill =
            |text: &String| text.replace("{device}", device.as_str()).replace("{pack}", &pack);
        self.arguments.iter().map(fill).collect()
    }
}

impl Manifest {
    pub(crate) fn new(commit: String, packed_at: String, entries: Vec<Entry>) -> Self {
        Self { schema: SCHEMA, commit, packed_at, entries }
    }

    pub(crate) fn write(&self, pack: &Path) -> Result<()> {
        let text = serde_json::to_string_pretty(self)?;
        std::fs::write(pack.join(FILE_NAME), text + "\n").context("writing the manifest")
    }

    pub(crate) fn read(pack: &Path) -> Result<Self> {
        let path = pack.join(FILE_NAME);
        let text = std::fs::read_to_string(&path)
            .with_context(|| format!("reading {}: was it made by --pack?", path.display()))?;
        let manifest: Self =
            serde_json::from_str(&text).with_context(|| format!("parsing {}", path.display()))?;
        let schema = manifest.schema;
        ensure!(schema == SCHEMA, "the pack has schema {schema}, this xtask reads {SCHEMA}");
        Ok(manifest)
    }

    pub(crate) fn of_kind(&self, kind: Kind) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(move |entry| entry.kind == kind)
    }

    pub(crate) fn test_count(&self) -> usize {
        self.of_kind(Kind::Test).map(|entry| entry.tests.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{Device, Entry, Kind, Manifest};

    fn replay() -> Entry {
        let arguments = ["replay", "{pack}/traces/a.pickle", "--device", "{device}"];
        Entry {
            name: String::from("a"),
            kind: Kind::Replay,
            file: String::from("wellspring"),
            arguments: arguments.map(String::from).to_vec(),
            tests: Vec::new(),
            seconds_max: 60,
            needs_gpu: false,
        }
    }

    #[test]
    fn placeholders_are_filled_in() {
        let filled = replay().arguments_for(Device::Sim, Path::new("/p"));
        assert_eq!(filled, ["replay", "/p/traces/a.pickle", "--device", "sim"]);
    }

    #[test]
    fn what_is_written_is_read_and_another_schema_is_refused() {
        let folder = crate::test_folder("manifest");
        let mut manifest = Manifest::new(String::from("c"), String::from("t"), vec![replay()]);
        manifest.write(&folder).unwrap();
        assert_eq!(Manifest::read(&folder).unwrap(), manifest);
        manifest.schema = 2;
        manifest.write(&folder).unwrap();
        let refusal = Manifest::read(&folder).unwrap_err().to_string();
        assert_eq!(refusal, "the pack has schema 2, this xtask reads 1");
        std::fs::remove_dir_all(folder).unwrap();
    }
}
