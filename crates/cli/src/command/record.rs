//! `record`: runs a program with recording on, and says where its trace is.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use trace::stream_trace::MAGIC;
use wellspring::RECORD_VARIABLE;

use crate::arguments::RecordArguments;
use crate::ending::{Ending, Failure};
use crate::output;
use crate::trace_file::{bytes_text, shown};

/// The most files of one process that are looked for.
const FILES_MAX: usize = 1000;

/// Runs a program as told.
pub(crate) fn run(arguments: &RecordArguments) -> crate::Outcome {
    let Some((program, rest)) = arguments.command.split_first() else {
        return Err(Failure::bad_input("no program is named"));
    };
    // The program may change its folder before it opens a runtime.
    let file = std::path::absolute(&arguments.output).map_err(Failure::bad_input)?;
    if !file.parent().is_some_and(Path::is_dir) {
        let file = shown(&file);
        return Err(Failure::bad_input(format_args!("{file} is in no folder that exists")));
    }
    let before = written(&file, &[]);
    let shown_program = output::printable(&program.to_string_lossy());
    let status = Command::new(program)
        .args(rest)
        .env(RECORD_VARIABLE, &file)
        .status()
        .map_err(|error| Failure::bad_input(format_args!("{shown_program}: {error}")))?;
    let (traces, others): (Vec<_>, Vec<_>) =
        written(&file, &before).into_iter().partition(|trace| is_stream_trace(&trace.file));
    if !arguments.quiet {
        for Trace { file, bytes, .. } in &traces {
            output::note(&format!("recorded {} ({})", shown(file), bytes_text(*bytes)));
        }
    }
    if !status.success() {
        return Err(Failure::faulty(format_args!("{shown_program} ended with {status}")));
    }
    if let Some(other) = others.first() {
        let file = shown(&other.file);
        return Err(Failure::faulty(format_args!(
            "{shown_program} left {file}, which is no stream trace"
        )));
    }
    if traces.is_empty() {
        return Err(Failure::faulty(format_args!(
            "{shown_program} recorded nothing: it opened no runtime of wellspring"
        )));
    }
    Ok(Ending::Done)
}

/// Whether a file begins as what a runtime records. It may end anywhere.
fn is_stream_trace(file: &Path) -> bool {
    let mut head = [0; MAGIC.len()];
    File::open(file).is_ok_and(|mut file| file.read_exact(&mut head).is_ok() && head == MAGIC)
}

/// A file that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Trace {
    file: PathBuf,
    bytes: u64,
    modified: Option<SystemTime>,
}

/// The files of a process, as runtimes name them, without those that are as they were before.
fn written(file: &Path, before: &[Trace]) -> Vec<Trace> {
    let name = |number: usize| {
        let mut name = OsString::from(file);
        if 1 < number {
            name.push(format!(".{number}"));
        }
        PathBuf::from(name)
    };
    let there = (1..=FILES_MAX).map_while(|number| {
        let file = name(number);
        let metadata = std::fs::metadata(&file).ok()?;
        Some(Trace { file, bytes: metadata.len(), modified: metadata.modified().ok() })
    });
    there.filter(|trace| !before.contains(trace)).collect()
}
