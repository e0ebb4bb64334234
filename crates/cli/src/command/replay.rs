//! `replay`: a recorded trace is served on a device, and what that needed is reported.

use replay::what_if::Recorder;
use replay::{Bounds, Fit, Mode, Outcome, Plan, Recorded, ReplayError, Report, Setting, Uses};
use trace::{Operations, Summary};

use crate::arguments::{ReplayArguments, UsesName, VerifyName};
use crate::command::what_if::refusal;
use crate::ending::{Ending, Failure};
use crate::output;
use crate::progress::Bars;
use crate::target::{Session, Stamps};
use crate::trace_file::{input_name, read_snapshot};

/// What is replayed.
struct Work {
    plan: Plan,
    recorded: Recorded,
    trace: String,
}

/// Replays a trace as told.
pub(crate) fn run(arguments: &ReplayArguments) -> crate::Outcome {
    let bars = Bars::new(arguments.quiet);
    let work = judge(arguments, bars)?;
    let session = Session::open(arguments.device, arguments.policy.policy(), arguments.source)
        .map_err(Failure::no_device)?;
    if !arguments.quiet {
        tell_notes(&work, &session, arguments);
    }
    let report = serve(arguments, &work, &session, bars)?;
    let text = if arguments.json {
        let line = report.to_json().map_err(Failure::faulty)?;
        line + "\n"
    } else {
        report.to_text()
    };
    output::result(&text)?;
    Ok(if report.is_good() { Ending::Done } else { Ending::Faulty })
}

/// Reads the file and works out what is to be done, before any device is opened.
fn judge(arguments: &ReplayArguments, bars: Bars) -> Result<Work, Failure> {
    let trace = input_name(&arguments.file);
    let snapshot = read_snapshot(&arguments.file, bars)?;
    let recorder = Recorder::from(snapshot.origin);
    let chosen = snapshot.trace(arguments.trace_device);
    let chosen = chosen.map_err(|error| refusal(recorder, &trace, &error))?;
    let operations = chosen.operations();
    let summary = chosen.summary(&operations);
    let uses = match arguments.uses {
        UsesName::Recorded => Uses::Recorded,
        UsesName::None => Uses::None,
    };
    let plan = Plan::new(&operations, uses);
    Ok(Work { plan, recorded: recorded(recorder, &summary, &operations), trace })
}

fn recorded(recorder: Recorder, summary: &Summary, operations: &Operations) -> Recorded {
    Recorded {
        recorder,
        event_count: summary.entry_count,
        peak_reserved_bytes: summary.reserved_peak_bytes(),
        peak_allocated_bytes: summary.peaks.allocated_bytes,
        peak_active_bytes: summary.peaks.active_bytes,
        peak_pending_bytes: summary.peaks.pending_bytes,
        page_floor_bytes: summary.peaks.page_floor_bytes,
        initial_block_count: operations.initial_block_count,
        out_of_memory_count: summary.counts.out_of_memory,
    }
}

/// What somebody who reads only the JSON line should know as well.
fn tell_notes(work: &Work, session: &Session, arguments: &ReplayArguments) {
    if let Some(reason) = session.fallback_reason() {
        output::note(&format!("served on the simulated device, for want of a GPU: {reason}"));
    }
    let count = work.recorded.initial_block_count;
    if arguments.json && 0 < count {
        output::note(&format!(
            "the trace lost its beginning: {count} blocks were rebuilt from its final segments"
        ));
    }
}

/// The passes: one for times and figures, one for stamps, and those that find the smallest
/// capacity.
fn serve(
    arguments: &ReplayArguments,
    work: &Work,
    session: &Session,
    bars: Bars,
) -> Result<Report, Failure> {
    let capacity = arguments.capacity.map(|size| size.0);
    let setting = Setting {
        trace: work.trace.clone(),
        device: session.device_name().to_owned(),
        policy: arguments.policy.name().to_owned(),
        source: session.source_name().to_owned(),
    };
    let timed = pass(work, session, capacity, None, bars)?;
    let mut report = Report::new(setting, work.recorded.clone(), &work.plan, &timed);
    if let Some(verify) = arguments.verify {
        let stamps = match verify {
            VerifyName::Stamps => Stamps::Sparse,
            VerifyName::Full => Stamps::Full,
        };
        report.add_verified(&pass(work, session, capacity, Some(stamps), bars)?);
    }
    if arguments.fit {
        report.add_fit(fit(work, session, capacity, &timed, bars)?);
    }
    Ok(report)
}

fn pass(
    work: &Work,
    session: &Session,
    capacity: Option<u64>,
    stamps: Option<Stamps>,
    bars: Bars,
) -> Result<Outcome, Failure> {
    let (mode, name) = match stamps {
        None => (Mode::Timed, "serving"),
        Some(_) => (Mode::Verified, "verifying"),
    };
    let bar = bars.phase(name);
    let fresh = session.fresh(&work.plan, capacity, stamps);
    let mut target = fresh.map_err(|error| failed(&work.trace, &error))?;
    replay::run(&mut target, &work.plan, mode, &mut |done, all| bar.show_steps(done, all))
        .map_err(|error| failed(&work.trace, &error))
}

/// Nothing can go below what was active at once, and what was reserved when there was room is
/// likely to be enough.
fn fit(
    work: &Work,
    session: &Session,
    capacity: Option<u64>,
    timed: &Outcome,
    bars: Bars,
) -> Result<Fit, Failure> {
    let bar = bars.phase("fitting");
    let total = session.total_bytes().map_err(|error| failed(&work.trace, &error))?;
    let high_bytes = capacity.map_or(total, |capacity| capacity.min(total));
    let figures = &timed.figures;
    let bounds = if timed.out_of_memory_count == 0 {
        let low_bytes = figures.peak_active_bytes.saturating_sub(1);
        Bounds { low_bytes, guess_bytes: figures.peak_reserved_bytes, high_bytes }
    } else {
        Bounds { low_bytes: 0, guess_bytes: high_bytes, high_bytes }
    };
    let fresh = |bytes| session.fresh(&work.plan, Some(bytes), None);
    let mut progress = |done, all| bar.show_steps(done, all);
    replay::smallest_capacity(&work.plan, bounds, fresh, &mut progress)
        .map_err(|error: ReplayError| failed(&work.trace, &error))
}

fn failed(trace: &str, error: &dyn std::error::Error) -> Failure {
    Failure::faulty(format_args!("{trace} could not be served: {error}"))
}
