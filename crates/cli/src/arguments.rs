//! The command line, and what is said about a bad one.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{Args, Parser, Subcommand, ValueEnum};
use wellspring::{DeviceChoice, Policy};

use crate::ending::{Ending, Failure};
use crate::size::Size;
use crate::{Outcome, output};

mod files;

pub(crate) use files::{
    CompletionsArguments, ConvertArguments, DiffArguments, FormatName, ManArguments,
    RecordArguments, SummaryArguments,
};

#[derive(Debug, Parser)]
#[command(name = "wellspring", version, about = "GPU memory across CUDA streams")]
struct Line {
    #[command(subcommand)]
    command: Command,
}

/// What is to be done.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve a recorded trace, and say what that needed
    Replay(ReplayArguments),
    /// Say where a recorded program could wait without standing still, and what that would save
    Advise(AdviseArguments),
    /// Draw a memory snapshot or a stream trace: one interactive page, and pictures
    Report(ReportArguments),
    /// Say what a PyTorch run would have reserved under other settings, and what would fit
    WhatIf(crate::command::what_if::Arguments),
    /// Turn a trace into a PyTorch snapshot, a stream trace, a Chrome trace or CSV
    Convert(ConvertArguments),
    /// Say what is in a file: peaks, actions, streams, pools, the biggest holders
    Summary(SummaryArguments),
    /// Say how two files differ: peaks, settings, and who holds more
    Diff(DiffArguments),
    /// Run a program that uses wellspring, and record it to a stream trace
    Record(RecordArguments),
    /// Print what completes command lines in a shell
    Completions(CompletionsArguments),
    /// Print the page of the manual
    Man(ManArguments),
    /// Say which devices there are
    Devices(DevicesArguments),
}

/// What `replay` is told.
#[derive(Debug, Args)]
pub(crate) struct ReplayArguments {
    /// A PyTorch memory snapshot, a stream trace, an RMM log, or CSV or a Chrome trace that
    /// `convert` wrote; also compressed with gzip, xz, zstd or zip; `-` is the standard input
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Where to serve it: auto, sim, cuda or cuda:N
    #[arg(long, value_name = "DEVICE", default_value_t)]
    pub(crate) device: DeviceChoice,
    /// How the allocator decides between waiting, asking and growing
    #[arg(long, value_enum, value_name = "POLICY", default_value = "default")]
    pub(crate) policy: PolicyName,
    /// Where its memory comes from; by default vmm where the device has it
    #[arg(long, value_enum, value_name = "SOURCE")]
    pub(crate) source: Option<SourceName>,
    /// The most memory it may hold, such as 2GiB
    #[arg(long, value_name = "SIZE")]
    pub(crate) capacity: Option<Size>,
    /// Find the smallest capacity that serves the trace
    #[arg(long)]
    pub(crate) fit: bool,
    /// Which device's trace to take; by default the first that has one
    #[arg(long, value_name = "N")]
    pub(crate) trace_device: Option<usize>,
    /// Whether blocks that other streams still used are replayed so
    #[arg(long, value_enum, value_name = "USES", default_value = "recorded")]
    pub(crate) uses: UsesName,
    /// Stamp every block and check it before it is freed; `full` fills it all
    #[arg(long, value_enum, value_name = "HOW", num_args = 0..=1, require_equals = true,
          default_missing_value = "stamps")]
    pub(crate) verify: Option<VerifyName>,
    /// Print one line of JSON and nothing else
    #[arg(long)]
    pub(crate) json: bool,
    /// No progress, no notes
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

/// What `advise` is told.
#[derive(Debug, Args)]
pub(crate) struct AdviseArguments {
    /// A stream trace, as the variable `WELLSPRING_RECORD` has a program write it, or what
    /// `convert` made of one, or a PyTorch memory snapshot, which lacks uses; also compressed with
    /// gzip, xz, zstd or zip; `-` is the standard input
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Which device's trace of a snapshot to take; by default the first that has one
    #[arg(long, value_name = "N")]
    pub(crate) trace_device: Option<usize>,
    /// Print one line of JSON and nothing else
    #[arg(long)]
    pub(crate) json: bool,
    /// No progress
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

/// What `report` is told.
#[derive(Debug, Args)]
pub(crate) struct ReportArguments {
    /// A PyTorch memory snapshot, a stream trace, an RMM log, or CSV or a Chrome trace that
    /// `convert` wrote; also compressed with gzip, xz, zstd or zip; `-` is the standard input
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Where the page goes; `-` is the standard output
    #[arg(long, short, value_name = "FILE", default_value = "report.html")]
    pub(crate) output: PathBuf,
    /// Draw memory over time as SVG too; `-` is the standard output
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
    /// Draw memory over time as PNG too; `-` is the standard output
    #[arg(long, value_name = "FILE")]
    pub(crate) png: Option<PathBuf>,
    /// Which frames own what is allocated below them, matched against `file:line name`; by default
    /// the innermost outside PyTorch and installed packages
    #[arg(long, value_name = "REGEX")]
    pub(crate) owner: Option<String>,
    /// Which device of the snapshot; by default the first that has a trace
    #[arg(long, visible_alias = "trace-device", value_name = "N")]
    pub(crate) device: Option<usize>,
    /// Print one line of JSON and nothing else
    #[arg(long)]
    pub(crate) json: bool,
    /// No progress
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

/// What `devices` is told.
#[derive(Debug, Args)]
pub(crate) struct DevicesArguments {
    /// Print one line of JSON and nothing else
    #[arg(long)]
    pub(crate) json: bool,
}

/// A policy by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum PolicyName {
    /// Reuse what is ordered or complete, then wait or grow within a bound
    Default,
    /// Never ask the device
    Deterministic,
    /// Poll and grow, as PyTorch does
    Pytorch,
}

impl PolicyName {
    pub(crate) fn policy(self) -> Policy {
        match self {
            Self::Default => Policy::Default,
            Self::Deterministic => Policy::Deterministic,
            Self::Pytorch => Policy::PyTorch,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Deterministic => "deterministic",
            Self::Pytorch => "pytorch",
        }
    }
}

/// A source of memory by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SourceName {
    /// Memory mapped into reserved addresses
    Vmm,
    /// Memory of cuMemAlloc
    Plain,
}

