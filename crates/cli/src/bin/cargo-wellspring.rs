//! The `wellspring` command as Cargo calls it: with its own name as first argument.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut arguments: Vec<_> = std::env::args_os().collect();
    if arguments.get(1).is_some_and(|first| first == "wellspring") {
        arguments.remove(1);
    }
    cli::run(arguments)
}
