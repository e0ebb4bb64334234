//! A context of cudarc's, borrowed, and an allocator in it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cudarc::driver::{CudaContext, CudaStream, DriverError};
use wellspring::streams::{self, Driver};
use wellspring::{Builder, DeviceBuffer, DeviceCopy, OpenError, Runtime, Stream};

use crate::buffer::SharedBuffer;
use crate::kept;

/// Why something failed beside cudarc.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The driver could not be opened beside cudarc, or its context not be borrowed.
    #[error("cudarc's context could not be borrowed: {0}")]
    Open(#[from] OpenError),
    /// A stream could not be borrowed, or an operation failed.
    #[error(transparent)]
    Wellspring(#[from] wellspring::Error),
    /// A call of cudarc's failed, with this code.
    #[error("a call of cudarc's failed with CUDA error {0}")]
    Cudarc(u32),
    /// The stream is cudarc's per-thread stream: its handle is another stream on each thread.
    #[error("cudarc's per-thread stream is another stream on each thread, and cannot be shared")]
    PerThread,
    /// The stream belongs to another context than the neighbor.
    #[error("the stream belongs to another context of cudarc's")]
    OtherContext,
}

impl From<DriverError> for Error {
    fn from(error: DriverError) -> Self {
        // The enumeration of cudarc's has the driver's numbers.
        Self::Cudarc(error.0 as u32)
    }
}

impl From<streams::Error> for Error {
    fn from(error: streams::Error) -> Self {
        Self::Wellspring(error.into())
    }
}

/// A context of cudarc's with an allocator of ours in it. Clones are the same. `Send`, `Sync`.
///
/// The context, and every stream that is given to a neighbor, live until the process ends: our
/// names for them are cloned freely, and may outlive the neighbor.
#[derive(Debug, Clone)]
pub struct Neighbor {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    /// Our names for streams of cudarc's, by the handles of these.
    streams: Mutex<HashMap<usize, Stream>>,
    runtime: Runtime,
    context: Arc<CudaContext>,
}

impl Neighbor {
    /// Borrows cudarc's context, and makes an allocator with the default settings in it.
    ///
    /// # Errors
    /// There is no driver, or it cannot tell contexts apart.
    pub fn new(context: &Arc<CudaContext>) -> Result<Self, Error> {
        let driver = Driver::load()?;
        kept::keep_context(context);
        // SAFETY: the context is cudarc's, and is kept until the process ends.
        let ours = unsafe { driver.borrow_context(context.cu_ctx().cast()) }?;
        let runtime = Builder::new().open_in(&ours)?;
        let (streams, context) = (Mutex::default(), Arc::clone(context));
        Ok(Self { inner: Arc::new(Inner { streams, runtime, context }) })
    }

    /// The runtime whose allocator the memory comes from.
    #[must_use]
    pub fn runtime(&self) -> &Runtime {
        &self.inner.runtime
    }

    /// Our name for a stream of cudarc's, which is kept from now on until the process ends. Uses on
    /// it are counted exactly or by the stream, without the host waiting.
    ///
    /// # Errors
    /// The stream is the per-thread stream or one of another context, or it captures.
    pub fn stream(&self, theirs: &Arc<CudaStream>) -> Result<Stream, Error> {
        if theirs.context().cu_ctx() != self.inner.context.cu_ctx() {
            return Err(Error::OtherContext);
        }
        let handle = theirs.cu_stream().addr();
        if handle == PER_THREAD {
            return Err(Error::PerThread);
        }
        if let Some(known) = self.streams().get(&handle) {
            return Ok(known.clone());
        }
        if PER_THREAD < handle {
            kept::keep_stream(theirs);
        }
        let context = self.inner.runtime.context();
        // SAFETY: the stream is kept until the process ends, or a default stream's, which lives as
        // long as the context; what cudarc queues is in plain stream order, as it sets no launch
        // attribute.
        let ours = unsafe { context.borrow_stream(theirs.cu_stream().cast()) }?;
        self.streams().entry(handle).or_insert_with(|| ours.clone());
        Ok(ours)
    }

    /// A buffer with undefined content, whose home is a stream of cudarc's.
    ///
    /// # Errors
    /// There is no memory for it, or as for [`Neighbor::stream`].
    pub fn alloc<T: DeviceCopy>(
        &self,
        home: &Arc<CudaStream>,
        len: usize,
    ) -> Result<SharedBuffer<T>, Error> {
        let ours = self.stream(home)?;
        let buffer = DeviceBuffer::new(&self.inner.runtime, &ours, len)?;
        Ok(SharedBuffer::new(buffer, Arc::clone(home), self.clone()))
    }

    /// A buffer of zeros, written on its home.
    ///
    /// # Errors
    /// As for [`Neighbor::alloc`], or the fill failed.
    pub fn alloc_zeros<T: DeviceCopy>(
        &self,
        home: &Arc<CudaStream>,
        len: usize,
    ) -> Result<SharedBuffer<T>, Error> {
        let mut buffer = self.alloc(home, len)?;
        buffer.fill(T::zeroed())?;
        Ok(buffer)
    }

    /// Our stream of the handle that cudarc's has, if it was given to us.
    pub(crate) fn known(&self, theirs: &CudaStream) -> Option<Stream> {
        let handle = theirs.cu_stream().addr();
        let same_context = theirs.context().cu_ctx() == self.inner.context.cu_ctx();
        let streams = self.streams();
        streams.get(&handle).filter(|_| same_context && handle != PER_THREAD).cloned()
    }

    fn streams(&self) -> MutexGuard<'_, HashMap<usize, Stream>> {
        self.inner.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The driver's name for the per-thread stream of whatever thread calls; those of the legacy
/// default stream are less.
const PER_THREAD: usize = 2;
