//! `convert`: a trace of one kind becomes a file of another.

use std::fs::File;
use std::io::{self, ErrorKind, Write};

use trace::convert::{
    LeftOut, beside_entries, beside_items, beside_snapshot, fill_segments, rewrite_recording,
    snapshot_of, write_recording,
};
use trace::pytorch::{Snapshot, write};
use trace::stream_trace::Recording;
use trace::{AnyTrace, Pattern, chrome, csv};

use crate::arguments::{ConvertArguments, FormatName};
use crate::ending::{Ending, Failure};
use crate::output;
use crate::progress::Bars;
use crate::trace_file::{
    device_of, input_name, is_standard, owner_pattern, read, refuse_overwriting, shown,
};

/// Converts as told.
pub(crate) fn run(arguments: &ConvertArguments) -> crate::Outcome {
    let format = format(arguments)?;
    if !is_standard(&arguments.output) {
        refuse_overwriting(&arguments.input, &[&arguments.output])?;
    }
    let owner = owner_pattern(arguments.owner.as_deref())?;
    let bars = Bars::new(arguments.quiet);
    let mut read = read(&arguments.input, bars)?;
    if let AnyTrace::Snapshot(snapshot) = &mut read
        && format == FormatName::Pickle
    {
        fill(snapshot, arguments.quiet);
    }
    let matches = |frame: &str| owner.as_ref().is_some_and(|owner| owner.is_match(frame));
    let pattern: Option<Pattern<'_>> = owner.is_some().then_some(&matches);
    let work = Work { arguments, format, pattern, bars };
    // What cannot be done is found before a file is made, or an old one lost.
    if let AnyTrace::Snapshot(snapshot) = &read {
        work.check(snapshot)?;
    }
    let written = if is_standard(&arguments.output) {
        work.write(&read, io::stdout().lock())
    } else {
        File::create(&arguments.output).and_then(|file| work.write(&read, file))
    };
    let left_out = match written {
        Ok(left_out) => left_out,
        Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(Ending::Done),
        Err(error) => {
            let output = if is_standard(&arguments.output) {
                String::from("the standard output")
            } else {
                shown(&arguments.output)
            };
            return Err(Failure::faulty(format_args!("{output} cannot be written: {error}")));
        }
    };
    if !arguments.quiet && !left_out.is_empty() {
        let listed: Vec<String> = left_out.iter().map(ToString::to_string).collect();
        output::note(&format!("{} cannot hold and lacks: {}", name(format), listed.join(", ")));
    }
    Ok(Ending::Done)
}

/// Makes up segments where there are none, and says so.
fn fill(snapshot: &mut Snapshot, is_quiet: bool) {
    let made = fill_segments(snapshot);
    if 0 < made && !is_quiet {
        output::note(&format!(
            "the file has no segments: {made} were made up of the pages that its blocks lay in"
        ));
    }
}

fn name(format: FormatName) -> &'static str {
    match format {
        FormatName::Pickle => "a PyTorch snapshot",
        FormatName::Wst => "a stream trace",
        FormatName::Chrome => "a Chrome trace",
        FormatName::Csv => "a CSV file",
    }
}

fn format(arguments: &ConvertArguments) -> Result<FormatName, Failure> {
    if let Some(format) = arguments.to {
        return Ok(format);
    }
    let ending = arguments.output.extension().map(|it| it.to_string_lossy().to_lowercase());
    match ending.as_deref() {
        Some("pickle" | "pkl") => Ok(FormatName::Pickle),
        Some("wst") => Ok(FormatName::Wst),
        Some("json") => Ok(FormatName::Chrome),
        Some("csv") => Ok(FormatName::Csv),
        Some(_) | None => Err(Failure::bad_input(format_args!(
            "the ending of {} names no format\n\
             end it with .pickle, .wst, .json or .csv, or give --to pickle, wst, chrome or csv",
            shown(&arguments.output)
        ))),
    }
}

struct Work<'a> {
    arguments: &'a ConvertArguments,
    format: FormatName,
    pattern: Option<Pattern<'a>>,
    bars: Bars,
}

impl Work<'_> {
    /// Whether the snapshot has the trace that is to be written.
    fn check(&self, snapshot: &Snapshot) -> Result<(), Failure> {
        if self.format == FormatName::Pickle && self.arguments.trace_device.is_none() {
            return Ok(());
        }
        let input = input_name(&self.arguments.input);
        let trace = snapshot.trace(self.arguments.trace_device);
        trace.map(drop).map_err(|error| Failure::bad_input(format_args!("{input} {error}")))
    }

    fn write(&self, read: &AnyTrace, sink: impl Write) -> io::Result<Vec<LeftOut>> {
        match read {
            AnyTrace::Snapshot(snapshot) => self.write_snapshot(snapshot, sink),
            AnyTrace::Recording(recording) => self.write_recording(recording, sink),
        }
    }

    fn write_snapshot(&self, snapshot: &Snapshot, sink: impl Write) -> io::Result<Vec<LeftOut>> {
        let bar = self.bars.phase("writing");
        let mut progress = |done, all| bar.show_steps(done, all);
        let chosen = self.arguments.trace_device;
        let device = device_of(snapshot, chosen);
        let trace = || snapshot.trace(Some(device)).map_err(io::Error::other);
        match self.format {
            FormatName::Pickle => {
                write(snapshot, sink, Some(&mut progress))?;
                Ok(beside_snapshot(snapshot))
            }
            FormatName::Wst => {
                let trace = trace()?;
                let (_, left_out) = write_recording(snapshot, &trace, sink, Some(&mut progress))?;
                Ok(left_out)
            }
            FormatName::Chrome => {
                let trace = trace()?;
                chrome::write_snapshot(snapshot, &trace, self.pattern, sink, Some(&mut progress))?;
                Ok(beside_entries(snapshot, Some(device), true))
            }
            FormatName::Csv => {
                csv::write_snapshot(snapshot, chosen, self.pattern, sink, Some(&mut progress))?;
                Ok(beside_entries(snapshot, chosen, false))
            }
        }
    }

    fn write_recording(&self, recording: &Recording, sink: impl Write) -> io::Result<Vec<LeftOut>> {
        let bar = self.bars.phase("writing");
        let mut progress = |done, all| bar.show_steps(done, all);
        match self.format {
            FormatName::Pickle => {
                let (mut snapshot, left_out) = snapshot_of(recording);
                fill(&mut snapshot, self.arguments.quiet);
                write(&snapshot, sink, Some(&mut progress))?;
                Ok(left_out)
            }
            FormatName::Wst => {
                let (_, left_out) = rewrite_recording(recording, sink)?;
                Ok(left_out)
            }
            FormatName::Chrome => {
                chrome::write_recording(recording, self.pattern, sink, Some(&mut progress))?;
                Ok(beside_items(recording))
            }
            FormatName::Csv => {
                csv::write_recording(recording, sink, Some(&mut progress))?;
                Ok(beside_items(recording))
            }
        }
    }
}
