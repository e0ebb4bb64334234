//! Files of any kind that commands take, and what several commands say about them.

use std::path::Path;

use regex_lite::Regex;
pub(crate) use trace::amount::{bytes_text, count_text};
use trace::pytorch::{ReadOptions, Snapshot};
use trace::{AnyTrace, FileKind, read_any_kind};

use crate::ending::Failure;
use crate::output::printable;
use crate::progress::Bars;

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
    read_any_kind(file, &ReadOptions::default(), Some(&mut progress))
        .map_err(|error| Failure::bad_input(format_args!("{} {error}", shown(file))))
}

/// Refuses to write over the file that is read, under whatever name, or one result over another.
pub(crate) fn refuse_overwriting(input: &Path, outputs: &[&Path]) -> Result<(), Failure> {
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
