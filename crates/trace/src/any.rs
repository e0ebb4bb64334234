//! Reads a file of any kind, found out by its content.

use std::io::{self, Read};
use std::path::Path;

use crate::chrome::{self, ChromeError};
use crate::csv::{self, CsvError};
use crate::pytorch::{self, BYTE_ORDER_MARK, Input, Progress, ReadError, ReadOptions, Snapshot};
use crate::rmm::{self, LogError};
use crate::stream_trace::{FormatError, MAGIC, Recording};

/// What a file held.
#[derive(Debug, Clone, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "a program holds one or two of these")]
pub enum AnyTrace {
    /// A PyTorch memory snapshot, or a log that was made one.
    Snapshot(Snapshot),
    /// A stream trace.
    Recording(Recording),
}

/// Why a file is no trace of either kind.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AnyError {
    /// It cannot be opened or decompressed, or as a snapshot it is none.
    #[error(transparent)]
    Snapshot(#[from] ReadError),
    /// It begins as a stream trace, and goes on otherwise.
    #[error(transparent)]
    Recording(#[from] FormatError),
    /// It begins as a log of RMM, and goes on otherwise.
    #[error(transparent)]
    Log(#[from] LogError),
    /// It begins as CSV of this crate, and goes on otherwise.
    #[error(transparent)]
    Csv(#[from] CsvError),
    /// It begins as JSON, and is no Chrome trace of this crate that can be read.
    #[error(transparent)]
    Chrome(#[from] ChromeError),
}

/// Reads the snapshot, stream trace or RMM log in the file at `path`, or the CSV or Chrome trace
/// that this crate wrote of one, plain or compressed.
///
/// # Errors
/// Whatever keeps the file from being either; see [`AnyError`]. A stream trace that was cut is no
/// error, compressed or not.
///
/// ```
/// use trace::pytorch::ReadOptions;
/// use trace::{AnyTrace, read_any};
///
/// # let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../traces");
/// # let file = std::path::Path::new(folder).join("graphs.pickle.zst");
/// match read_any(&file, &ReadOptions::default(), None)? {
///     AnyTrace::Snapshot(snapshot) => assert!(snapshot.trace(None).is_ok()),
///     AnyTrace::Recording(_) => unreachable!("this one is PyTorch's"),
/// }
/// # Ok::<(), trace::AnyError>(())
/// ```
pub fn read_any(
    path: &Path,
    options: &ReadOptions,
    progress: Option<Progress<'_>>,
) -> Result<AnyTrace, AnyError> {
    read_any_kind(path, options, progress).map(|(_, trace)| trace)
}

/// The same, and what kind of file it was.
///
/// # Errors
/// As for [`read_any`].
pub fn read_any_kind(
    path: &Path,
    options: &ReadOptions,
    progress: Option<Progress<'_>>,
) -> Result<(FileKind, AnyTrace), AnyError> {
    let (file, total_bytes) = pytorch::open_file(path)?;
    let input = Input::open(file, total_bytes, progress)?;
    read_input(input, options, |input| pytorch::read_opened(input, path, options))
}

/// The same of what `reader` gives, such as the standard input, which cannot be read twice: a zip
/// archive is refused, and of a wrong value there is no offset.
///
/// # Errors
/// As for [`read_any`].
pub fn read_any_stream<'a>(
    reader: impl Read + 'a,
    options: &ReadOptions,
    progress: Option<Progress<'a>>,
) -> Result<(FileKind, AnyTrace), AnyError> {
    let input = Input::open(reader, 0, progress)?;
    read_input(input, options, |input| pytorch::read_once(input, options))
}

fn read_input<'a>(
    mut input: Input<'a>,
    options: &ReadOptions,
    read_pickle: impl FnOnce(Input<'a>) -> Result<Snapshot, ReadError>,
) -> Result<(FileKind, AnyTrace), AnyError> {
    let kind = kind_of(&mut input);
    if kind == FileKind::Pickle {
        return Ok((kind, AnyTrace::Snapshot(read_pickle(input)?)));
    }
    let source = Decompressed { input, offset: 0 };
    let limited = source.take(options.decompressed_bytes_max);
    let memory_bytes_max = options.memory_bytes_max;
    let trace = match kind {
        FileKind::RmmLog => AnyTrace::Snapshot(rmm::read(limited, memory_bytes_max)?),
        FileKind::Csv => csv::read(limited, memory_bytes_max)?,
        FileKind::Chrome => chrome::read(limited, memory_bytes_max)?,
        FileKind::StreamTrace | FileKind::Pickle => {
            AnyTrace::Recording(Recording::load_within(limited, memory_bytes_max)?)
        }
    };
    Ok((kind, trace))
}

/// What a file is, by how it begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FileKind {
    /// A memory snapshot as PyTorch writes it.
    Pickle,
    /// A stream trace.
    StreamTrace,
    /// A log of RMM.
    RmmLog,
    /// CSV that this crate writes of a snapshot or a stream trace.
    Csv,
    /// A Chrome trace that this crate writes of either.
    Chrome,
}

/// Finds out what the file is, and passes over what stands before a text.
fn kind_of(input: &mut Input<'_>) -> FileKind {
    let head = input.peek(BYTE_ORDER_MARK.len() + MAGIC.len());
    let marked = head.strip_prefix(BYTE_ORDER_MARK);
    let (has_mark, head) = (marked.is_some(), marked.unwrap_or(head));
    let kind = kind_of_head(head.get(..MAGIC.len()).unwrap_or(head));
    let is_text = matches!(kind, FileKind::RmmLog | FileKind::Csv | FileKind::Chrome);
    if has_mark && is_text {
        input.pass(BYTE_ORDER_MARK.len());
    }
    if has_mark && !is_text { FileKind::Pickle } else { kind }
}

fn kind_of_head(head: &[u8]) -> FileKind {
    // What cannot even begin is left to the reader of snapshots, which says more.
    if head.is_empty() {
        FileKind::Pickle
    } else if MAGIC.starts_with(head) {
        FileKind::StreamTrace
    } else if rmm::HEADER.as_bytes().starts_with(head) {
        FileKind::RmmLog
    } else if csv::BEGIN.starts_with(head) {
        FileKind::Csv
    } else if head.starts_with(chrome::BEGIN) {
        FileKind::Chrome
    } else {
        FileKind::Pickle
    }
}

/// Decompressed bytes that merely end where a compressed file was cut.
struct Decompressed<'a> {
    input: Input<'a>,
    offset: u64,
}

impl Read for Decompressed<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = match self.input.read(into, self.offset) {
            Ok(count) => count,
            Err(ReadError::Truncated { .. }) => 0,
            Err(ReadError::Io { source }) => return Err(source),
            Err(error) => return Err(io::Error::other(error)),
        };
        self.offset += u64::try_from(count).unwrap_or(u64::MAX);
        Ok(count)
    }
}
