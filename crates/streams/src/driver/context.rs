//! One context: who owns it, what its first error was, and the two guards of the calling thread.

use std::fmt;
use std::marker::PhantomData;
use std::ptr;

use cuda_sys::{CUcontext, CUdevice, CUresult, CUstreamCaptureMode, Table};

use super::{
    Calls, DeviceHandle, Generation, Handle, Parked, check, device_size, in_host_function,
};
use crate::error::{Code, DriverError, Error};
use crate::sync::{Arc, AtomicBool, AtomicU64, AtomicUsize, Mutex, OnceLock, Ordering, lock};

type Deferred = Box<dyn FnOnce(&DriverContext) -> CUresult + Send>;

/// What a context of the parent's has met in a forked child.
const FORKED: DriverError =
    DriverError { call: "fork", code: Code(CUresult::CUDA_ERROR_NOT_INITIALIZED.0) };

/// One context, kept alive for as long as anything made in it.
pub(crate) struct DriverContext {
    table: Arc<Table>,
    raw: Handle<CUcontext>,
    device: DeviceHandle,
    /// Retained by us, so released by us.
    primary: bool,
    first_error: OnceLock<DriverError>,
    /// Destructors that ran where the driver may not be called.
    deferred: Mutex<Vec<Deferred>>,
    has_deferred: AtomicBool,
    silent_errors: AtomicU64,
    calls: AtomicU64,
    /// How many guards forbid calls that wait for running work.
    forbidden: Arc<AtomicUsize>,
    /// What ended in host functions.
    parked: Arc<Parked>,
    /// Of which process it is.
    generation: Generation,
}

impl DriverContext {
    fn new(calls: &Calls, raw: CUcontext, device: CUdevice, primary: bool) -> Self {
        Self {
            table: Arc::clone(calls.table()),
            forbidden: Arc::clone(calls.forbidden()),
            parked: Arc::clone(calls.parked()),
            raw: Handle(raw),
            device: DeviceHandle { raw: device },
            primary,
            first_error: OnceLock::new(),
            deferred: Mutex::default(),
            has_deferred: AtomicBool::new(false),
            silent_errors: AtomicU64::new(0),
            calls: AtomicU64::new(0),
            generation: Generation::of_this_process(),
        }
    }

    /// Retains the primary context of `device`.
    pub(crate) fn retain(calls: &Calls, device: DeviceHandle) -> Result<Self, DriverError> {
        calls.parked().end();
        let mut raw = ptr::null_mut();
        // SAFETY: the device was named by the driver, and the result is ours to write.
        let code = unsafe { calls.table().device_primary_ctx_retain()(&raw mut raw, device.raw) };
        check("cuDevicePrimaryCtxRetain", code)?;
        Ok(Self::new(calls, raw, device.raw, true))
    }

    /// Takes a context that somebody else owns.
    ///
    /// # Safety
    /// - `raw` is a live context and stays one for as long as the result lives.
    pub(crate) unsafe fn borrow(calls: &Calls, raw: CUcontext) -> Result<Self, Error> {
        let mut context = Self::new(calls, raw, 0, false);
        let mut device: CUdevice = 0;
        {
            let _current = context.current()?;
            // SAFETY: the context is current, and the result is ours to write.
            let code = unsafe { context.table.ctx_get_device()(&raw mut device) };
            check("cuCtxGetDevice", code)?;
        }
        context.device = DeviceHandle { raw: device };
        Ok(context)
    }

    pub(crate) fn raw(&self) -> CUcontext {
        self.raw.get()
    }

    pub(crate) fn device(&self) -> DeviceHandle {
        self.device
    }

    pub(super) fn table(&self) -> &Table {
        &self.table
    }

    /// The id the driver never gives twice.
    pub(crate) fn id(&self) -> Result<u64, Error> {
        let mut id = 0;
        // SAFETY: the context is live, and the result is ours to write.
        let code = unsafe { self.table.ctx_get_id()?(self.raw(), &raw mut id) };
        self.check("cuCtxGetId", code)?;
        Ok(id)
    }

    #[inline]
    pub(crate) fn first_error(&self) -> Option<DriverError> {
        if self.is_forked() { Some(FORKED) } else { self.first_error.get().copied() }
    }

    /// Whether this process is a fork of the context's own.
    #[inline]
    pub(crate) fn is_forked(&self) -> bool {
        self.generation.is_past()
    }

    /// Of which process it is, for those who ask all the time.
    pub(crate) fn generation(&self) -> Generation {
        self.generation
    }

    /// Errors that only a destructor saw.
    pub(crate) fn silent_errors(&self) -> u64 {
        self.silent_errors.load(Ordering::Relaxed)
    }

