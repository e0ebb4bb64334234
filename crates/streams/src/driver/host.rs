//! Host functions: Rust closures that a stream runs on a thread of the driver's.

use std::cell::Cell;
use std::ffi::c_void;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::DriverStream;
use crate::error::Error;
use crate::sync::{Arc, Mutex, lock};

thread_local! {
    static IN_HOST_FUNCTION: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread is running a host function, where the driver may not be called.
#[must_use]
pub fn in_host_function() -> bool {
    IN_HOST_FUNCTION.get()
}

/// A closure on its way to the driver. It is run once, or cancelled.
pub(crate) struct HostFunction {
    body: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl HostFunction {
    pub(crate) fn new(body: Box<dyn FnOnce() + Send>) -> Arc<Self> {
        Arc::new(Self { body: Mutex::new(Some(body)) })
    }

    /// Drops the closure if it has not begun: the driver runs none after an error.
    pub(crate) fn cancel(&self) {
        let body = lock(&self.body).take();
        drop(body);
    }

    pub(crate) fn is_pending(&self) -> bool {
        lock(&self.body).is_some()
    }

    fn run(&self) {
        let Some(body) = lock(&self.body).take() else { return };
        IN_HOST_FUNCTION.set(true);
        // A panic may not pass through the driver's frames. It ends the closure, and what the
        // closure owned is dropped; nobody is left to be told.
        let _ = catch_unwind(AssertUnwindSafe(body));
        IN_HOST_FUNCTION.set(false);
    }
}

impl fmt::Debug for HostFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostFunction").field("pending", &self.is_pending()).finish()
    }
}

/// What the driver calls.
unsafe extern "C" fn trampoline(data: *mut c_void) {
    // SAFETY: the pointer came from `Arc::into_raw` in `launch_host_function`, whose count it
    // carries, and the driver calls once for each successful launch.
    let function = unsafe { Arc::from_raw(data.cast_const().cast::<HostFunction>()) };
    function.run();
}

impl DriverStream {
    /// Queues `function`.
    pub(crate) fn launch_host_function(&self, function: &Arc<HostFunction>) -> Result<(), Error> {
        self.context().ready()?;
        let _current = self.scope()?;
        let data = Arc::into_raw(Arc::clone(function));
        // SAFETY: the stream is live; the trampoline takes exactly this pointer, once.
        let code = unsafe {
            self.context().table().launch_host_func()(
                self.raw(),
                Some(trampoline),
                data.cast_mut().cast::<c_void>(),
            )
        };
        let launched = self.context().check("cuLaunchHostFunc", code);
        if launched.is_err() {
            // SAFETY: the driver refused, so the count that was given to it is still ours.
            drop(unsafe { Arc::from_raw(data) });
        }
        launched
    }
}
