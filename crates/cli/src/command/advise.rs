//! `advise`: where a recorded program could wait without standing still, and what that would save.

use replay::advise::{Advice, Verdict, advise, advise_snapshot};
use trace::AnyTrace;

use crate::arguments::AdviseArguments;
use crate::ending::{Ending, Failure};
use crate::output::{self, printable};
use crate::progress::Bars;
use crate::trace_file::{input_name, read};

/// Advises on a trace as told.
pub(crate) fn run(arguments: &AdviseArguments) -> crate::Outcome {
    let bars = Bars::new(arguments.quiet);
    let trace = input_name(&arguments.file);
    let refuse =
        |error: &dyn std::error::Error| Failure::bad_input(format_args!("{trace} {error}"));
    let read = read(&arguments.file, bars)?;
    let advice = match &read {
        AnyTrace::Recording(_) if arguments.trace_device.is_some() => {
            return Err(Failure::bad_input(format_args!(
                "{trace} is a stream trace, which has one device: leave out --trace-device"
            )));
        }
        AnyTrace::Recording(recording) => {
            let _bar = bars.phase("advising");
            advise(recording, trace.as_str())
        }
        AnyTrace::Snapshot(snapshot) => {
            let chosen = snapshot.trace(arguments.trace_device).map_err(|error| refuse(&error))?;
            advise_snapshot(&chosen, trace.as_str())
        }
    };
    output::result(&told(&advice, arguments.json)?)?;
    Ok(Ending::Done)
}

fn told(advice: &Advice, as_json: bool) -> Result<String, Failure> {
    if as_json {
        return Ok(advice.to_json().map_err(Failure::faulty)? + "\n");
    }
    let mut text = String::new();
    // A name in a trace is anybody's text: nothing in it may act on a terminal.
    for line in advice.to_text().lines() {
        text += &printable(line);
        text.push('\n');
    }
    let to_do = advice.groups.iter().filter(|group| group.verdict == Verdict::Wait).count();
    if 0 < to_do {
        text += "\neach line to write is explained in docs/advice.md\n";
    }
    Ok(text)
}
