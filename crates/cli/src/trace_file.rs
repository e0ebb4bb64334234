//! Files of any kind that commands take, and what several commands say about them.

use std::path::Path;

use regex_lite::Regex;
use trace::pytorch::{ReadOptions, Snapshot};
use trace::{AnyTrace, read_any};

use crate::ending::Failure;
use crate::output::printable;
use crate::progress::Bars;

/// A file's name as it may be shown.
pub(crate) fn shown(file: &Path) -> String {
    printable(&file.display().to_string())
}

/// Reads a file of any kind, with a progress bar.
pub(crate) fn read(file: &Path, bars: Bars) -> Result<AnyTrace, Failure> {
    let bar = bars.phase("reading");
    let mut progress = |done, all| bar.show(done, all);
    read_any(file, &ReadOptions::default(), Some(&mut progress))
        .map_err(|error| Failure::bad_input(format_args!("{} {error}", shown(file))))
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

/// Bytes as a person reads them, in binary units.
pub(crate) fn bytes_text(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1 << 10 {
        return format!("{bytes} B");
    }
    let mut unit_bytes = 1_u64 << 10;
    let mut name = "KiB";
    for next in UNITS.iter().skip(1) {
        if bytes / unit_bytes < 1 << 10 {
            break;
        }
        unit_bytes <<= 10;
        name = next;
    }
    let hundredths = u128::from(bytes) * 100 / u128::from(unit_bytes);
    format!("{}.{:02} {name}", hundredths / 100, hundredths % 100)
}

/// A count with its thousands set apart.
pub(crate) fn count_text(count: usize) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (position, digit) in digits.chars().enumerate() {
        if 0 < position && (digits.len() - position).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{bytes_text, count_text};

    #[test]
    fn bytes_and_counts_are_readable() {
        for (bytes, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.00 KiB"),
            ((1 << 20) - 1, "1023.99 KiB"),
            (3 << 29, "1.50 GiB"),
            (u64::MAX, "16777215.99 TiB"),
        ] {
            assert_eq!(bytes_text(bytes), text);
        }
        for (count, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(count_text(count), text);
        }
    }
}