    /// Calls whose answer was looked at, that is all but those of destructors.
    pub(crate) fn call_count(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    /// One more call was made.
    pub(super) fn count_call(&self) {
        self.calls.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether the driver may be called for this context now.
    pub(crate) fn ready(&self) -> Result<(), Error> {
        if in_host_function() {
            return Err(Error::InsideHostFunction);
        }
        if self.is_forked() {
            return Err(Error::Forked);
        }
        if let Some(first) = self.first_error() {
            return Err(Error::ContextFailed { first });
        }
        if self.has_deferred.load(Ordering::Acquire) && !self.is_blocking_forbidden() {
            self.run_deferred();
        }
        Ok(())
    }

    /// Whether no call may be made now that waits for running work.
    pub(crate) fn is_blocking_forbidden(&self) -> bool {
        0 < self.forbidden.load(Ordering::Acquire)
    }

    /// The driver's answer as a `Result`; the first error of the lasting kind is kept.
    pub(crate) fn check(&self, call: &'static str, code: CUresult) -> Result<(), Error> {
        self.count_call();
        check(call, code).map_err(|error| {
            // A driver that is gone does not come back either, nor does one to a forked child.
            if error.code.is_sticky() || error.code.is_gone() {
                let _ = self.first_error.set(error);
            }
            Error::Driver(error)
        })
    }

    /// Destroys something: now, or at the next call if this is a host function.
    pub(super) fn dispose(&self, destroy: impl FnOnce(&Self) -> CUresult + Send + 'static) {
        if self.first_error().is_some() {
            return;
        }
        if in_host_function() {
            return self.defer(destroy);
        }
        let _relaxed = self.relaxed();
        self.note_silently(destroy(self));
    }

    /// Frees memory by a call that may wait for all running work: now, or once that is allowed.
    pub(super) fn dispose_memory(&self, free: impl FnOnce(&Self) -> CUresult + Send + 'static) {
        if self.is_blocking_forbidden() && self.first_error().is_none() {
            self.defer(free);
        } else {
            self.dispose(free);
        }
    }

    fn defer(&self, destroy: impl FnOnce(&Self) -> CUresult + Send + 'static) {
        lock(&self.deferred).push(Box::new(destroy));
        self.has_deferred.store(true, Ordering::Release);
    }

    fn run_deferred(&self) {
        self.has_deferred.store(false, Ordering::Release);
        let deferred = std::mem::take(&mut *lock(&self.deferred));
        let _relaxed = self.relaxed();
        for destroy in deferred {
            let code = destroy(self);
            self.note_silently(code);
        }
    }

    /// Whether we have retained it, and so decide how long it lives.
    pub(crate) fn is_primary(&self) -> bool {
        self.primary
    }

    /// Keeps a thing that ended in a host function until it can end elsewhere.
    pub(crate) fn park(&self, thing: Box<dyn Send>) {
        self.parked.park(thing);
    }

    /// Ends what ended in host functions, unless this is one, or a fork.
    pub(crate) fn end_parked(&self) {
        self.parked.end();
    }

    /// The driver may not be called here: what is left to do is done by the next who opens a
    /// context of this driver, comes by in another one, or drops the driver. A borrowed context
    /// may be destroyed by then: what was put aside in it is leaked.
    fn end_elsewhere(&mut self) {
        if !self.primary || self.is_forked() {
            return;
        }
        let rest = Self {
            table: Arc::clone(&self.table),
            raw: self.raw,
            device: self.device,
            primary: true,
            first_error: std::mem::take(&mut self.first_error),
            deferred: std::mem::take(&mut self.deferred),
            has_deferred: AtomicBool::new(true),
            silent_errors: AtomicU64::new(0),
            calls: AtomicU64::new(0),
            forbidden: Arc::clone(&self.forbidden),
            parked: Arc::clone(&self.parked),
            generation: self.generation,
        };
        self.parked.park(Box::new(rest));
    }

    /// Counts an error that only a destructor saw.
    pub(crate) fn count_silent_error(&self) {
        self.silent_errors.fetch_add(1, Ordering::Relaxed);
    }

    fn note_silently(&self, code: CUresult) {
        let Err(error) = check("a destructor", code) else { return };
        if error.code.is_gone() {
            // Nothing is left to destroy: the next destructor makes no call.
            let _ = self.first_error.set(error);
        } else {
            self.count_silent_error();
        }
    }

    fn is_gone(&self) -> bool {
        let is_gone = |first: DriverError| first.code.is_gone() || first.code.is_invalid_context();
        self.first_error().is_some_and(is_gone)
    }

    /// A context of ours that the driver does not know was destroyed by somebody else: a reset of
    /// the device.
    fn note_reset(&self, error: &Error) {
        if let Error::Driver(error) = error
            && error.code.is_invalid_context()
        {
            let _ = self.first_error.set(*error);
        }
    }

    /// Makes this context the thread's current one until the guard is dropped.
    pub(crate) fn current(&self) -> Result<Current<'_>, Error> {
        let mut before = ptr::null_mut();
        // SAFETY: the result is ours to write.
        let code = unsafe { self.table.ctx_get_current()(&raw mut before) };
        self.check("cuCtxGetCurrent", code)?;
        let pushed = before != self.raw();
        if pushed {
            // SAFETY: the context is live for as long as `self`.
            let code = unsafe { self.table.ctx_push_current()(self.raw()) };
            self.check("cuCtxPushCurrent", code).inspect_err(|error| self.note_reset(error))?;
        }
        Ok(Current { context: self, pushed, thread: PhantomData })
    }

    /// Lets this thread's calls through other streams' captures until the guard is dropped (C1).
    pub(crate) fn relaxed(&self) -> Result<Relaxed<'_>, Error> {
        let mut mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
        self.exchange(&mut mode)?;
        Ok(Relaxed { context: self, before: mode, thread: PhantomData })
    }

