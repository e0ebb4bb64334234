//! The files a run leaves, eight at most, and how they are read again.
//!
//! `probe.json` machine and pack; `tests.json` verdicts of the tests, and the words of those that
//! failed; `replay.jsonl` one line a trace; `benches.txt`, `examples.txt` and `patterns.txt` the
//! words of each program under its heading; `random.txt` those of the random programs;
//! `sanitizer.txt` one line a test.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::process::Ended;

pub(crate) const PROBE: &str = "probe.json";
pub(crate) const TESTS: &str = "tests.json";
pub(crate) const REPLAYS: &str = "replay.jsonl";
pub(crate) const BENCHES: &str = "benches.txt";
pub(crate) const EXAMPLES: &str = "examples.txt";
pub(crate) const PATTERNS: &str = "patterns.txt";
pub(crate) const RANDOM: &str = "random.txt";
pub(crate) const SANITIZER: &str = "sanitizer.txt";

/// How many bytes of one program's output are kept, from its end.
const WORDS_BYTES_MAX: usize = 64 << 10;

/// The verdict on one test.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct TestRun {
    pub(crate) binary: String,
    pub(crate) test: String,
    pub(crate) passed: bool,
    pub(crate) how: String,
    pub(crate) seconds: f64,
    /// What followed `stress: ` in the lines it printed.
    #[serde(default)]
    pub(crate) stress: Vec<String>,
    /// The end of what it said, if it failed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) words: String,
}

/// What came of one replay; `line` is what `wellspring replay --json` printed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct ReplayRun {
    pub(crate) name: String,
    pub(crate) passed: bool,
    pub(crate) how: String,
    pub(crate) seconds: f64,
    pub(crate) line: Option<serde_json::Value>,
    #[serde(default)]
    pub(crate) stderr: String,
}

impl Ended {
    /// The end of what it said on both streams.
    pub(crate) fn words(&self) -> String {
        format!("{}\n{}", end_of(&self.stdout), end_of(&self.stderr))
    }
}

/// The folder of results.
#[derive(Debug, Clone)]
pub(crate) struct Results {
    folder: PathBuf,
}

impl Results {
    pub(crate) fn at(folder: &Path) -> Self {
        Self { folder: folder.to_owned() }
    }

    /// Makes the folder and removes `files` that an earlier run left.
    pub(crate) fn begin(folder: &Path, files: &[&str]) -> Result<Self> {
        std::fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
        for file in files {
            let path = folder.join(file);
            if path.exists() {
                std::fs::remove_file(path)?;
            }
        }
        Ok(Self::at(folder))
    }

    pub(crate) fn append(&self, file: &str, text: &str) -> Result<()> {
        let path = self.folder.join(file);
        let opened = OpenOptions::new().create(true).append(true).open(&path);
        let mut opened = opened.with_context(|| format!("opening {}", path.display()))?;
        Ok(writeln!(opened, "{text}")?)
    }

    /// Appends what a program said, under a heading that tells how it ended.
    pub(crate) fn append_words(&self, file: &str, name: &str, ended: &Ended) -> Result<()> {
        let heading = format!("== {name}: {} after {:.2} s", ended.describe(), ended.seconds);
        self.append(file, &format!("{heading}\n{}", ended.words()))
    }

    pub(crate) fn write_json<T: Serialize>(&self, file: &str, value: &T) -> Result<()> {
        let text = serde_json::to_string_pretty(value)?;
        std::fs::write(self.folder.join(file), text + "\n")
            .with_context(|| format!("writing {file}"))
    }

    pub(crate) fn read_json<T: DeserializeOwned>(&self, file: &str) -> Result<T> {
        let text = self.read(file)?;
        serde_json::from_str(&text).with_context(|| format!("parsing {file}"))
    }

    pub(crate) fn read(&self, file: &str) -> Result<String> {
        let path = self.folder.join(file);
        std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))
    }

    /// As [`read`](Self::read), but a file that was never begun is empty.
    pub(crate) fn read_or_empty(&self, file: &str) -> Result<String> {
        if self.folder.join(file).exists() { self.read(file) } else { Ok(String::new()) }
    }
}

/// The names and verdicts of the headings that [`Results::append_words`] wrote.
pub(crate) fn headings(text: &str) -> Vec<(&str, &str)> {
    let lines = text.lines().filter_map(|line| line.strip_prefix("== "));
    lines.filter_map(|line| line.split_once(": ")).collect()
}

/// What the program of this name said, without its heading and empty lines.
pub(crate) fn words_of<'a>(text: &'a str, name: &str) -> Vec<&'a str> {
    let heading = format!("== {name}: ");
    let lines = text.lines().skip_while(|line| !line.starts_with(&heading)).skip(1);
    lines.take_while(|line| !line.starts_with("== ")).filter(|line| !line.is_empty()).collect()
}

fn end_of(text: &str) -> &str {
    let mut start = text.len().saturating_sub(WORDS_BYTES_MAX);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    text.get(start..).unwrap_or_default().trim_end()
}

#[cfg(test)]
mod tests {
    use super::{Results, WORDS_BYTES_MAX, end_of, headings, words_of};
    use crate::gpu::process::{Ended, How};

    #[test]
    fn headings_come_back_as_they_were_written() {
        let folder = crate::test_folder("results");
        let results = Results::begin(&folder, &[]).unwrap();
        let ended =
            |how| Ended { how, seconds: 1.5, stdout: String::from("a: b"), stderr: String::new() };
        results.append_words("w.txt", "one", &ended(How::Exit(0))).unwrap();
        results.append_words("w.txt", "two", &ended(How::Signal)).unwrap();
        let text = results.read("w.txt").unwrap();
        let expected = [("one", "exit 0 after 1.50 s"), ("two", "ended by a signal after 1.50 s")];
        assert_eq!(headings(&text), expected);
        assert_eq!(words_of(&text, "one"), ["a: b"]);
        assert_eq!(words_of(&text, "three"), [""; 0]);
        Results::begin(&folder, &["w.txt"]).unwrap();
        assert_eq!(results.read_or_empty("w.txt").unwrap(), "", "an earlier run's file was left");
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn only_the_end_of_a_long_text_is_kept() {
        let text = format!("{}é{}", "a".repeat(9), "b".repeat(WORDS_BYTES_MAX - 1));
        assert_eq!(end_of(&text), "b".repeat(WORDS_BYTES_MAX - 1), "half a letter is left out");
        assert_eq!(end_of("short\n"), "short");
    }
}
