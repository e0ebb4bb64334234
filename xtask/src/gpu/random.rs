//! Runs the random programs on the processors of the machine; they need no GPU.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::Result;

use super::Device;
use super::manifest::Entry;
use super::process::{self, Ended};
use super::results::{RANDOM, Results};

/// How many programs a run makes, and a rehearsal.
const SEEDS: &str = "0..1000000";
const SEEDS_REHEARSED: &str = "0..2000";
/// The program stops by itself this long before it would be killed.
const SPARE_SECONDS: u64 = 20;

pub(crate) fn run(
    entry: &Entry,
    command: &mut Command,
    device: Device,
    scratch: &Path,
    results: &Results,
) -> Result<Ended> {
    let seeds = if device == Device::Sim { SEEDS_REHEARSED } else { SEEDS };
    let jobs = std::thread::available_parallelism().map_or(1, usize::from).to_string();
    let seconds = entry.seconds_max.saturating_sub(SPARE_SECONDS).to_string();
    command.args(["--seeds", seeds, "--jobs", &jobs, "--seconds-max", &seconds]);
    let ended = process::run(command, Duration::from_secs(entry.seconds_max), scratch)?;
    results.append_words(RANDOM, &entry.name, &ended)?;
    Ok(ended)
}
