//! What happens to memory, told to somebody who watches: a checker, a recorder.
//!
//! An [`Observer`] is given when an allocator is made and stays for good. Without one nothing here
//! runs. A cached request does not even ask: a watched allocator leaves its fast way where any
//! other rare case does. A free asks, and `cargo xtask observers` counts what all of it costs.
//! With an observer, these hold:
//!
//! - A block is told as handed out before its owner has it, and as freed before anybody else can
//!   get it; so are segments.
//! - A use is told after it was noted.
//! - The streams' own observer ([`streams::observe`]) hears of the submissions, records and waits,
//!   on the same threads. A wait that this allocator inserts is marked as the library's there.
//!
//! A block is named by its address, which is one block's from its hand-out to its free, or to the
//! end of its last hold if that is later. Blocks of zero bytes are not told of.

use std::cell::Cell;
use std::fmt;

use streams::observe::Place;
use streams::order::StreamSlot;
use streams::{Context, StreamOrder, Used};

use crate::allocator::{Allocator, Inner};
use crate::block::{BlockName, Handle, State};
use crate::bytes::round_up;
use crate::config::Config;
use crate::error::AllocError;
use crate::make::best_source;
use crate::reuse::{Request, Step, Taken};
use crate::shard::Shard;
use crate::source::Source;
use crate::sync::Arc;

/// Somebody who is told of everything that happens to an allocator's memory.
///
/// It is called on the thread that made the call, with no lock held. It calls nothing of the
/// allocator, and does not panic.
pub trait Observer: Send + Sync {
    /// Something happened.
    fn observe(&self, happening: &Happening);
}

/// Something that happened.
#[derive(Debug, Clone, Copy)]
pub struct Happening {
    /// The line of the program that did it; `None` if a destructor or the allocator itself did.
    pub place: Option<Place>,
    /// A number that no other allocator of this process has.
    pub allocator: u64,
    /// What it was.
    pub what: What,
}

/// Which step served a request; see [`crate::ServedBy`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ServedStep {
    /// A free block of the stream itself.
    OwnStream,
    /// A block known to come before.
    KnownOrder,
    /// A block known to be done with.
    Completion,
    /// A block that the stream was made to wait for.
    DeviceWait,
    /// New memory.
    Growth,
    /// New memory, after other memory was given back for it.
    Ladder,
}

/// What was said about a use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum UseKind {
    /// Everything queued on the stream up to the free.
    WholeStream,
    /// Everything queued on the stream up to now.
    UntilNow,
    /// One that is about to be submitted: until it ends, as the whole stream.
    Begun,
    /// One that was begun is submitted, and ends with what is queued now.
    Submitted,
    /// One that was begun went into a capture; the graph holds the block.
    Captured,
    /// One that was begun did not come to be.
    Cancelled,
}

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum What {
    /// Memory came from the device.
    Opened {
        /// Where it begins.
        address: u64,
        /// How many bytes it has.
        bytes: u64,
    },
    /// Memory is about to go back to the device.
    Closed {
        /// Where it begins.
        address: u64,
        /// How many bytes it has.
        bytes: u64,
    },
    /// A block was handed out.
    Allocated {
        /// Where it begins.
        address: u64,
        /// Its bytes, after rounding.
        size: u64,
        /// How many bytes were asked for.
        requested: u64,
        /// The stream for which it is ready.
        stream: u64,
        /// Which step served the request.
        step: ServedStep,
        /// Whether the stream captures: then everything that used the memory is done.
        capturing: bool,
    },
    /// A use of a block was announced.
    Used {
        /// Where the block begins.
        address: u64,
        /// The stream that uses it.
        stream: u64,
        /// What was said.
        kind: UseKind,
    },
    /// A block has another home, which comes after everything that the old one was given.
    Moved {
        /// Where the block begins.
        address: u64,
        /// The stream for which it is ready from now on, and freed.
        stream: u64,
    },
    /// Something holds a block beyond its free.
    Held {
        /// Where the block begins.
        address: u64,
    },
    /// A hold is about to end.
    HoldEnded {
        /// Where the block begins.
        address: u64,
    },
    /// A block is about to be freed.
    Freed {
        /// Where it begins.
        address: u64,
        /// Its bytes, after rounding.
        size: u64,
    },
    /// A request was refused for want of memory.
    OutOfMemory {
        /// How many bytes were asked for.
        requested: u64,
        /// The stream it was for.
        stream: u64,
    },
}

/// Several observers, told one after the other.
#[derive(Clone, Default)]
pub struct FanOut {
    observers: Vec<Arc<dyn Observer>>,
}

impl FanOut {
    /// Tells all of these, in this order.
    #[must_use]
    pub fn new(observers: Vec<Arc<dyn Observer>>) -> Self {
        Self { observers }
    }
}

impl Observer for FanOut {
    fn observe(&self, happening: &Happening) {
        self.observers.iter().for_each(|observer| observer.observe(happening));
    }
}

impl fmt::Debug for FanOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FanOut").field("observers", &self.observers.len()).finish()
    }
}

impl Allocator {
    /// As [`Allocator::new`], with an observer of everything that happens to its memory.
    ///
    /// # Errors
    /// As for [`Allocator::new`].
    pub fn new_observed(
        context: &Context,
        config: Config,
        observer: Arc<dyn Observer>,
    ) -> Result<Self, AllocError> {
        Self::build(context, config, best_source(context)?, Watch(Some(observer)))
    }

