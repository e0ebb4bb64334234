//! A trace as a list of operations on numbered blocks and streams, ready to be replayed.
//!
//! Addresses are reused, so an address names a block only until the next allocation there. Blocks
//! that were in use before the trace began come first, as allocations (and frees, for those that
//! were pending). A free whose completion follows directly is one operation; one whose completion
//! comes later, or never, is deferred.

use std::collections::{HashMap, VecDeque};

use crate::number::{BlockNumber, StreamNumber};
use crate::pytorch::{Action, BlockState, DeviceTrace, Entry, StreamHandle};

/// One step of a replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Allocate a block that was not allocated before.
    Allocate {
        /// The block.
        block: BlockNumber,
        /// How many bytes were asked for.
        bytes: u64,
        /// On which stream.
        stream: StreamNumber,
    },
    /// Free a block.
    Free {
        /// The block.
        block: BlockNumber,
        /// Whether other streams still used it: then [`Operation::Complete`] ends that use, or it
        /// lasts to the end.
        deferred: bool,
    },
    /// The last use of a block whose free was deferred ends.
    Complete {
        /// The block.
        block: BlockNumber,
    },
    /// Here a request failed for lack of memory.
    OutOfMemory {
        /// How many bytes were asked for, rounded up.
        bytes: u64,
        /// On which stream.
        stream: StreamNumber,
    },
}

/// A trace's operations, and what was found on the way.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Operations {
    /// The operations in order; the first ones set up the initial blocks.
    pub list: Vec<Operation>,
    /// How many operations of the list stand before the trace's own.
    pub initial_operation_count: usize,
    /// The handle of each stream, by its number.
    pub streams: Vec<StreamHandle>,
    /// How many blocks there are.
    pub block_count: usize,
    /// How many of them, the first ones, were in use before the trace began. If any, the trace
    /// lost its beginning or was started late.
    pub initial_block_count: usize,
    /// How many of the initial blocks were freed already and waited for other streams.
    pub initial_pending_count: usize,
    /// Frees in the trace whose completion does not follow directly.
    pub deferred_free_count: usize,
    /// Deferred frees, initial ones included, that never complete.
    pub never_completed_count: usize,
    /// Frees and completions of blocks that nobody knows; they are left out.
    pub unmatched_count: usize,
    /// Allocations at the address of a block still in use, which counts as freed just before.
    pub overwritten_count: usize,
    /// The index of the trace's entry that each operation after the initial ones comes from.
    pub entries: Vec<u32>,
}

impl Operations {
    pub(crate) fn new(trace: &DeviceTrace<'_>) -> Self {
        let mut builder =
            Builder { completes_at_once: trace.has_no_completions(), ..Builder::default() };
        builder.start(trace);
        let entries = trace.entries();
        let mut told = None;
        for ((index, entry), number) in entries.iter().enumerate().zip(0..) {
            if !entry.is_operation() || told == Some(index) {
                continue;
            }
            let completion = direct_completion(entries, index);
            if builder.take(entry, completion.is_some()) {
                told = completion;
            }
            builder.come_from(number);
        }
        builder.operations.never_completed_count =
            builder.pending.values().map(VecDeque::len).sum();
        builder.operations
    }

    /// Whether blocks were in use before the trace began.
    #[must_use]
    pub const fn lost_beginning(&self) -> bool {
        0 < self.initial_block_count
    }

    /// The index of the trace's entry that an operation of the list comes from; none for those
    /// that set up the initial blocks.
    #[must_use]
    pub fn entry_of(&self, operation: usize) -> Option<usize> {
        let place = operation.checked_sub(self.initial_operation_count)?;
        self.entries.get(place).and_then(|entry| usize::try_from(*entry).ok())
    }

    /// The same operations, where each request that failed is made as one that is freed at once,
    /// with a number of its own.
    #[must_use]
    pub fn with_failed_requests(&self) -> Self {
        let mut asked = Self { list: Vec::new(), entries: Vec::new(), ..self.clone() };
        for (index, operation) in self.list.iter().enumerate() {
            let kept = if let Operation::OutOfMemory { bytes, stream } = *operation {
                let number = u32::try_from(asked.block_count);
                let block = BlockNumber(number.expect("a reader's memory ends before that"));
                asked.block_count += 1;
                asked.list.push(Operation::Allocate { block, bytes, stream });
                asked.list.push(Operation::Free { block, deferred: false });
                2
            } else {
                asked.list.push(*operation);
                1
            };
            let entry = index.checked_sub(self.initial_operation_count);
            if let Some(entry) = entry.and_then(|place| self.entries.get(place)) {
                asked.entries.extend(std::iter::repeat_n(*entry, kept));
            }
        }
        asked
    }
}

