//! Whether this process was forked after the driver was started: only the parent may call it then.
//!
//! The driver does not work in a forked child, and a lock that another thread of the parent held
//! is held there for ever. So what belongs to the parent is told by a number, without a lock and
//! without a call: every fork counts, and a context remembers the count of its own process.

use crate::sync::{OnceLock, Ordering, StaticU32};

static FORKS: StaticU32 = StaticU32::new(0);

/// A process, told apart from its own forks: how many times it is a fork of one that watched.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Generation(u32);

impl Generation {
    /// This process.
    #[inline]
    pub(super) fn of_this_process() -> Self {
        Self(FORKS.load(Ordering::Relaxed))
    }

    /// Whether this process is a fork of that one.
    #[inline]
    #[must_use]
    pub fn is_past(self) -> bool {
        self != Self::of_this_process()
    }

    /// Whether that process is itself a fork of one that watched.
    #[must_use]
    pub fn is_fork(self) -> bool {
        self != Self(0)
    }
}

#[cfg(unix)]
extern "C" fn count() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// Has forks counted from now on.
pub(super) fn watch() {
    static WATCHED: OnceLock<()> = OnceLock::new();
    WATCHED.get_or_init(|| {
        #[cfg(unix)]
        {
            // SAFETY: the handler only adds to an atomic, which a forked child may do.
            let _lack_of_memory = unsafe { libc::pthread_atfork(None, None, Some(count)) };
        }
    });
}
