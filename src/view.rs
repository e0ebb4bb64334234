//! Views: parts of a buffer that copy, fill and launch as it does.
//!
//! A view borrows its buffer, so it cannot outlive it, and two views that may be written never
//! overlap. Each use of a view is a use of the whole block behind it.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Bound, RangeBounds};

use allocator::{Block, Use};
use streams::launch::{DeviceSlice, DeviceSliceMut};
use streams::{DeviceBytes, DevicePart, Stream, Submission};

use crate::DeviceCopy;
use crate::error::Error;
use crate::pattern::Pattern;
use crate::pinned::PinnedBuffer;

/// Some values of a buffer, to be read. A copy of a view is the same view. `Send`, `Sync`.
///
/// ```
/// # #[cfg(feature = "sim")] {
/// use wellspring::DeviceBuffer;
///
/// let runtime = wellspring::open_or_simulated()?;
/// let stream = runtime.create_stream()?;
/// let buffer = DeviceBuffer::from_slice(&runtime, &stream, &[1_u32, 2, 3, 4])?;
/// let middle = buffer.view(1..3)?;
/// assert_eq!(middle.to_vec(&stream)?, [2, 3]);
/// assert_eq!(middle.cast::<u16>()?.len(), 4);
/// # }
/// # Ok::<(), wellspring::Error>(())
/// ```
pub struct DeviceView<'a, T> {
    block: &'a Block,
    offset: u64,
    len: usize,
    element: PhantomData<fn() -> T>,
}

/// Some values of a buffer, to be read and written, by nobody else meanwhile. `Send`, `Sync`.
///
/// ```
/// # #[cfg(feature = "sim")] {
/// use wellspring::DeviceBuffer;
///
/// let runtime = wellspring::open_or_simulated()?;
/// let stream = runtime.create_stream()?;
/// let mut buffer = DeviceBuffer::<u32>::zeroed(&runtime, &stream, 4)?;
/// let (mut low, mut high) = buffer.split_at_mut(1)?;
/// let _queued = low.fill(&stream, 1)?;
/// let _queued = high.fill(&stream, 2)?;
/// assert_eq!(buffer.to_vec(&stream)?, [1, 2, 2, 2]);
/// # }
/// # Ok::<(), wellspring::Error>(())
/// ```
pub struct DeviceViewMut<'a, T> {
    view: DeviceView<'a, T>,
    exclusive: PhantomData<&'a mut ()>,
}

impl<T> Clone for DeviceView<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for DeviceView<'_, T> {}

/// Where a range begins and how long it is, if it lies inside `len` values.
fn resolve(range: &impl RangeBounds<usize>, len: usize) -> Result<(usize, usize), Error> {
    let start = match range.start_bound() {
        Bound::Included(&start) => start,
        Bound::Excluded(&before) => before.saturating_add(1),
        Bound::Unbounded => 0,
    };
    let end = match range.end_bound() {
        Bound::Included(&last) => last.saturating_add(1),
        Bound::Excluded(&end) => end,
        Bound::Unbounded => len,
    };
    if start <= end && end <= len {
        Ok((start, end - start))
    } else {
        Err(Error::OutOfBounds { start, end, len })
    }
}

/// The bytes of so many values that lie in a block, as the device counts them.
fn bytes_of<T>(len: usize) -> u64 {
    let bytes = len.checked_mul(size_of::<T>()).and_then(|bytes| u64::try_from(bytes).ok());
    bytes.expect("values that lie in a block have bytes that can be counted")
}

impl<'a, T> DeviceView<'a, T> {
    /// All values of a block that was made for `len` of them.
    pub(crate) fn of(block: &'a Block, len: usize) -> Self {
        Self { block, offset: 0, len, element: PhantomData }
    }

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
        bytes_of::<T>(self.len)
    }

    /// The device address. Work queued through the number is not counted: see
    /// [`DeviceView::record_use`].
    #[must_use]
    pub fn address(&self) -> u64 {
        self.block.address() + self.offset
    }

    /// A part of this view.
    ///
    /// # Errors
    /// The range does not lie inside.
    pub fn view(self, range: impl RangeBounds<usize>) -> Result<Self, Error> {
        let (start, len) = resolve(&range, self.len)?;
        Ok(Self { offset: self.offset + bytes_of::<T>(start), len, ..self })
    }

    /// The first `middle` values, and the others.
    ///
    /// # Errors
    /// There are fewer.
    pub fn split_at(self, middle: usize) -> Result<(Self, Self), Error> {
        Ok((self.view(..middle)?, self.view(middle..)?))
    }

    /// Says that `stream` uses the buffer: see [`crate::DeviceBuffer::record_stream`].
    #[track_caller]
    pub fn record_stream(&self, stream: &Stream) {
        self.block.record_stream(stream);
    }

    /// Says that what is queued on `stream` now uses the buffer: see
    /// [`crate::DeviceBuffer::record_use`].
    #[track_caller]
    pub fn record_use(&self, stream: &Stream) -> Use {
        self.block.record_use(stream)
    }

    pub(crate) fn block(&self) -> &'a Block {
        self.block
    }

    pub(crate) fn check_length(&self, found: usize) -> Result<(), Error> {
        if found == self.len { Ok(()) } else { Err(Error::Length { expected: self.len, found }) }
    }

    /// An operation of no bytes, for a view without any.
    #[track_caller]
    fn touch_nothing(&self, stream: &Stream) -> Result<Submission, Error> {
        Ok(stream.copy_on_device(self, 0, self, 0, 0)?)
    }
}

