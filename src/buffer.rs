//! An owning, typed buffer of device memory; drop is a stream-ordered free.
//!
//! Copies, fills and launches count their uses of the buffer by themselves, on whatever stream
//! they run: pessimistically before the submission, exactly after it. So code that goes through
//! them never has to call [`DeviceBuffer::record_stream`].

use std::fmt;
use std::marker::PhantomData;
use std::ops::RangeBounds;

use allocator::{Allocator, Block, Hold, Use};
use streams::launch::{DeviceSlice, DeviceSliceMut};
use streams::{DeviceBytes, DevicePart, Stream, StreamOrder, Submission};

use crate::current_pool::CurrentPool;
use crate::error::Error;
use crate::lend::Lent;
use crate::pinned::PinnedBuffer;
use crate::runtime::Runtime;
use crate::view::{DeviceView, DeviceViewMut};

/// Plain data that can be copied to and from a device byte by byte: numbers, arrays of them, and
/// every type that says so by [`bytemuck::Pod`].
///
/// Any bytes are a value of such a type, so memory that nobody has written yet can be read: the
/// values mean nothing, and nothing else goes wrong.
pub trait DeviceCopy: bytemuck::Pod {}

impl<T: bytemuck::Pod> DeviceCopy for T {}

/// A buffer of `len` values of `T` in device memory.
///
/// It belongs to a *home stream*: it is ready for the next operation there, and a drop is a free
/// in the order of that stream, which neither blocks nor waits for the device. Another stream may
/// use the buffer at any time; what the program owes is the order of its own reads and writes
/// ([`Stream::wait_stream`], [`Stream::wait_event`]), not the lifetime of the memory.
///
/// `Send` and `Sync`.
///
/// ```
/// # #[cfg(feature = "sim")] {
/// use wellspring::DeviceBuffer;
///
/// let runtime = wellspring::open_or_simulated()?;
/// let (producer, consumer) = (runtime.create_stream()?, runtime.create_stream()?);
/// let mut buffer = DeviceBuffer::<f32>::new(&runtime, &producer, 1 << 20)?;
/// let _queued = buffer.fill(&producer, 2.5)?;
/// consumer.wait_stream(&producer)?;
/// assert_eq!(buffer.to_vec(&consumer)?, vec![2.5; 1 << 20]);
/// drop(buffer); // reused only when both streams are done with it
/// # }
/// # Ok::<(), wellspring::Error>(())
/// ```
pub struct DeviceBuffer<T> {
    block: Block,
    home: StreamOrder,
    len: usize,
    element: PhantomData<fn() -> T>,
}

impl<T: DeviceCopy> DeviceBuffer<T> {
    /// A buffer whose content is whatever was there before; from the thread's
    /// [`CurrentPool`](crate::CurrentPool) if it entered one of this runtime.
    ///
    /// # Errors
    /// There is no memory for it; see [`allocator::AllocError`].
    #[track_caller]
    pub fn new(runtime: &Runtime, stream: &Stream, len: usize) -> Result<Self, Error> {
        match CurrentPool::get(runtime.allocator()) {
            Some(pool) => Self::new_in(&pool, stream, len),
            None => Self::new_in(runtime.allocator(), stream, len),
        }
    }

    /// The same, from a [`Pool`](allocator::Pool), or from an allocator of your own.
    ///
    /// # Errors
    /// There is no memory for it.
    #[track_caller]
    pub fn new_in(
        memory: &impl AsRef<Allocator>,
        stream: &Stream,
        len: usize,
    ) -> Result<Self, Error> {
        let element_bytes = size_of::<T>();
        let bytes = len.checked_mul(element_bytes).and_then(|bytes| u64::try_from(bytes).ok());
        let bytes = bytes.ok_or(Error::TooLong { len, element_bytes })?;
        let block = memory.as_ref().allocate(stream, bytes)?;
        Ok(Self { block, home: stream.order().clone(), len, element: PhantomData })
    }

    /// A buffer of zeros; they are written on `stream`, its home.
    ///
    /// # Errors
    /// There is no memory for it, or the fill failed.
    #[track_caller]
    pub fn zeroed(runtime: &Runtime, stream: &Stream, len: usize) -> Result<Self, Error> {
        let mut buffer = Self::new(runtime, stream, len)?;
        let _queued = buffer.fill(stream, T::zeroed())?;
        Ok(buffer)
    }

