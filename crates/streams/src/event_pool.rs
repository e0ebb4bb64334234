//! Events that fences borrow: one pool a context.

use crate::driver::{DriverContext, DriverEvent, EventKind};
use crate::error::Error;
use crate::sync::{Arc, AtomicUsize, Mutex, Ordering, lock};

/// Events that fences borrow. A new one is made only when every one of its kind is lent, so there
/// are never more of a kind than fences that lived at one time.
#[derive(Debug)]
pub(crate) struct EventPool {
    context: Arc<DriverContext>,
    plain: Mutex<Vec<DriverEvent>>,
    timed: Mutex<Vec<DriverEvent>>,
    /// How many want events that remember when they passed.
    timers: AtomicUsize,
}

impl EventPool {
    pub(crate) fn new(context: Arc<DriverContext>) -> Self {
        let (plain, timed) = (Mutex::default(), Mutex::default());
        Self { context, plain, timed, timers: AtomicUsize::new(0) }
    }

    pub(crate) fn take(&self) -> Result<DriverEvent, Error> {
        let is_timed = 0 < self.timers.load(Ordering::Relaxed);
        let (free, kind) = if is_timed {
            (lock(&self.timed).pop(), EventKind::Timing)
        } else {
            (lock(&self.plain).pop(), EventKind::Plain)
        };
        free.map_or_else(|| DriverEvent::create(&self.context, kind), Ok)
    }

    /// Gives an event back. Streams that were told to wait for it keep the record they wait for.
    pub(crate) fn give(&self, event: DriverEvent) {
        if self.context.is_forked() {
            // The pool's lock may be held for ever there, and the event is the parent's.
            return;
        }
        let free = if event.is_timed() { &self.timed } else { &self.plain };
        lock(free).push(event);
    }

    /// Somebody wants times from now on.
    pub(crate) fn start_timer(&self) {
        self.timers.fetch_add(1, Ordering::Relaxed);
    }

    /// Somebody wants no more times.
    pub(crate) fn stop_timer(&self) {
        self.timers.fetch_sub(1, Ordering::Relaxed);
    }

    pub(crate) fn free_count(&self) -> usize {
        lock(&self.plain).len() + lock(&self.timed).len()
    }
}
