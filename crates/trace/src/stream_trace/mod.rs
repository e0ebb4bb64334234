//! Our own trace of a program with several streams: who did what, in the order of submission.
//!
//! A PyTorch snapshot says when memory came and went; this says why it could not go sooner: the
//! operations and what they touched, uses, event records, waits, synchronizations, the lives of
//! streams, each with the host's time and the place in the source, and the device's time where it
//! is known. `docs/trace-format.md` has every byte of it.
//!
//! Start with [`Writer`] to make one and [`Reader`] to go through one; [`Recording::load`] keeps
//! all of it. The files: `item` says what an entry can be, `bytes` how numbers are spelled,
//! `encode` and `decode` how entries are, `numbers` which numbers an entry may name, `builder`
//! makes a trace of what CSV and Chrome traces hold, `touches` reads what an operation in JSON
//! touches.
//!
//! ```
//! use trace::stream_trace::{Item, Recording, Writer};
//!
//! let mut writer = Writer::new(Vec::new(), 0)?;
//! writer.put(10, &Item::Setting { name: "policy".into(), value: "default".into() })?;
//! let bytes = writer.finish()?;
//! let whole = Recording::load(bytes.as_slice())?;
//! assert_eq!((whole.entries.len(), whole.is_complete()), (1, true));
//!
//! // A program that was killed leaves a file without its end: what is there is read.
//! let cut = Recording::load(&bytes[..bytes.len() - 1])?;
//! assert_eq!((cut.entries.len(), cut.is_complete()), (1, false));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Invariants: a reader holds no more than one entry beside its counters; what a whole file's
//! entries name was declared before; no byte makes a reader panic.

#[cfg(feature = "files")]
mod builder;
mod bytes;
mod decode;
mod encode;
mod error;
mod item;
mod numbers;
mod problem;
mod reader;
mod recording;
#[cfg(feature = "files")]
mod touches;
mod writer;

#[cfg(feature = "files")]
pub(crate) use builder::{Builder, Refusal};
pub use error::FormatError;
pub use item::{
    Access, EventId, Item, Maker, Operation, OperationKind, OperationNumber, PlaceNumber,
    RecordNumber, ServedBy, StreamKind, StreamStart, Subject, TextNumber, Touch, UseKind,
};
pub use problem::Problem;
pub use reader::{Ending, Entry, Reader};
pub use recording::{Place, Recording};
pub use writer::{TEXT_BYTES_MAX, Writer};

/// The first bytes of every file. The line ends in it show a file that was copied as text.
pub const MAGIC: [u8; 8] = [0x89, b'W', b'S', b'T', b'\r', b'\n', 0x1a, b'\n'];
/// The version of the format that is written, and the newest that is read.
pub const VERSION: u64 = 1;
/// The most bytes that one entry may have.
pub const ENTRY_BYTES_MAX: u64 = 1 << 20;
