//! How an operation tells the owners of device memory that it uses them (O13).
//!
//! Before the submission each owner is told, pessimistically, that the stream uses it; after it,
//! exactly until when. If the second call never comes, the first still protects the memory: it
//! leaks time, not soundness.

use std::fmt;

use crate::driver::{DeviceOwner, DriverStream, OpenUses};
use crate::error::Error;
use crate::memory::check_part;
use crate::observe::{Operation, Told};
use crate::order::Point;
use crate::stream::Stream;
use crate::submission::Submission;

/// A part of the device's address space: two numbers, which anybody can write down.
///
/// It owns nothing, and nothing can be done with it. What operations take are the [`DeviceBytes`]
/// of an owner; [`RawSpan::from_raw`](crate::RawSpan::from_raw) is where a number becomes memory,
/// and says what that promises.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DeviceSpan {
    /// Where it begins.
    pub address: u64,
    /// How long it is.
    pub bytes: u64,
}

impl DeviceSpan {
    /// The part of this span that begins `offset` bytes in.
    ///
    /// # Errors
    /// It does not lie inside.
    pub fn part(self, offset: u64, bytes: u64) -> Result<Self, Error> {
        check_part(offset, bytes, self.bytes)?;
        Ok(Self { address: self.address + offset, bytes })
    }
}

/// What an operation does to memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Access {
    /// Only reads it.
    Read,
    /// Only writes it.
    Write,
    /// Reads and writes it.
    ReadWrite,
}

/// Until when an operation uses memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Used {
    /// Until this point is complete.
    Until(Point),
    /// Whenever a graph runs, which holds what [`DeviceOwner::hold`] gave.
    ByGraph,
    /// Not at all: the operation was refused.
    Never,
}

/// What an owner of memory gave out for one use, to know it again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct UseTicket(pub u64);

/// Some of the memory of an owner, for as long as that is borrowed; the owner is told of every use
/// of it.
///
/// Untyped, as operations see it. Two parts may overlap: the order of reads and writes on the
/// device is the program's, and no safety rests on it.
#[derive(Clone, Copy)]
pub struct DevicePart<'owner> {
    owner: &'owner dyn DeviceOwner,
    span: DeviceSpan,
}

impl<'owner> DevicePart<'owner> {
    /// All memory of an owner.
    pub fn of(owner: &'owner dyn DeviceOwner) -> Self {
        Self { owner, span: owner.span() }
    }

    /// Where it is.
    #[must_use]
    pub fn span(self) -> DeviceSpan {
        self.span
    }

    /// The part of it that begins `offset` bytes in.
    ///
    /// # Errors
    /// It does not lie inside.
    pub fn part(self, offset: u64, bytes: u64) -> Result<Self, Error> {
        Ok(Self { owner: self.owner, span: self.span.part(offset, bytes)? })
    }
}

impl fmt::Debug for DevicePart<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DevicePart").field("span", &self.span).finish_non_exhaustive()
    }
}

/// Device memory that copies, fills and launches can use: an owner's, or a part of it.
///
/// Safe to implement, for a type that has an owner inside. Each operation asks once and goes by
/// that answer.
///
/// ```
/// use streams::{DeviceBytes, DevicePart};
///
/// /// A row of something that owns memory.
/// struct Row<'matrix, M>(&'matrix M, u64);
///
/// impl<M: DeviceBytes> DeviceBytes for Row<'_, M> {
///     fn whole(&self) -> DevicePart<'_> {
///         let matrix = self.0.whole();
///         matrix.part(self.1 * 256, 256).unwrap_or(matrix)
///     }
/// }
/// ```
pub trait DeviceBytes {
    /// All of the memory.
    fn whole(&self) -> DevicePart<'_>;
}

impl DeviceBytes for DevicePart<'_> {
    fn whole(&self) -> DevicePart<'_> {
        *self
    }
}

impl<B: DeviceBytes + ?Sized> DeviceBytes for &B {
    fn whole(&self) -> DevicePart<'_> {
        (**self).whole()
    }
}

impl<B: DeviceBytes + ?Sized> DeviceBytes for &mut B {
    fn whole(&self) -> DevicePart<'_> {
        (**self).whole()
    }
}

/// One operation's use of one memory.
pub(crate) type Use<'a> = (DevicePart<'a>, Access);

/// What becomes of an operation on a stream that captures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WhenCaptured {
    /// It goes into the graph, which holds the memory it uses.
    Held,
    /// It is refused: it uses something of the host's that no graph can hold.
    Refused,
}

/// Queues one operation that uses memory, telling each owner before and after.
#[track_caller]
pub(crate) fn submit_with(
    stream: &Stream,
    operation: Operation<'_>,
    uses: &[Use<'_>],
    captured: WhenCaptured,
    call: impl FnOnce(&DriverStream) -> Result<(), Error>,
) -> Result<Submission, Error> {
    let mut open = OpenUses::new(stream);
    for &(memory, access) in uses {
        open.begin(memory.owner, access)?;
    }
    open.submitting();
    let hold = || {
        let holds = || uses.iter().map(|(memory, _)| memory.owner.hold()).collect();
        (captured == WhenCaptured::Held).then(holds)
    };
    let mut called = false;
    let told = Told { operation, uses };
    let submitted = stream.order().core().submit(told, hold, |raw| {
        call(raw)?;
        called = true;
        Ok(())
    });
    open.end(match &submitted {
        Ok(submission) if submission.is_captured() => Used::ByGraph,
        Ok(submission) => Used::Until(submission.point()),
        // The call was made, and what came after it failed: until all that is queued is done.
        Err(_) if called => Used::Until(stream.order().settled_position()),
        Err(_) => Used::Never,
    });
    submitted
}
