//! PyTorch's memory snapshots: what `torch.cuda.memory._dump_snapshot` writes.
//!
//! A file passes through four steps, each in a file of its own: `input` finds the compression by
//! content and undoes it, `window` serves the bytes in order, `machine` runs the allowed pickle
//! opcodes over the flat `heap` (`entry_run` takes whole trace entries off it), and `extract`
//! turns the result into a [`Snapshot`].
//!
//! Reading takes about a sixth of the time of Python's `pickle.loads`, and less memory than the
//! decompressed bytes would, which are not kept: 5,000,000 entries with stacks (587 MB) took 2.6 s
//! of one processor and 512 MB (`cargo bench -p trace --bench read -- generated:5000000`).

mod budget;
mod entry;
mod entry_run;
mod error;
mod extract;
mod heap;
mod input;
mod lists;
mod machine;
mod opcode;
mod packed;
mod pickler;
mod pools;
mod raw_entry;
pub(crate) mod rebuild;
mod snapshot;
mod stacks;
mod window;
mod word;
mod writer;
mod zip;

use std::fs::File;
use std::io::{ErrorKind, Read, Seek};
use std::path::Path;

pub use entry::{Action, Entry};
pub use error::{Place, ReadError};
use extract::Fault;
pub(crate) use input::{BYTE_ORDER_MARK, Input};
use machine::Machine;
pub use pools::{PoolNumber, Pools};
pub use snapshot::{
    AllocatorSettings, Annotation, Block, BlockState, DeviceTrace, HostSegment, Segment,
    SegmentKind, SettingValue, Snapshot, Stage, StreamHandle,
};
pub(crate) use stacks::StacksBuilder;
pub use stacks::{Frame, StackId, Stacks, TextId, Texts};
pub use writer::{WriteProgress, write};
pub(crate) use writer::{action_text, pool_id};

/// Told how far reading has come: bytes of the file read, and bytes it has (0 if not known).
pub type Progress<'a> = &'a mut dyn FnMut(u64, u64);

/// How much one file may cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadOptions {
    /// The most bytes a file may hold once decompressed.
    pub decompressed_bytes_max: u64,
    /// The most bytes of memory that its values may take while they are read.
    pub memory_bytes_max: u64,
}

impl Default for ReadOptions {
    /// 4 GiB decompressed and 3 GiB of values: together within 8 GiB of address space.
    fn default() -> Self {
        Self { decompressed_bytes_max: 4 << 30, memory_bytes_max: 3 << 30 }
    }
}

/// Reads the snapshot in the file at `path`.
///
/// # Errors
/// Whatever keeps the file from being a snapshot; see [`ReadError`]. If a value is missing or
/// wrong, the file is read once more to find where its dictionary is.
pub fn read_file(
    path: &Path,
    options: &ReadOptions,
    progress: Option<Progress<'_>>,
) -> Result<Snapshot, ReadError> {
    let (file, total_bytes) = open_file(path)?;
    read_opened(Input::open(file, total_bytes, progress)?, path, options)
}

/// Reads the snapshot in the file at `path`, which is open as `input` at its first byte.
pub(crate) fn read_opened(
    input: Input<'_>,
    path: &Path,
    options: &ReadOptions,
) -> Result<Snapshot, ReadError> {
    let Fault { error, dict } = match judged(input, options)? {
        Ok(snapshot) => return Ok(snapshot),
        Err(fault) => fault,
    };
    // What cannot be read a second time, such as a pipe, does not tell where it was.
    let offset = dict.filter(|_| path.is_file()).and_then(|dict| {
        let (file, total_bytes) = open_file(path).ok()?;
        machine(Input::open(file, total_bytes, None).ok()?, options).offset_of_dict(dict)
    });
    Err(match offset {
        Some(offset) => ReadError::InDict { fault: Box::new(error), offset },
        None => error,
    })
}

/// Opens a file, or the one file in a zip archive, and says how many bytes it has.
pub(crate) fn open_file(path: &Path) -> Result<(Box<dyn Read>, u64), ReadError> {
    let metadata = std::fs::metadata(path).map_err(|source| {
        if source.kind() == ErrorKind::NotFound {
            ReadError::NotFound
        } else {
            ReadError::Io { source }
        }
    })?;
    if metadata.is_dir() {
        return Err(ReadError::Folder);
    }
    let failed = |source| ReadError::Io { source };
    let mut file = File::open(path).map_err(failed)?;
    let mut head = Vec::new();
    let head_bytes = u64::try_from(zip::MAGIC.len()).unwrap_or(u64::MAX);
    // What cannot go back to its beginning, such as a pipe, is no archive that could be opened.
    if metadata.is_file() {
        file.by_ref().take(head_bytes).read_to_end(&mut head).map_err(failed)?;
        file.rewind().map_err(failed)?;
    }
    if head == zip::MAGIC {
        return zip::open_member(file);
    }
    Ok((Box::new(file), metadata.len()))
}

/// Reads a snapshot from `reader`, which holds `total_bytes` (0 if not known).
///
/// # Errors
/// As [`read_file`], but for [`ReadError::InDict`], which takes a second reading.
pub fn read<'a, R: Read + 'a>(
    reader: R,
    total_bytes: u64,
    options: &ReadOptions,
    progress: Option<Progress<'a>>,
) -> Result<Snapshot, ReadError> {
    read_once(Input::open(reader, total_bytes, progress)?, options)
}

/// Reads the snapshot that is open as `input`, without a second reading.
pub(crate) fn read_once(input: Input<'_>, options: &ReadOptions) -> Result<Snapshot, ReadError> {
    judged(input, options)?.map_err(|fault| fault.error)
}

/// Runs the pickle, and judges its values.
fn judged(input: Input<'_>, options: &ReadOptions) -> Result<Result<Snapshot, Fault>, ReadError> {
    let outcome = machine(input, options).run()?;
    Ok(extract::snapshot(outcome))
}

fn machine<'a>(input: Input<'a>, options: &ReadOptions) -> Machine<'a> {
    let window = window::Window::new(input, options.decompressed_bytes_max);
    Machine::new(window, heap::Heap::new(options.memory_bytes_max))
}
