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

/// The failures that have not happened yet.
#[derive(Debug, Default)]
pub(crate) struct Faults(Vec<(usize, FaultPlan)>);

impl Faults {
    pub(crate) fn add(&mut self, plan: FaultPlan) {
        let entry = Table::ENTRY_POINTS.iter().position(|entry| entry.name == plan.call);
        assert!(entry.is_some() && 0 < plan.nth, "no call {} number {}", plan.call, plan.nth);
        self.0.extend(entry.map(|entry| (entry, plan)));
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// Counts a call down; gives the plan whose turn it is.
    #[inline]
    pub(crate) fn strike(&mut self, entry: usize) -> Option<FaultPlan> {
        if self.0.is_empty() {
            return None;
        }
        let mut due = None;
        self.0.retain_mut(|(planned, plan)| {
            if *planned != entry {
                return true;
            }
            plan.nth -= 1;
            if 0 < plan.nth {
                return true;
            }
            due = Some(plan.clone());
            false
        });
        due
    }
}
