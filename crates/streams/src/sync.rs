//! The one door to the standard library's locks, atomics and threads.
//!
//! Under `--cfg loom` the locks and atomics are loom's, so that models explore every interleaving;
//! reference counts, once-cells and thread identity stay the standard library's.

#[cfg(loom)]
pub(crate) use loom::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering},
};
/// A count that is a static, which loom's cannot be, and that no model is about.
pub(crate) use std::sync::atomic::AtomicU32 as StaticU32;
/// A word that the device reads too: the device knows no model checker.
pub(crate) use std::sync::atomic::AtomicU32 as HostWord;
pub(crate) use std::sync::{Arc, OnceLock, PoisonError, Weak};
#[cfg(not(loom))]
pub(crate) use std::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering},
};
#[cfg(not(loom))]
pub(crate) use std::thread::yield_now;
pub(crate) use std::thread::{ThreadId, current as current_thread};

#[cfg(loom)]
pub(crate) use loom::thread::yield_now;

/// Locks, and goes on with what is there if another thread panicked while it held the lock: every
/// critical section of this crate leaves its data whole at each step.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
