//! How a stream tells what happens on it: in turn, each addition with its ordinal.

use smallvec::SmallVec;

use crate::observe::{
    Accessed, By, Happening, How, Observer, Place, Reached, RecordId, Scope, StreamKind as Kind,
    Told, Watch, What,
};
use crate::stream_core::{StreamCore, StreamKind};
use crate::sync::{Arc, AtomicBool, AtomicU64, Ordering};
use crate::uses::Use;

/// What a watched stream counts.
#[derive(Debug)]
pub(crate) struct Watched {
    /// Additions that were told.
    ordinal: AtomicU64,
    /// Whether a call has its turn.
    taken: AtomicBool,
}

impl Watched {
    pub(crate) fn new() -> Self {
        Self { ordinal: AtomicU64::new(0), taken: AtomicBool::new(false) }
    }
}

/// A call on a watched stream has its turn: from before the driver's call until it was told.
pub(crate) struct Turn<'core> {
    core: &'core StreamCore,
    observer: &'core dyn Observer,
}

impl StreamCore {
    pub(crate) fn watch(&self) -> &Watch {
        self.context().driver().watch()
    }

    /// Waits for its turn, if anybody watches.
    pub(crate) fn turn(&self) -> Option<Turn<'_>> {
        let observer = self.watch().observer()?;
        while self.watched().taken.swap(true, Ordering::SeqCst) {
            self.let_others_run();
        }
        Some(Turn { core: self, observer })
    }

    /// How far the stream is, for a question that begins now.
    pub(crate) fn reached(&self) -> Reached {
        let ordinal = self.watched().ordinal.load(Ordering::SeqCst);
        Reached { stream: self.traits().id, ordinal }
    }

    pub(crate) fn tell_opened(&self, place: Place) {
        let traits = self.traits();
        let kind = match traits.kind {
            StreamKind::Owned => Kind::Owned,
            StreamKind::Borrowed => Kind::Borrowed,
            StreamKind::Legacy => Kind::Legacy,
            StreamKind::PerThread(_) => Kind::PerThread,
        };
        self.watch().tell(Some(place), || What::StreamOpened {
            stream: traits.id,
            context: self.context().id(),
            kind,
            priority: traits.priority,
            non_blocking: traits.non_blocking,
        });
    }

    pub(crate) fn tell_handle_given_out(&self, place: Place) {
        let stream = self.traits().id;
        self.watch().tell(Some(place), || What::HandleGivenOut { stream });
    }

    pub(crate) fn tell_retired(&self) {
        let stream = self.traits().id;
        self.watch().tell(None, || What::StreamRetired { stream });
        self.end_marks();
    }

    /// Everything up to `reached` is done.
    pub(crate) fn tell_passed(&self, reached: Reached, how: How, place: Place) {
        let scope = Scope::Stream { stream: reached.stream };
        if let Some(observer) = self.watch().observer() {
            let what = What::Passed { scope, reached: &[reached], how };
            observer.observe(&Happening { place: Some(place), what });
        }
    }

    /// Tells that a fence was recorded, and gives it its number.
    pub(crate) fn tell_fence(&self, turn: &Turn<'_>, place: Option<Place>) -> u64 {
        let event = self.context().driver().fresh_id();
        let record = RecordId { event, version: 1 };
        let (stream, ordinal) = (self.traits().id, turn.ordinal());
        turn.tell(
            place,
            What::Recorded { stream, ordinal, capture: None, record, by: By::Library },
        );
        event
    }
}

/// How far a stream was when a host function was queued on it; nothing where nobody watches.
pub(crate) struct Before(Option<Arc<AtomicU64>>);

impl Before {
    /// Called when it is the stream's turn to queue the function.
    pub(crate) fn set(&self, core: &StreamCore) {
        if let Some(ordinal) = &self.0 {
            ordinal.store(core.reached().ordinal, Ordering::SeqCst);
        }
    }
}

impl StreamCore {
    /// A host function that says, where anybody watches, that what was queued before it is done.
    pub(crate) fn watched_function(
        &self,
        function: impl FnOnce() + Send + 'static,
        place: Place,
    ) -> (Box<dyn FnOnce() + Send>, Before) {
        if !self.watch().is_on() {
            return (Box::new(function), Before(None));
        }
        // Nothing of the stream goes into the function: it may be dropped where the driver may not
        // be called.
        let (watch, stream) = (self.watch().clone(), self.traits().id);
        let before = Arc::new(AtomicU64::new(0));
        let ordinal = Arc::clone(&before);
        let watched = move || {
            let reached = [Reached { stream, ordinal: ordinal.load(Ordering::SeqCst) }];
            let (scope, how) = (Scope::Stream { stream }, How::HostFunction);
            watch.tell(Some(place), || What::Passed { scope, reached: &reached, how });
            function();
        };
        (Box::new(watched), Before(Some(before)))
    }
}

impl Turn<'_> {
    /// The last addition that was told.
    pub(crate) fn ordinal(&self) -> u64 {
        self.core.watched().ordinal.load(Ordering::SeqCst)
    }

    /// Counts one more addition.
    pub(crate) fn count(&self) -> u64 {
        self.core.watched().ordinal.fetch_add(1, Ordering::SeqCst) + 1
    }

    pub(crate) fn tell(&self, place: Option<Place>, what: What<'_>) {
        self.observer.observe(&Happening { place, what });
    }

    /// Tells of work that was queued, or captured.
    pub(crate) fn tell_submitted(&self, place: Place, capture: Option<u64>, told: &Told<'_>) {
        let access = |&(memory, access): &Use<'_>| {
            let span = memory.span();
            Accessed { address: span.address, bytes: span.bytes, access }
        };
        let accesses: SmallVec<[Accessed; 8]> = told.uses.iter().map(access).collect();
        let accesses = accesses.as_slice();
        let ordinal = if capture.is_some() { self.ordinal() } else { self.count() };
        let (stream, operation) = (self.core.traits().id, told.operation);
        let what = What::Submitted { stream, ordinal, capture, operation, accesses };
        self.tell(Some(place), what);
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.core.watched().taken.store(false, Ordering::SeqCst);
    }
}
