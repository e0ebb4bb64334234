//! Hazards: what a program did that no schedule of a real device would forgive for ever.

use std::fmt;
use std::ops::Range;

use crate::shadow::AccessKind;

/// An operation on the device, as a report names it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Operation {
    /// Its place among all operations of the machine, counted from one.
    pub number: u64,
    /// What it does: `kernel fill_u32`, `copy`, `fill`.
    pub what: String,
    /// Its stream: `stream 13`, `the legacy stream of context 1`.
    pub stream: String,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (operation {} on {})", self.what, self.number, self.stream)
    }
}

/// An allocation, as a report names it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Allocation {
    /// Its first address.
    pub address: u64,
    /// Its length.
    pub bytes: u64,
}

impl fmt::Display for Allocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the allocation of {} bytes at {:#x}", self.bytes, self.address)
    }
}

/// A way to end the life of addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ending {
    /// `cuMemFree`.
    Free,
    /// `cuMemUnmap`.
    Unmap,
    /// `cuMemFreeHost`.
    FreeHost,
    /// `cuMemHostUnregister`.
    Unregister,
    /// [`crate::Machine::dead`].
    Dead,
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Free => "freed",
            Self::Unmap => "unmapped",
            Self::FreeHost => "freed as pinned host memory",
            Self::Unregister => "unregistered",
            Self::Dead => "declared dead",
        })
    }
}

/// A fault in the program under test.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Hazard {
    /// Two operations use the same bytes, one of them writes, and nothing orders them.
    Race {
        /// The one submitted first.
        first: Operation,
        /// How it used the bytes.
        first_kind: AccessKind,
        /// The one submitted later, or the probe.
        second: Operation,
        /// How it uses the bytes.
        second_kind: AccessKind,
        /// The bytes, by the second one's addresses.
        range: Range<u64>,
        /// The allocation they lie in.
        allocation: Allocation,
    },
    /// An operation uses bytes whose owner declared them dead.
    UseAfterDeath {
        /// The operation.
        operation: Operation,
        /// The bytes.
        range: Range<u64>,
        /// The stream on which they were declared dead.
        dead_on: String,
    },
    /// Addresses ended while the host had not seen an operation on them complete.
    EndedInUse {
        /// How they ended.
        ending: Ending,
        /// The operation.
        operation: Operation,
        /// The allocation.
        allocation: Allocation,
    },
    /// Memory was given back while a range in it was declared alive.
    EndedAlive {
        /// How it ended.
        ending: Ending,
        /// The range that was alive.
        range: Range<u64>,
        /// The stream it was born on.
        born_on: String,
    },
    /// A range was handed out while it, or a part of it, was alive.
    BornTwice {
        /// The new range.
        range: Range<u64>,
        /// The stream it was born on now.
        now: String,
        /// The stream the living one was born on.
        before: String,
    },
    /// A range was declared dead that was not alive.
    DeadTwice {
        /// The range.
        range: Range<u64>,
    },
    /// An address that means nothing was used by an operation.
    IllegalAddress {
        /// The operation.
        operation: Operation,
        /// The address.
        address: u64,
    },
    /// A kernel used bytes that it had not declared.
    Undeclared {
        /// The operation.
        operation: Operation,
        /// The bytes.
        range: Range<u64>,
        /// How it used them.
        kind: AccessKind,
    },
    /// A handle was used after it had been destroyed, or was never one.
    StaleHandle {
        /// The call.
        call: &'static str,
        /// The handle.
        handle: usize,
    },
    /// A driver call was made where it may deadlock.
    CallInHostFunction {
        /// The call.
        call: &'static str,
    },
    /// The host changed pinned memory that a queued copy had yet to read.
    HostWroteSource {
        /// The copy.
        operation: Operation,
        /// Where the source starts.
        address: u64,
    },
    /// A call waits for what can never happen.
    Deadlock {
        /// The call.
        call: &'static str,
        /// Who waits for whom.
        cycle: Vec<String>,
    },
    /// Memory that was not the pool's was freed twice in stream order.
    FreedTwice {
        /// The address.
        address: u64,
    },
    /// A kernel was launched for which no body is registered; the launch was refused.
    NoKernelBody {
        /// The entry's name.
        kernel: String,
    },
    /// A kernel body panicked.
    KernelPanicked {
        /// The operation.
        operation: Operation,
        /// What it said.
        message: String,
    },
}

