//! `cargo xtask sim`: runs random programs on the simulated driver, or packs what runs them.
//!
//! Builds `random-programs` as fast as a release but with every assertion, and hands it the
//! seeds. Needs cargo; what `--pack` leaves in a folder needs nothing. Next: on a failure, the
//! command that is printed repeats it.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use xshell::{Shell, cmd};

const PROGRAM: &str = "random-programs";

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// The seeds, such as 0..100000.
    #[arg(long, default_value = "0..10000")]
    seeds: String,
    /// How many programs run at one time; the default is one for each processor.
    #[arg(long)]
    jobs: Option<u32>,
    /// No program is begun after so many seconds.
    #[arg(long)]
    seconds_max: Option<u64>,
    /// How many host threads each program has; else its seed says, and most have one.
    #[arg(long)]
    threads: Option<u32>,
    /// A program that is at one step for so many seconds hangs, and has failed; the default is 60.
    #[arg(long)]
    hang_after: Option<u64>,
    /// A file for the counts, as JSON.
    #[arg(long)]
    summary: Option<PathBuf>,
    /// Takes a check out of the product: `swallowed-waits`, `hangs`, `deaf-checker`, or the
    /// name of a sabotage.
    #[arg(long)]
    broken: Option<String>,
    /// Prints the program of the first seed, and runs nothing.
    #[arg(long)]
    show: bool,
    /// Copies the program that runs seeds into a folder, and runs nothing.
    #[arg(long)]
    pack: Option<PathBuf>,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let shell = Shell::new()?;
    shell.change_dir(crate::workspace_root());
    let built = build(&shell)?;
    if let Some(folder) = &options.pack {
        return pack(&shell, &built, &std::path::absolute(folder)?);
    }
    let seeds = &options.seeds;
    let mut command = cmd!(shell, "{built} --seeds {seeds}");
    if let Some(jobs) = options.jobs {
        command = command.arg("--jobs").arg(jobs.to_string());
    }
    if let Some(seconds) = options.seconds_max {
        command = command.arg("--seconds-max").arg(seconds.to_string());
    }
    if let Some(threads) = options.threads {
        command = command.arg("--threads").arg(threads.to_string());
    }
    if let Some(seconds) = options.hang_after {
        command = command.arg("--hang-after").arg(seconds.to_string());
    }
    if let Some(summary) = &options.summary {
        command = command.arg("--summary").arg(std::path::absolute(summary)?);
    }
    if let Some(broken) = &options.broken {
        command = command.arg("--broken").arg(broken);
    }
    if options.show {
        command = command.arg("--show");
    }
    command.run().context("the random programs failed")
}

/// Builds the program that runs seeds; with every check that can be taken out.
fn build(shell: &Shell) -> Result<PathBuf> {
    let build = cmd!(shell, "cargo build --profile sim --package {PROGRAM} --features broken");
    let messages = build.args(["--message-format", "json-render-diagnostics"]).read()?;
    let mut executables = messages.lines().filter_map(|line| {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        Some(PathBuf::from(message.get("executable")?.as_str()?))
    });
    executables.next_back().with_context(|| format!("cargo built no program {PROGRAM}"))
}

fn pack(shell: &Shell, built: &Path, folder: &Path) -> Result<()> {
    shell.create_dir(folder)?;
    let packed = folder.join(PROGRAM);
    cmd!(shell, "strip -o {packed} {built}").quiet().run().context("is `strip` installed?")?;
    println!("next, on any machine: {} --seeds 0..1000000", packed.display());
    Ok(())
}
