//! `report`: a recorded trace as one interactive page, and as pictures.

use std::path::{Path, PathBuf};

use regex_lite::Regex;
use report::{Figures, Options, Report};
use serde::Serialize;
use trace::pytorch::ReadOptions;
use trace::{AnyTrace, read_any};

use crate::arguments::ReportArguments;
use crate::ending::{Ending, Failure};
use crate::output::{self, printable};
use crate::progress::Bars;
use crate::trace_file::{bytes_text, refuse_overwriting};

/// Raised when a field changes its meaning.
const SCHEMA: u32 = 1;
/// Stands for the standard output.
const STANDARD_OUTPUT: &str = "-";

/// Draws a report as told.
pub(crate) fn run(arguments: &ReportArguments) -> crate::Outcome {
    let owner = arguments.owner.as_deref().map(pattern).transpose()?;
    let outputs = [Some(&arguments.output), arguments.svg.as_ref(), arguments.png.as_ref()];
    let outputs: Vec<&Path> = outputs.into_iter().flatten().map(PathBuf::as_path).collect();
    let (streamed, files): (Vec<&Path>, Vec<&Path>) =
        outputs.into_iter().partition(|output| is_standard_output(output));
    if 1 < streamed.len() + usize::from(arguments.json) {
        let message = "only one of the page, the pictures and --json can go to the standard output";
        return Err(Failure::bad_input(message));
    }
    refuse_overwriting(&arguments.file, &files)?;
    let bars = Bars::new(arguments.quiet);
    let trace = read(arguments, bars)?;
    let bar = bars.phase("drawing");
    let matches = |frame: &str| owner.as_ref().is_some_and(|owner| owner.is_match(frame));
    let name = arguments.file.file_name().unwrap_or(arguments.file.as_os_str());
    let title = name.to_string_lossy();
    let options = Options {
        title: &title,
        device: arguments.device,
        owner: owner.is_some().then_some(&matches),
    };
    let file = shown(&arguments.file);
    let drawn = match &trace {
        AnyTrace::Snapshot(snapshot) => Report::of(snapshot, &options)
            .map_err(|error| Failure::bad_input(format_args!("{file} {error}")))?,
        AnyTrace::Recording(_) if options.device.is_some() || options.owner.is_some() => {
            return Err(Failure::bad_input(format_args!(
                "{file} is a stream trace, which has one device and places for owners: leave out \
                 --device and --owner"
            )));
        }
        AnyTrace::Recording(recording) => Report::of_recording(recording, &options),
    };
    bar.show(1, 3);
    let mut written = Vec::new();
    if let Some(file) = &arguments.svg {
        written.push(write(file, drawn.svg().as_bytes())?);
    }
    if let Some(file) = &arguments.png {
        written.push(write(file, &drawn.png().map_err(Failure::faulty)?)?);
    }
    bar.show(2, 3);
    written.insert(0, write(&arguments.output, drawn.html().as_bytes())?);
    drop(bar);
    if streamed.is_empty() {
        output::result(&told(&drawn.figures(), &written, arguments.json)?)?;
    }
    Ok(Ending::Done)
}

fn is_standard_output(output: &Path) -> bool {
    output == Path::new(STANDARD_OUTPUT)
}

/// A pattern of `--owner`.
pub(crate) fn pattern(text: &str) -> Result<Regex, Failure> {
    Regex::new(text).map_err(|error| {
        let text = printable(text);
        Failure::bad_input(format_args!("--owner {text} is no regular expression: {error}"))
    })
}

fn read(arguments: &ReportArguments, bars: Bars) -> Result<AnyTrace, Failure> {
    let file = shown(&arguments.file);
    let bar = bars.phase("reading");
    let mut progress = |done, all| bar.show(done, all);
    let read = read_any(&arguments.file, &ReadOptions::default(), Some(&mut progress));
    read.map_err(|error| Failure::bad_input(format_args!("{file} {error}")))
}

/// A file that was written.
#[derive(Debug, Serialize)]
struct Written {
    file: String,
    bytes: usize,
}

fn write(file: &PathBuf, content: &[u8]) -> Result<Written, Failure> {
    let shown = shown(file);
    if is_standard_output(file) {
        output::content(content)?;
        return Ok(Written { file: shown, bytes: content.len() });
    }
    std::fs::write(file, content)
        .map_err(|error| Failure::faulty(format_args!("{shown} cannot be written: {error}")))?;
    Ok(Written { file: shown, bytes: content.len() })
}

fn shown(file: &Path) -> String {
    printable(&file.display().to_string())
}

#[derive(Debug, Serialize)]
struct Told<'a> {
    schema: u32,
    device: usize,
    events: usize,
    blocks: usize,
    owners: usize,
    peak_active_bytes: u64,
    peak_reserved_bytes: u64,
    out_of_memory: usize,
    files: &'a [Written],
}

fn told(figures: &Figures, files: &[Written], as_json: bool) -> Result<String, Failure> {
    if as_json {
        let told = Told {
            schema: SCHEMA,
            device: figures.device,
            events: figures.event_count,
            blocks: figures.block_count,
            owners: figures.owner_count,
            peak_active_bytes: figures.peak_active_bytes,
            peak_reserved_bytes: figures.peak_reserved_bytes,
            out_of_memory: figures.out_of_memory_count,
            files,
        };
        return Ok(serde_json::to_string(&told).map_err(Failure::faulty)? + "\n");
    }
    let mut text = format!(
        "device {}: {} blocks in {} events, peak active {}, peak reserved {}, out of memory \
         {} times\n",
        figures.device,
        figures.block_count,
        figures.event_count,
        bytes_text(figures.peak_active_bytes),
        bytes_text(figures.peak_reserved_bytes),
        figures.out_of_memory_count,
    );
    for written in files {
        text += &format!("{} ({} KiB)\n", written.file, written.bytes.div_ceil(1024));
    }
    Ok(text)
}
