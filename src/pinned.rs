//! An owning, typed buffer of pinned host memory, for copies that run beside the host.

use std::fmt;
use std::marker::PhantomData;

use streams::memory::PinnedMemory;

use crate::buffer::DeviceCopy;
use crate::error::Error;
use crate::runtime::Runtime;

/// `len` values of `T` in pinned host memory, zeroed when made.
///
/// It knows the copies under way: reading waits for those that write it, writing waits for all,
/// and so does a drop, which therefore **may block**. `Send` and `Sync`.
///
/// ```
/// # #[cfg(feature = "sim")] {
/// use wellspring::{DeviceBuffer, PinnedBuffer};
///
/// let runtime = wellspring::open_or_simulated()?;
/// let stream = runtime.create_stream()?;
/// let mut staged = PinnedBuffer::<u32>::new(&runtime, 1024)?;
/// staged.as_mut_slice()?.fill(9);
/// let mut buffer = DeviceBuffer::<u32>::new(&runtime, &stream, 1024)?;
/// let copy = buffer.copy_from_pinned(&stream, &staged)?; // returns at once
/// copy.wait()?;
/// assert_eq!(buffer.to_vec(&stream)?, staged.as_slice()?);
/// # }
/// # Ok::<(), wellspring::Error>(())
/// ```
pub struct PinnedBuffer<T> {
    memory: PinnedMemory,
    len: usize,
    element: PhantomData<fn() -> T>,
    /// Last: a simulated machine takes its host memory with it.
    _runtime: Runtime,
}

impl<T: DeviceCopy> PinnedBuffer<T> {
    /// A buffer of zeros.
    ///
    /// # Errors
    /// There is no memory for it, or the driver's answer.
    pub fn new(runtime: &Runtime, len: usize) -> Result<Self, Error> {
        let element_bytes = size_of::<T>();
        let bytes = len.checked_mul(element_bytes).ok_or(Error::TooLong { len, element_bytes })?;
        let memory = PinnedMemory::allocate(runtime.context(), bytes)?;
        Ok(Self { memory, len, element: PhantomData, _runtime: runtime.clone() })
    }

    /// The values, after the copies that write them are done.
    ///
    /// # Errors
    /// Such a copy failed.
    pub fn as_slice(&self) -> Result<&[T], Error> {
        Ok(bytemuck::cast_slice(self.memory.as_slice()?))
    }

    /// The values, after every copy that uses them is done.
    ///
    /// # Errors
    /// Such a copy failed.
    pub fn as_mut_slice(&mut self) -> Result<&mut [T], Error> {
        Ok(bytemuck::cast_slice_mut(self.memory.as_mut_slice()?))
    }
}

impl<T> PinnedBuffer<T> {
    /// The number of values.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(crate) fn memory(&self) -> &PinnedMemory {
        &self.memory
    }

    pub(crate) fn memory_mut(&mut self) -> &mut PinnedMemory {
        &mut self.memory
    }
}

impl<T> fmt::Debug for PinnedBuffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PinnedBuffer").field("len", &self.len).finish_non_exhaustive()
    }
}
