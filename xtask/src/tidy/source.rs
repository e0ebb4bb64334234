//! What one Rust file must say and may not say.

use anyhow::Result;

use super::Finding;
use super::tokens::{self, Word};

const LINES_MAX: usize = 500;
const COLUMNS_MAX: usize = 100;

/// Where `unsafe` may be written; a place where nobody does any more is taken out, and a test says
/// so. A bench calls what it compares us with, and raw allocators are `unsafe` to call.
const UNSAFE_ALLOWED: &[&str] = &[
    "crates/cuda-sys/",
    "crates/cuda-sim/",
    "crates/conformance/",
    "crates/cudarc-adapter/",
    "crates/streams/src/driver/",
    // The shard lock: docs/design/0003-the-shard-lock.md says what it buys.
    "crates/allocator/src/lock.rs",
    // What a block promises to whoever uses its memory.
    "crates/allocator/src/device_bytes.rs",
    // What a region promises to the allocator.
    "crates/allocator/src/source/",
    "crates/kernels/src/launch.rs",
    // A replay's blocks are numbers, and it counts no uses but those of the trace.
    "crates/cli/src/target/stamper.rs",
    // Strategies that record by hand, or not at all.
    "crates/patterns/src/uncounted.rs",
    // Programs that tell of their uses themselves.
    "crates/random-programs/src/raw.rs",
    "crates/streams/tests/",
    // Where scenarios use memory behind the allocator's back.
    "tests/scenarios/raw.rs",
    "benches/",
];

/// Crates whose root need not forbid `unsafe`, because some of it is their job.
const UNSAFE_CRATES: &[&str] =
    &["crates/cuda-sys/", "crates/cuda-sim/", "crates/conformance/", "crates/cudarc-adapter/"];

/// Crates that keep their `unsafe` in one place and deny it elsewhere.
const UNSAFE_IN_ONE_PLACE: &[&str] = &[
    "crates/streams/",
    "crates/allocator/",
    "crates/kernels/",
    "crates/cli/",
    "crates/patterns/",
    "crates/random-programs/",
];

/// Where locks, atomics and threads come through `crate::sync` only. Models (`loom_tests.rs`) stand
/// on the other side of that door: what they share without a switch is the standard library's.
const BEHIND_THE_SYNC_DOOR: &[&str] = &["crates/streams/src/", "crates/allocator/src/"];

/// Every check of one file; `path` is relative to the workspace root, with forward slashes.
pub(crate) fn check(path: &str, text: &str) -> Result<Vec<Finding>> {
    let words = tokens::words(text)?;
    let mut findings = Vec::new();
    findings.extend(opening(path, text));
    findings.extend(forbid_unsafe(path, &words));
    findings.extend(unsafe_places(path, &words));
    findings.extend(sync_door(path, &words));
    findings.extend(ignored_tests(path, text, &words));
    findings.extend(measure(path, text));
    Ok(findings)
}

/// A file starts with `//!` and its one job.
fn opening(path: &str, text: &str) -> Option<Finding> {
    let opens = text.lines().next().is_some_and(|line| line.starts_with("//! "));
    let complaint = "a file starts with `//! ` and the one job it has";
    (!opens).then(|| Finding::failure(path, 1, complaint))
}

/// A crate root forbids `unsafe`, or denies it where one folder is the exception.
fn forbid_unsafe(path: &str, words: &[Word]) -> Option<Finding> {
    if !is_crate_root(path) || UNSAFE_CRATES.iter().any(|folder| path.starts_with(folder)) {
        return None;
    }
    let has_one_place = UNSAFE_IN_ONE_PLACE.iter().any(|folder| path.starts_with(folder));
    let says = |level: &str| {
        let pattern = format!("# ! [ {level} ( unsafe_code ) ]");
        !tokens::lines_of(words, &pattern).is_empty()
    };
    let level = if has_one_place { "deny" } else { "forbid" };
    let complaint = format!("a crate root says `#![{level}(unsafe_code)]`");
    (!says("forbid") && !says(level)).then(|| Finding::failure(path, 1, complaint))
}

fn is_crate_root(path: &str) -> bool {
    let source =
        path.strip_prefix("src/").or_else(|| path.split_once("/src/").map(|parts| parts.1));
    source.is_some_and(|file| file == "lib.rs" || file == "main.rs" || file.starts_with("bin/"))
}

/// `unsafe` is written only where it is somebody's job.
fn unsafe_places(path: &str, words: &[Word]) -> Vec<Finding> {
    if UNSAFE_ALLOWED.iter().any(|place| path.starts_with(place)) {
        return Vec::new();
    }
    let lines = tokens::lines_of(words, "unsafe");
    let complaint = "`unsafe` has no place here: see UNSAFE_ALLOWED in xtask/src/tidy/source.rs";
    lines.into_iter().map(|line| Finding::failure(path, line, complaint)).collect()
}

