//! One capture: who takes part, and what its graph will hold.
//!
//! A call that adds to a stream runs or is captured by what the driver thinks at that moment, and
//! must be told from one that is not: an eager one is counted, a captured one is held. So calls and
//! changes of capture exclude each other, without a lock around a driver call: an adding call
//! announces itself, then reads the phase; a change sets the phase to *changing*, then waits until
//! no call is announced, then asks the driver. A call that reads *changing* is refused.

use std::any::Any;
use std::fmt;

use crate::stream_core::StreamCore;
use crate::sync::{Arc, AtomicBool, AtomicU32, Mutex, Ordering, Weak, lock};

/// One capture that was begun through us.
pub(crate) struct CaptureState {
    id: u64,
    active: AtomicBool,
    members: Mutex<Vec<Weak<StreamCore>>>,
    holds: Mutex<Vec<Box<dyn Any + Send>>>,
}

impl CaptureState {
    pub(crate) fn new(id: u64) -> Arc<Self> {
        Arc::new(Self {
            id,
            active: AtomicBool::new(true),
            members: Mutex::default(),
            holds: Mutex::default(),
        })
    }

    /// A number that no other capture of the driver has.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    pub(crate) fn is_active(&self) -> bool {
        self.active.load(Ordering::SeqCst)
    }

    /// `core` takes part from now on; false when the capture is over.
    pub(crate) fn add_member(&self, core: &Arc<StreamCore>) -> bool {
        let mut members = lock(&self.members);
        let active = self.is_active();
        if active {
            members.push(Arc::downgrade(core));
        }
        active
    }

    /// The capture takes no more members; gives those it has.
    pub(crate) fn close(&self) -> Vec<Arc<StreamCore>> {
        let mut members = lock(&self.members);
        self.active.store(false, Ordering::SeqCst);
        let members = std::mem::take(&mut *members);
        members.iter().filter_map(Weak::upgrade).collect()
    }

    /// Keeps something alive for as long as the graph can run (C3).
    pub(crate) fn hold(&self, holds: Vec<Box<dyn Any + Send>>) {
        lock(&self.holds).extend(holds);
    }

    /// What is to be held from now on by the graph.
    pub(crate) fn take_holds(&self) -> Vec<Box<dyn Any + Send>> {
        std::mem::take(&mut *lock(&self.holds))
    }
}

impl fmt::Debug for CaptureState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CaptureState").field("active", &self.is_active()).finish_non_exhaustive()
    }
}

/// What is submitted runs.
const EAGER: u32 = 0;
/// The driver is being told to begin or to end.
const CHANGING: u32 = 1;
/// What is submitted goes into a graph.
const CAPTURING: u32 = 2;

/// A stream's part in a capture.
#[derive(Debug)]
pub(crate) struct Membership {
    phase: AtomicU32,
    /// Calls under way that add to the stream.
    adding: AtomicU32,
    capture: Mutex<Option<Arc<CaptureState>>>,
}

/// A call under way that adds to the stream; the phase does not change meanwhile.
#[derive(Debug)]
pub(crate) struct Adding<'membership> {
    membership: &'membership Membership,
    capture: Option<Arc<CaptureState>>,
}

impl Adding<'_> {
    /// The capture that the call goes into.
    pub(crate) fn capture(&self) -> Option<&Arc<CaptureState>> {
        self.capture.as_ref()
    }
}

impl Drop for Adding<'_> {
    fn drop(&mut self) {
        self.membership.adding.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Membership {
    pub(crate) fn new() -> Self {
        Self { phase: AtomicU32::new(EAGER), adding: AtomicU32::new(0), capture: Mutex::new(None) }
    }

    /// Whether the stream captures, or is about to begin or to end.
    #[inline]
    pub(crate) fn is_captured(&self) -> bool {
        self.phase.load(Ordering::SeqCst) != EAGER
    }

    /// Announces a call that adds to the stream; `None` while the phase changes.
    pub(crate) fn add(&self) -> Option<Adding<'_>> {
        self.adding.fetch_add(1, Ordering::SeqCst);
        let mut adding = Adding { membership: self, capture: None };
        // Read by a modification, so that either it comes before the change, which then finds the
        // call announced, or it reads the change.
        match self.phase.fetch_or(0, Ordering::SeqCst) {
            EAGER => Some(adding),
            CAPTURING => {
                adding.capture.clone_from(&lock(&self.capture));
                Some(adding)
            }
            _ => None,
        }
    }

    /// Whether no call that adds to the stream is under way.
    pub(crate) fn is_drained(&self) -> bool {
        self.adding.load(Ordering::SeqCst) == 0
    }

    /// Begins to take part; false if the stream does so already.
    pub(crate) fn begin(&self, capture: &Arc<CaptureState>) -> bool {
        let begun =
            self.phase.compare_exchange(EAGER, CHANGING, Ordering::SeqCst, Ordering::SeqCst);
        if begun.is_ok() {
            *lock(&self.capture) = Some(Arc::clone(capture));
        }
        begun.is_ok()
    }

    /// The driver captures now.
    pub(crate) fn begun(&self) {
        self.phase.store(CAPTURING, Ordering::SeqCst);
    }

    /// The driver is about to be told to end.
    pub(crate) fn end(&self) {
        self.phase.swap(CHANGING, Ordering::SeqCst);
    }

    /// The driver captures no more, or did not begin.
    pub(crate) fn ended(&self) {
        let capture = lock(&self.capture).take();
        self.phase.store(EAGER, Ordering::SeqCst);
        drop(capture);
    }
}