    /// A buffer with a copy of `values`. Blocks until they are copied.
    ///
    /// # Errors
    /// There is no memory for it, or the copy failed.
    #[track_caller]
    pub fn from_slice(runtime: &Runtime, stream: &Stream, values: &[T]) -> Result<Self, Error> {
        let mut buffer = Self::new(runtime, stream, values.len())?;
        buffer.copy_from_slice(stream, values)?;
        Ok(buffer)
    }

    /// Copies `values` into the whole buffer, on `stream`. Blocks until they are copied.
    ///
    /// # Errors
    /// `values` has another length, the stream captures, or the copy failed.
    #[track_caller]
    pub fn copy_from_slice(&mut self, stream: &Stream, values: &[T]) -> Result<(), Error> {
        self.as_view_mut().copy_from_slice(stream, values)
    }

    /// Copies the whole buffer to `values`, on `stream`. Blocks until that is done.
    ///
    /// # Errors
    /// `values` has another length, the stream captures, or the copy failed.
    #[track_caller]
    pub fn copy_to_slice(&self, stream: &Stream, values: &mut [T]) -> Result<(), Error> {
        self.as_view().copy_to_slice(stream, values)
    }

    /// The content, copied on `stream`. Blocks until that is done.
    ///
    /// # Errors
    /// The stream captures, or the copy failed.
    #[track_caller]
    pub fn to_vec(&self, stream: &Stream) -> Result<Vec<T>, Error> {
        self.as_view().to_vec(stream)
    }

    /// Queues a copy of another buffer, or of a view of one, into this one, on `stream`.
    ///
    /// # Errors
    /// The source has another length, or the copy failed.
    #[track_caller]
    pub fn copy_from<'b>(
        &mut self,
        stream: &Stream,
        source: impl Into<DeviceView<'b, T>>,
    ) -> Result<Submission, Error>
    where
        T: 'b,
    {
        self.as_view_mut().copy_from(stream, source)
    }

    /// Queues a copy from pinned memory, on `stream`. The host goes on meanwhile, and so do other
    /// streams; the pinned memory waits for the copy before it is written or freed.
    ///
    /// # Errors
    /// The pinned memory has another length, the stream captures, or the copy failed.
    #[track_caller]
    pub fn copy_from_pinned(
        &mut self,
        stream: &Stream,
        source: &PinnedBuffer<T>,
    ) -> Result<Submission, Error> {
        self.as_view_mut().copy_from_pinned(stream, source)
    }

    /// Queues a copy to pinned memory, on `stream`. The pinned memory waits for it before it is
    /// read, written or freed.
    ///
    /// # Errors
    /// The pinned memory has another length, the stream captures, or the copy failed.
    #[track_caller]
    pub fn copy_to_pinned(
        &self,
        stream: &Stream,
        target: &mut PinnedBuffer<T>,
    ) -> Result<Submission, Error> {
        self.as_view().copy_to_pinned(stream, target)
    }

    /// Queues a fill of the whole buffer with `value`, on `stream`.
    ///
    /// The driver repeats one, two or four bytes. A longer value without such a pattern is
    /// written from the host, which blocks until that is done.
    ///
    /// # Errors
    /// The fill failed; or the value is a longer one and the stream captures.
    #[track_caller]
    pub fn fill(&mut self, stream: &Stream, value: T) -> Result<Submission, Error> {
        self.as_view_mut().fill(stream, value)
    }
}

impl<T> DeviceBuffer<T> {
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

