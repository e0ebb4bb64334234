//! The project's own chores, one subcommand a file: `cargo xtask --help`.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command line tool talks through its standard streams"
)]

mod bindgen;
mod kernels;
mod symbols;

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
    Bindgen(bindgen::Options),
    /// Compile the device kernels to the checked-in PTX.
    Kernels(kernels::Options),
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().chore {
        Chore::Bindgen(options) => bindgen::run(&options),
        Chore::Kernels(options) => kernels::run(&options),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
