//! The lock of a shard: one read-modify-write to take, a plain store to let go.
//!
//! A cached request is so short that the lock is a good part of it. The standard mutex needs a
//! second read-modify-write to see whether somebody sleeps; here nobody sleeps: a thread that finds
//! the lock taken spins a little, then lets others run. That is right only because every critical
//! section here is short and none makes a driver call (L1). What it buys, measured against the
//! standard mutex, and what it costs: `docs/design/0003-the-shard-lock.md`.
//!
//! The one file of this crate with `unsafe` blocks of its own. The tests below model it, and
//! `loom_tests` what it guards.
#![expect(unsafe_code, reason = "a lock hands out a reference that safe code cannot make")]

use crate::sync::{AtomicBool, Cell, Ordering, spin_loop, yield_now, yield_point};

/// How often a waiting thread looks before it lets others run.
const SPINS_MAX: u32 = 100;

/// A lock for short critical sections.
#[derive(Debug)]
pub(crate) struct Lock<T> {
    is_taken: AtomicBool,
    value: Cell<T>,
    #[cfg(loom)]
    stand_in: crate::sync::Mutex<()>,
}

// SAFETY: the lock gives access to one thread at a time, which is all that sending asks of `T`.
unsafe impl<T: Send> Send for Lock<T> {}
// SAFETY: as above: a shared lock lends the value to one thread at a time.
unsafe impl<T: Send> Sync for Lock<T> {}

impl<T> Lock<T> {
    pub(crate) fn new(value: T) -> Self {
        Self {
            is_taken: AtomicBool::new(false),
            value: Cell::new(value),
            #[cfg(loom)]
            stand_in: crate::sync::Mutex::new(()),
        }
    }

    /// Runs `work` with the value, while no other thread can. Not reentrant.
    #[inline]
    pub(crate) fn with<R>(&self, work: impl FnOnce(&mut T) -> R) -> R {
        yield_point();
        self.with_at_once(work)
    }

    /// The same under another lock: a scheduler of host threads gives nobody else a turn, who may
    /// then wait for that lock.
    #[inline]
    pub(crate) fn with_at_once<R>(&self, work: impl FnOnce(&mut T) -> R) -> R {
        #[cfg(not(loom))]
        let outcome = self.spin_and(work);
        // The lock has a model of its own. In models of what it guards loom's lock stands for it,
        // since loom follows every turn of a thread that spins.
        #[cfg(loom)]
        let outcome = self.with_stand_in(work);
        outcome
    }

    #[inline]
    fn spin_and<R>(&self, work: impl FnOnce(&mut T) -> R) -> R {
        let order = (Ordering::Acquire, Ordering::Relaxed);
        if self.is_taken.compare_exchange(false, true, order.0, order.1).is_err() {
            self.wait();
        }
        let release = Release { is_taken: &self.is_taken };
        let outcome = self.value.with_mut(|value| {
            // SAFETY: this thread took the lock and lets it go only after `work` has returned,
            // so this is the only reference to the value.
            work(unsafe { &mut *value })
        });
        drop(release);
        outcome
    }

    #[cfg(loom)]
    fn with_stand_in<R>(&self, work: impl FnOnce(&mut T) -> R) -> R {
        #[cfg(test)]
        let is_taken = !loom_tests::is_left_open();
        #[cfg(not(test))]
        let is_taken = true;
        let _turn = is_taken.then(|| self.stand_in.lock());
        self.value.with_mut(|value| {
            // SAFETY: this thread has the turn until `work` has returned; where a model leaves it
            // out, loom panics as soon as two threads could have the value at once.
            work(unsafe { &mut *value })
        })
    }

    #[cold]
    fn wait(&self) {
        let mut spins = 0;
        loop {
            if !self.is_taken.load(Ordering::Relaxed)
                && !self.is_taken.swap(true, Ordering::Acquire)
            {
                return;
            }
            spins += 1;
            if spins < SPINS_MAX {
                spin_loop();
            } else {
                spins = 0;
                yield_now();
            }
        }
    }
}

/// Lets the lock go, also when the work panics.
struct Release<'lock> {
    is_taken: &'lock AtomicBool,
}

impl Drop for Release<'_> {
    #[inline]
    fn drop(&mut self) {
        self.is_taken.store(false, Ordering::Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::Lock;
    use crate::sync::scope;

    #[test]
    fn threads_take_turns() {
        let lock = Lock::new(0_u64);
        scope(|threads| {
            for _ in 0..4 {
                threads.spawn(|| (0..10_000).for_each(|_| lock.with(|count| *count += 1)));
            }
        });
        assert_eq!(lock.with(|count| *count), 40_000);
    }

    #[test]
    fn a_panic_inside_lets_the_lock_go() {
        let lock = Lock::new(7);
        let work = std::panic::AssertUnwindSafe(|| lock.with(|_| panic!("on purpose")));
        assert!(std::panic::catch_unwind(work).is_err());
        assert_eq!(lock.with(|value| *value), 7);
    }
}

/// Run with `RUSTFLAGS="--cfg loom" cargo test -p allocator --lib --release loom`.
#[cfg(all(test, loom))]
pub(crate) mod loom_tests {
    use loom::sync::Arc;

    use super::Lock;

    thread_local! {
        static LEFT_OPEN: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
    }

    /// Whether locks are not taken, to show that a model finds that. All threads of a model run
    /// on the thread that began it.
    pub(crate) fn is_left_open() -> bool {
        LEFT_OPEN.get()
    }

    /// From now on locks are not taken on this thread, or are again.
    pub(crate) fn leave_open(open: bool) {
        LEFT_OPEN.set(open);
    }

    #[test]
    fn loom_two_threads_never_hold_the_value_at_once() {
        loom::model(|| {
            let lock = Arc::new(Lock::new(0));
            let other = Arc::clone(&lock);
            let thread = loom::thread::spawn(move || other.spin_and(|count| *count += 1));
            lock.spin_and(|count| *count += 1);
            thread.join().unwrap();
            assert_eq!(lock.spin_and(|count| *count), 2);
        });
    }
}
