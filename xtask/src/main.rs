//! The project's own chores, one subcommand a file: `cargo xtask --help`.
#![forbid(unsafe_code)]
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command line tool talks through its standard streams"
)]

#[cfg(feature = "bindgen")]
mod bindgen;
mod ci;
mod gpu;
mod kernels;
mod observers;
mod pinned;
mod sim;
#[cfg(feature = "bindgen")]
mod symbols;
mod tidy;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Debug, Parser)]
#[command(about = "The chores of the Wellspring workspace")]
struct Arguments {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Debug, Subcommand)]
enum Chore {
    /// Generate the driver bindings and the function table of `cuda-sys`.
    #[cfg(feature = "bindgen")]
    Bindgen(bindgen::Options),
    /// Compile the device kernels to the checked-in PTX.
    Kernels(kernels::Options),
    /// Count what observers cost a program that has none.
    Observers(observers::Options),
    /// Run random programs on the simulated driver.
    Sim(sim::Options),
    /// Check everything a change must pass besides the tests.
    Ci,
    /// Check the rules that neither rustc nor clippy can check.
    Tidy,
    /// Build, pack, run and report what needs a real GPU.
    TestGpu(gpu::Options),
}

fn main() -> ExitCode {
    let done = |()| ExitCode::SUCCESS;
    let outcome = match Arguments::parse().chore {
        #[cfg(feature = "bindgen")]
        Chore::Bindgen(options) => bindgen::run(&options).map(done),
        Chore::Kernels(options) => kernels::run(&options).map(done),
        Chore::Observers(options) => observers::run(&options).map(done),
        Chore::Sim(options) => sim::run(&options).map(done),
        Chore::Ci => ci::run().map(done),
        Chore::Tidy => tidy::run().map(done),
        Chore::TestGpu(options) => gpu::run(&options),
    };
    match outcome {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The root of the workspace this was built from; a packed xtask has none and asks for none.
fn workspace_root() -> PathBuf {
    let xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
    xtask.parent().unwrap_or(xtask).to_owned()
}

/// A new empty folder for one test, which removes it in the end.
#[cfg(test)]
fn test_folder(name: &str) -> PathBuf {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let unique = format!("wellspring-xtask-{name}-{}-{number}", std::process::id());
    let folder = std::env::temp_dir().join(unique);
    std::fs::create_dir_all(&folder).expect("the folder for temporary files can be written");
    folder
}
