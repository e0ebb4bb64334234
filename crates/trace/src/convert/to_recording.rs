//! Makes a stream trace of one device's trace in a snapshot.
//!
//! A snapshot does not say which streams used a block, only for how long it waited for them. That
//! time is kept as a hold: from the free to its completion.

use std::collections::HashMap;
use std::io::{self, Write};

use super::ranges::Ranges;
use super::{LeftOut, MADE_FROM, left_out};
use crate::operations::direct_completion;
use crate::owner::is_own_file;
use crate::pytorch::{
    Action, DeviceTrace, Entry, Snapshot, StackId, StreamHandle, WriteProgress, action_text,
};
use crate::stream_trace::{Item, PlaceNumber, ServedBy, StreamKind, StreamStart, Writer};
use crate::summary::rounded_bytes;
use crate::{BlockNumber, StreamNumber};

const TOLD_ENTRIES: usize = 1 << 14;

/// Writes the trace of one device of `snapshot` as a stream trace, and says what that cannot hold.
///
/// The blocks and segments that were there before the trace began come first. A block is as long
/// as PyTorch's usual rounding makes it. A place is the innermost frame of the program's own.
/// Needs memory for the blocks that are in use, and for the places.
///
/// # Errors
/// What `sink` says.
pub fn write_recording<W: Write>(
    snapshot: &Snapshot,
    trace: &DeviceTrace<'_>,
    sink: W,
    mut progress: Option<WriteProgress<'_>>,
) -> io::Result<(W, Vec<LeftOut>)> {
    let entries = trace.entries();
    let began_us = entries.first().map_or(0, |entry| entry.time_us);
    let unix_ns = u64::try_from(began_us).unwrap_or(0).saturating_mul(1000);
    let mut maker = Maker {
        snapshot,
        writer: Writer::new(sink, unix_ns)?,
        now_ns: 0,
        streams: HashMap::new(),
        places: HashMap::new(),
        live: HashMap::new(),
        held: HashMap::new(),
        counts: Counts::default(),
    };
    maker.begin(trace)?;
    let completes_at_once = trace.has_no_completions();
    for (position, entry) in entries.iter().enumerate() {
        if position.is_multiple_of(TOLD_ENTRIES)
            && let Some(progress) = &mut progress
        {
            progress(position, entries.len());
        }
        let passed_us = entry.time_us.saturating_sub(began_us);
        maker.now_ns = u64::try_from(passed_us).unwrap_or(0).saturating_mul(1000);
        let completes = completes_at_once || direct_completion(entries, position).is_some();
        maker.take(entry, completes)?;
    }
    let counts = maker.counts;
    let other_devices =
        snapshot.device_traces.iter().filter(|entries| !entries.is_empty()).count() - 1;
    let left_out = left_out(&[
        ("frames beyond the innermost own one of an entry", counts.frames),
        ("pools of entries", counts.pools),
        ("notes of the program", counts.notes),
        ("entries of other kinds", counts.others),
        ("frees without their allocation", counts.unmatched),
        ("annotations", snapshot.annotations.len()),
        ("host segments", snapshot.host_segments.len()),
        ("traces of other devices", other_devices),
    ]);
    Ok((maker.writer.finish()?, left_out))
}

#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    frames: usize,
    pools: usize,
    notes: usize,
    others: usize,
    unmatched: usize,
}

struct Maker<'a, W: Write> {
    snapshot: &'a Snapshot,
    writer: Writer<W>,
    now_ns: u64,
    streams: HashMap<StreamHandle, StreamNumber>,
    places: HashMap<StackId, Option<PlaceNumber>>,
    /// Blocks that are in use, by address.
    live: HashMap<u64, BlockNumber>,
    /// Blocks that were freed and are held, by address, the newest last.
    held: HashMap<u64, Vec<BlockNumber>>,
    counts: Counts,
}

