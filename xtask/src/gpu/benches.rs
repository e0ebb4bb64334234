//! Runs one bench and writes what criterion measured as lines that the report reads.
//!
//! A bench that measures in another way prints lines `threads: name=value …` or, where the report
//! makes no table of them, `figures: name=value …` itself.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde_json::Value;

use super::manifest::Entry;
use super::patterns;
use super::process::{self, Ended};
use super::results::{BENCHES, Results};

/// How a line begins that holds median, lower and upper bound in nanoseconds, and the name.
const MARK: &str = "median_ns ";
/// How the lines begin of the bench of many threads.
pub(crate) const THREADS: &str = "threads: ";
/// How those begin of benches that no table is made of.
const FIGURES: &str = "figures: ";
/// A benchmark with this word in its name is what its group is compared with.
const PEER: &str = "mimalloc";

/// How two names end that differ by a switch.
const ON: &str = "/on";
const OFF: &str = "/off";

/// One measured benchmark, in nanoseconds.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Median {
    pub(crate) name: String,
    pub(crate) nanoseconds: f64,
    pub(crate) lower: f64,
    pub(crate) upper: f64,
}

/// How the bench ended, and whether it ended with success and measured something.
pub(crate) fn run(
    entry: &Entry,
    command: &mut Command,
    scratch: &Path,
    results: &Results,
) -> Result<(Ended, bool)> {
    let home = scratch.join("criterion").join(&entry.name);
    std::fs::create_dir_all(&home)?;
    command.env("CRITERION_HOME", &home);
    let ended = process::run(command, Duration::from_secs(entry.seconds_max), scratch)?;
    results.append_words(BENCHES, &entry.name, &ended)?;
    let medians = collect(&home)?;
    results.append(BENCHES, &lines(&medians)?)?;
    let has_lines =
        [THREADS, FIGURES].iter().any(|mark| !patterns::rows(&ended.stdout, mark).is_empty());
    let passed = ended.succeeded() && (has_lines || !medians.is_empty());
    Ok((ended, passed))
}

/// Every median criterion left below `home`, by name.
fn collect(home: &Path) -> Result<Vec<Median>> {
    let mut folders = vec![home.to_owned()];
    let mut medians = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            }
        }
        let is_newest = folder.file_name().is_some_and(|name| name == "new");
        if is_newest && folder.join("estimates.json").exists() {
            medians.push(read_median(&folder)?);
        }
    }
    medians.sort_by(|left, right| left.name.cmp(&right.name));
    Ok(medians)
}

fn read_median(folder: &Path) -> Result<Median> {
    let read = |file: &str| -> Result<Value> {
        let text = std::fs::read_to_string(folder.join(file))?;
        serde_json::from_str(&text).with_context(|| format!("parsing criterion's {file}"))
    };
    let benchmark = read("benchmark.json")?;
    let name = benchmark.get("full_id").and_then(Value::as_str).context("no full_id")?;
    let estimates = read("estimates.json")?;
    let number = |pointer: &str| {
        let number = estimates.pointer(pointer).and_then(Value::as_f64);
        number.with_context(|| format!("criterion's estimates lack {pointer}"))
    };
    Ok(Median {
        name: name.to_owned(),
        nanoseconds: number("/median/point_estimate")?,
        lower: number("/median/confidence_interval/lower_bound")?,
        upper: number("/median/confidence_interval/upper_bound")?,
    })
}

fn lines(medians: &[Median]) -> Result<String> {
    let mut text = String::new();
    for Median { name, nanoseconds, lower, upper } in medians {
        writeln!(text, "{MARK}{nanoseconds:.2} {lower:.2} {upper:.2} {name}")?;
    }
    Ok(text)
}

/// The medians in the words of a run.
pub(crate) fn medians(text: &str) -> Result<Vec<Median>> {
    let lines = text.lines().filter_map(|line| line.strip_prefix(MARK));
    lines.map(|line| parse(line).with_context(|| format!("reading {line:?}"))).collect()
}

