//! The `wellspring` command: what it is asked, what it does, how it ends.
//!
//! Start with [`run`]. `arguments` and `size` read the command line, `command` has one file for
//! each subcommand, `target` is the only one that knows devices, `ending` turns failures into exit
//! codes, `trace_file` reads what several commands take, `output` and `progress` are the only ones
//! that print, `queues` prepares the process.
//!
//! What it must not know: the allocator's insides. Its invariants: a file is judged before any
//! device is opened; stdout holds the result and nothing else; an error is at most three lines on
//! stderr.
#![deny(unsafe_code)]

use std::ffi::OsString;
use std::process::ExitCode;

mod arguments;
mod command;
mod ending;
mod output;
mod progress;
mod queues;
mod size;
mod target;
mod trace_file;

use arguments::Command;
use ending::{Ending, Failure};
use wellspring::DeviceChoice;

/// Does what the arguments ask, the first of which is the program's own name.
///
/// 0: done. 1: a stamp was wrong, a request found no room, or the replay failed. 2: bad input or
/// usage. 3: no such device.
#[must_use]
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let line: Vec<OsString> = arguments.into_iter().collect();
    let outcome = match arguments::parse(&line) {
        Ok(Command::Replay(arguments)) => {
            if arguments.device != DeviceChoice::Simulated {
                queues::widen(&line);
            }
            command::replay::run(&arguments)
        }
        Ok(Command::Advise(arguments)) => command::advise::run(&arguments),
        Ok(Command::Report(arguments)) => command::report::run(&arguments),
        Ok(Command::WhatIf(arguments)) => command::what_if::run(&arguments),
        Ok(Command::Convert(arguments)) => command::convert::run(&arguments),
        Ok(Command::Summary(arguments)) => command::summary::run(&arguments),
        Ok(Command::Diff(arguments)) => command::diff::run(&arguments),
        Ok(Command::Record(arguments)) => command::record::run(&arguments),
        Ok(Command::Completions(arguments)) => command::shell::completions(&arguments),
        Ok(Command::Man(arguments)) => command::shell::man(&arguments),
        Ok(Command::Devices(arguments)) => command::devices::run(&arguments),
        Err(ended) => ended,
    };
    match outcome {
        Ok(ending) => ending.code(),
        Err(failure) => {
            output::error(&failure.message);
            failure.ending.code()
        }
    }
}

/// What a command ends with: how it ended, or why it could not be done.
type Outcome = Result<Ending, Failure>;