impl<'a, T: DeviceCopy> DeviceView<'a, T> {
    /// The same bytes as values of another type.
    ///
    /// # Errors
    /// They begin or end in the middle of such a value.
    pub fn cast<U: DeviceCopy>(self) -> Result<DeviceView<'a, U>, Error> {
        let (bytes, element_bytes) = (self.bytes(), bytes_of::<U>(1));
        let alignment = u64::try_from(align_of::<U>()).expect("an alignment is small");
        let whole = bytes.is_multiple_of(element_bytes) || bytes == 0;
        if !whole || !self.address().is_multiple_of(alignment) {
            return Err(Error::Cast { address: self.address(), bytes, element_bytes, alignment });
        }
        let len = bytes.checked_div(element_bytes).unwrap_or(0);
        let len = usize::try_from(len).expect("no more values than bytes");
        Ok(DeviceView { block: self.block, offset: self.offset, len, element: PhantomData })
    }

    /// Copies all values to `values`, on `stream`. Blocks until that is done.
    ///
    /// # Errors
    /// `values` has another length, the stream captures, or the copy failed.
    #[track_caller]
    pub fn copy_to_slice(&self, stream: &Stream, values: &mut [T]) -> Result<(), Error> {
        self.check_length(values.len())?;
        if !self.is_empty() {
            let _done = stream.copy_to_host(bytemuck::cast_slice_mut(values), self, 0)?;
        }
        Ok(())
    }

    /// All values, copied on `stream`. Blocks until that is done.
    ///
    /// # Errors
    /// The stream captures, or the copy failed.
    #[track_caller]
    pub fn to_vec(&self, stream: &Stream) -> Result<Vec<T>, Error> {
        let mut values = vec![T::zeroed(); self.len];
        self.copy_to_slice(stream, &mut values)?;
        Ok(values)
    }

    /// Queues a copy to pinned memory, on `stream`: see [`crate::DeviceBuffer::copy_to_pinned`].
    ///
    /// # Errors
    /// The pinned memory has another length, the stream captures, or the copy failed.
    #[track_caller]
    pub fn copy_to_pinned(
        &self,
        stream: &Stream,
        target: &mut PinnedBuffer<T>,
    ) -> Result<Submission, Error> {
        self.check_length(target.len())?;
        if self.is_empty() {
            return self.touch_nothing(stream);
        }
        let memory = target.memory_mut();
        let whole = 0..memory.len();
        Ok(stream.copy_to_pinned(memory, whole, self, 0)?)
    }
}

impl<'a, T> DeviceViewMut<'a, T> {
    /// All values of a block that was made for `len` of them, borrowed exclusively.
    pub(crate) fn of(block: &'a mut Block, len: usize) -> Self {
        Self { view: DeviceView::of(block, len), exclusive: PhantomData }
    }

    /// The number of values.
    #[must_use]
    pub fn len(&self) -> usize {
        self.view.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.view.is_empty()
    }

    /// The bytes of all values.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.view.bytes()
    }

    /// The same values, to be read, while this view is not used otherwise.
    #[must_use]
    pub fn as_view(&self) -> DeviceView<'_, T> {
        self.view
    }

    /// The same view for a shorter time, so that it can be given away and used again.
    pub fn reborrow(&mut self) -> DeviceViewMut<'_, T> {
        DeviceViewMut { view: self.view, exclusive: PhantomData }
    }

    /// A part of this view.
    ///
    /// # Errors
    /// The range does not lie inside.
    pub fn view_mut(self, range: impl RangeBounds<usize>) -> Result<Self, Error> {
        Ok(Self { view: self.view.view(range)?, exclusive: PhantomData })
    }

    /// The first `middle` values, and the others: two views that can be written side by side.
    ///
    /// # Errors
    /// There are fewer.
    pub fn split_at_mut(self, middle: usize) -> Result<(Self, Self), Error> {
        let (low, high) = self.view.split_at(middle)?;
        let exclusive = PhantomData;
        Ok((Self { view: low, exclusive }, Self { view: high, exclusive }))
    }
}