/// The index of the entry that completes the free at `index`, if nothing happens to memory between
/// them: both are then told as one. Notes, snapshots and unknown actions do not come between
/// ([`Entry::is_operation`]). Looks at no more than those.
#[must_use]
pub fn direct_completion(entries: &[Entry], index: usize) -> Option<usize> {
    let free = entries.get(index).filter(|entry| entry.action == Action::FreeRequested)?;
    let later = entries.iter().enumerate().skip(index + 1);
    let (position, next) = later.into_iter().find(|(_, entry)| entry.is_operation())?;
    let completes = next.action == Action::FreeCompleted && next.address == free.address;
    completes.then_some(position)
}

impl DeviceTrace<'_> {
    /// Whether completions were left out of the recording, so that each free is one: none is there
    /// and nothing is pending. One walk over the entries, up to the first completion.
    #[must_use]
    pub fn has_no_completions(&self) -> bool {
        let mut blocks = self.segments().flat_map(|segment| &segment.blocks);
        self.entries().iter().all(|entry| entry.action != Action::FreeCompleted)
            && blocks.all(|block| block.state != BlockState::PendingFree)
    }
}

#[derive(Default)]
struct Builder {
    operations: Operations,
    stream_numbers: HashMap<StreamHandle, StreamNumber>,
    /// Blocks in use by address.
    live: HashMap<u64, BlockNumber>,
    /// Freed blocks that wait for their completion, oldest first, by address.
    pending: HashMap<u64, VecDeque<BlockNumber>>,
    completes_at_once: bool,
}

impl Builder {
    fn start(&mut self, trace: &DeviceTrace<'_>) {
        let blocks = trace.initial_blocks();
        for block in &blocks {
            self.allocate(block.address, block.requested_bytes, block.stream);
            if block.is_pending
                && let Some(number) = self.live.remove(&block.address)
            {
                self.defer(block.address, number);
                self.operations.initial_pending_count += 1;
            }
        }
        self.operations.initial_block_count = blocks.len();
        self.operations.initial_operation_count = self.operations.list.len();
    }

    /// The operations that were just added come from this entry.
    fn come_from(&mut self, entry: u32) {
        let count = self.operations.list.len() - self.operations.initial_operation_count;
        self.operations.entries.resize(count, entry);
    }

    /// Takes one entry; true if it took the completion behind it as well.
    fn take(&mut self, entry: &Entry, completes_next: bool) -> bool {
        match entry.action {
            Action::Alloc => self.allocate(entry.address, entry.bytes, entry.stream),
            Action::Free => self.free_at_once(entry.address),
            Action::FreeRequested if completes_next || self.completes_at_once => {
                self.free_at_once(entry.address);
                return completes_next;
            }
            Action::FreeRequested => match self.live.remove(&entry.address) {
                Some(block) => {
                    self.defer(entry.address, block);
                    self.operations.deferred_free_count += 1;
                }
                None => self.operations.unmatched_count += 1,
            },
            Action::FreeCompleted => self.complete(entry.address),
            Action::OutOfMemory => {
                let stream = self.stream(entry.stream);
                self.operations.list.push(Operation::OutOfMemory { bytes: entry.bytes, stream });
            }
            Action::SegmentAlloc
            | Action::SegmentFree
            | Action::SegmentMap
            | Action::SegmentUnmap
            | Action::Snapshot
            | Action::Annotate
            | Action::Other(_) => {}
        }
        false
    }

    fn allocate(&mut self, address: u64, bytes: u64, stream: StreamHandle) {
        let count = self.operations.block_count;
        let block = BlockNumber(u32::try_from(count).expect("a reader's memory ends before that"));
        self.operations.block_count += 1;
        let stream = self.stream(stream);
        if let Some(replaced) = self.live.insert(address, block) {
            self.operations.list.push(Operation::Free { block: replaced, deferred: false });
            self.operations.overwritten_count += 1;
        }
        self.operations.list.push(Operation::Allocate { block, bytes, stream });
    }

    fn free_at_once(&mut self, address: u64) {
        match self.live.remove(&address) {
            Some(block) => self.operations.list.push(Operation::Free { block, deferred: false }),
            None => self.operations.unmatched_count += 1,
        }
    }

    fn defer(&mut self, address: u64, block: BlockNumber) {
        self.operations.list.push(Operation::Free { block, deferred: true });
        self.pending.entry(address).or_default().push_back(block);
    }

    /// The oldest pending block there completes; if none is pending, the recording left out its
    /// free, which then happens here.
    fn complete(&mut self, address: u64) {
        let waiting = self.pending.get_mut(&address);
        match waiting.and_then(VecDeque::pop_front) {
            Some(block) => self.operations.list.push(Operation::Complete { block }),
            None => self.free_at_once(address),
        }
    }

    fn stream(&mut self, handle: StreamHandle) -> StreamNumber {
        let streams = &mut self.operations.streams;
        *self.stream_numbers.entry(handle).or_insert_with(|| {
            let number = u32::try_from(streams.len()).expect("fewer streams than blocks");
            streams.push(handle);
            StreamNumber(number)
        })
    }
}
