//! The one door to locks and atomics, so that a model checker can stand behind it.

#[cfg(loom)]
pub(crate) use loom::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};
#[cfg(not(loom))]
pub(crate) use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicU64, Ordering},
};

#[cfg(loom)]
use loom::sync as inner;
#[cfg(not(loom))]
use std::sync as inner;

/// A lock whose holder cannot poison it: every critical section here leaves valid state, and a
/// panic in one is a broken invariant that has been told already.
#[derive(Debug)]
pub(crate) struct Mutex<T>(inner::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(inner::Mutex::new(value))
    }

    #[inline]
    pub(crate) fn lock(&self) -> inner::MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(inner::PoisonError::into_inner)
    }
}