impl<'a, T: DeviceCopy> DeviceViewMut<'a, T> {
    /// The same bytes as values of another type.
    ///
    /// # Errors
    /// They begin or end in the middle of such a value.
    pub fn cast_mut<U: DeviceCopy>(self) -> Result<DeviceViewMut<'a, U>, Error> {
        Ok(DeviceViewMut { view: self.view.cast()?, exclusive: PhantomData })
    }

    /// Copies `values` into the view, on `stream`. Blocks until they are copied.
    ///
    /// # Errors
    /// `values` has another length, the stream captures, or the copy failed.
    #[track_caller]
    pub fn copy_from_slice(&mut self, stream: &Stream, values: &[T]) -> Result<(), Error> {
        self.view.check_length(values.len())?;
        if !self.is_empty() {
            let _done = stream.copy_to_device(self, 0, bytemuck::cast_slice(values))?;
        }
        Ok(())
    }

    /// Queues a copy of as many other values into this view, on `stream`.
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
        let source = source.into();
        self.view.check_length(source.len())?;
        Ok(stream.copy_on_device(self, 0, &source, 0, self.bytes())?)
    }

    /// Queues a copy from pinned memory, on `stream`: see
    /// [`crate::DeviceBuffer::copy_from_pinned`].
    ///
    /// # Errors
    /// The pinned memory has another length, the stream captures, or the copy failed.
    #[track_caller]
    pub fn copy_from_pinned(
        &mut self,
        stream: &Stream,
        source: &PinnedBuffer<T>,
    ) -> Result<Submission, Error> {
        self.view.check_length(source.len())?;
        if self.is_empty() {
            return self.view.touch_nothing(stream);
        }
        let memory = source.memory();
        Ok(stream.copy_from_pinned(self, 0, memory, 0..memory.len())?)
    }

    /// Queues a fill of all values with `value`, on `stream`: see [`crate::DeviceBuffer::fill`].
    /// Values of two bytes that begin or end in the middle of a word are written from the host.
    ///
    /// # Errors
    /// The fill failed; or the value is written from the host and the stream captures.
    #[track_caller]
    pub fn fill(&mut self, stream: &Stream, value: T) -> Result<Submission, Error> {
        if self.is_empty() {
            return self.view.touch_nothing(stream);
        }
        let (view, bytes) = (self.view, self.bytes());
        // The block is whole grains, so where the buffer ends in the middle of a word, the rest of
        // that word is nobody's.
        let ends_buffer = view.offset + bytes == view.block.requested();
        let in_words = view.offset.is_multiple_of(4) && (bytes.is_multiple_of(4) || ends_buffer);
        match Pattern::of(bytemuck::bytes_of(&value)) {
            Pattern::Bytes(byte) => Ok(stream.fill_bytes(self, 0, bytes, byte)?),
            Pattern::Words(word) if in_words => {
                let words = bytes.div_ceil(4);
                Ok(stream.fill_words(view.block, view.offset, words, word)?)
            }
            Pattern::Words(_) | Pattern::Longer => {
                let values = vec![value; self.len()];
                Ok(stream.copy_to_device(self, 0, bytemuck::cast_slice(&values))?)
            }
        }
    }
}

impl<'a, T> From<DeviceViewMut<'a, T>> for DeviceView<'a, T> {
    fn from(view: DeviceViewMut<'a, T>) -> Self {
        view.view
    }
}

impl<'a, T> From<&'a DeviceViewMut<'_, T>> for DeviceView<'a, T> {
    fn from(view: &'a DeviceViewMut<'_, T>) -> Self {
        view.view
    }
}

/// A launch takes `&view` for a pointer that is read.
impl<T> DeviceSlice<T> for DeviceView<'_, T> {}

impl<T> DeviceBytes for DeviceView<'_, T> {
    fn whole(&self) -> DevicePart<'_> {
        let part = self.block.whole().part(self.offset, self.bytes());
        part.expect("a view lies inside its block")
    }
}

/// A launch takes `&mut view` for a pointer that is written.
impl<T> DeviceSlice<T> for DeviceViewMut<'_, T> {}
impl<T> DeviceSliceMut<T> for DeviceViewMut<'_, T> {}

impl<T> DeviceBytes for DeviceViewMut<'_, T> {
    fn whole(&self) -> DevicePart<'_> {
        self.view.block.whole().part(self.view.offset, self.bytes()).expect("as for a view")
    }
}

impl<T> fmt::Debug for DeviceView<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeviceView")
            .field("address", &format_args!("{:#x}", self.address()))
            .field("len", &self.len)
            .finish()
    }
}

impl<T> fmt::Debug for DeviceViewMut<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("DeviceViewMut").field(&self.view).finish()
    }
}
