//! Writes traces as CSV, one line for each entry, and reads that again.
//!
//! | column | what |
//! | --- | --- |
//! | `index` | counted from 0 within a device |
//! | `time_us` | microseconds of Unix time, with nanoseconds where they are known |
//! | `device` | index of the device |
//! | `action` | as in a snapshot; a stream trace has more, see `recording` |
//! | `address` | the first byte, in hexadecimal; of `oom` the device's free bytes, in decimal |
//! | `bytes` | as requested for blocks, as held for segments |
//! | `stream` | the handle, or the driver's identity of the stream, in hexadecimal |
//! | `owner` | of a snapshot's `alloc` its owner (see [`Owners`]), else the place in the source |
//! | `detail` | metadata, or what else a stream trace's entry says |
//! | `pool` | of a snapshot, where known: both numbers of the pool, as `0:1` |
//! | `context` | of a snapshot: what was being compiled |
//! | `name` | of a stream trace: of an operation, a setting or a figure |
//! | `stream_number`, `block` | of a stream trace: the numbers of both, counted from 0 |
//!
//! Where PyTorch did not record a snapshot's entries, the first line behind the columns' has no
//! index, the action `made_of`, and says in `detail` what the snapshot was made of.
//!
//! Quoting is that of RFC 4180, lines end in a line feed.
//!
//! The files: `recording` writes stream traces, `read` reads the cells of both kinds, and
//! `read_recording` knows the lines of stream traces.

mod read;
mod read_recording;
mod recording;

use std::io::{self, Write};

pub use read::{CsvError, read};
pub use recording::write_recording;

use crate::owner::{OpenAnnotations, Owners, Pattern};
use crate::pytorch::{Action, Entry, Snapshot, TextId, WriteProgress, action_text, pool_id};

/// How all of it begins.
pub(crate) const BEGIN: &[u8] = b"index,time_us,device,action,";

/// The first line's cells of a stream trace.
pub const COLUMNS: [&str; 12] = [
    "index",
    "time_us",
    "device",
    "action",
    "address",
    "bytes",
    "stream",
    "owner",
    "detail",
    "name",
    "stream_number",
    "block",
];

/// The first line's cells of a snapshot.
pub const SNAPSHOT_COLUMNS: [&str; 11] = [
    "index", "time_us", "device", "action", "address", "bytes", "stream", "owner", "detail",
    "pool", "context",
];

/// The action of a line that is no entry and has no index: its detail says what a snapshot was made
/// of. It comes first, and only where PyTorch did not record the entries.
const MADE_OF_ACTION: &str = "made_of";

const TOLD_ENTRIES: usize = 1 << 14;

/// Writes the traces of all devices of `snapshot`, or of one of them. `owner` is the pattern that
/// [`Owners::new`] takes. Memory is bounded by the distinct owners.
///
/// # Errors
/// What `sink` says.
pub fn write_snapshot<W: Write>(
    snapshot: &Snapshot,
    device: Option<usize>,
    owner: Option<Pattern<'_>>,
    sink: W,
    mut progress: Option<WriteProgress<'_>>,
) -> io::Result<()> {
    let mut writer = begin(sink, &SNAPSHOT_COLUMNS)?;
    if let Some(mark) = snapshot.origin.mark_of_entries() {
        let cells = ["", "0", "0", MADE_OF_ACTION, "0x0", "0", "0x0", "", mark, "", ""];
        writer.write_record(cells).map_err(io_error)?;
    }
    let mut owners = Owners::new(snapshot, owner);
    let chosen = |number: usize| device.is_none_or(|device| device == number);
    let traces = || snapshot.device_traces.iter().enumerate().filter(|(it, _)| chosen(*it));
    let all = traces().map(|(_, entries)| entries.len()).sum();
    let mut written = 0_usize;
    let text = |text: Option<TextId>| {
        text.map_or_else(String::new, |text| snapshot.texts.get(text).to_owned())
    };
    for (device, entries) in traces() {
        let mut annotations = OpenAnnotations::new(snapshot, device);
        for (index, entry) in entries.iter().enumerate() {
            if written.is_multiple_of(TOLD_ENTRIES)
                && let Some(progress) = &mut progress
            {
                progress(written, all);
            }
            written += 1;
            let annotation = annotations.at(entry.time_us);
            let owner = (entry.action == Action::Alloc)
                .then(|| owners.of(entry.stack, entry.bytes, annotation));
            let owner = owner.and_then(|owner| owners.names().get(owner.index()));
            let cells = [
                index.to_string(),
                entry.time_us.to_string(),
                device.to_string(),
                action_text(snapshot, entry.action).to_owned(),
                address(entry),
                entry.bytes.to_string(),
                entry.stream.to_string(),
                owner.map_or_else(String::new, |owner| owner.trim_end().to_owned()),
                text(entry.metadata),
                pool_id(snapshot, entry)
                    .map_or_else(String::new, |it| format!("{}:{}", it.0, it.1)),
                text(entry.compile_context),
            ];
            writer.write_record(&cells).map_err(io_error)?;
        }
    }
    writer.flush()
}

/// What the sink said, which a wrapped error would hide from who asks for a broken pipe.
fn io_error(error: csv::Error) -> io::Error {
    if error.is_io_error()
        && let csv::ErrorKind::Io(error) = error.into_kind()
    {
        return error;
    }
    io::Error::other("a line has other columns than the first")
}

fn begin<W: Write>(sink: W, columns: &[&str]) -> io::Result<csv::Writer<W>> {
    let mut writer = csv::Writer::from_writer(sink);
    writer.write_record(columns).map_err(io_error)?;
    Ok(writer)
}

fn address(entry: &Entry) -> String {
    match entry.action {
        Action::OutOfMemory => entry.address.to_string(),
        Action::Alloc
        | Action::Free
        | Action::FreeRequested
        | Action::FreeCompleted
        | Action::SegmentAlloc
        | Action::SegmentFree
        | Action::SegmentMap
        | Action::SegmentUnmap
        | Action::Snapshot
        | Action::Annotate
        | Action::Other(_) => hexadecimal(entry.address),
    }
}

fn hexadecimal(number: u64) -> String {
    format!("{number:#x}")
}
