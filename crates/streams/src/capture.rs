//! One capture: who takes part, and what its graph will hold.

use std::any::Any;
use std::fmt;

use crate::stream_core::StreamCore;
use crate::sync::{Arc, AtomicBool, Mutex, Ordering, Weak, lock};

/// One capture that was begun through us.
pub(crate) struct CaptureState {
    active: AtomicBool,
    members: Mutex<Vec<Weak<StreamCore>>>,
    holds: Mutex<Vec<Box<dyn Any + Send>>>,
}

impl CaptureState {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            active: AtomicBool::new(true),
            members: Mutex::default(),
            holds: Mutex::default(),
        })
    }

    pub(crate) fn is_active(&self) -> bool {
        self.active.load(Ordering::SeqCst)
    }

    /// `core` captures into this from now on.
    pub(crate) fn add_member(self: &Arc<Self>, core: &Arc<StreamCore>) {
        lock(&self.members).push(Arc::downgrade(core));
        core.enter_capture(Arc::clone(self));
    }

    /// Keeps something alive for as long as the graph can run (C3).
    pub(crate) fn hold(&self, holds: Vec<Box<dyn Any + Send>>) {
        lock(&self.holds).extend(holds);
    }

    /// The capture is over: every member is free, and what was held is handed on.
    pub(crate) fn finish(self: &Arc<Self>) -> Vec<Box<dyn Any + Send>> {
        self.active.store(false, Ordering::SeqCst);
        let members = std::mem::take(&mut *lock(&self.members));
        for member in members.iter().filter_map(Weak::upgrade) {
            member.leave_capture(self);
        }
        std::mem::take(&mut *lock(&self.holds))
    }
}

impl fmt::Debug for CaptureState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CaptureState").field("active", &self.is_active()).finish_non_exhaustive()
    }
}
