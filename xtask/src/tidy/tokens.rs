//! A Rust file as a flat list of words with their lines: no comments, no strings, no layout.
//!
//! The checks read words instead of text, so that a comment about `unsafe` is not `unsafe`.

use std::str::FromStr as _;

use anyhow::{Result, anyhow};
use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// One identifier or punctuation character, brackets included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Word {
    pub(crate) text: String,
    pub(crate) line: usize,
}

/// Every word of `source` in order; literals and comments are left out.
pub(crate) fn words(source: &str) -> Result<Vec<Word>> {
    let stream = TokenStream::from_str(source).map_err(|error| anyhow!("not Rust: {error}"))?;
    let mut found = Vec::new();
    collect(stream, &mut found);
    Ok(found)
}

/// The lines at which the words of `pattern` (separated by blanks) follow each other.
pub(crate) fn lines_of(words: &[Word], pattern: &str) -> Vec<usize> {
    let pattern: Vec<&str> = pattern.split_whitespace().collect();
    let starts = words.windows(pattern.len());
    starts
        .filter(|window| window.iter().map(|word| word.text.as_str()).eq(pattern.iter().copied()))
        .filter_map(|window| window.first().map(|word| word.line))
        .collect()
}

fn collect(stream: TokenStream, found: &mut Vec<Word>) {
    for tree in stream {
        let line = tree.span().start().line;
        match tree {
            TokenTree::Group(group) => {
                let (open, close) = brackets(group.delimiter());
                let last_line = group.span_close().start().line;
                found.push(Word { text: open.to_owned(), line });
                collect(group.stream(), found);
                found.push(Word { text: close.to_owned(), line: last_line });
            }
            TokenTree::Ident(name) => found.push(Word { text: name.to_string(), line }),
            TokenTree::Punct(mark) => {
                found.push(Word { text: mark.as_char().to_string(), line });
            }
            TokenTree::Literal(_) => {}
        }
    }
}

fn brackets(delimiter: Delimiter) -> (&'static str, &'static str) {
    match delimiter {
        Delimiter::Parenthesis => ("(", ")"),
        Delimiter::Brace => ("{", "}"),
        Delimiter::Bracket => ("[", "]"),
        Delimiter::None => ("", ""),
    }
}

#[cfg(test)]
mod tests {
    use super::{lines_of, words};

    #[test]
    fn comments_and_strings_hold_no_words() {
        let words =
            words("// unsafe\n/// unsafe\nfn f() { g(\"unsafe\") }\nunsafe fn h() {}").unwrap();
        assert_eq!(lines_of(&words, "unsafe"), [4]);
    }

    #[test]
    fn a_pattern_matches_over_line_ends() {
        let words = words("use std::\n    sync::Arc;").unwrap();
        assert_eq!(lines_of(&words, "std : : sync"), [1]);
    }
}