/// What becomes of recorded uses, by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum UsesName {
    /// Such a block is used by a side stream until the trace says that it is not
    Recorded,
    /// Every free is a plain one
    None,
}

/// How much is verified, by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum VerifyName {
    /// A word at both ends and one in every 64 KiB
    Stamps,
    /// Every word
    Full,
}

/// What the command line can be.
pub(crate) fn definition() -> clap::Command {
    <Line as clap::CommandFactory>::command()
}

/// Reads the arguments, the first of which is the program's name. What is not to be run, such as a
/// wrong line or a call for help, gives how the program ends.
pub(crate) fn parse(arguments: &[OsString]) -> Result<Command, Outcome> {
    Line::try_parse_from(arguments).map(|line| line.command).map_err(|error| {
        if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
            output::result(&error.to_string()).map(|()| Ending::Done)
        } else {
            Err(Failure::bad_input(usage_message(&error, arguments)))
        }
    })
}

/// What is wrong, in one line, and where help is, in another.
fn usage_message(error: &clap::Error, arguments: &[OsString]) -> String {
    let help = help_of(arguments);
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        return format!(
            "nothing to do: give `summary FILE`, `what-if FILE`, `report FILE` or another\n{help}"
        );
    }
    let text = error.to_string();
    let told = text.lines().map(str::trim).take_while(|line| {
        // Where help is comes from us.
        !["Usage:", "For more information"].iter().any(|begin| line.starts_with(begin))
    });
    let told: Vec<&str> = told.filter(|line| !line.is_empty()).collect();
    let told = told.join(" ").replace(" tip: ", "; ");
    format!("{}\n{help}", told.strip_prefix("error: ").unwrap_or(&told))
}

/// Where to find help: on the subcommand that the line names, where it names one.
fn help_of(arguments: &[OsString]) -> String {
    let first = arguments.get(1).and_then(|word| word.to_str());
    let named = first.filter(|word| definition().find_subcommand(word).is_some());
    named.map_or_else(
        || "try `wellspring --help`".to_owned(),
        |name| format!("try `wellspring {name} --help`"),
    )
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::{Command, Line, VerifyName, parse};

    fn parse_words(words: &str) -> Result<Command, crate::Outcome> {
        let words: Vec<_> = words.split_whitespace().map(Into::into).collect();
        parse(&words)
    }

    #[test]
    fn the_definition_is_sound() {
        Line::command().debug_assert();
    }

    #[test]
    fn verify_takes_a_value_only_with_an_equals_sign() {
        for (words, verify) in [
            ("wellspring replay f", None),
            ("wellspring replay --verify f", Some(VerifyName::Stamps)),
            ("wellspring replay f --verify", Some(VerifyName::Stamps)),
            ("wellspring replay --verify=full f", Some(VerifyName::Full)),
        ] {
            match parse_words(words) {
                Ok(Command::Replay(arguments)) => assert_eq!(arguments.verify, verify, "{words}"),
                other => panic!("{words}: {other:?}"),
            }
        }
    }

    #[test]
    fn a_wrong_line_is_told_in_two_lines() {
        for (words, part) in [
            ("wellspring", "nothing to do"),
            ("wellspring replay", "<FILE>"),
            ("wellspring repaly f", "unrecognized subcommand 'repaly'; a similar subcommand"),
            ("wellspring replay f --device rocm", "names no device"),
            ("wellspring replay f --capacity 2XiB", "write a size such as 2GiB"),
            ("wellspring replay f --capacity 0GiB", "and below 2^64\n"),
            ("wellspring replay f --policy best", "possible values: default, deterministic"),
            ("wellspring replay f --trace-device -1", "unexpected argument '-1'"),
            ("wellspring replay f g", "unexpected argument 'g'"),
        ] {
            let failure = parse_words(words).unwrap_err().unwrap_err();
            assert!(failure.message.contains(part), "{words}: {}", failure.message);
            assert_eq!(failure.message.lines().count(), 2, "{words}: {}", failure.message);
        }
    }

    #[test]
    fn a_wrong_line_is_sent_to_the_help_of_its_own_command() {
        for (words, help) in [
            ("wellspring summary", "try `wellspring summary --help`"),
            ("wellspring what-if f --capacity much", "try `wellspring what-if --help`"),
            ("wellspring sumary f", "try `wellspring --help`"),
            ("wellspring", "try `wellspring --help`"),
        ] {
            let failure = parse_words(words).unwrap_err().unwrap_err();
            assert_eq!(failure.message.lines().last(), Some(help), "{words}");
        }
    }

    #[test]
    fn every_command_that_reads_a_trace_takes_trace_device() {
        for words in [
            "replay f",
            "summary f",
            "diff f g",
            "convert f -o g",
            "what-if f",
            "report f",
            "advise f",
        ] {
            let line = format!("wellspring {words} --trace-device 1");
            assert!(parse_words(&line).is_ok(), "{line}");
        }
    }
}