    /// As [`Allocator::with_source`], with an observer of everything that happens to its memory.
    ///
    /// # Errors
    /// As for [`Allocator::with_source`].
    pub fn with_source_observed(
        context: &Context,
        config: Config,
        source: Arc<dyn Source>,
        observer: Arc<dyn Observer>,
    ) -> Result<Self, AllocError> {
        Self::build(context, config, source, Watch(Some(observer)))
    }
}

/// The observer of an allocator, if it has one.
#[derive(Clone, Default)]
pub(crate) struct Watch(Option<Arc<dyn Observer>>);

impl Watch {
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.observer().is_some()
    }

    /// Nobody in a build that `cargo xtask observers` makes to count what this question costs.
    #[inline]
    fn observer(&self) -> Option<&dyn Observer> {
        if cfg!(wellspring_unobserved) { None } else { self.0.as_deref() }
    }

    /// Tells what `what` makes, if anybody watches.
    #[inline]
    pub(crate) fn tell(&self, allocator: u64, place: Option<Place>, what: impl FnOnce() -> What) {
        if let Some(observer) = self.observer() {
            observer.observe(&Happening { place, allocator, what: what() });
        }
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_on() { "Watch(on)" } else { "Watch(off)" })
    }
}

impl Inner {
    /// A request where each one goes the slow way: somebody watches, or a bound counts what is
    /// handed out. Refuses, or makes room in the bounds, serves and tells.
    #[cold]
    pub(crate) fn allocate_watched(
        &self,
        order: &StreamOrder,
        bytes: u64,
        is_raw: bool,
        place: Place,
    ) -> Result<(StreamSlot, Taken), AllocError> {
        let failed = self.context.first_error().is_some();
        if failed || !order.is_in(&self.context) || self.limit() < bytes {
            return Err(self.refusal(order, bytes));
        }
        let captures = order.is_capturing();
        if !captures {
            self.make_room_in_bounds(self.shard_of(order), round_up(bytes));
        }
        let step = Cell::new(Step::OwnStream);
        let request = Request::new(order, bytes, is_raw, captures, &step);
        let ready = if captures { None } else { self.serve_ready(order, bytes, is_raw) };
        let served = match ready {
            Some(taken) => Ok((order.slot(), taken)),
            None => self.serve_otherwise(&request),
        };
        match &served {
            Ok((owner, taken)) => {
                self.mark_told(*owner, taken.name);
                self.tell_allocated(place, &request, (*taken, step.get()));
            }
            Err(AllocError::OutOfMemory(_)) => {
                let stream = order.id();
                self.tell(Some(place), || What::OutOfMemory { requested: bytes, stream });
            }
            Err(_) => {}
        }
        served
    }

    /// The free of a block that was just handed out is to be told, if anybody watches.
    fn mark_told(&self, owner: StreamSlot, name: BlockName) {
        if let Some(shard) = self.shards.get(owner).filter(|_| self.watch.is_on()) {
            shard.with(|state| {
                let record = state.arena.at_mut(name.index());
                record.handle = record.handle.told();
            });
        }
    }

    /// Tells what `what` makes, if anybody watches.
    pub(crate) fn tell(&self, place: Option<Place>, what: impl FnOnce() -> What) {
        self.watch.tell(self.identity(), place, what);
    }

    /// Tells that a request was served.
    pub(crate) fn tell_allocated(
        &self,
        place: Place,
        request: &Request<'_>,
        (taken, step): (Taken, Step),
    ) {
        let capturing = request.complete_only;
        self.tell(Some(place), || What::Allocated {
            address: taken.address,
            size: taken.size,
            requested: request.requested,
            stream: request.order.id(),
            step: step.into(),
            capturing,
        });
    }

    /// Tells that a hold is about to end.
    pub(crate) fn tell_hold_ended(&self, shard: &Shard, name: BlockName) {
        if !self.watch.is_on() {
            return;
        }
        let address = shard.with(|state| {
            let record = state.arena.get(name.index())?;
            (record.generation == name.generation()).then_some(record.address)
        });
        if let Some(address) = address {
            self.tell(None, || What::HoldEnded { address });
        }
    }

    /// Tells of a free that is about to be made, if the name is that of an allocated block.
    pub(crate) fn tell_freed(
        &self,
        place: Option<Place>,
        shard: &Shard,
        (name, address, handle): (BlockName, Option<u64>, Handle),
    ) {
        if !self.watch.is_on() {
            return;
        }
        let range = shard.with(|state| {
            let record = state.arena.get(name.index())?;
            let same = record.generation == name.generation()
                && record.state == State::Allocated
                && address.is_none_or(|address| record.address == address)
                && record.handle == handle;
            same.then_some((record.address, record.size))
        });
        if let Some((address, size)) = range {
            self.tell(place, || What::Freed { address, size });
        }
    }
}

impl From<Step> for ServedStep {
    fn from(step: Step) -> Self {
        match step {
            Step::OwnStream => Self::OwnStream,
            Step::KnownOrder => Self::KnownOrder,
            Step::Completion => Self::Completion,
            Step::DeviceWait => Self::DeviceWait,
            Step::Growth => Self::Growth,
            Step::Ladder => Self::Ladder,
        }
    }
}

/// How a use that was begun ended.
pub(crate) fn ended(used: Used) -> UseKind {
    match used {
        Used::Until(_) => UseKind::Submitted,
        Used::ByGraph => UseKind::Captured,
        Used::Never => UseKind::Cancelled,
    }
}
