//! The memory of one device as counters, and as slices for the lives of blocks.

use std::collections::HashMap;
use std::io::{self, Write};

use super::event::{Argument, Events, Row};
use crate::operations::direct_completion;
use crate::owner::{OpenAnnotations, Owners, Pattern};
use crate::pytorch::{Action, DeviceTrace, Entry, Snapshot, StackId, StreamHandle, WriteProgress};
use crate::summary::rounded_bytes;

const PROCESS: u32 = 1;
const WHOLE: Row = Row { process: PROCESS, thread: 0 };
const TOLD_ENTRIES: usize = 1 << 14;

/// Writes the memory of `trace`, which is of `snapshot`.
pub(super) fn write<W: Write>(
    events: &mut Events<W>,
    snapshot: &Snapshot,
    trace: &DeviceTrace<'_>,
    owner: Option<Pattern<'_>>,
    mut progress: Option<WriteProgress<'_>>,
) -> io::Result<()> {
    let entries = trace.entries();
    events.name("process_name", WHOLE, &format!("device {}: memory", trace.device()))?;
    let mut memory = Memory {
        events,
        owners: Owners::new(snapshot, owner),
        rows: HashMap::new(),
        live: HashMap::new(),
        pending: HashMap::new(),
        reserved_bytes: 0,
        block_count: 0,
    };
    memory.begin(trace)?;
    let mut annotations = OpenAnnotations::new(snapshot, trace.device());
    let completes_at_once = trace.has_no_completions();
    for (position, entry) in entries.iter().enumerate() {
        if position.is_multiple_of(TOLD_ENTRIES)
            && let Some(progress) = &mut progress
        {
            progress(position, entries.len());
        }
        let ns = memory.events.since_begin_ns(entry.time_us);
        let annotation = annotations.at(entry.time_us);
        let completes = completes_at_once || direct_completion(entries, position).is_some();
        memory.take(ns, entry, annotation, completes)?;
    }
    let end_ns = entries.last().map_or(0, |entry| memory.events.since_begin_ns(entry.time_us));
    memory.end(end_ns)
}

/// A block that is in use or pending.
#[derive(Debug, Clone)]
struct Block {
    number: u64,
    bytes: u64,
    stream: StreamHandle,
    name: String,
}

/// One stream's row, and what its counters show.
#[derive(Debug, Clone, Copy)]
struct StreamRow {
    row: Row,
    allocated_bytes: u64,
    pending_bytes: u64,
}

struct Memory<'a, 'w, W: Write> {
    events: &'w mut Events<W>,
    owners: Owners<'a>,
    rows: HashMap<StreamHandle, StreamRow>,
    live: HashMap<u64, Block>,
    pending: HashMap<u64, Vec<Block>>,
    reserved_bytes: u64,
    block_count: u64,
}

impl<W: Write> Memory<'_, '_, W> {
    /// What was there before the first entry.
    fn begin(&mut self, trace: &DeviceTrace<'_>) -> io::Result<()> {
        let summary = trace.summary(&trace.operations());
        self.reserved_bytes = summary.initial_reserved_bytes;
        self.events.counter("reserved", WHOLE, 0, self.reserved_bytes)?;
        for block in trace.initial_blocks() {
            let name = "before the trace";
            self.allocate(0, [block.address, block.requested_bytes], block.stream, name)?;
            if block.is_pending {
                self.free(0, block.address, false)?;
            }
        }
        Ok(())
    }

    fn take(
        &mut self,
        ns: u64,
        entry: &Entry,
        annotation: Option<crate::pytorch::TextId>,
        completes: bool,
    ) -> io::Result<()> {
        let Entry { address, bytes, stream, stack, .. } = *entry;
        match entry.action {
            Action::Alloc => {
                let name = self.owner(stack, bytes, annotation);
                self.allocate(ns, [address, bytes], stream, &name)
            }
            Action::Free => self.free(ns, address, true),
            Action::FreeRequested => self.free(ns, address, completes),
            Action::FreeCompleted => self.complete(ns, address),
            Action::SegmentAlloc | Action::SegmentMap => {
                self.reserve(ns, self.reserved_bytes.saturating_add(bytes))
            }
            Action::SegmentFree | Action::SegmentUnmap => {
                self.reserve(ns, self.reserved_bytes.saturating_sub(bytes))
            }
            Action::OutOfMemory => {
                let arguments =
                    [("bytes", Argument::Number(bytes)), ("stream", Argument::Address(stream.0))];
                self.events.moment("out of memory", WHOLE, ns, &arguments)
            }
            Action::Snapshot | Action::Annotate | Action::Other(_) => Ok(()),
        }
    }

