//! Writes traces in Chrome's trace-event format, which ui.perfetto.dev opens, and reads them again.
//!
//! Process 1 is the device's memory: counters of what is reserved, and for each stream of what is
//! allocated and pending; a slice for the life of each block, with its size, stream and owner.
//! Of a stream trace, process 2 is what the host submitted, a row for each stream, with an arrow
//! from each record to the waits for it, and process 3 what the device did, where it was timed.
//! Times count from the first entry; `otherData` has its Unix time.
//! Behind the events stand the entries themselves, with which `read` reads the file again.

mod event;
mod keep;
mod lanes;
mod memory;
mod read;
mod read_recording;
mod streams;

use std::io::{self, Write};

use crate::convert::snapshot_of;
use crate::owner::Pattern;
use crate::pytorch::{DeviceTrace, Snapshot, WriteProgress};
use crate::stream_trace::Recording;

use event::Events;
pub use read::{ChromeError, read};

/// How a file that may be one of these begins.
pub(crate) const BEGIN: &[u8] = b"{";

/// Writes the trace of one device of `snapshot`. `owner` is the pattern that
/// [`crate::Owners::new`] takes. Memory is bounded by the blocks in use and the distinct owners.
///
/// # Errors
/// What `sink` says.
pub fn write_snapshot<W: Write>(
    snapshot: &Snapshot,
    trace: &DeviceTrace<'_>,
    owner: Option<Pattern<'_>>,
    sink: W,
    progress: Option<WriteProgress<'_>>,
) -> io::Result<()> {
    let begin_us = trace.entries().first().map_or(0, |entry| entry.time_us);
    let mut events = Events::begin(sink, begin_us, keep::SNAPSHOT_MARK)?;
    memory::write(&mut events, snapshot, trace, owner, progress)?;
    events.end(|sink| keep::write(sink, snapshot, trace.device(), trace.entries()))
}

/// Writes a stream trace: its memory as that of the snapshot that [`snapshot_of`] makes, and its
/// streams. Needs memory for that snapshot.
///
/// # Errors
/// What `sink` says.
pub fn write_recording<W: Write>(
    recording: &Recording,
    owner: Option<Pattern<'_>>,
    sink: W,
    progress: Option<WriteProgress<'_>>,
) -> io::Result<()> {
    let begin_us = i64::try_from(recording.unix_ns / 1000).unwrap_or(0);
    let mut events = Events::begin(sink, begin_us, keep::RECORDING_MARK)?;
    let (snapshot, _) = snapshot_of(recording);
    if let Ok(trace) = snapshot.trace(None) {
        memory::write(&mut events, &snapshot, &trace, owner, progress)?;
    }
    streams::write(&mut events, recording)?;
    events.end(|sink| keep::write_recording(sink, recording))
}
