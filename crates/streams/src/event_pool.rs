//! Events that fences borrow: one pool a context.

use crate::driver::{DriverContext, DriverEvent, EventKind};
use crate::error::Error;
use crate::sync::{Arc, AtomicBool, Mutex, Ordering, lock};

/// Events that fences borrow. A new one is made only when every one is lent, so there are never
/// more than fences that lived at one time.
#[derive(Debug)]
pub(crate) struct EventPool {
    context: Arc<DriverContext>,
    free: Mutex<Vec<DriverEvent>>,
    /// Whether events are to remember when they passed.
    timed: AtomicBool,
}

impl EventPool {
    pub(crate) fn new(context: Arc<DriverContext>) -> Self {
        Self { context, free: Mutex::default(), timed: AtomicBool::new(false) }
    }

    pub(crate) fn take(&self) -> Result<DriverEvent, Error> {
        let free = lock(&self.free).pop();
        let kind = if self.is_timed() { EventKind::Timing } else { EventKind::Plain };
        free.map_or_else(|| DriverEvent::create(&self.context, kind), Ok)
    }

    /// Gives an event back. Streams that were told to wait for it keep the record they wait for.
    pub(crate) fn give(&self, event: DriverEvent) {
        let is_outdated = self.is_timed() && !event.is_timed();
        if is_outdated || self.context.is_forked() {
            // It makes room for one that keeps time; or the pool's lock may be held for ever.
            drop(event);
        } else {
            lock(&self.free).push(event);
        }
    }

    /// From now on events remember when they passed; those that do not are let go of.
    pub(crate) fn keep_time(&self) {
        if !self.timed.swap(true, Ordering::Relaxed) {
            let untimed = std::mem::take(&mut *lock(&self.free));
            // Without the lock: it is a driver call for each.
            drop(untimed);
        }
    }

    fn is_timed(&self) -> bool {
        self.timed.load(Ordering::Relaxed)
    }

    pub(crate) fn free_count(&self) -> usize {
        lock(&self.free).len()
    }
}
