//! Whether a trace has its beginning, and if not, why.
//!
//! Blocks that were in use before the first entry say that something is missing. PyTorch keeps the
//! stack of a block with the block, but only while it records: a block without an `alloc` that has
//! a stack was recorded once, so its entry was overwritten; where recorded blocks have stacks and
//! the others have none, those others were there before recording began.

use std::collections::HashSet;
use std::fmt;

use crate::pytorch::{Action, BlockState, DeviceTrace};

/// What became of the beginning of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Beginning {
    /// Nothing shows that anything is missing.
    Complete,
    /// The ring of entries was full, and the oldest were overwritten.
    Overflowed,
    /// Blocks were in use when recording began.
    StartedLate,
    /// Something is missing; the file does not tell whether for the one reason or the other.
    Lost,
}

impl Beginning {
    /// Judges by the flag that recent versions of PyTorch write (`trace_alloc_overflowed`), and
    /// without it by the blocks in use at the end.
    pub(crate) fn of(trace: &DeviceTrace<'_>) -> Self {
        let is_lost = !trace.initial_blocks().is_empty();
        match trace.overflowed() {
            Some(true) => return Self::Overflowed,
            Some(false) if is_lost => return Self::StartedLate,
            None if is_lost => {}
            _ => return Self::Complete,
        }
        let allocations = trace.entries().iter().filter(|entry| entry.action == Action::Alloc);
        let recorded: HashSet<u64> = allocations.map(|entry| entry.address).collect();
        let in_use = || {
            let blocks = trace.segments().flat_map(|segment| &segment.blocks);
            blocks.filter(|block| block.state != BlockState::Inactive)
        };
        let has_stack = |is_recorded: bool| {
            let of_kind = in_use().filter(|it| recorded.contains(&it.address) == is_recorded);
            of_kind.fold((false, true), |(any, all), block| {
                (any | block.stack.is_some(), all & block.stack.is_some())
            })
        };
        let (any_earlier, _) = has_stack(false);
        let (any_recorded, all_recorded) = has_stack(true);
        if any_earlier {
            Self::Overflowed
        } else if any_recorded && all_recorded {
            Self::StartedLate
        } else {
            Self::Lost
        }
    }
}

impl fmt::Display for Beginning {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Complete => "complete",
            Self::Overflowed => "overflowed: the oldest entries were overwritten",
            Self::StartedLate => "started late: blocks were in use before",
            Self::Lost => "lost: overflowed or started late",
        })
    }
}
