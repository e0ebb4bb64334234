//! What the commands are told that read, compare and turn files into others.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use clap_complete::Shell;

/// What `convert` is told.
#[derive(Debug, Args)]
pub(crate) struct ConvertArguments {
    /// A PyTorch memory snapshot, a stream trace, an RMM log, or CSV or a Chrome trace that
    /// `convert` wrote; also compressed with gzip, xz, zstd or zip; `-` is the standard input
    #[arg(value_name = "IN")]
    pub(crate) input: PathBuf,
    /// Where it goes; `-` is the standard output. The ending says what is written: .pickle or
    /// .pkl, .wst, .json, .csv
    #[arg(long, short, value_name = "OUT")]
    pub(crate) output: PathBuf,
    /// What is written, whatever the ending
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub(crate) to: Option<FormatName>,
    /// Which device's trace to take, where one is to be chosen; by default the first that has one
    #[arg(long, visible_alias = "device", value_name = "N")]
    pub(crate) trace_device: Option<usize>,
    /// Which frames own what is allocated below them, matched against `file:line name`
    #[arg(long, value_name = "REGEX")]
    pub(crate) owner: Option<String>,
    /// No progress, no notes
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

/// A format by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FormatName {
    /// A memory snapshot, as PyTorch's viewer reads it
    Pickle,
    /// A stream trace
    Wst,
    /// Chrome's trace events, as ui.perfetto.dev opens them
    Chrome,
    /// One line for each entry
    Csv,
}

/// How holders are found and told.
#[derive(Debug, Args)]
pub(crate) struct HoldersArguments {
    /// Which device, of every file; by default the first that has a trace
    #[arg(long, visible_alias = "device", value_name = "N")]
    pub(crate) trace_device: Option<usize>,
    /// Which frames own what is allocated below them, matched against `file:line name`
    #[arg(long, value_name = "REGEX")]
    pub(crate) owner: Option<String>,
    /// How many of the biggest holders, or of those that grew or shrank most, are listed
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub(crate) top: usize,
    /// Print one line of JSON and nothing else
    #[arg(long)]
    pub(crate) json: bool,
    /// No progress
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

/// What `summary` is told.
#[derive(Debug, Args)]
pub(crate) struct SummaryArguments {
    /// A PyTorch memory snapshot, a stream trace, an RMM log, or CSV or a Chrome trace that
    /// `convert` wrote; also compressed with gzip, xz, zstd or zip; `-` is the standard input
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// What both commands are told alike.
    #[command(flatten)]
    pub(crate) holders: HoldersArguments,
}

/// What `diff` is told.
#[derive(Debug, Args)]
pub(crate) struct DiffArguments {
    /// The file before: a PyTorch memory snapshot, a stream trace, an RMM log, or CSV or a Chrome
    /// trace that `convert` wrote; also compressed with gzip, xz, zstd or zip; `-` is the standard
    /// input
    #[arg(value_name = "A")]
    pub(crate) before: PathBuf,
    /// The file after
    #[arg(value_name = "B")]
    pub(crate) after: PathBuf,
    /// What both commands are told alike.
    #[command(flatten)]
    pub(crate) holders: HoldersArguments,
}

/// What `record` is told.
#[derive(Debug, Args)]
pub(crate) struct RecordArguments {
    /// Where the stream trace goes; of a further runtime of the program to the same name with .2
    /// behind it, and so on
    #[arg(long, short, value_name = "FILE", default_value = "run.wst")]
    pub(crate) output: PathBuf,
    /// No notes
    #[arg(long, short)]
    pub(crate) quiet: bool,
    /// The program and its arguments
    #[arg(
        value_name = "COMMAND",
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    pub(crate) command: Vec<OsString>,
}

/// What `completions` is told.
#[derive(Debug, Args)]
pub(crate) struct CompletionsArguments {
    /// Which shell
    #[arg(value_enum, value_name = "SHELL")]
    pub(crate) shell: Shell,
}

/// What `man` is told.
#[derive(Debug, Args)]
pub(crate) struct ManArguments {
    /// Write a page for the command and one for each subcommand into this folder
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}
