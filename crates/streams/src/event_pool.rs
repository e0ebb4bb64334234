//! Events that fences borrow: one pool a context.

use crate::driver::{DriverContext, DriverEvent, EventKind};
use crate::error::Error;
use crate::sync::{Arc, Mutex, lock};

/// Events that fences borrow. A new one is made only when every one is lent, so there are never
/// more than fences that lived at one time.
#[derive(Debug)]
pub(crate) struct EventPool {
    context: Arc<DriverContext>,
    free: Mutex<Vec<DriverEvent>>,
}

impl EventPool {
    pub(crate) fn new(context: Arc<DriverContext>) -> Self {
        Self { context, free: Mutex::default() }
    }

    pub(crate) fn take(&self) -> Result<DriverEvent, Error> {
        let free = lock(&self.free).pop();
        free.map_or_else(|| DriverEvent::create(&self.context, EventKind::Plain), Ok)
    }

    /// Gives an event back. Streams that were told to wait for it keep the record they wait for.
    pub(crate) fn give(&self, event: DriverEvent) {
        lock(&self.free).push(event);
    }

    pub(crate) fn free_count(&self) -> usize {
        lock(&self.free).len()
    }
}
