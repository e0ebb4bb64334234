//! `what-if`: what a recorded run would have reserved under other settings, and what would fit.

use std::path::{Path, PathBuf};

use clap::Args;
use replay::what_if::{
    BlockOwners, Case, Comparison, Question, Recorder, Row, WhatIf, compare_with_record, what_if,
};
use replay::{Mode, Outcome, Plan, Uses};
use trace::ReservedBytes;
use trace::pytorch::ReadError;
use wellspring::{DeviceChoice, Policy};

use crate::arguments::SourceName;
use crate::ending::{Ending, Failure};
use crate::output::{self, printable};
use crate::progress::Bars;
use crate::size::Size;
use crate::target::Session;
use crate::trace_file::{input_name, owner_pattern, read_snapshot, refuse_twice};

/// Operations up to which Wellspring's allocator is run under every policy. Beyond, and where
/// settings are named, it is run under the default one alone.
const ALL_POLICIES_OPERATIONS_MAX: usize = 400_000;
/// The same for streams, of each of which the allocator keeps an account.
const ALL_POLICIES_STREAMS_MAX: usize = 4096;

/// What `what-if` is told.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// PyTorch memory snapshots, also compressed with gzip, xz, zstd or zip; and whatever becomes
    /// one: stream traces, RMM logs, CSV and Chrome traces; `-` is the standard input
    #[arg(value_name = "SNAPSHOT", required = true)]
    files: Vec<PathBuf>,
    /// The most that may be reserved, such as 24GiB; counts as a memory fraction does
    /// (`torch.cuda.set_per_process_memory_fraction`), without which
    /// `garbage_collection_threshold` has no effect
    #[arg(long, value_name = "SIZE")]
    capacity: Option<Size>,
    /// A line for `PYTORCH_CUDA_ALLOC_CONF` to try, beside the recorded one, with the variable's
    /// name or without; give it several times for several. Without it, the usual ones are tried
    #[arg(long, value_name = "LINE")]
    setting: Vec<String>,
    /// Search combinations of settings as well, at most 60
    #[arg(long)]
    search: bool,
    /// Which frames own what is allocated below them, matched against `file:line name`; by default
    /// the innermost outside PyTorch and installed packages
    #[arg(long, value_name = "REGEX")]
    owner: Option<String>,
    /// Instead, hold the model against what PyTorch recorded: segments and addresses
    #[arg(long, conflicts_with_all = ["capacity", "setting", "search"])]
    check: bool,
    /// Which device's trace to take; by default the first that has one
    #[arg(long, visible_alias = "trace-device", value_name = "N")]
    device: Option<usize>,
    /// Print one line of JSON for each snapshot and nothing else
    #[arg(long)]
    json: bool,
    /// No progress
    #[arg(long, short)]
    quiet: bool,
}

/// Answers for each snapshot. What is wrong with one file keeps no answer for another back; the
/// first fault decides how the command ends.
pub(crate) fn run(arguments: &Arguments) -> crate::Outcome {
    refuse_twice(arguments.files.iter())?;
    let mut failure: Option<Failure> = None;
    let (mut is_exact, mut answered) = (true, 0);
    for file in &arguments.files {
        match answer_or_check(arguments, file, 0 < answered) {
            Ok(found) => {
                is_exact &= found;
                answered += 1;
            }
            Err(error) => {
                if let Some(earlier) = failure.replace(error) {
                    output::error(&earlier.message);
                    failure = failure.map(|it| Failure { ending: earlier.ending, ..it });
                }
            }
        }
    }
    match failure {
        Some(failure) => Err(failure),
        None => Ok(if is_exact { Ending::Done } else { Ending::Faulty }),
    }
}

/// False if a check found a difference.
fn answer_or_check(arguments: &Arguments, file: &Path, is_further: bool) -> Result<bool, Failure> {
    let (text, is_exact) =
        if arguments.check { check(arguments, file)? } else { (answer(arguments, file)?, true) };
    let gap = if is_further && !arguments.json { "\n" } else { "" };
    output::result(&format!("{gap}{text}"))?;
    Ok(is_exact)
}

/// Why there is nothing to serve; recording is not turned on alike everywhere.
pub(crate) fn refusal(recorder: Recorder, name: &str, error: &ReadError) -> Failure {
    match (recorder, error) {
        (Recorder::StreamTrace, ReadError::NoHistory) => {
            Failure::bad_input(format_args!("{name} is of a stream trace without allocations"))
        }
        _ => Failure::bad_input(format_args!("{name} {error}")),
    }
}

/// What a line sets, without the name of the variable, with which answers say what to paste.
fn setting_of(line: &str) -> &str {
    let names = ["PYTORCH_CUDA_ALLOC_CONF=", "PYTORCH_ALLOC_CONF=", "PYTORCH_HIP_ALLOC_CONF="];
    let line = line.trim_start();
    names.into_iter().find_map(|name| line.strip_prefix(name)).unwrap_or(line)
}

