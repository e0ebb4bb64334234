//! One line of a trace, and what it can record.

use super::pools::PoolNumber;
#[cfg(doc)]
use super::snapshot::Snapshot;
use super::snapshot::StreamHandle;
use super::stacks::{StackId, TextId};
use super::word::Word;

/// One line of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Entry {
    /// What happened.
    pub action: Action,
    /// Where; for [`Action::OutOfMemory`] the bytes that the device had free.
    pub address: u64,
    /// How many bytes: as requested for blocks, as held for segments.
    pub bytes: u64,
    /// On which stream.
    pub stream: StreamHandle,
    /// When, in microseconds of Unix time; 0 where the file does not say.
    pub time_us: i64,
    /// Where in the program, if that was recorded.
    pub stack: Option<StackId>,
    /// The pool (`pool_id`), where the file says; [`Snapshot::pools`] has its id.
    pub pool: Option<PoolNumber>,
    /// What the program told PyTorch to note here (`user_metadata`), unless empty.
    pub metadata: Option<TextId>,
    /// What was being compiled (`compile_context`), if anything was.
    pub compile_context: Option<TextId>,
}

/// What a trace entry records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// A block was handed out.
    Alloc,
    /// A block was freed and was available at once.
    Free,
    /// A block was freed; it is available after its [`Action::FreeCompleted`].
    FreeRequested,
    /// No stream uses a freed block any more.
    FreeCompleted,
    /// A segment was taken from the driver.
    SegmentAlloc,
    /// A segment was given back.
    SegmentFree,
    /// A part of an expandable segment was mapped.
    SegmentMap,
    /// A part of an expandable segment was unmapped.
    SegmentUnmap,
    /// A snapshot was taken.
    Snapshot,
    /// A request failed for lack of memory.
    OutOfMemory,
    /// A note was made; it is the entry's `metadata`.
    Annotate,
    /// Something that this reader does not know: [`Snapshot::unknown_actions`] has its name, by
    /// this number. Of its numbers, those that are not in the file are 0.
    Other(u16),
}

impl Action {
    /// The action that a file spells this way.
    pub(super) const fn of(word: Word) -> Option<Self> {
        #[expect(clippy::wildcard_enum_match_arm, reason = "all other words are no actions")]
        Some(match word {
            Word::Alloc => Self::Alloc,
            Word::Free => Self::Free,
            Word::FreeRequested => Self::FreeRequested,
            Word::FreeCompleted => Self::FreeCompleted,
            Word::SegmentAlloc => Self::SegmentAlloc,
            Word::SegmentFree => Self::SegmentFree,
            Word::SegmentMap => Self::SegmentMap,
            Word::SegmentUnmap => Self::SegmentUnmap,
            Word::Snapshot => Self::Snapshot,
            Word::Oom => Self::OutOfMemory,
            Word::Annotate => Self::Annotate,
            _ => return None,
        })
    }

    /// Whether the entry is about a range of memory and so needs an address.
    pub(super) const fn has_address(self) -> bool {
        !matches!(self, Self::Snapshot | Self::OutOfMemory | Self::Annotate | Self::Other(_))
    }

    /// Whether nothing can be made of the entry without its size.
    pub(super) const fn needs_size(self) -> bool {
        matches!(
            self,
            Self::Alloc
                | Self::SegmentAlloc
                | Self::SegmentFree
                | Self::SegmentMap
                | Self::SegmentUnmap
        )
    }
}

impl Entry {
    /// Whether something happened to memory: it is no note, no snapshot and no unknown action.
    #[must_use]
    pub const fn is_operation(&self) -> bool {
        !matches!(self.action, Action::Snapshot | Action::Annotate | Action::Other(_))
    }
}
