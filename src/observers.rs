//! Who is told what a runtime does: observers of its streams and of its memory.

use std::fmt;
use std::sync::Arc;

use allocator::observe as memory;
use streams::observe as order;

/// Somebody who is told of everything that happens on a runtime's streams and to its memory.
pub trait Observer: order::Observer + memory::Observer {}

impl<O: order::Observer + memory::Observer> Observer for O {}

/// The observers of a runtime, in the order in which they are told.
#[derive(Clone, Default)]
pub(crate) struct Observers {
    order: Vec<Arc<dyn order::Observer>>,
    memory: Vec<Arc<dyn memory::Observer>>,
}

impl Observers {
    pub(crate) fn add<O: Observer + 'static>(&mut self, observer: &Arc<O>) {
        self.order.push(Arc::<O>::clone(observer));
        self.memory.push(Arc::<O>::clone(observer));
    }

    /// All of them, as an observer of streams.
    pub(crate) fn of_order(&self) -> Option<Arc<dyn order::Observer>> {
        match self.order.as_slice() {
            [] => None,
            [only] => Some(Arc::clone(only)),
            several => Some(Arc::new(order::FanOut::new(several.to_vec()))),
        }
    }

    /// All of them, as an observer of memory.
    pub(crate) fn of_memory(&self) -> Option<Arc<dyn memory::Observer>> {
        match self.memory.as_slice() {
            [] => None,
            [only] => Some(Arc::clone(only)),
            several => Some(Arc::new(memory::FanOut::new(several.to_vec()))),
        }
    }
}

impl fmt::Debug for Observers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} observers", self.order.len())
    }
}
