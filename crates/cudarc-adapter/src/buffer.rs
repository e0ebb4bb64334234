//! A buffer that cudarc's operations take in place of its own slice.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cudarc::driver::sys::CUdeviceptr;
use cudarc::driver::{
    CudaStream, DevicePtr, DevicePtrMut, DeviceSlice, LaunchArgs, PushKernelArg, SyncOnDrop,
};
use wellspring::{DeviceBuffer, DeviceCopy, Lent};

use crate::neighbor::{Error, Neighbor};
use crate::order::Accesses;

/// A buffer of Wellspring's that cudarc takes where it takes a `CudaSlice`. `Send`, `Sync`.
pub struct SharedBuffer<T> {
    buffer: DeviceBuffer<T>,
    accesses: Mutex<Accesses>,
    home: Arc<CudaStream>,
    neighbor: Neighbor,
}

impl<T> SharedBuffer<T> {
    pub(crate) fn new(buffer: DeviceBuffer<T>, home: Arc<CudaStream>, neighbor: Neighbor) -> Self {
        Self { buffer, accesses: Mutex::default(), home, neighbor }
    }

    /// The buffer itself. What is done with it directly, the program orders by itself.
    #[must_use]
    pub fn buffer(&self) -> &DeviceBuffer<T> {
        &self.buffer
    }

    /// Lends the buffer to a launch of cudarc's on `stream`, which reads it; the use ends with what
    /// is queued there when the loan is dropped.
    ///
    /// # Errors
    /// As for [`Neighbor::stream`].
    pub fn on(&self, stream: &Arc<CudaStream>) -> Result<OnStream<'_>, Error> {
        let ours = self.neighbor.stream(stream)?;
        let lent = self.buffer.lend(&ours)?;
        self.accesses().read_on(&ours);
        Ok(OnStream { address: lent.address(), _lent: lent })
    }

    /// The same for a launch that writes it.
    ///
    /// # Errors
    /// As for [`Neighbor::stream`].
    pub fn on_mut(&mut self, stream: &Arc<CudaStream>) -> Result<OnStream<'_>, Error> {
        let ours = self.neighbor.stream(stream)?;
        self.accesses().written_on(&ours);
        let lent = self.buffer.lend_mut(&ours)?;
        Ok(OnStream { address: lent.address(), _lent: lent })
    }

    fn accesses(&self) -> MutexGuard<'_, Accesses> {
        self.accesses.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The use of an operation that is about to be queued on `stream`, and whether the host has to
    /// wait for it.
    fn use_on<'a>(&self, stream: &'a CudaStream, writes: bool) -> (CUdeviceptr, SyncOnDrop<'a>) {
        let mut accesses = self.accesses();
        let waits_after = match self.neighbor.known(stream) {
            Some(ours) => {
                if writes {
                    accesses.written_on(&ours)
                } else {
                    accesses.read_on(&ours)
                }
                // Until what is queued there at the time of the free: cudarc does not say when
                // the operation has been queued.
                self.buffer.record_stream(&ours);
                None
            }
            None => {
                accesses.finish();
                Some(stream)
            }
        };
        (self.buffer.address(), SyncOnDrop::Sync(waits_after))
    }
}

impl<T: DeviceCopy> SharedBuffer<T> {
    /// Queues a fill with `value` on the home stream.
    ///
    /// # Errors
    /// The fill failed.
    pub fn fill(&mut self, value: T) -> Result<(), Error> {
        let ours = self.neighbor.stream(&self.home)?;
        self.accesses().written_on(&ours);
        let _queued = self.buffer.fill(&ours, value)?;
        Ok(())
    }
}

impl<T> DeviceSlice<T> for SharedBuffer<T> {
    fn len(&self) -> usize {
        self.buffer.len()
    }

    fn stream(&self) -> &Arc<CudaStream> {
        &self.home
    }
}

impl<T> DevicePtr<T> for SharedBuffer<T> {
    fn device_ptr<'a>(&'a self, stream: &'a CudaStream) -> (CUdeviceptr, SyncOnDrop<'a>) {
        self.use_on(stream, false)
    }
}

impl<T> DevicePtrMut<T> for SharedBuffer<T> {
    fn device_ptr_mut<'a>(&'a mut self, stream: &'a CudaStream) -> (CUdeviceptr, SyncOnDrop<'a>) {
        self.use_on(stream, true)
    }
}

impl<T> fmt::Debug for SharedBuffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SharedBuffer").field(&self.buffer).finish()
    }
}

/// A buffer lent to one launch of cudarc's: its argument. Dropped after the launch.
#[derive(Debug)]
pub struct OnStream<'a> {
    address: CUdeviceptr,
    /// Ends the use when it is dropped.
    _lent: Lent<'a>,
}

// SAFETY: what is pushed is the place of the pointer, eight bytes as a kernel's pointer has, and
// the loan, in which it lies, is borrowed for as long as the arguments.
unsafe impl<'a, 'b: 'a> PushKernelArg<&'b OnStream<'_>> for LaunchArgs<'a> {
    fn arg(&mut self, argument: &'b OnStream<'_>) -> &mut Self {
        self.arg(&argument.address)
    }
}
