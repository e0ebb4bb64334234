//! Several host threads under a scheduler: one runs at a time, and the schedule says which.

/// What a thread that cannot go on learns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Blocked {
    /// It is not one of the scheduler's threads.
    NotScheduled,
    /// Another thread ran meanwhile.
    Progress,
    /// Every thread of the scheduler is blocked.
    AllBlocked,
}

/// A place where the schedule may switch to another thread.
pub(crate) fn yield_point(_at: &'static str) {}

/// The calling thread waits for something that another thread may bring.
pub(crate) fn block(_at: &'static str) -> Blocked {
    Blocked::NotScheduled
}
