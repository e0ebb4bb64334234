//! Files of any kind that commands take, and what several commands say about them.

use std::io;
use std::path::{Path, PathBuf};

use regex_lite::Regex;
pub(crate) use trace::amount::{bytes_text, count_text, counted};
use trace::convert::snapshot_of;
use trace::pytorch::{ReadError, ReadOptions, Snapshot};
use trace::{AnyError, AnyTrace, FileKind, read_any_kind, read_any_stream};

use crate::ending::Failure;
use crate::output::printable;
use crate::progress::Bars;

/// Stands for the standard input where a file is read, for the standard output where one is
/// written.
const STANDARD: &str = "-";

/// What is read beside snapshots, for who gave none of them.
const OTHER_KINDS: &str = "\na stream trace, a log of RMM, and CSV or a Chrome trace that `convert` \
                           wrote are read as well";

/// Whether a name stands for the standard input or output.
pub(crate) fn is_standard(file: &Path) -> bool {
    file == Path::new(STANDARD)
}

/// The name of a file that is read, as it may be shown.
pub(crate) fn input_name(file: &Path) -> String {
    if is_standard(file) { "standard input".to_owned() } else { shown(file) }
}

/// Refuses to read the standard input more than once.
pub(crate) fn refuse_twice<'a>(inputs: impl Iterator<Item = &'a PathBuf>) -> Result<(), Failure> {
    match inputs.filter(|file| is_standard(file)).count() {
        0 | 1 => Ok(()),
        count => Err(Failure::bad_input(format_args!(
            "`-` is there {count} times, but the standard input can be read only once"
        ))),
    }
}

/// A file's name as it may be shown.
pub(crate) fn shown(file: &Path) -> String {
    printable(&file.display().to_string())
}

/// Reads a file of any kind, with a progress bar.
pub(crate) fn read(file: &Path, bars: Bars) -> Result<AnyTrace, Failure> {
    read_kind(file, bars).map(|(_, trace)| trace)
}

/// The same, and what kind of file it is.
pub(crate) fn read_kind(file: &Path, bars: Bars) -> Result<(FileKind, AnyTrace), Failure> {
    let bar = bars.phase("reading");
    let mut progress = |done, all| bar.show(done, all);
    let options = ReadOptions::default();
    let read = if is_standard(file) {
        read_any_stream(io::stdin(), &options, Some(&mut progress))
    } else {
        read_any_kind(file, &options, Some(&mut progress))
    };
    read.map_err(|error| {
        let is_no_kind = matches!(error, AnyError::Snapshot(ReadError::Foreign { .. }));
        let others = if is_no_kind { OTHER_KINDS } else { "" };
        Failure::bad_input(format_args!("{} {error}{others}", input_name(file)))
    })
}

/// The same as a snapshot, made of a stream trace where that is what the file has.
pub(crate) fn read_snapshot(file: &Path, bars: Bars) -> Result<Snapshot, Failure> {
    Ok(match read(file, bars)? {
        AnyTrace::Snapshot(snapshot) => snapshot,
        AnyTrace::Recording(recording) => snapshot_of(&recording).0,
    })
}

/// Refuses to write over the file that is read, under whatever name, or one result over another.
pub(crate) fn refuse_overwriting(input: &Path, outputs: &[&Path]) -> Result<(), Failure> {
    // What the standard input was opened on can be told apart only where that has a name.
    let input = if is_standard(input) { Path::new("/dev/stdin") } else { input };
    for (number, output) in outputs.iter().enumerate() {
        if is_same_file(input, output) {
            let file = shown(output);
            return Err(Failure::bad_input(format_args!(
                "{file} is what is read: write elsewhere"
            )));
        }
        if outputs.iter().take(number).any(|earlier| is_same_file(earlier, output)) {
            let file = shown(output);
            return Err(Failure::bad_input(format_args!("{file} is to be written twice")));
        }
    }
    Ok(())
}

/// Whether two names are of one file, or will be. Devices and pipes have no content to lose.
fn is_same_file(one: &Path, other: &Path) -> bool {
    let (Ok(first), Ok(second)) = (std::fs::metadata(one), std::fs::metadata(other)) else {
        let full = |path| std::path::absolute(path).ok();
        return full(one).is_some_and(|one| full(other) == Some(one));
    };
    if !first.is_file() || !second.is_file() {
        return false;
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        // Hard links too.
        first.dev() == second.dev() && first.ino() == second.ino()
    }
    #[cfg(not(unix))]
    {
        one.canonicalize().is_ok_and(|one| other.canonicalize().is_ok_and(|other| one == other))
    }
}

/// Who owns what, as a command line says it.
pub(crate) fn owner_pattern(text: Option<&str>) -> Result<Option<Regex>, Failure> {
    let compiled = text.map(|text| {
        Regex::new(text).map_err(|error| {
            let text = printable(text);
            Failure::bad_input(format_args!("--owner {text} is no regular expression: {error}"))
        })
    });
    compiled.transpose()
}

/// The device that is wanted, else the first with a trace, else the first with a segment.
pub(crate) fn device_of(snapshot: &Snapshot, wanted: Option<usize>) -> usize {
    let traced = || snapshot.device_traces.iter().position(|entries| !entries.is_empty());
    let held = || snapshot.segments.first().map(|segment| segment.device);
    wanted.or_else(traced).or_else(held).unwrap_or(0)
}

/// A time as a person reads it: seconds, or milliseconds where it is below one.
pub(crate) fn time_text(microseconds: u64) -> String {
    let (whole, unit) = if microseconds < 1_000_000 { (1_000, "ms") } else { (1_000_000, "s") };
    format!("{}.{} {unit}", microseconds / whole, microseconds % whole * 10 / whole)
}

#[cfg(test)]
mod tests {
    use super::time_text;

    #[test]
    fn a_run_of_milliseconds_does_not_take_no_time() {
        for (microseconds, text) in
            [(0, "0.0 ms"), (26_612, "26.6 ms"), (999_999, "999.9 ms"), (2_975_000, "2.9 s")]
        {
            assert_eq!(time_text(microseconds), text);
        }
    }
}
