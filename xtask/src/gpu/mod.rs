//! `cargo xtask test-gpu`: builds, packs, runs and reports everything that needs a real GPU.
//!
//! Without options it needs a GPU and cargo on one machine. `--pack` and `--unpacked` split that
//! over a machine that builds and one that runs; `--report` writes `docs/benchmarks.md` from
//! what the run left. Without a GPU it prints one reason, runs nothing and exits 3.

mod benches;
mod manifest;
mod pack;
mod page;
mod patterns;
mod probe;
mod process;
mod random;
mod replays;
mod report;
mod results;
mod run;
mod sanitizer;
mod suite;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, ensure};
use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};

use manifest::Kind;

/// What `main` returns when there is no GPU and none was required.
const EXIT_NO_GPU: u8 = 3;

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Build everything into this folder, to be run elsewhere.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["unpacked", "report"])]
    pack: Option<PathBuf>,
    /// Run what `--pack` built into this folder; needs neither cargo nor network.
    #[arg(long, value_name = "DIR", conflicts_with = "report")]
    unpacked: Option<PathBuf>,
    /// Turn the results in this folder into docs/benchmarks.md.
    #[arg(long, value_name = "RESULTS_DIR")]
    report: Option<PathBuf>,
    /// Which driver the programs run on; `sim` rehearses without a GPU.
    #[arg(long, value_enum, default_value_t = Device::Cuda)]
    device: Device,
    /// Where the results go.
    #[arg(long, value_name = "DIR2", default_value = "device-results")]
    out: PathBuf,
    /// The folder of recorded traces to pack; `traces` of the workspace if not named.
    #[arg(long, value_name = "DIR")]
    traces: Option<PathBuf>,
    /// Run only programs of this kind; may be repeated.
    #[arg(long, value_enum)]
    only: Vec<Kind>,
    /// Exit 1 instead of 3 if there is no GPU.
    #[arg(long)]
    require_gpu: bool,
}

impl Options {
    fn traces(&self) -> PathBuf {
        self.traces.clone().unwrap_or_else(|| crate::workspace_root().join("traces"))
    }
}

/// The driver below the programs: every one of them gets it as `WELLSPRING_DEVICE`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Device {
    /// The simulated driver.
    Sim,
    /// The real one.
    Cuda,
}

impl Device {
    fn as_str(self) -> &'static str {
        match self {
            Self::Sim => "sim",
            Self::Cuda => "cuda",
        }
    }
}

pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    if let Some(results) = &options.report {
        let page = crate::workspace_root().join("docs/benchmarks.md");
        report::write(results, &page)?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(folder) = &options.pack {
        pack::pack(folder, &options.traces())?;
        println!("next: {0}/xtask test-gpu --unpacked {0} --out DIR2", folder.display());
        return Ok(ExitCode::SUCCESS);
    }
    let probe = probe::probe(options.device);
    if let Some(reason) = &probe.missing {
        println!("no GPU: {reason}");
        let code = if options.require_gpu { 1 } else { EXIT_NO_GPU };
        return Ok(ExitCode::from(code));
    }
    let folder = match &options.unpacked {
        Some(folder) => folder.clone(),
        None => {
            let folder = crate::workspace_root().join("target/gpu-pack");
            pack::pack(&folder, &options.traces())?;
            folder
        }
    };
    let totals = run::run(&folder, probe, &options.out, &options.only)?;
    println!("{} passed, {} failed", totals.passed, totals.failed);
    ensure!(0 < totals.passed + totals.failed, "the pack holds nothing of the asked kinds");
    println!("next: cargo xtask test-gpu --report {}", options.out.display());
    Ok(if totals.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
