//! Why a file is not a snapshot that can be used, with the place and the number in question.

use std::fmt;
use std::io;

/// Where in a snapshot something was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Place {
    /// The dictionary that is the snapshot.
    Top,
    /// `device_traces[device]`.
    Trace {
        /// Index of the device.
        device: usize,
    },
    /// `device_traces[device][entry]`.
    Entry {
        /// Index of the device.
        device: usize,
        /// Index of the entry in the trace.
        entry: usize,
    },
    /// `segments[segment]`.
    Segment {
        /// Index of the segment.
        segment: usize,
    },
    /// `segments[segment].blocks[block]`.
    Block {
        /// Index of the segment.
        segment: usize,
        /// Index of the block in the segment.
        block: usize,
    },
}

impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Top => write!(formatter, "the snapshot"),
            Self::Trace { device } => write!(formatter, "device_traces[{device}]"),
            Self::Entry { device, entry } => write!(formatter, "device_traces[{device}][{entry}]"),
            Self::Segment { segment } => write!(formatter, "segments[{segment}]"),
            Self::Block { segment, block } => {
                write!(formatter, "segments[{segment}].blocks[{block}]")
            }
        }
    }
}

/// Why reading a snapshot failed. Offsets count decompressed bytes.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// There is no such file.
    #[error("cannot be read: no such file")]
    NotFound,
    /// The path names a folder.
    #[error("is a folder, not a file")]
    Folder,
    /// The operating system failed to read.
    #[error("cannot be read: {source}")]
    Io {
        /// What the operating system said.
        source: io::Error,
    },
    /// The file, or what it decompresses to, has no bytes.
    #[error("is empty")]
    Empty,
    /// The file ends too early.
    #[error("is truncated: it ends after {offset} decompressed bytes, before its pickle does")]
    Truncated {
        /// Where the bytes end.
        offset: u64,
    },
    /// The file is something else.
    #[error(
        "is not a PyTorch memory snapshot: it {found}\n\
         expected a pickle of protocol 2 to 5, plain or compressed with gzip, xz, zstd or zip"
    )]
    Foreign {
        /// What its first bytes look like.
        found: &'static str,
    },
    /// Decompression failed.
    #[error("is damaged: {compression} data is wrong near decompressed byte {offset}: {source}")]
    Damaged {
        /// How the file is compressed.
        compression: &'static str,
        /// How much could be decompressed.
        offset: u64,
        /// What the decompressor said.
        source: io::Error,
    },
    /// The pickle uses an opcode that can build or call anything.
    #[error(
        "is refused: pickle opcode {name} (0x{code:02x}) at byte {offset}\n\
         no memory snapshot needs it, and reading one never runs code"
    )]
    RefusedOpcode {
        /// Its name in Python's `pickletools`.
        name: &'static str,
        /// Its byte.
        code: u8,
        /// Where it stands.
        offset: u64,
    },
    /// The pickle has a byte where an opcode must be that is none.
    #[error("is not a valid pickle: 0x{code:02x} at byte {offset} is no opcode")]
    UnknownOpcode {
        /// The byte.
        code: u8,
        /// Where it stands.
        offset: u64,
    },
    /// The pickle contradicts itself.
    #[error("is not a valid pickle: {problem} at byte {offset}")]
    Malformed {
        /// What is wrong.
        problem: &'static str,
        /// Where.
        offset: u64,
    },
    /// The file decompresses to more than allowed.
    #[error("is too large: more than {limit} bytes once decompressed")]
    TooLong {
        /// The limit it passed.
        limit: u64,
    },
    /// Its values need more memory than allowed or than there is.
    #[error("is too large: its values need more than {limit} bytes of memory at byte {offset}")]
    TooMuchMemory {
        /// The limit it passed.
        limit: u64,
        /// Where.
        offset: u64,
    },
    /// The same lists are used so often that the whole is far larger than the file.
    #[error("is refused: its shared lists unfold to more than {limit} records, one for each byte")]
    Unfolds {
        /// How many records were seen before giving up.
        limit: u64,
    },
    /// The pickle's value is not a dictionary, as snapshots are.
    #[error(
        "is not a PyTorch memory snapshot: its pickle is {found}\n\
         expected the dict that torch.cuda.memory._dump_snapshot() writes"
    )]
    NotASnapshot {
        /// What it is instead.
        found: &'static str,
    },
    /// A key is missing that cannot be done without.
    #[error("is not a usable memory snapshot: {place} has no `{key}`")]
    MissingKey {
        /// Where.
        place: Place,
        /// The missing key.
        key: &'static str,
    },
    /// A value has the wrong type.
    #[error("is not a usable memory snapshot: {place}, key `{key}`: expected {expected}")]
    WrongType {
        /// Where.
        place: Place,
        /// The key.
        key: &'static str,
        /// What is expected there.
        expected: &'static str,
    },
    /// A size or an address is negative.
    #[error("is not a usable memory snapshot: {place}, key `{key}`: {value} is negative")]
    Negative {
        /// Where.
        place: Place,
        /// The key.
        key: &'static str,
        /// The value.
        value: i64,
    },
    /// A size or an address is beyond any device.
    #[error("is not a usable memory snapshot: {place}, key `{key}`: {value} is above {limit}")]
    Absurd {
        /// Where.
        place: Place,
        /// The key.
        key: &'static str,
        /// The value.
        value: u64,
        /// The most that is believed.
        limit: u64,
    },
    /// What is wrong with a value, and where in the file the dictionary that holds it is made;
    /// only a file that can be read a second time tells that.
    #[error("{fault} (its dict is at byte {offset})")]
    InDict {
        /// What is wrong: one of the errors that have a [`ReadError::place`].
        fault: Box<ReadError>,
        /// Where the opcode that makes the dictionary stands.
        offset: u64,
    },
    /// No device has a single trace entry.
    #[error(
        "has no trace: `device_traces` is empty, for all devices\n\
         call torch.cuda.memory._record_memory_history() before the work to record"
    )]
    NoHistory,
    /// The chosen device is not in the snapshot.
    #[error("has no device {device}: its `device_traces` cover {device_count} devices, from 0 on")]
    NoSuchDevice {
        /// The chosen device.
        device: usize,
        /// How many devices there are.
        device_count: usize,
    },
    /// The chosen device has no trace entry, others have.
    #[error("has no trace of device {device}; device {other} has one")]
    NoHistoryOnDevice {
        /// The chosen device.
        device: usize,
        /// The first device that has a history.
        other: usize,
    },
}

impl ReadError {
    /// Where in the snapshot a value is missing or wrong, if that is what is wrong.
    #[must_use]
    pub fn place(&self) -> Option<Place> {
        match self {
            Self::MissingKey { place, .. }
            | Self::WrongType { place, .. }
            | Self::Negative { place, .. }
            | Self::Absurd { place, .. } => Some(*place),
            Self::InDict { fault, .. } => fault.place(),
            Self::NotFound
            | Self::Folder
            | Self::Io { .. }
            | Self::Empty
            | Self::Truncated { .. }
            | Self::Foreign { .. }
            | Self::Damaged { .. }
            | Self::RefusedOpcode { .. }
            | Self::UnknownOpcode { .. }
            | Self::Malformed { .. }
            | Self::TooLong { .. }
            | Self::TooMuchMemory { .. }
            | Self::Unfolds { .. }
            | Self::NotASnapshot { .. }
            | Self::NoHistory
            | Self::NoSuchDevice { .. }
            | Self::NoHistoryOnDevice { .. } => None,
        }
    }
}
