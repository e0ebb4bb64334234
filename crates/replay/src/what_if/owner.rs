//! Names who holds a block: the line of the program that asked for it, an annotation, or else its
//! stream and size.

use std::collections::{HashMap, HashSet};

use trace::pytorch::{Action, BlockState, DeviceTrace, Entry, Snapshot, StackId};
use trace::{OpenAnnotations, Owners, Pattern, size_class};

use super::holders::LiveBlock;

/// Names owners by a snapshot's frames and annotations.
#[derive(Debug)]
pub struct BlockOwners<'a> {
    owners: Owners<'a>,
    open: OpenAnnotations,
    entries: &'a [Entry],
    has_streams: bool,
    /// Of the blocks in use before the trace began, by number: those of the blocks that still
    /// exist at its end, where their frames are.
    initial: Vec<Option<StackId>>,
}

impl<'a> BlockOwners<'a> {
    /// Owners by the program's own frames, or first by `pattern`.
    #[must_use]
    pub fn new(
        snapshot: &'a Snapshot,
        trace: &DeviceTrace<'a>,
        pattern: Option<Pattern<'a>>,
    ) -> Self {
        let entries = trace.entries();
        let first = entries.first().map(|entry| entry.stream);
        Self {
            owners: Owners::new(snapshot, pattern),
            open: OpenAnnotations::new(snapshot, trace.device()),
            entries,
            has_streams: entries.iter().any(|entry| Some(entry.stream) != first),
            initial: initial_stacks(trace),
        }
    }

    /// Who holds a block. Blocks come in the order of their allocation.
    pub fn name(&mut self, block: &LiveBlock) -> String {
        let entry = block.entry.and_then(|entry| self.entries.get(entry));
        let Some(entry) = entry else {
            let stack = self.initial.get(block.number.index()).copied().flatten();
            return match stack {
                Some(stack) => self.of(Some(stack), block.bytes, None),
                None => format!("before the trace began, {}", class(block.bytes)),
            };
        };
        let annotation = self.open.at(entry.time_us);
        if entry.stack.is_some() || annotation.is_some() {
            return self.of(entry.stack, block.bytes, annotation);
        }
        if self.has_streams {
            return format!("stream {}, {}", entry.stream, class(block.bytes));
        }
        class(block.bytes)
    }

    fn of(
        &mut self,
        stack: Option<StackId>,
        bytes: u64,
        annotation: Option<trace::pytorch::TextId>,
    ) -> String {
        let owner = self.owners.of(stack, bytes, annotation);
        self.owners.names().get(owner.index()).cloned().unwrap_or_default()
    }
}

fn class(bytes: u64) -> String {
    let class = size_class(bytes);
    if class.starts_with("below") {
        format!("blocks {class}")
    } else {
        format!("blocks of {class}")
    }
}

fn initial_stacks(trace: &DeviceTrace<'_>) -> Vec<Option<StackId>> {
    let initial = trace.initial_blocks();
    if initial.is_empty() {
        return Vec::new();
    }
    let allocations = trace.entries().iter().filter(|entry| entry.action == Action::Alloc);
    let later: HashSet<u64> = allocations.map(|entry| entry.address).collect();
    let at_the_end = trace.segments().flat_map(|segment| &segment.blocks);
    let still = at_the_end.filter(|block| block.state != BlockState::Inactive);
    let stacks: HashMap<u64, StackId> =
        still.filter_map(|block| Some((block.address, block.stack?))).collect();
    let stack = |address: u64| stacks.get(&address).copied().filter(|_| !later.contains(&address));
    initial.iter().map(|block| stack(block.address)).collect()
}
