//! What destroyed graphs still hold, until their last replays are done.

use crate::context::{Context, ContextCore};
use crate::error::Error;
use crate::fence::Fence;
use crate::graph::Grave;
use crate::sync::lock;

impl ContextCore {
    /// Keeps what a destroyed graph held until its last replays are done.
    pub(crate) fn bury(&self, grave: Grave) {
        lock(&self.graves).push(grave);
    }

    /// What the last replays of destroyed graphs wait for, but not behind a gate of the host.
    fn open_grave_fences(&self) -> Vec<Fence> {
        let graves = lock(&self.graves);
        let open = graves.iter().filter_map(Grave::first_open_fence);
        open.filter(|fence| !fence.is_gated()).cloned().collect()
    }

    /// Lets go of what destroyed graphs held, where their last replays are known to be done. Makes
    /// no driver call of its own.
    pub(crate) fn close_graves(&self) {
        let mut graves = lock(&self.graves);
        let (done, open): (Vec<_>, Vec<_>) =
            std::mem::take(&mut *graves).into_iter().partition(Grave::is_done);
        *graves = open;
        drop(graves);
        // What was held may be anything, also something that uses this context: no lock is held.
        drop(done);
    }
}

impl Context {
    /// Blocks until the last replays of graphs that were destroyed are done, and lets go of what
    /// these held, which may be what keeps this very context alive. A replay that may be waiting
    /// for the host is not waited for.
    ///
    /// # Errors
    /// The driver's answer.
    #[track_caller]
    pub fn finish_destroyed_graphs(&self) -> Result<(), Error> {
        if self.is_blocking_forbidden() {
            return Ok(());
        }
        loop {
            let fences = self.core().open_grave_fences();
            if fences.is_empty() {
                self.core().close_graves();
                return Ok(());
            }
            fences.iter().try_for_each(Fence::synchronize)?;
        }
    }
}
