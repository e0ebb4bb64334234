//! Failures on demand: the n-th call of a kind returns a chosen code.

use cuda_sys::{CUresult, Table};

/// One failure to come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FaultPlan {
    /// The entry point, by the name `cuGetProcAddress` knows.
    pub call: &'static str,
    /// Which call from now on fails; the next one is the first.
    pub nth: u64,
    /// What it returns. It does nothing else.
    pub code: CUresult,
    /// Whether the current context is broken from then on, so that every call returns the code.
    pub sticky: bool,
}

impl FaultPlan {
    /// The next `call` returns `code`.
    #[must_use]
    pub fn next(call: &'static str, code: CUresult) -> Self {
        Self { call, nth: 1, code, sticky: false }
    }
}

/// A failure that has not happened yet.
#[derive(Debug)]
struct Planned {
    /// The entry point, as an index.
    entry: usize,
    /// The host thread whose calls count; nothing, if everybody's do.
    thread: Option<u64>,
    plan: FaultPlan,
}

/// The failures that have not happened yet.
#[derive(Debug, Default)]
pub(crate) struct Faults(Vec<Planned>);

impl Faults {
    /// Adds a failure of anybody's call, or of one thread's, by its key.
    pub(crate) fn add(&mut self, plan: FaultPlan, thread: Option<u64>) {
        let entry = Table::ENTRY_POINTS.iter().position(|entry| entry.name == plan.call);
        assert!(entry.is_some() && 0 < plan.nth, "no call {} number {}", plan.call, plan.nth);
        self.0.extend(entry.map(|entry| Planned { entry, thread, plan }));
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// Forgets the failures of one thread's calls; how many there were.
    pub(crate) fn clear_of(&mut self, thread: u64) -> usize {
        let before = self.0.len();
        self.0.retain(|planned| planned.thread != Some(thread));
        before - self.0.len()
    }

    /// Counts a call down that a thread makes; gives the plan whose turn it is.
    #[inline]
    pub(crate) fn strike(&mut self, entry: usize, thread: u64) -> Option<FaultPlan> {
        if self.0.is_empty() {
            return None;
        }
        let mut due = None;
        self.0.retain_mut(|planned| {
            let counts = planned.thread.is_none_or(|only| only == thread);
            if planned.entry != entry || !counts {
                return true;
            }
            planned.plan.nth -= 1;
            if 0 < planned.plan.nth {
                return true;
            }
            due = Some(planned.plan.clone());
            false
        });
        due
    }
}
