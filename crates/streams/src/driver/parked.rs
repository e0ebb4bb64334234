//! What ended in a host function, where the driver may not be called, until it can end elsewhere.

use std::fmt;

use super::{Generation, in_host_function};
use crate::sync::{AtomicBool, Mutex, Ordering, lock};

/// Things whose destructors call the driver, and that nobody else has any more.
pub(crate) struct Parked {
    things: Mutex<Vec<Box<dyn Send>>>,
    /// Whether there may be any, for those who ask often.
    is_any: AtomicBool,
    generation: Generation,
}

impl Parked {
    pub(super) fn new() -> Self {
        let (things, is_any) = (Mutex::default(), AtomicBool::new(false));
        Self { things, is_any, generation: Generation::of_this_process() }
    }

    /// Keeps a thing that may not be dropped here.
    pub(crate) fn park(&self, thing: Box<dyn Send>) {
        let mut things = lock(&self.things);
        things.push(thing);
        self.is_any.store(true, Ordering::Release);
    }

    /// Drops what was parked, unless this is a host function again, or a fork.
    pub(crate) fn end(&self) {
        let is_any = self.is_any.load(Ordering::Acquire);
        if !is_any || in_host_function() || self.generation.is_past() {
            return;
        }
        let mut things = lock(&self.things);
        let over = std::mem::take(&mut *things);
        self.is_any.store(false, Ordering::Release);
        drop(things);
        // Without the lock: what ends may park something.
        drop(over);
    }
}

impl fmt::Debug for Parked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parked").field("is_any", &self.is_any).finish_non_exhaustive()
    }
}
