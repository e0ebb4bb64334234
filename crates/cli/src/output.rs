//! Everything that is printed, apart from progress bars.

use std::fmt::Write as _;
use std::io::{ErrorKind, Write as _};

use crate::ending::Failure;

/// The most lines of an error that are shown.
const ERROR_LINES_MAX: usize = 3;

/// Prints a result. A reader that has seen enough is no failure.
pub(crate) fn result(text: &str) -> Result<(), Failure> {
    content(text.as_bytes())
}

/// The same for a result that need not be text.
pub(crate) fn content(bytes: &[u8]) -> Result<(), Failure> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::faulty(format_args!("the result cannot be written: {error}")))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Says why a command ended.
pub(crate) fn error(message: &str) {
    // Nobody is left to be told that nobody can be told.
    let _ = std::io::stderr().write_all(error_text(message).as_bytes());
}

/// Says something beside the result.
pub(crate) fn note(message: &str) {
    let _ = writeln!(std::io::stderr(), "note: {}", printable(message));
}

fn error_text(message: &str) -> String {
    let lines = message.lines().map(str::trim_end).filter(|line| !line.is_empty());
    let mut text = String::from("error: ");
    for (number, line) in lines.take(ERROR_LINES_MAX).enumerate() {
        let indent = if number == 0 { "" } else { "  " };
        let _ = writeln!(text, "{indent}{}", printable(line.trim_start()));
    }
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text
}

/// The text with control characters spelled out, so that no file's name can act on a terminal,
/// add a line, or turn round the order in which letters are shown.
pub(crate) fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        let turns = matches!(character, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        let breaks = matches!(character, '\u{2028}' | '\u{2029}');
        if character.is_control() || turns || breaks {
            shown.extend(character.escape_default());
        } else {
            shown.push(character);
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::{error_text, printable};

    #[test]
    fn an_error_has_at_most_three_lines() {
        assert_eq!(error_text("one"), "error: one\n");
        assert_eq!(error_text("one\n\n  two\nthree\nfour"), "error: one\n  two\n  three\n");
        assert_eq!(error_text(""), "error: \n");
    }

    #[test]
    fn control_characters_are_spelled_out() {
        assert_eq!(printable("a\u{1b}[2Jb\nc\té"), "a\\u{1b}[2Jb\\nc\\té");
        assert_eq!(printable("a\u{202e}b\u{2028}c"), "a\\u{202e}b\\u{2028}c");
    }
}