/// Locks, atomics and threads come through `crate::sync`, so that models can replace them.
fn sync_door(path: &str, words: &[Word]) -> Vec<Finding> {
    let held = BEHIND_THE_SYNC_DOOR.iter().any(|folder| path.starts_with(folder));
    let is_other_side = path.ends_with("/sync.rs") || path.ends_with("/loom_tests.rs");
    if !held || is_other_side {
        return Vec::new();
    }
    let mut lines = Vec::new();
    for library in ["std", "core"] {
        for module in ["sync", "thread"] {
            lines.extend(tokens::lines_of(words, &format!("{library} : : {module}")));
        }
        lines.extend(grouped_imports(words, library));
    }
    lines.sort_unstable();
    let complaint = "locks, atomics and threads come through `crate::sync`";
    lines.into_iter().map(|line| Finding::failure(path, line, complaint)).collect()
}

/// The lines of `sync` or `thread` directly inside `library::{...}`.
fn grouped_imports(words: &[Word], library: &str) -> Vec<usize> {
    let mut lines = Vec::new();
    let opening = [library, ":", ":", "{"];
    for (start, window) in words.windows(opening.len()).enumerate() {
        if !window.iter().map(|word| word.text.as_str()).eq(opening) {
            continue;
        }
        let mut depth = 1_u32;
        let mut is_first_of_path = true;
        for word in words.iter().skip(start + opening.len()) {
            match word.text.as_str() {
                "{" => depth += 1,
                "}" => depth -= 1,
                "sync" | "thread" if depth == 1 && is_first_of_path => lines.push(word.line),
                _ => {}
            }
            is_first_of_path = word.text == ",";
            if depth == 0 {
                break;
            }
        }
    }
    lines
}

/// Nothing is skipped in silence: no ignored test, no ignored example in the documentation.
fn ignored_tests(path: &str, text: &str, words: &[Word]) -> Vec<Finding> {
    let mut lines = tokens::lines_of(words, "# [ ignore");
    for attribute in tokens::lines_of(words, "# [ cfg_attr") {
        let of_attribute = words.iter().filter(|word| word.line == attribute);
        lines.extend(of_attribute.filter(|word| word.text == "ignore").map(|word| word.line));
    }
    for (index, line) in text.lines().enumerate() {
        let line = line.trim_start();
        let doc = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"));
        let fence = doc.and_then(|doc| doc.trim_start().strip_prefix("```"));
        if fence.is_some_and(|words| words.split(',').any(|word| word.trim() == "ignore")) {
            lines.push(index + 1);
        }
    }
    let complaint = "an ignored test or example shows nothing: run it or remove it";
    lines.into_iter().map(|line| Finding::failure(path, line, complaint)).collect()
}

