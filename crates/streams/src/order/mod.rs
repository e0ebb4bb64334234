//! Who is known to come after whom: pure knowledge, no driver.
//!
//! A [`Point`] is (stream, n): everything submitted to that stream up to its n-th submission. A
//! [`Frontier`] is a set of points, at most one per stream. The [`Registry`] holds one slot
//! per stream, with its counters and its *clock*: the frontier the stream is known to come after.
//!
//! Rules of the protocol, by the number they have in the tests:
//!
//! 1. A submission counts *after* its driver call succeeded (`Slot::finish`); a point taken
//!    later covers it. So a stamp that was read before a record began never claims a submission
//!    that the record may have preceded (O3).
//! 2. On a stream whose raw handle somebody else may use, `Slot::position` first counts a
//!    submission of its own, so that "now" is always a new point, and only a stamp read after it
//!    covers it (O2).
//! 3. Knowledge joins a clock or the complete counters only after a call was seen to succeed, and
//!    only with a stamp that was read before that call began (O3, L26).
//! 4. Counters never go back, also when a slot is used by a new stream: an old point stays
//!    complete for ever, so frontiers that outlived its stream stay right (O12).
//! 5. A slot is closed when its stream retires and given out again when its last point is known
//!    complete, whoever still holds the old stream: so a point that is not complete never shares
//!    its slot with a new stream. The old stream answers from its last mark (`LastMark`) (O12).
//! 6. A wait that was made because of what the device answered (`Made::Apart`) counts as any other,
//!    but not for whoever goes by the calls of the program alone: their positions leave it out, and
//!    so does the settled clock. A slot whose stream may have had such waits ends with a mark of
//!    its own, so that what settles the last mark covers them all (R9).
//!
//! Locks: a slot's clock is a leaf lock; nothing else is locked while it is held.

mod frontier;
mod last_mark;
mod point;
mod registry;
mod slot;
mod stamp;
mod version;

pub use frontier::Frontier;
pub use point::{Point, StreamSlot};
pub use registry::{Registry, SlotKeeper};

pub(crate) use last_mark::LastMark;
pub(crate) use registry::STREAMS_MAX;
pub(crate) use slot::Slot;
pub(crate) use stamp::{Made, Quiet, Stamp};
pub(crate) use version::EventVersion;