impl<W: Write> Maker<'_, W> {
    /// What was there before the first entry.
    fn begin(&mut self, trace: &DeviceTrace<'_>) -> io::Result<()> {
        self.set(MADE_FROM, self.snapshot.origin.mark().unwrap_or("PyTorch memory snapshot"))?;
        self.set("device", &trace.device().to_string())?;
        self.set("clock", "host")?;
        if let Some(settings) = &self.snapshot.allocator_settings
            && let Some(configuration) = &settings.configuration
        {
            self.set("PYTORCH_CUDA_ALLOC_CONF", configuration)?;
        }
        for (address, end) in initial_ranges(trace).iter() {
            let item = Item::Segment { address, bytes: end - address, opened: true };
            self.put(&item)?;
        }
        for block in trace.initial_blocks() {
            self.allocate(block.address, block.requested_bytes, block.stream, None)?;
            if block.is_pending {
                self.hold(block.address, None)?;
            }
        }
        Ok(())
    }

    fn set(&mut self, name: &str, value: &str) -> io::Result<()> {
        self.put(&Item::Setting { name: name.to_owned(), value: value.to_owned() })
    }

    fn put(&mut self, item: &Item) -> io::Result<()> {
        self.writer.put(self.now_ns, item)
    }

    fn take(&mut self, entry: &Entry, completes: bool) -> io::Result<()> {
        let place = self.place(entry.stack)?;
        let pool = entry.pool.map(|pool| self.snapshot.pools.get(pool));
        self.counts.pools += usize::from(pool.is_some_and(|pool| pool != (0, 0)));
        self.counts.notes += usize::from(entry.metadata.is_some());
        match entry.action {
            Action::Alloc => self.allocate(entry.address, entry.bytes, entry.stream, place),
            Action::Free => self.free(entry.address, place),
            Action::FreeRequested => {
                if completes {
                    self.free(entry.address, place)
                } else {
                    self.hold(entry.address, place)
                }
            }
            Action::FreeCompleted => match self.held.get_mut(&entry.address).and_then(Vec::pop) {
                Some(block) => self.put(&Item::HoldEnd { block }),
                // Its free was the entry before, or was not recorded.
                None if self.live.contains_key(&entry.address) => self.free(entry.address, place),
                None => Ok(()),
            },
            Action::SegmentAlloc | Action::SegmentMap => self.segment(entry, true),
            Action::SegmentFree | Action::SegmentUnmap => self.segment(entry, false),
            Action::OutOfMemory => {
                let stream = self.stream(entry.stream)?;
                self.put(&Item::OutOfMemory { stream, requested_bytes: entry.bytes, place })
            }
            Action::Snapshot | Action::Annotate | Action::Other(_) => {
                self.counts.others += 1;
                self.put(&Item::Setting {
                    name: action_text(self.snapshot, entry.action).to_owned(),
                    value: entry.bytes.to_string(),
                })
            }
        }
    }

    fn allocate(
        &mut self,
        address: u64,
        requested_bytes: u64,
        handle: StreamHandle,
        place: Option<PlaceNumber>,
    ) -> io::Result<()> {
        if self.live.contains_key(&address) {
            self.free(address, None)?;
        }
        let stream = self.stream(handle)?;
        self.live.insert(address, self.writer.next_block());
        self.put(&Item::Allocate {
            stream,
            requested_bytes,
            bytes: rounded_bytes(requested_bytes),
            address,
            served_by: ServedBy::Unknown,
            place,
        })
    }

    fn free(&mut self, address: u64, place: Option<PlaceNumber>) -> io::Result<()> {
        match self.live.remove(&address) {
            Some(block) => self.put(&Item::Free { block, place }),
            None => {
                self.counts.unmatched += 1;
                Ok(())
            }
        }
    }

    /// Frees a block that other streams still use.
    fn hold(&mut self, address: u64, place: Option<PlaceNumber>) -> io::Result<()> {
        let Some(block) = self.live.get(&address).copied() else {
            return self.free(address, place);
        };
        self.put(&Item::Hold { block, place })?;
        self.held.entry(address).or_default().push(block);
        self.free(address, place)
    }

    fn segment(&mut self, entry: &Entry, opened: bool) -> io::Result<()> {
        self.put(&Item::Segment { address: entry.address, bytes: entry.bytes, opened })
    }

    fn stream(&mut self, handle: StreamHandle) -> io::Result<StreamNumber> {
        if let Some(number) = self.streams.get(&handle) {
            return Ok(*number);
        }
        let kind =
            if handle == StreamHandle(0) { StreamKind::Legacy } else { StreamKind::Borrowed };
        let number = self.writer.next_stream();
        self.put(&Item::Stream(StreamStart { id: handle.0, kind, priority: 0, place: None }))?;
        self.streams.insert(handle, number);
        Ok(number)
    }

    fn place(&mut self, stack: Option<StackId>) -> io::Result<Option<PlaceNumber>> {
        let Some(stack) = stack else { return Ok(None) };
        let snapshot = self.snapshot;
        let mut frames = snapshot.stacks.frames(stack);
        self.counts.frames += frames.len().saturating_sub(1);
        if let Some(known) = self.places.get(&stack) {
            return Ok(*known);
        }
        let place = match frames.find(|frame| is_own_file(frame.file)) {
            Some(frame) => Some(self.writer.place(frame.file, frame.line, 1)?),
            None => None,
        };
        self.places.insert(stack, place);
        Ok(place)
    }
}

/// The ranges that were held from the driver before the first entry: those at the end, with every
/// change undone.
fn initial_ranges(trace: &DeviceTrace<'_>) -> Ranges {
    let mut ranges = Ranges::default();
    for segment in trace.segments() {
        ranges.add(segment.address, segment.address.saturating_add(segment.total_bytes));
    }
    for entry in trace.entries().iter().rev() {
        let end = entry.address.saturating_add(entry.bytes);
        match entry.segment_change() {
            Some(change) if change.is_gain => ranges.remove(entry.address, end),
            Some(_) => ranges.add(entry.address, end),
            None => {}
        }
    }
    ranges
}
