//! Why a file is not a stream trace that can be read, with the place of what is wrong.

use std::io;

use super::problem::Problem;

/// Why reading a stream trace failed. Offsets count bytes of the trace, decompressed.
///
/// A trace that merely ends too early is no error: see [`super::Ending::Cut`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FormatError {
    /// The operating system, or a decompressor, failed to read.
    #[error("cannot be read at byte {offset}: {source}")]
    Io {
        /// How far reading had come.
        offset: u64,
        /// What was said.
        source: io::Error,
    },
    /// It has no bytes.
    #[error("is empty")]
    Empty,
    /// It is something else.
    #[error("is not a stream trace: byte {offset} is 0x{found:02x}, not 0x{expected:02x}")]
    Foreign {
        /// The first byte that is wrong.
        offset: u64,
        /// What it is.
        found: u8,
        /// What it is in every trace.
        expected: u8,
    },
    /// It was written by a later version of this library.
    #[error("is a stream trace of version {version}; this reader knows up to {known}")]
    Newer {
        /// Its version.
        version: u64,
        /// The newest version that is read.
        known: u64,
    },
    /// An entry contradicts the format.
    #[error("is damaged: {problem}, in entry {entry} at byte {offset}")]
    Malformed {
        /// What is wrong.
        problem: Problem,
        /// Which entry, from 0; those of unknown kinds count.
        entry: u64,
        /// Where that entry begins.
        offset: u64,
    },
    /// Keeping all of it would take more memory than allowed.
    #[error("is too large: its entries need more than {limit} bytes of memory at byte {offset}")]
    TooMuchMemory {
        /// The limit it passed.
        limit: u64,
        /// Where.
        offset: u64,
    },
}
