//! The pool that a thread takes new buffers from where none is named.

use std::cell::RefCell;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, Ordering};

use allocator::{Allocator, Pool};

thread_local! {
    static ENTERED: RefCell<Vec<(u64, Pool)>> = const { RefCell::new(Vec::new()) };
}

/// Whether any thread ever entered a pool: until then none is looked for.
static ANY_ENTERED: AtomicBool = AtomicBool::new(false);

/// Makes a pool the one that this thread's new buffers come from, until dropped: the
/// `use_mem_pool` of PyTorch. Not `Send`.
///
/// It holds for [`DeviceBuffer::new`](crate::DeviceBuffer::new) and what is built on it, on the
/// runtime whose pool it is; what names an allocator or a pool itself is not touched. Guards may be
/// dropped in any order, and forgetting one only leaves its pool current. The innermost one counts.
///
/// ```
/// # #[cfg(feature = "sim")] {
/// use wellspring::{Config, CurrentPool, DeviceBuffer};
///
/// let runtime = wellspring::open_or_simulated()?;
/// let stream = runtime.create_stream()?;
/// let pool = runtime.create_pool(Config::default());
/// let guard = CurrentPool::enter(&pool);
/// let buffer = DeviceBuffer::<f32>::new(&runtime, &stream, 1 << 20)?;
/// drop(guard);
/// assert_eq!(pool.allocator().stats().allocated_bytes.current, 4 << 20);
/// assert_eq!(runtime.stats().allocated_bytes.current, 0);
/// # drop(buffer);
/// # }
/// # Ok::<(), wellspring::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "the pool is current for as long as the guard lives"]
pub struct CurrentPool {
    ticket: u64,
    thread: PhantomData<*const ()>,
}

impl CurrentPool {
    /// Makes `pool` current on this thread.
    pub fn enter(pool: &Pool) -> Self {
        ANY_ENTERED.store(true, Ordering::Relaxed);
        let ticket = ENTERED.with_borrow_mut(|entered| {
            let ticket = entered.last().map_or(0, |(ticket, _)| ticket + 1);
            entered.push((ticket, pool.clone()));
            ticket
        });
        Self { ticket, thread: PhantomData }
    }

    /// The thread's current pool of `allocator`, if one was entered.
    #[must_use]
    pub fn get(allocator: &Allocator) -> Option<Pool> {
        if !ANY_ENTERED.load(Ordering::Relaxed) {
            return None;
        }
        ENTERED.with_borrow(|entered| {
            let mut pools = entered.iter().rev().map(|(_, pool)| pool);
            pools.find(|pool| pool.is_of(allocator)).cloned()
        })
    }
}

impl Drop for CurrentPool {
    fn drop(&mut self) {
        // While a thread ends, its list may be gone before its guards.
        let left = ENTERED.try_with(|entered| {
            let mut entered = entered.try_borrow_mut().ok()?;
            let at = entered.iter().rposition(|(ticket, _)| *ticket == self.ticket)?;
            Some(entered.remove(at))
        });
        drop(left);
    }
}
