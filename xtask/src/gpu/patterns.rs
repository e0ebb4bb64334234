//! Runs a program that prints `pattern: name=value …`, and reads such lines again.
//!
//! The marks are `pattern: ` for a strategy of ours, `peer: ` for another library, `places: ` for
//! runs that must choose the same places.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::Result;

use super::manifest::Entry;
use super::process::{self, Ended};
use super::results::{PATTERNS, Results};

pub(crate) const OURS: &str = "pattern: ";
pub(crate) const PEER: &str = "peer: ";
pub(crate) const PLACES: &str = "places: ";

/// The names and values of one line.
pub(crate) type Row = BTreeMap<String, String>;

/// How the program ended, and whether it ended with success and printed a line.
pub(crate) fn run(
    entry: &Entry,
    command: &mut Command,
    scratch: &Path,
    results: &Results,
) -> Result<(Ended, bool)> {
    let ended = process::run(command, Duration::from_secs(entry.seconds_max), scratch)?;
    results.append_words(PATTERNS, &entry.name, &ended)?;
    let has_lines = [OURS, PEER].iter().any(|mark| !rows(&ended.stdout, mark).is_empty());
    let passed = ended.succeeded() && has_lines;
    Ok((ended, passed))
}

/// The lines that begin with `mark`.
pub(crate) fn rows(text: &str, mark: &str) -> Vec<Row> {
    let lines = text.lines().filter_map(|line| line.strip_prefix(mark));
    lines.map(pairs).collect()
}

/// The pairs `name=value` of a line, which spaces set apart.
pub(crate) fn pairs(line: &str) -> Row {
    let pairs = line.split(' ').filter_map(|pair| pair.split_once('='));
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// A value that is a whole number.
pub(crate) fn number(row: &Row, name: &str) -> Option<u64> {
    row.get(name)?.parse().ok()
}

/// A value that is a word.
pub(crate) fn word<'a>(row: &'a Row, name: &str) -> &'a str {
    row.get(name).map_or("", String::as_str)
}

#[cfg(test)]
mod tests {
    use super::{OURS, number, rows, word};

    #[test]
    fn lines_with_the_mark_are_rows() {
        let text = "noise\npattern: pattern=equal ns=12\npeer: pattern=equal ns=13\n";
        let found = rows(text, OURS);
        assert_eq!(found.len(), 1);
        assert_eq!((word(&found[0], "pattern"), number(&found[0], "ns")), ("equal", Some(12)));
        assert_eq!((word(&found[0], "gone"), number(&found[0], "pattern")), ("", None));
    }
}
