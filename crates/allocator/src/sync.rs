//! The one door to locks, atomics and threads, so that a model checker can stand behind it.
//!
//! Under `--cfg loom` the locks, atomics and cells are loom's, so that models explore every
//! interleaving; reference counts and once-cells stay the standard library's.

#[cfg(loom)]
use loom::sync::{Mutex as Inner, MutexGuard};
#[cfg(loom)]
pub(crate) use loom::{
    hint::spin_loop,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread::yield_now,
};
#[cfg(not(loom))]
use std::sync::{Mutex as Inner, MutexGuard};
#[cfg(not(loom))]
pub(crate) use std::{
    hint::spin_loop,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread::yield_now,
};

/// A counter that is a static, which loom's cannot be, and that no model is about.
pub(crate) use std::sync::atomic::AtomicU64 as StaticU64;
pub(crate) use std::sync::{Arc, OnceLock, Weak};
#[cfg(all(test, not(loom)))]
pub(crate) use std::thread::scope;

/// A lock whose holder cannot poison it: every critical section here leaves valid state, and a
/// panic in one is a broken invariant that has been told already.
#[derive(Debug)]
pub(crate) struct Mutex<T>(Inner<T>);

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(Inner::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl<T: Default> Default for Mutex<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

/// A cell whose content is reached through a raw pointer.
#[cfg(not(loom))]
#[derive(Debug)]
pub(crate) struct Cell<T>(std::cell::UnsafeCell<T>);

#[cfg(not(loom))]
impl<T> Cell<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(std::cell::UnsafeCell::new(value))
    }

    #[inline]
    pub(crate) fn with_mut<R>(&self, work: impl FnOnce(*mut T) -> R) -> R {
        work(self.0.get())
    }
}

#[cfg(loom)]
pub(crate) use loom::cell::UnsafeCell as Cell;

/// Where a scheduler of host threads takes part: called before each lock of a shard is taken, in
/// builds with debug assertions, so that interleavings inside a request are explored too (S7).
#[cfg(not(loom))]
static YIELD_POINT: OnceLock<fn()> = OnceLock::new();

/// Lets a scheduler of host threads take part; the first one stays.
#[doc(hidden)]
pub fn set_yield_point(hook: fn()) {
    #[cfg(not(loom))]
    let _first_stays = YIELD_POINT.set(hook);
    #[cfg(loom)]
    let _loom_schedules = hook;
}

/// A point at which another host thread may go on.
#[inline]
pub(crate) fn yield_point() {
    #[cfg(all(debug_assertions, not(loom)))]
    if let Some(hook) = YIELD_POINT.get() {
        hook();
    }
}