fn verb(kind: AccessKind) -> &'static str {
    match kind {
        AccessKind::Read => "read",
        AccessKind::Write => "write",
        AccessKind::Atomic => "atomic update",
    }
}

impl fmt::Display for Hazard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Race { first, first_kind, second, second_kind, range, allocation } => write!(
                f,
                "race: {} by {second} against {} by {first}, over {:#x}..{:#x} of {allocation}; \
                 missing edge: nothing orders {} before {}",
                verb(*second_kind),
                verb(*first_kind),
                range.start,
                range.end,
                place(first),
                place(second),
            ),
            Self::UseAfterDeath { operation, range, dead_on } => write!(
                f,
                "use after free: {operation} uses {:#x}..{:#x}, which was declared dead on \
                 {dead_on} and handed to nobody since",
                range.start, range.end
            ),
            Self::EndedInUse { ending, operation, allocation } => write!(
                f,
                "{allocation} was {ending} in use: {operation} uses it; missing edge: the host \
                 has not seen operation {} complete",
                operation.number
            ),
            Self::EndedAlive { ending, range, born_on } => write!(
                f,
                "memory was {ending} with {:#x}..{:#x} in it alive, which was handed out on \
                 {born_on}",
                range.start, range.end
            ),
            Self::BornTwice { range, now, before } => write!(
                f,
                "{:#x}..{:#x} was handed out on {now} while alive: it was handed out on {before} \
                 before",
                range.start, range.end
            ),
            Self::DeadTwice { range } => write!(
                f,
                "{:#x}..{:#x} was declared dead without being alive",
                range.start, range.end
            ),
            Self::IllegalAddress { .. }
            | Self::Undeclared { .. }
            | Self::StaleHandle { .. }
            | Self::CallInHostFunction { .. }
            | Self::HostWroteSource { .. }
            | Self::Deadlock { .. }
            | Self::FreedTwice { .. }
            | Self::NoKernelBody { .. }
            | Self::KernelPanicked { .. } => self.write_conduct(f),
        }
    }
}

impl Hazard {
    /// The hazards that are about a call or a kernel rather than about the life of bytes.
    fn write_conduct(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::IllegalAddress { operation, address } => {
                write!(f, "illegal address: {operation} uses {address:#x}, which means nothing")
            }
            Self::Undeclared { operation, range, kind } => write!(
                f,
                "undeclared access: {} of {:#x}..{:#x} by {operation}",
                verb(*kind),
                range.start,
                range.end
            ),
            Self::StaleHandle { call, handle } => {
                write!(f, "stale handle: {call} was given {handle:#x}, which names nothing alive")
            }
            Self::CallInHostFunction { call } => {
                write!(
                    f,
                    "{call} was called inside a host function or kernel, where it may deadlock"
                )
            }
            Self::HostWroteSource { operation, address } => write!(
                f,
                "the host wrote under a pending copy: {operation} reads from {address:#x} on, \
                 which changed after the copy was submitted"
            ),
            Self::Deadlock { call, cycle } => {
                write!(f, "deadlock: {call} waits for ever: {}", cycle.join("; "))
            }
            Self::FreedTwice { address } => {
                write!(f, "{address:#x} was freed twice in stream order")
            }
            Self::NoKernelBody { kernel } => {
                write!(f, "no body is registered for kernel {kernel}")
            }
            Self::KernelPanicked { operation, message } => {
                write!(f, "{operation} panicked: {message}")
            }
            Self::Race { .. }
            | Self::UseAfterDeath { .. }
            | Self::EndedInUse { .. }
            | Self::EndedAlive { .. }
            | Self::BornTwice { .. }
            | Self::DeadTwice { .. } => Ok(()),
        }
    }
}

impl std::error::Error for Hazard {}

fn place(operation: &Operation) -> String {
    format!("operation {} on {}", operation.number, operation.stream)
}
