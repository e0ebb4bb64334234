//! Host functions: Rust closures that a stream runs on a thread of the driver's.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

use super::DriverStream;
use crate::error::Error;
use crate::sync::{AtomicUsize, Mutex, OnceLock, Ordering, lock};

thread_local! {
    static IN_HOST_FUNCTION: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread is running a host function, where the driver may not be called.
#[must_use]
pub fn in_host_function() -> bool {
    IN_HOST_FUNCTION.get()
}

type Body = Box<dyn FnOnce() + Send>;

/// The closures that the driver has not run yet. The driver is given a number, not a pointer, so
/// that running one twice, as a replayed graph would, finds nothing instead of freed memory.
static QUEUED: OnceLock<Queued> = OnceLock::new();

#[derive(Default)]
struct Queued {
    bodies: Mutex<BTreeMap<usize, Body>>,
    numbered: AtomicUsize,
}

fn queued() -> &'static Queued {
    QUEUED.get_or_init(Queued::default)
}

/// A closure on its way to the driver. It is run once, or cancelled.
#[derive(Debug)]
pub(crate) struct HostFunction {
    number: usize,
}

impl HostFunction {
    pub(crate) fn new(body: Body) -> Self {
        let number = queued().numbered.fetch_add(1, Ordering::Relaxed) + 1;
        lock(&queued().bodies).insert(number, body);
        Self { number }
    }

    /// Drops the closure if it has not begun: the driver runs none after an error.
    pub(crate) fn cancel(&self) {
        let body = lock(&queued().bodies).remove(&self.number);
        drop(body);
    }

    pub(crate) fn is_pending(&self) -> bool {
        lock(&queued().bodies).contains_key(&self.number)
    }
}

fn run(number: usize) {
    let body = lock(&queued().bodies).remove(&number);
    let Some(body) = body else { return };
    IN_HOST_FUNCTION.set(true);
    // A panic may not pass through the driver's frames. It ends the closure, and what the closure
    // owned is dropped; nobody is left to be told.
    let _ = catch_unwind(AssertUnwindSafe(body));
    IN_HOST_FUNCTION.set(false);
}

/// What the driver calls.
unsafe extern "C" fn trampoline(data: *mut c_void) {
    run(data.addr());
}

impl DriverStream {
    /// Queues `function`; one that is refused is cancelled.
    pub(crate) fn launch_host_function(&self, function: &HostFunction) -> Result<(), Error> {
        self.context().ready()?;
        let _current = self.context().current()?;
        let data = ptr::without_provenance_mut(function.number);
        // SAFETY: the stream is live; the trampoline takes any number.
        let code = unsafe {
            self.context().table().launch_host_func()(self.raw(), Some(trampoline), data)
        };
        self.context().check("cuLaunchHostFunc", code)
    }
}