fn answer(arguments: &Arguments, file: &Path) -> Result<String, Failure> {
    let bars = Bars::new(arguments.quiet);
    let name = input_name(file);
    let snapshot = read_snapshot(file, bars)?;
    let recorder = Recorder::from(snapshot.origin);
    let refuse = |error: ReadError| refusal(recorder, &name, &error);
    let chosen = snapshot.trace(arguments.device).map_err(refuse)?;
    let case = Case::new(&chosen);
    let question = Question {
        trace: name.clone(),
        capacity_bytes: arguments.capacity.map(|size| size.0),
        settings: arguments.setting.iter().map(|line| setting_of(line).to_owned()).collect(),
        search: arguments.search,
    };
    let owner = owner_pattern(arguments.owner.as_deref())?;
    let matches = |frame: &str| owner.as_ref().is_some_and(|owner| owner.is_match(frame));
    let mut owners = BlockOwners::new(&snapshot, &chosen, owner.is_some().then_some(&matches));
    let ours = wellspring_rows(&case, &question, bars)?;
    let found = {
        let bar = bars.phase("trying");
        let runs = |done, all| bar.show_steps(done, all);
        what_if(&case, &question, ours, |block| owners.name(block), &runs)
    };
    let found = found.map_err(|error| Failure::bad_input(format_args!("--setting: {error}")))?;
    told(&found, arguments.json)
}

fn told(answer: &WhatIf, as_json: bool) -> Result<String, Failure> {
    if as_json {
        return Ok(answer.to_json().map_err(Failure::faulty)? + "\n");
    }
    Ok(printable_lines(&answer.to_text()))
}

/// A name in a trace is anybody's text: nothing in it may act on a terminal.
fn printable_lines(text: &str) -> String {
    text.lines().map(|line| printable(line) + "\n").collect()
}

/// Wellspring's own allocator on the simulated device, under its policies and sources.
fn wellspring_rows(case: &Case, question: &Question, bars: Bars) -> Result<Vec<Row>, Failure> {
    let plan = Plan::new(case.operations(), Uses::Recorded);
    let ways: [(&str, Policy, SourceName); 4] = [
        ("policy:default", Policy::Default, SourceName::Vmm),
        ("policy:deterministic", Policy::Deterministic, SourceName::Vmm),
        ("policy:pytorch", Policy::PyTorch, SourceName::Vmm),
        ("policy:default,source:plain", Policy::Default, SourceName::Plain),
    ];
    let is_long = ALL_POLICIES_OPERATIONS_MAX < case.operations().list.len()
        || ALL_POLICIES_STREAMS_MAX < plan.stream_count;
    let count = if is_long || !question.settings.is_empty() { 1 } else { ways.len() };
    let mut rows = Vec::new();
    for (name, policy, source) in ways.into_iter().take(count) {
        let bar = bars.phase("serving");
        let outcome = serve(&plan, policy, source, question.capacity_bytes, &mut |done, all| {
            bar.show_steps(done, all);
        });
        let outcome = outcome.map_err(|error| {
            Failure::faulty(format_args!("{} could not be served: {error}", question.trace))
        })?;
        rows.push(Row::of_wellspring(case, name, &outcome));
    }
    Ok(rows)
}

fn serve(
    plan: &Plan,
    policy: Policy,
    source: SourceName,
    capacity_bytes: Option<u64>,
    progress: replay::Progress<'_>,
) -> Result<Outcome, Box<dyn std::error::Error>> {
    let session = Session::open(DeviceChoice::Simulated, policy, Some(source))?;
    let mut target = session.fresh(plan, capacity_bytes, None)?;
    Ok(replay::run(&mut target, plan, Mode::UntilFull, progress)?)
}

/// Whether the model did what PyTorch recorded, and what is to be said of it.
fn check(arguments: &Arguments, file: &Path) -> Result<(String, bool), Failure> {
    let bars = Bars::new(arguments.quiet);
    let name = input_name(file);
    let snapshot = read_snapshot(file, bars)?;
    let recorder = Recorder::from(snapshot.origin);
    let refuse = |error: ReadError| refusal(recorder, &name, &error);
    let chosen = snapshot.trace(arguments.device).map_err(refuse)?;
    if !recorder.is_pytorch() || !ReservedBytes::of(&chosen).is_recorded {
        return Err(Failure::bad_input(format_args!(
            "{name} has no segments of PyTorch's to hold the model against\n\
             --check needs a memory snapshot of PyTorch's, or CSV or a Chrome trace of one"
        )));
    }
    let found = compare_with_record(&chosen)
        .map_err(|error| Failure::bad_input(format_args!("{name}: {error}")))?;
    let text = if arguments.json {
        serde_json::to_string(&found).map_err(Failure::faulty)? + "\n"
    } else {
        printable_lines(&compared(&name, &found))
    };
    Ok((text, found.is_exact()))
}

fn compared(name: &str, found: &Comparison) -> String {
    let when_recorded = found
        .recorded_peak_reserved_bytes
        .map_or_else(|| "not known".to_owned(), |bytes| format!("{} MiB", bytes >> 20));
    let mut text = format!(
        "{name}: recorded under {}\n\
         {:>9} allocations, {} at another address\n\
         {:>9} segment events, {} requests with others\n\
         {:>9} MiB reserved at the peak, {when_recorded} when recorded\n",
        found.setting,
        found.allocations,
        found.wrong_addresses,
        found.events,
        found.wrong_events,
        found.peak_reserved_bytes >> 20,
    );
    if let Some(index) = found.first_difference {
        text += &format!("the first difference is at entry {index}\n");
    }
    for lack in &found.lacks {
        text += &format!("the trace lacks {lack}\n");
    }
    text
}