    fn owner(
        &mut self,
        stack: Option<StackId>,
        bytes: u64,
        annotation: Option<crate::pytorch::TextId>,
    ) -> String {
        let owner = self.owners.of(stack, bytes, annotation);
        let name = self.owners.names().get(owner.index());
        name.map_or_else(String::new, |name| name.trim_end().to_owned())
    }

    fn reserve(&mut self, ns: u64, bytes: u64) -> io::Result<()> {
        self.reserved_bytes = bytes;
        self.events.counter("reserved", WHOLE, ns, bytes)
    }

    fn allocate(
        &mut self,
        ns: u64,
        [address, bytes]: [u64; 2],
        stream: StreamHandle,
        name: &str,
    ) -> io::Result<()> {
        if self.live.contains_key(&address) {
            self.free(ns, address, true)?;
        }
        let number = self.block_count;
        self.block_count += 1;
        let row = self.row(stream)?.row;
        let arguments = [
            ("bytes", Argument::Number(bytes)),
            ("address", Argument::Address(address)),
            ("stream", Argument::Address(stream.0)),
            ("owner", Argument::Text(name)),
        ];
        self.events.life("b", name, row, (ns, number), &arguments)?;
        self.live.insert(address, Block { number, bytes, stream, name: name.to_owned() });
        self.count(stream, |it| {
            it.allocated_bytes = it.allocated_bytes.saturating_add(rounded_bytes(bytes));
        })?;
        self.show(ns, stream, false)
    }

    fn free(&mut self, ns: u64, address: u64, completes: bool) -> io::Result<()> {
        let Some(block) = self.live.remove(&address) else { return Ok(()) };
        let (stream, bytes) = (block.stream, rounded_bytes(block.bytes));
        self.count(stream, |it| {
            it.allocated_bytes = it.allocated_bytes.saturating_sub(bytes);
            if !completes {
                it.pending_bytes = it.pending_bytes.saturating_add(bytes);
            }
        })?;
        self.show(ns, stream, !completes)?;
        if completes {
            return self.finish(ns, &block);
        }
        self.pending.entry(address).or_default().push(block);
        Ok(())
    }

    fn complete(&mut self, ns: u64, address: u64) -> io::Result<()> {
        let Some(block) = self.pending.get_mut(&address).and_then(Vec::pop) else {
            return self.free(ns, address, true);
        };
        let (stream, bytes) = (block.stream, rounded_bytes(block.bytes));
        self.count(stream, |it| it.pending_bytes = it.pending_bytes.saturating_sub(bytes))?;
        let shown = self.rows.get(&stream).copied();
        if let Some(shown) = shown {
            let name = format!("pending, stream {stream}");
            self.events.counter(&name, WHOLE, ns, shown.pending_bytes)?;
        }
        self.finish(ns, &block)
    }

    /// The slice of a block ends.
    fn finish(&mut self, ns: u64, block: &Block) -> io::Result<()> {
        let row = self.row(block.stream)?.row;
        self.events.life("e", &block.name, row, (ns, block.number), &[])
    }

    fn count(
        &mut self,
        stream: StreamHandle,
        change: impl FnOnce(&mut StreamRow),
    ) -> io::Result<()> {
        self.row(stream)?;
        if let Some(row) = self.rows.get_mut(&stream) {
            change(row);
        }
        Ok(())
    }

    fn show(&mut self, ns: u64, stream: StreamHandle, with_pending: bool) -> io::Result<()> {
        let shown = self.row(stream)?;
        let name = format!("allocated, stream {stream}");
        self.events.counter(&name, WHOLE, ns, shown.allocated_bytes)?;
        if with_pending {
            let name = format!("pending, stream {stream}");
            self.events.counter(&name, WHOLE, ns, shown.pending_bytes)?;
        }
        Ok(())
    }

    fn row(&mut self, stream: StreamHandle) -> io::Result<StreamRow> {
        if let Some(row) = self.rows.get(&stream) {
            return Ok(*row);
        }
        let thread = u64::try_from(self.rows.len()).unwrap_or(u64::MAX - 1) + 1;
        let row = Row { process: PROCESS, thread };
        self.events.name("thread_name", row, &format!("blocks of stream {stream}"))?;
        let row = StreamRow { row, allocated_bytes: 0, pending_bytes: 0 };
        self.rows.insert(stream, row);
        Ok(row)
    }

    /// What is still there ends with the trace.
    fn end(&mut self, ns: u64) -> io::Result<()> {
        let live = std::mem::take(&mut self.live).into_values();
        let pending = std::mem::take(&mut self.pending).into_values().flatten();
        let mut left: Vec<Block> = live.chain(pending).collect();
        left.sort_unstable_by_key(|block| block.number);
        left.iter().try_for_each(|block| self.finish(ns, block))
    }
}
