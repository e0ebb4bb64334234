//! How an operation tells the owners of device memory that it uses them (O13).
//!
//! Before the submission each owner is told, pessimistically, that the stream uses it; after it,
//! exactly until when. If the second call never comes, the first still protects the memory: it
//! leaks time, not soundness.

use std::any::Any;

use smallvec::SmallVec;

use crate::driver::DriverStream;
use crate::error::Error;
use crate::memory::check_part;
use crate::observe::Told;
use crate::order::Point;
use crate::stream::Stream;
use crate::submission::Submission;

/// A part of the device's address space.
///
/// It is two numbers, which anybody can write down, and it owns nothing. But the copies, fills and
/// launches that take one are safe functions, and the device reads and writes where it says. So
/// whoever makes a span of an address and gives it to one of them, or to anything that gives it on,
/// promises for it what a [`DeviceBytes`] of its own would keep:
///
/// - every byte of it is device memory that is mapped, on the device of the stream or reachable
///   from there;
/// - it stays so until what was queued with it is complete, and for a captured operation until no
///   graph that holds it can run any more: nobody frees, unmaps or hands out the memory before;
/// - whoever owns the memory lets it be used so: nothing that is read there is written at the same
///   time by work that is not ordered with this, nor the other way round;
/// - what a kernel or a copy reads there as a type is a value of that type.
///
/// Nothing here checks any of it, and the type does not say that it is a promise.
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
    /// Whenever a graph runs, which holds what [`DeviceBytes::hold`] gave.
    ByGraph,
    /// Not at all: the operation was refused.
    Never,
}

/// What an owner of memory gave out for one use, to know it again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct UseTicket(pub u64);

/// Device memory that copies, fills and launches can use.
///
/// An implementation's span is its own: it is alive, on the device of the streams it is used on,
/// and stays so until every use it was told of is over.
pub trait DeviceBytes {
    /// Where the memory is.
    fn span(&self) -> DeviceSpan;

    /// Something on `stream` is about to use the memory; from now on, and until
    /// [`DeviceBytes::end_use`] says more, whatever is queued on `stream` may use it.
    ///
    /// # Errors
    /// The memory may not be used there. Nothing is submitted then.
    fn begin_use(&self, stream: &Stream, access: Access) -> Result<UseTicket, Error>;

    /// The use that `ticket` was given for is `used`.
    fn end_use(&self, stream: &Stream, ticket: UseTicket, used: Used);

    /// Keeps the memory alive, for a graph that uses it.
    fn hold(&self) -> Box<dyn Any + Send>;
}

/// A span whose owner keeps it alive by other means, and counts no uses: see the promises at
/// [`DeviceSpan`].
impl DeviceBytes for DeviceSpan {
    fn span(&self) -> DeviceSpan {
        *self
    }

    fn begin_use(&self, _: &Stream, _: Access) -> Result<UseTicket, Error> {
        Ok(UseTicket::default())
    }

    fn end_use(&self, _: &Stream, _: UseTicket, _: Used) {}

    fn hold(&self) -> Box<dyn Any + Send> {
        Box::new(())
    }
}

impl<B: DeviceBytes + ?Sized> DeviceBytes for &B {
    fn span(&self) -> DeviceSpan {
        (**self).span()
    }

    fn begin_use(&self, stream: &Stream, access: Access) -> Result<UseTicket, Error> {
        (**self).begin_use(stream, access)
    }

    fn end_use(&self, stream: &Stream, ticket: UseTicket, used: Used) {
        (**self).end_use(stream, ticket, used);
    }

    fn hold(&self) -> Box<dyn Any + Send> {
        (**self).hold()
    }
}

impl<B: DeviceBytes + ?Sized> DeviceBytes for &mut B {
    fn span(&self) -> DeviceSpan {
        (**self).span()
    }

    fn begin_use(&self, stream: &Stream, access: Access) -> Result<UseTicket, Error> {
        (**self).begin_use(stream, access)
    }

    fn end_use(&self, stream: &Stream, ticket: UseTicket, used: Used) {
        (**self).end_use(stream, ticket, used);
    }

    fn hold(&self) -> Box<dyn Any + Send> {
        (**self).hold()
    }
}

/// One operation's use of one memory.
pub(crate) type Use<'a> = (&'a dyn DeviceBytes, Access);

/// Queues one operation that uses memory, telling each owner before and after.
#[track_caller]
pub(crate) fn submit_with(
    stream: &Stream,
    uses: &[Use<'_>],
    told: Told<'_>,
    call: impl FnOnce(&DriverStream) -> Result<(), Error>,
) -> Result<Submission, Error> {
    let mut begun = Begun { stream, uses: SmallVec::new(), used: Used::Never };
    for &(memory, access) in uses {
        let ticket = memory.begin_use(stream, access)?;
        begun.uses.push((memory, ticket));
    }
    let hold = || uses.iter().map(|(memory, _)| memory.hold()).collect();
    let mut called = false;
    let submitted = stream.order().core().submit(told, hold, |raw| {
        call(raw)?;
        called = true;
        Ok(())
    });
    begun.used = match &submitted {
        Ok(submission) if submission.is_captured() => Used::ByGraph,
        Ok(submission) => Used::Until(submission.point()),
        // The call was made, and what came after it failed: until all that is queued is done.
        Err(_) if called => Used::Until(stream.order().position()),
        Err(_) => Used::Never,
    };
    submitted
}

/// Tells every owner the end, on every way out.
struct Begun<'a> {
    stream: &'a Stream,
    uses: SmallVec<[(&'a dyn DeviceBytes, UseTicket); 4]>,
    used: Used,
}

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        for &(memory, ticket) in &self.uses {
            memory.end_use(self.stream, ticket, self.used);
        }
    }
}
