//! `report`: a recorded trace as one interactive page, and as pictures.

use std::path::{Path, PathBuf};

use report::{Figures, Options, Report};
use serde::Serialize;
use trace::AnyTrace;

use crate::arguments::ReportArguments;
use crate::ending::{Ending, Failure};
use crate::output;
use crate::progress::Bars;
use crate::trace_file::{
    bytes_text, counted, input_name, is_standard, owner_pattern, read, refuse_overwriting, shown,
};

/// Raised when a field changes its meaning.
const SCHEMA: u32 = 1;

/// Draws a report as told.
pub(crate) fn run(arguments: &ReportArguments) -> crate::Outcome {
    let owner = owner_pattern(arguments.owner.as_deref())?;
    let outputs = [Some(&arguments.output), arguments.svg.as_ref(), arguments.png.as_ref()];
    let outputs: Vec<&Path> = outputs.into_iter().flatten().map(PathBuf::as_path).collect();
    let (streamed, files): (Vec<&Path>, Vec<&Path>) =
        outputs.into_iter().partition(|output| is_standard(output));
    if 1 < streamed.len() + usize::from(arguments.json) {
        let message = "only one of the page, the pictures and --json can go to the standard output";
        return Err(Failure::bad_input(message));
    }
    refuse_overwriting(&arguments.file, &files)?;
    let bars = Bars::new(arguments.quiet);
    let trace = read(&arguments.file, bars)?;
    let bar = bars.phase("drawing");
    let matches = |frame: &str| owner.as_ref().is_some_and(|owner| owner.is_match(frame));
    let file = input_name(&arguments.file);
    let name = arguments.file.file_name().filter(|_| !is_standard(&arguments.file));
    let title = name.map_or_else(|| file.as_str().into(), |name| name.to_string_lossy());
    let options = Options {
        title: &title,
        device: arguments.device,
        owner: owner.is_some().then_some(&matches),
    };
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

/// A file that was written.
#[derive(Debug, Serialize)]
struct Written {
    file: String,
    bytes: usize,
}

fn write(file: &PathBuf, content: &[u8]) -> Result<Written, Failure> {
    let shown = shown(file);
    if is_standard(file) {
        output::content(content)?;
        return Ok(Written { file: shown, bytes: content.len() });
    }
    std::fs::write(file, content)
        .map_err(|error| Failure::faulty(format_args!("{shown} cannot be written: {error}")))?;
    Ok(Written { file: shown, bytes: content.len() })
}

#[derive(Debug, Serialize)]
struct Told<'a> {
    schema: u32,
    device: usize,
    events: usize,
    blocks: usize,
    owners: usize,
    peak_active_bytes: u64,
    /// Nothing where the file does not tell.
    peak_reserved_bytes: Option<u64>,
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
            peak_reserved_bytes: figures.reserved_peak_bytes(),
            out_of_memory: figures.out_of_memory_count,
            files,
        };
        return Ok(serde_json::to_string(&told).map_err(Failure::faulty)? + "\n");
    }
    let mut text = format!(
        "device {}: {} in {}, peak active {}, peak reserved {}, {} failed for lack of memory\n",
        figures.device,
        counted(figures.block_count, "block"),
        counted(figures.event_count, "event"),
        bytes_text(figures.peak_active_bytes),
        figures.reserved_peak_bytes().map_or_else(|| "not recorded".to_owned(), bytes_text),
        counted(figures.out_of_memory_count, "request"),
    );
    for written in files {
        text += &format!("{} ({} KiB)\n", written.file, written.bytes.div_ceil(1024));
    }
    Ok(text)
}
