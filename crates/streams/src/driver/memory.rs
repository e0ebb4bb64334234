//! Plain device memory and pinned host memory: one owner each.

use std::ffi::c_void;
use std::ptr;

use cuda_sys::CUdeviceptr;

use super::{DriverContext, Handle, host_size, in_host_function};
use crate::error::Error;
use crate::sync::Arc;

/// Memory of `cuMemAlloc`.
#[derive(Debug)]
pub(crate) struct DriverMemory {
    context: Arc<DriverContext>,
    address: CUdeviceptr,
    bytes: u64,
    freed: bool,
}

impl DriverMemory {
    pub(crate) fn allocate(context: &Arc<DriverContext>, bytes: u64) -> Result<Self, Error> {
        context.ready()?;
        let _current = context.current()?;
        let _relaxed = context.relaxed()?;
        let mut address = 0;
        // SAFETY: the context is current, and the result is ours to write.
        let code = unsafe { context.table().mem_alloc()(&raw mut address, host_size(bytes)) };
        context.check("cuMemAlloc", code)?;
        Ok(Self { context: Arc::clone(context), address, bytes, freed: false })
    }

    pub(crate) fn address(&self) -> u64 {
        self.address
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Gives the memory back. On a failed context this makes no call and succeeds (L4); after an
    /// error the memory is leaked, never freed twice.
    pub(crate) fn release(mut self) -> Result<(), Error> {
        if self.context.is_blocking_forbidden() || in_host_function() {
            // The destructor puts it aside.
            return Ok(());
        }
        self.freed = true;
        if self.context.first_error().is_some() {
            return Ok(());
        }
        self.context.ready()?;
        let _current = self.context.current()?;
        let _relaxed = self.context.relaxed()?;
        // SAFETY: the address came from `cuMemAlloc`, and `freed` was false until now.
        let code = unsafe { self.context.table().mem_free()(self.address) };
        self.context.check("cuMemFree", code)
    }
}

impl Drop for DriverMemory {
    fn drop(&mut self) {
        if !self.freed {
            let address = self.address;
            // SAFETY: the address came from `cuMemAlloc` and this was its only owner.
            self.context
                .dispose_memory(move |context| unsafe { context.table().mem_free()(address) });
        }
    }
}

/// Host memory of `cuMemHostAlloc`, zeroed when made.
#[derive(Debug)]
pub(crate) struct DriverHostMemory {
    context: Arc<DriverContext>,
    start: Handle<*mut u8>,
    bytes: usize,
    leaked: bool,
}

impl DriverHostMemory {
    pub(crate) fn allocate(context: &Arc<DriverContext>, bytes: usize) -> Result<Self, Error> {
        context.ready()?;
        let _current = context.current()?;
        let _relaxed = context.relaxed()?;
        let mut start: *mut c_void = ptr::null_mut();
        // SAFETY: the context is current, and the result is ours to write.
        let code = unsafe { context.table().mem_host_alloc()(&raw mut start, bytes.max(1), 0) };
        context.check("cuMemHostAlloc", code)?;
        let start = start.cast::<u8>();
        // SAFETY: the driver gave at least this many bytes, and nobody else knows them.
        unsafe { ptr::write_bytes(start, 0, bytes) };
        let context = Arc::clone(context);
        Ok(Self { context, start: Handle(start), bytes, leaked: false })
    }

    /// Never gives the memory back: a copy that cannot be waited for may still touch it.
    pub(crate) fn leak(mut self) {
        self.leaked = true;
    }

    /// Whether this process is a fork of the memory's own.
    pub(crate) fn is_forked(&self) -> bool {
        self.context.is_forked()
    }

    /// Whether no call may be made now that waits for running work.
    pub(crate) fn is_blocking_forbidden(&self) -> bool {
        self.context.is_blocking_forbidden()
    }

    pub(crate) fn start(&self) -> *mut u8 {
        self.start.get()
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes
    }

    /// The bytes, for reading. The caller has seen to it that no device write is under way.
    pub(crate) fn as_slice(&self) -> &[u8] {
        // SAFETY: the memory is live, was zeroed when made, and changes only through `&mut self`
        // or through device writes, which `PinnedMemory` waits for before it calls this.
        unsafe { std::slice::from_raw_parts(self.start(), self.bytes) }
    }

    /// The bytes, for writing. The caller has seen to it that no device access is under way.
    pub(crate) fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: as for `as_slice`; `&mut self` is the only way to another host access.
        unsafe { std::slice::from_raw_parts_mut(self.start(), self.bytes) }
    }
}

impl Drop for DriverHostMemory {
    fn drop(&mut self) {
        if self.leaked {
            return;
        }
        let start = self.start;
        self.context.dispose_memory(move |context| {
            // SAFETY: the pointer came from `cuMemHostAlloc` and this was its only owner.
            unsafe { context.table().mem_free_host()(start.get().cast::<c_void>()) }
        });
    }
}
