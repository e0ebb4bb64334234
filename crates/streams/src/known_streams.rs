//! The streams of a context, as far as they live: found again by id, by kind and by thread.

use std::collections::HashMap;

use crate::stream_core::StreamHandle;
use crate::sync::{Arc, ThreadId, Weak, current_thread};

/// So many streams that are gone may be kept beside those that live.
const GONE_KEPT_MAX: usize = 64;

/// The streams of one context.
#[derive(Debug, Default)]
pub(crate) struct KnownStreams {
    pub(crate) by_id: HashMap<u64, Weak<StreamHandle>>,
    pub(crate) legacy: Weak<StreamHandle>,
    pub(crate) per_thread: HashMap<ThreadId, Weak<StreamHandle>>,
    /// With so many of them, those that are gone are forgotten.
    forget_at: usize,
}

impl KnownStreams {
    /// Forgets the streams that are gone: now and then, so that a new stream costs no look at
    /// every other one. At most as many stay as live, and a few.
    pub(crate) fn forget_gone_now_and_then(&mut self) {
        if self.forget_at <= self.by_id.len() + self.per_thread.len() {
            self.forget_gone();
        }
    }

    fn forget_gone(&mut self) {
        self.by_id.retain(|_, stream| 0 < stream.strong_count());
        self.per_thread.retain(|_, stream| 0 < stream.strong_count());
        self.forget_at = 2 * (self.by_id.len() + self.per_thread.len()) + GONE_KEPT_MAX;
    }

    /// Those that live, of other threads' default streams none.
    pub(crate) fn living(&mut self) -> Vec<Arc<StreamHandle>> {
        self.forget_gone();
        let mut living: Vec<_> = self.by_id.values().filter_map(Weak::upgrade).collect();
        living.extend(self.legacy.upgrade());
        let mine = self.per_thread.get(&current_thread().id());
        living.extend(mine.and_then(Weak::upgrade));
        living
    }
}
