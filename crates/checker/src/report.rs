//! What was found, as a value that says it in words.

use std::fmt;

use streams::observe::Place;

/// What is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Kind {
    /// A stream uses a block, and is not ordered after the hand-out of the block, or after what
    /// was done to its memory before.
    UseBeforeAllocation,
    /// Two streams touch the same bytes, one of them writes, and nothing orders them.
    UnorderedAccess,
    /// A block is used after its free, or memory that nobody owns.
    UseAfterFree,
    /// A block is freed while a stream that the allocator was not told of may still use it.
    UntoldUse,
    /// A wait does not cover what it should: its event was never recorded, or recorded before the
    /// use.
    WrongEvent,
    /// Memory is read that was handed to somebody else, who has not written it.
    StaleRead,
    /// The allocator handed out memory that may still be in use. Not a fault of the program.
    HandedOutTooEarly,
    /// The allocator gave memory back to the device that may still be in use. Not a fault of the
    /// program.
    ReturnedTooEarly,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::UseBeforeAllocation => "use not ordered after allocation",
            Self::UnorderedAccess => "unordered access",
            Self::UseAfterFree => "use after free",
            Self::UntoldUse => "use the allocator was not told of",
            Self::WrongEvent => "wait on the wrong event",
            Self::StaleRead => "read of memory handed to somebody else",
            Self::HandedOutTooEarly => "allocator handed out memory too early",
            Self::ReturnedTooEarly => "allocator returned memory too early",
        })
    }
}

/// A line of the program; a destructor has none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Line(pub Option<Place>);

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(place) => write!(f, "{}:{}:{}", place.file(), place.line(), place.column()),
            None => f.write_str("the end of its scope"),
        }
    }
}

/// A stream, named by its id and by where it was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct StreamName {
    /// Its id, as [`streams::Stream::id`] gives it.
    pub id: u64,
    /// Where it was made or borrowed.
    pub opened: Line,
}

impl fmt::Display for StreamName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "stream {} (from {})", self.id, self.opened)
    }
}

/// A block of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Buffer {
    /// Where it begins.
    pub address: u64,
    /// Its bytes, after rounding.
    pub size: u64,
    /// How many bytes were asked for.
    pub requested: u64,
    /// Where it was allocated.
    pub allocated: Line,
    /// The stream it was allocated for.
    pub home: StreamName,
}

impl fmt::Display for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} bytes at {:#x}, allocated at {} for {}",
            self.requested, self.address, self.allocated, self.home
        )
    }
}

/// Something that was done.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Deed {
    /// What, in a few words: `kernel scale_add`, `fill`, `free`.
    pub what: String,
    /// The stream it was done on or for.
    pub stream: StreamName,
    /// Where.
    pub line: Line,
    /// Where the graph was launched that it was captured into.
    pub replayed: Option<Line>,
}

impl fmt::Display for Deed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on {} at {}", self.what, self.stream, self.line)?;
        if let Some(replayed) = &self.replayed {
            write!(f, ", in the graph launched at {replayed}")?;
        }
        Ok(())
    }
}

/// One fault of a program, or of the allocator.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// What is wrong.
    pub kind: Kind,
    /// The memory; none if an event alone is wrong.
    pub buffer: Option<Buffer>,
    /// What was done before.
    pub earlier: Option<Deed>,
    /// What should have come after it.
    pub later: Deed,
    /// What a wait that was made does not cover.
    pub uncovered: Option<String>,
    /// The call that would have made it right.
    pub remedy: String,
    /// How often the same was found, at the same lines.
    pub count: u64,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.kind)?;
        if 1 < self.count {
            write!(f, " ({} times)", self.count)?;
        }
        if let Some(buffer) = &self.buffer {
            write!(f, "\n  buffer:  {buffer}")?;
        }
        if let Some(earlier) = &self.earlier {
            write!(f, "\n  earlier: {earlier}")?;
        }
        write!(f, "\n  later:   {}", self.later)?;
        if let Some(uncovered) = &self.uncovered {
            write!(f, "\n  waited:  {uncovered}")?;
        }
        write!(f, "\n  remedy:  {}", self.remedy)
    }
}