fn parse(line: &str) -> Result<Median> {
    let mut words = line.splitn(4, ' ');
    let mut number =
        || -> Result<f64> { Ok(words.next().context("a number is missing")?.parse()?) };
    let (nanoseconds, lower, upper) = (number()?, number()?, number()?);
    let name = words.next().context("the name is missing")?.to_owned();
    Ok(Median { name, nanoseconds, lower, upper })
}

/// How many times as long as its group's peer a benchmark takes, if the group has one; what is
/// switched on is compared with itself switched off.
pub(crate) fn ratio(median: &Median, all: &[Median]) -> Option<f64> {
    if let Some(stem) = median.name.strip_suffix(ON) {
        let is_off = |other: &&Median| other.name.strip_suffix(OFF) == Some(stem);
        return Some(median.nanoseconds / all.iter().find(is_off)?.nanoseconds);
    }
    if median.name.contains(PEER) {
        return None;
    }
    let group = |name: &str| name.split('/').next().unwrap_or_default().to_owned();
    let own = group(&median.name);
    let peers = all.iter().filter(|other| group(&other.name) == own && other.name.contains(PEER));
    let peer = peers.max_by_key(|other| shared_letters(&other.name, &median.name))?;
    Some(median.nanoseconds / peer.nanoseconds)
}

/// How much two names share at both ends: `pair/ours/64` belongs to `pair/mimalloc/64`.
fn shared_letters(left: &str, right: &str) -> usize {
    let ahead = left.bytes().zip(right.bytes()).take_while(|(a, b)| a == b).count();
    let behind = left.bytes().rev().zip(right.bytes().rev()).take_while(|(a, b)| a == b).count();
    ahead + behind
}

#[cfg(test)]
mod tests {
    use super::{Median, collect, lines, medians, ratio};

    fn median(name: &str, nanoseconds: f64) -> Median {
        let (lower, upper) = (nanoseconds - 1.0, nanoseconds + 1.0);
        Median { name: name.to_owned(), nanoseconds, lower, upper }
    }

    #[test]
    fn medians_survive_their_lines() {
        let written = [median("pair/ours", 12.5), median("scrambled over 1,000/ours", 90.25)];
        let text = format!("noise\n{}time: [1 ns]\n", lines(&written).unwrap());
        assert_eq!(medians(&text).unwrap(), written);
        assert!(medians("median_ns 1 2 x name").is_err());
    }

    #[test]
    fn criterions_files_are_read() {
        let home = crate::test_folder("criterion");
        for run in ["new", "base"] {
            let folder = home.join("pair/ours").join(run);
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join("benchmark.json"), r#"{"full_id":"pair/ours"}"#).unwrap();
            let estimates = r#"{"median":{"point_estimate":12.5,
                "confidence_interval":{"lower_bound":11.5,"upper_bound":13.5}}}"#;
            std::fs::write(folder.join("estimates.json"), estimates).unwrap();
        }
        assert_eq!(collect(&home).unwrap(), [median("pair/ours", 12.5)]);
        std::fs::remove_dir_all(home).unwrap();
    }

    #[test]
    fn a_ratio_is_taken_to_the_nearest_peer_of_the_group() {
        let all = [
            median("pair/ours/64", 60.0),
            median("pair/mimalloc/64", 10.0),
            median("pair/mimalloc/4096", 20.0),
            median("mixed/ours", 5.0),
            median("checker/pair/off", 10.0),
            median("checker/pair/on", 45.0),
        ];
        assert_eq!(ratio(&all[0], &all), Some(6.0));
        assert_eq!(ratio(&all[1], &all), None, "the peer is not compared with itself");
        assert_eq!(ratio(&all[3], &all), None, "the group has no peer");
        assert_eq!(ratio(&all[5], &all), Some(4.5), "on, compared with off");
    }
}