/// Sizes are reported, people decide.
fn measure(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let line_count = text.lines().count();
    if LINES_MAX < line_count {
        let note = format!("{line_count} lines, {LINES_MAX} are easier to read");
        findings.push(Finding::note(path, 1, note));
    }
    for (index, line) in text.lines().enumerate() {
        let columns = line.chars().count();
        if COLUMNS_MAX < columns {
            let note = format!("{columns} columns, {COLUMNS_MAX} are easier to read");
            findings.push(Finding::note(path, index + 1, note));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::{UNSAFE_ALLOWED, check, tokens};

    /// The lines of failures for `text` lying at `path`, and of notes.
    fn lines(path: &str, text: &str) -> (Vec<usize>, Vec<usize>) {
        let findings = check(path, text).unwrap();
        let (failures, notes): (Vec<_>, Vec<_>) =
            findings.into_iter().partition(|finding| finding.is_failure);
        let line = |finding: super::Finding| finding.line;
        (failures.into_iter().map(line).collect(), notes.into_iter().map(line).collect())
    }

    fn failures(path: &str, text: &str) -> Vec<usize> {
        lines(path, text).0
    }

    #[test]
    fn a_file_without_its_job_is_found() {
        assert_eq!(failures("crates/trace/src/a.rs", "fn f() {}\n"), [1]);
        assert_eq!(failures("crates/trace/src/a.rs", "// plain\n//! late\n"), [1]);
        assert_eq!(failures("crates/trace/src/a.rs", "//! Reads.\nfn f() {}\n"), [0; 0]);
    }

    #[test]
    fn a_root_that_allows_unsafe_is_found() {
        let bare = "//! Reads.\n";
        for root in ["src/lib.rs", "crates/cli/src/main.rs", "crates/cli/src/bin/cargo.rs"] {
            assert_eq!(failures(root, bare), [1], "{root}");
            assert_eq!(failures(root, "//! Reads.\n#![forbid(unsafe_code)]\n"), [0; 0], "{root}");
        }
        assert_eq!(failures("crates/cuda-sys/src/lib.rs", bare), [0; 0]);
        assert_eq!(failures("crates/cli/src/other.rs", bare), [0; 0]);
    }

    #[test]
    fn streams_denies_unsafe_because_one_folder_is_the_exception() {
        let root = "crates/streams/src/lib.rs";
        assert_eq!(failures(root, "//! Streams.\n#![deny(unsafe_code)]\n"), [0; 0]);
        assert_eq!(failures(root, "//! Streams.\n"), [1]);
    }

    #[test]
    fn unsafe_outside_its_places_is_found() {
        let text = "//! Calls.\nfn f() {\n    unsafe { g() }\n}\n";
        assert_eq!(failures("crates/allocator/src/block.rs", text), [3]);
        assert_eq!(failures("crates/allocator/src/lock.rs", text), [0; 0]);
        assert_eq!(failures("crates/streams/src/stream.rs", text), [3]);
        assert_eq!(failures("crates/streams/src/driver/stream.rs", text), [0; 0]);
        assert_eq!(failures("benches/hot_path.rs", text), [0; 0]);
        let comment = "//! Calls.\n// unsafe\nfn f() { g(\"unsafe\") }\n";
        assert_eq!(failures("crates/allocator/src/block.rs", comment), [0; 0]);
    }

    /// Was: places stayed in the list when their `unsafe` had gone, open to whoever came next.
    #[test]
    fn every_place_for_unsafe_has_some() {
        let root = crate::workspace_root();
        let files = crate::tidy::files_below(&root).unwrap();
        let has_some = |file: &&String| {
            let text = std::fs::read_to_string(root.join(file)).unwrap();
            let words = tokens::words(&text).unwrap();
            !tokens::lines_of(&words, "unsafe").is_empty()
        };
        for place in UNSAFE_ALLOWED {
            let mut inside = files.iter().filter(|file| file.starts_with(place));
            assert!(inside.any(|file| file.ends_with(".rs") && has_some(&file)), "{place}");
        }
    }

    #[test]
    fn the_sync_door_sees_paths_and_grouped_imports() {
        let path = "crates/allocator/src/shard.rs";
        assert_eq!(failures(path, "//! A.\nuse std::sync::Mutex;\n"), [2]);
        assert_eq!(failures(path, "//! A.\nfn f() { std::thread::yield_now() }\n"), [2]);
        assert_eq!(failures(path, "//! A.\nuse std::{fmt,\n    sync::Arc};\n"), [3]);
        assert_eq!(failures(path, "//! A.\nuse std::{fmt, thread};\n"), [2]);
        assert_eq!(failures(path, "//! A.\nuse core::sync::atomic::AtomicU64;\n"), [2]);
    }

    #[test]
    fn the_sync_door_lets_the_rest_through() {
        let text = "//! See `std::sync`.\nuse crate::sync::Arc;\nuse std::{a::sync, fmt};\n";
        assert_eq!(failures("crates/allocator/src/shard.rs", text), [0; 0]);
        let door = "//! The door.\nuse std::sync::Mutex;\n";
        assert_eq!(failures("crates/streams/src/sync.rs", door), [0; 0]);
        assert_eq!(failures("crates/allocator/src/loom_tests.rs", door), [0; 0]);
        assert_eq!(failures("crates/cuda-sim/src/machine.rs", door), [0; 0]);
    }

    #[test]
    fn ignored_tests_and_examples_are_found() {
        let path = "crates/trace/src/a.rs";
        assert_eq!(failures(path, "//! A.\n#[test]\n#[ignore]\nfn f() {}\n"), [3]);
        assert_eq!(failures(path, "//! A.\n#[ignore = \"slow\"]\nfn f() {}\n"), [2]);
        assert_eq!(failures(path, "//! A.\n#[cfg_attr(miri, ignore)]\nfn f() {}\n"), [2]);
        assert_eq!(failures(path, "//! A.\n/// ```rust,ignore\n/// ```\nfn f() {}\n"), [2]);
        assert_eq!(failures(path, "//! A.\n/// ```no_run\n/// ```\nfn ignore() {}\n"), [0; 0]);
    }

    #[test]
    fn sizes_are_notes() {
        let long = format!("//! A.\n{}// {}\n", "\n".repeat(500), "x".repeat(100));
        assert_eq!(lines("crates/trace/src/a.rs", &long), (vec![], vec![1, 502]));
        let short = format!("//! A.\n{}// {}\n", "\n".repeat(498), "x".repeat(97));
        assert_eq!(lines("crates/trace/src/a.rs", &short), (vec![], vec![]));
    }
}