    fn exchange(&self, mode: &mut CUstreamCaptureMode) -> Result<(), Error> {
        // SAFETY: the mode is ours to read and write.
        let code = unsafe { self.table.thread_exchange_stream_capture_mode()(&raw mut *mode) };
        self.check("cuThreadExchangeStreamCaptureMode", code)
    }

    /// Waits until everything submitted to any stream of the context is done.
    pub(crate) fn synchronize(&self) -> Result<(), Error> {
        self.ready()?;
        let _current = self.current()?;
        // SAFETY: the context is current.
        let code = unsafe { self.table.ctx_synchronize()() };
        self.check("cuCtxSynchronize", code)
    }

    /// Free and total bytes of the device.
    pub(crate) fn memory_info(&self) -> Result<(u64, u64), Error> {
        self.ready()?;
        let _current = self.current()?;
        let _relaxed = self.relaxed()?;
        let (mut free, mut total) = (0, 0);
        // SAFETY: the context is current, and both results are ours to write.
        let code = unsafe { self.table.mem_get_info()(&raw mut free, &raw mut total) };
        self.check("cuMemGetInfo", code)?;
        Ok((device_size(free), device_size(total)))
    }

    /// The least and the greatest priority, in the driver's numbers (greater is smaller).
    pub(crate) fn priority_range(&self) -> Result<(i32, i32), Error> {
        self.ready()?;
        let _current = self.current()?;
        let (mut least, mut greatest) = (0, 0);
        // SAFETY: the context is current, and both results are ours to write.
        let code = unsafe {
            self.table.ctx_get_stream_priority_range()(&raw mut least, &raw mut greatest)
        };
        self.check("cuCtxGetStreamPriorityRange", code)?;
        Ok((least, greatest))
    }
}

impl fmt::Debug for DriverContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DriverContext")
            .field("raw", &self.raw)
            .field("device", &self.device)
            .field("primary", &self.primary)
            .field("first_error", &self.first_error.get())
            .finish_non_exhaustive()
    }
}

impl Drop for DriverContext {
    fn drop(&mut self) {
        if in_host_function() {
            return self.end_elsewhere();
        }
        if self.first_error().is_none() && !self.is_blocking_forbidden() {
            self.run_deferred();
        }
        // One that the driver does not know any more has no retain of ours left: what is retained
        // now is somebody else's.
        if self.primary && !self.is_gone() {
            // SAFETY: the context was retained once by `retain`; whatever was made in it kept it
            // alive and is gone.
            let code = unsafe { self.table.device_primary_ctx_release()(self.device.raw) };
            let _ = check("cuDevicePrimaryCtxRelease", code);
        }
    }
}

/// The context is current on this thread.
#[derive(Debug)]
pub(crate) struct Current<'context> {
    context: &'context DriverContext,
    pushed: bool,
    thread: PhantomData<*const ()>,
}

impl Drop for Current<'_> {
    fn drop(&mut self) {
        if self.pushed {
            let mut popped = ptr::null_mut();
            // SAFETY: the result is ours to write; this thread pushed the context before.
            let code = unsafe { self.context.table.ctx_pop_current()(&raw mut popped) };
            let _ = check("cuCtxPopCurrent", code);
        }
    }
}

/// This thread's calls pass by the captures of other streams.
#[derive(Debug)]
pub(crate) struct Relaxed<'context> {
    context: &'context DriverContext,
    before: CUstreamCaptureMode,
    thread: PhantomData<*const ()>,
}

impl Drop for Relaxed<'_> {
    fn drop(&mut self) {
        let mut mode = self.before;
        let _ = self.context.exchange(&mut mode);
    }
}