    /// The bytes of all values.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.block.requested()
    }

    /// The device address; 0 for a buffer without bytes.
    ///
    /// Work queued through the number, by another library or a raw launch, is not counted: say
    /// so with [`DeviceBuffer::record_stream`] or [`DeviceBuffer::record_use`].
    #[must_use]
    pub fn address(&self) -> u64 {
        self.block.address()
    }

    /// The stream it is freed on, as far as its order is concerned; it may be gone.
    #[must_use]
    pub fn home(&self) -> &StreamOrder {
        &self.home
    }

    /// The whole buffer as a view, to be read.
    #[must_use]
    pub fn as_view(&self) -> DeviceView<'_, T> {
        DeviceView::of(&self.block, self.len)
    }

    /// The whole buffer as a view, to be written.
    pub fn as_view_mut(&mut self) -> DeviceViewMut<'_, T> {
        DeviceViewMut::of(&mut self.block, self.len)
    }

    /// Some of the values, to be read.
    ///
    /// # Errors
    /// The range does not lie inside.
    pub fn view(&self, range: impl RangeBounds<usize>) -> Result<DeviceView<'_, T>, Error> {
        self.as_view().view(range)
    }

    /// Some of the values, to be written.
    ///
    /// # Errors
    /// The range does not lie inside.
    pub fn view_mut(
        &mut self,
        range: impl RangeBounds<usize>,
    ) -> Result<DeviceViewMut<'_, T>, Error> {
        self.as_view_mut().view_mut(range)
    }

    /// The first `middle` values, and the others: two views that can be written side by side.
    ///
    /// # Errors
    /// There are fewer.
    pub fn split_at_mut(
        &mut self,
        middle: usize,
    ) -> Result<(DeviceViewMut<'_, T>, DeviceViewMut<'_, T>), Error> {
        self.as_view_mut().split_at_mut(middle)
    }

    /// Makes `stream` the home: it waits, on the device, for what the old home was given until
    /// now, and from now on the buffer is ready there, and freed in its order. Nothing of the
    /// buffer is copied, and what other streams still do with it is kept in mind.
    ///
    /// # Errors
    /// The stream is one of another context or driver, one of the two captures, or the driver's
    /// answer; the buffer is where it was.
    #[track_caller]
    pub fn move_to(&mut self, stream: &Stream) -> Result<(), Error> {
        self.block.move_to(stream)?;
        self.home = stream.order().clone();
        Ok(())
    }

    /// Lends the buffer to work that does not go through this library, on `stream`, to be read:
    /// see [`Lent`].
    ///
    /// # Errors
    /// The stream captures, or is one of another driver.
    #[track_caller]
    pub fn lend(&self, stream: &Stream) -> Result<Lent<'_>, Error> {
        self.as_view().lend(stream)
    }

    /// The same, to be written.
    ///
    /// # Errors
    /// The stream captures, or is one of another driver.
    #[track_caller]
    pub fn lend_mut(&mut self, stream: &Stream) -> Result<Lent<'_>, Error> {
        self.as_view_mut().lend_mut(stream)
    }

    /// The block of memory behind it.
    pub fn block(&self) -> &Block {
        &self.block
    }

    /// Says that `stream` uses the buffer: after the free it is not reused before everything that
    /// is queued there at that time is done. Only for work that does not go through this library.
    #[track_caller]
    pub fn record_stream(&self, stream: &Stream) {
        self.block.record_stream(stream);
    }

    /// Says that what is queued on `stream` now uses the buffer, and nothing later. Only for work
    /// that does not go through this library; called after it was queued.
    #[track_caller]
    pub fn record_use(&self, stream: &Stream) -> Use {
        self.block.record_use(stream)
    }

    /// Makes what is submitted to `stream` from now on come after every use of the buffer so far,
    /// on whatever streams these were. On the device; no call for what is known to come before.
    ///
    /// # Errors
    /// As for [`Block::wait_all_users`].
    #[track_caller]
    pub fn wait_all_users(&self, stream: &Stream) -> Result<(), Error> {
        Ok(self.block.wait_all_users(stream)?)
    }

    /// Keeps the memory from being reused, beyond the free, until the hold is dropped.
    #[track_caller]
    pub fn hold(&self) -> Hold {
        self.block.hold()
    }

    /// Frees the buffer, as a drop does, and says what went wrong.
    ///
    /// # Errors
    /// The free took effect, but its memory stays unused until its streams are synchronized.
    #[track_caller]
    pub fn free(self) -> Result<(), Error> {
        Ok(self.block.free()?)
    }
}

/// A launch takes `&buffer` for a pointer that is read and `&mut buffer` for one that is written.
impl<T> DeviceSlice<T> for DeviceBuffer<T> {}
impl<T> DeviceSliceMut<T> for DeviceBuffer<T> {}

impl<T> DeviceBytes for DeviceBuffer<T> {
    fn whole(&self) -> DevicePart<'_> {
        let part = self.block.whole().part(0, self.bytes());
        part.expect("a block has the bytes that were asked for")
    }
}

impl<'a, T> From<&'a DeviceBuffer<T>> for DeviceView<'a, T> {
    fn from(buffer: &'a DeviceBuffer<T>) -> Self {
        buffer.as_view()
    }
}

impl<'a, T> From<&'a mut DeviceBuffer<T>> for DeviceView<'a, T> {
    fn from(buffer: &'a mut DeviceBuffer<T>) -> Self {
        buffer.as_view()
    }
}

impl<T> fmt::Debug for DeviceBuffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeviceBuffer")
            .field("address", &format_args!("{:#x}", self.address()))
            .field("len", &self.len)
            .field("home", &self.home.id())
            .finish()
    }
}
