//! The `wellspring` command.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::run(std::env::args_os())
}
