//! Copies and fills on a stream.
//!
//! The context is made current for each: a stream's handle alone is known to be enough only for
//! records, waits, queries and synchronizations. Device addresses are numbers here: a wrong one is
//! an error on the device, never an access to memory of the Rust program. Host sides are slices or
//! our own pinned memory.

use std::ffi::c_void;

use super::{DriverHostMemory, DriverStream, host_size};
use crate::error::Error;

impl DriverStream {
    /// Begins a copy to the device. The caller keeps `source` as it is until the copy is done.
    pub(crate) fn copy_to_device(&self, destination: u64, source: &[u8]) -> Result<(), Error> {
        self.context().ready()?;
        let _current = self.context().current()?;
        let from = source.as_ptr().cast::<c_void>();
        // SAFETY: the source is readable for its length, and stays so by the caller's word.
        let code = unsafe {
            self.context().table().memcpy_htod_async()(destination, from, source.len(), self.raw())
        };
        self.context().check("cuMemcpyHtoDAsync", code)
    }

    /// Begins a copy from the device. The caller touches `destination` again only when the copy
    /// is done.
    pub(crate) fn copy_to_host(&self, destination: &mut [u8], source: u64) -> Result<(), Error> {
        self.context().ready()?;
        let _current = self.context().current()?;
        let to = destination.as_mut_ptr().cast::<c_void>();
        // SAFETY: the destination is writable for its length, and stays so by the caller's word.
        let code = unsafe {
            self.context().table().memcpy_dtoh_async()(to, source, destination.len(), self.raw())
        };
        self.context().check("cuMemcpyDtoHAsync", code)
    }

    /// Begins a copy from pinned memory. The caller has checked the part, and keeps the memory
    /// alive and unwritten until the copy is done.
    pub(crate) fn copy_from_pinned(
        &self,
        destination: u64,
        source: &DriverHostMemory,
        offset: usize,
        bytes: usize,
    ) -> Result<(), Error> {
        self.context().ready()?;
        let _current = self.context().current()?;
        let from = source.start().wrapping_add(offset).cast::<c_void>();
        // SAFETY: the part lies inside the live pinned memory by the caller's check.
        let code = unsafe {
            self.context().table().memcpy_htod_async()(destination, from, bytes, self.raw())
        };
        self.context().check("cuMemcpyHtoDAsync", code)
    }

    /// Begins a copy into pinned memory. The caller has checked the part, and keeps the memory
    /// alive and untouched until the copy is done.
    pub(crate) fn copy_into_pinned(
        &self,
        destination: &DriverHostMemory,
        offset: usize,
        source: u64,
        bytes: usize,
    ) -> Result<(), Error> {
        self.context().ready()?;
        let _current = self.context().current()?;
        let to = destination.start().wrapping_add(offset).cast::<c_void>();
        // SAFETY: the part lies inside the live pinned memory by the caller's check.
        let code =
            unsafe { self.context().table().memcpy_dtoh_async()(to, source, bytes, self.raw()) };
        self.context().check("cuMemcpyDtoHAsync", code)
    }

    /// Begins a copy on the device.
    pub(crate) fn copy_on_device(
        &self,
        destination: u64,
        source: u64,
        bytes: u64,
    ) -> Result<(), Error> {
        self.context().ready()?;
        let _current = self.context().current()?;
        // SAFETY: no host memory is touched.
        let code = unsafe {
            self.context().table().memcpy_dtod_async()(
                destination,
                source,
                host_size(bytes),
                self.raw(),
            )
        };
        self.context().check("cuMemcpyDtoDAsync", code)
    }

    /// Begins to fill `bytes` bytes.
    pub(crate) fn fill_bytes(&self, start: u64, value: u8, bytes: u64) -> Result<(), Error> {
        self.context().ready()?;
        let _current = self.context().current()?;
        // SAFETY: no host memory is touched.
        let code = unsafe {
            self.context().table().memset_d8_async()(start, value, host_size(bytes), self.raw())
        };
        self.context().check("cuMemsetD8Async", code)
    }

    /// Begins to fill `words` words of 32 bits.
    pub(crate) fn fill_words(&self, start: u64, value: u32, words: u64) -> Result<(), Error> {
        self.context().ready()?;
        let _current = self.context().current()?;
        // SAFETY: no host memory is touched.
        let code = unsafe {
            self.context().table().memset_d32_async()(start, value, host_size(words), self.raw())
        };
        self.context().check("cuMemsetD32Async", code)
    }
}
