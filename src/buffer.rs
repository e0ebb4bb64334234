//! An owning, typed buffer of device memory; drop is a stream-ordered free.
//!
//! Copies, fills and launches count their uses of the buffer by themselves, on whatever stream
//! they run: pessimistically before the submission, exactly after it. So code that goes through
//! them never has to call [`DeviceBuffer::record_stream`].

use std::fmt;
use std::marker::PhantomData;

use allocator::{Allocator, Block, Hold, Use};
use streams::launch::{DeviceSlice, DeviceSliceMut};
use streams::{DeviceBytes, DevicePart, Stream, StreamOrder, Submission};

use crate::current_pool::CurrentPool;
use crate::error::Error;
use crate::pinned::PinnedBuffer;
use crate::runtime::Runtime;

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

/// How a value is repeated over memory.
#[derive(Debug, PartialEq, Eq)]
enum Pattern {
    Bytes(u8),
    Words(u32),
    /// No fill of the driver repeats it.
    Longer,
}

impl Pattern {
    fn of(value: &[u8]) -> Self {
        let Some((&first, rest)) = value.split_first() else { return Self::Bytes(0) };
        if rest.iter().all(|byte| *byte == first) {
            return Self::Bytes(first);
        }
        if let &[low, high] = value {
            return Self::Words(u32::from_ne_bytes([low, high, low, high]));
        }
        let (words, left) = value.as_chunks::<4>();
        match words.split_first() {
            Some((first, rest)) if left.is_empty() && rest.iter().all(|word| word == first) => {
                Self::Words(u32::from_ne_bytes(*first))
            }
            Some(_) | None => Self::Longer,
        }
    }
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
        self.check_length(values.len())?;
        if !self.is_empty() {
            let _done = stream.copy_to_device(self, 0, bytemuck::cast_slice(values))?;
        }
        Ok(())
    }

    /// Copies the whole buffer to `values`, on `stream`. Blocks until that is done.
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

    /// The content, copied on `stream`. Blocks until that is done.
    ///
    /// # Errors
    /// The stream captures, or the copy failed.
    #[track_caller]
    pub fn to_vec(&self, stream: &Stream) -> Result<Vec<T>, Error> {
        let mut values = vec![T::zeroed(); self.len];
        self.copy_to_slice(stream, &mut values)?;
        Ok(values)
    }

    /// Queues a copy of another buffer into this one, on `stream`.
    ///
    /// # Errors
    /// The other buffer has another length, or the copy failed.
    #[track_caller]
    pub fn copy_from(&mut self, stream: &Stream, source: &Self) -> Result<Submission, Error> {
        self.check_length(source.len)?;
        Ok(stream.copy_on_device(self, 0, source, 0, self.bytes())?)
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
        self.check_length(source.len())?;
        if self.is_empty() {
            return self.touch_nothing(stream);
        }
        let memory = source.memory();
        Ok(stream.copy_from_pinned(self, 0, memory, 0..memory.len())?)
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
        self.check_length(target.len())?;
        if self.is_empty() {
            return self.touch_nothing(stream);
        }
        let memory = target.memory_mut();
        let whole = 0..memory.len();
        Ok(stream.copy_to_pinned(memory, whole, self, 0)?)
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
        if self.is_empty() {
            return self.touch_nothing(stream);
        }
        match Pattern::of(bytemuck::bytes_of(&value)) {
            Pattern::Bytes(byte) => Ok(stream.fill_bytes(self, 0, self.bytes(), byte)?),
            // The block is whole grains, so the last word is in it even where the values end
            // in the middle of one.
            Pattern::Words(word) => {
                Ok(stream.fill_words(&self.block, 0, self.bytes().div_ceil(4), word)?)
            }
            Pattern::Longer => {
                let values = vec![value; self.len];
                Ok(stream.copy_to_device(self, 0, bytemuck::cast_slice(&values))?)
            }
        }
    }

    fn check_length(&self, found: usize) -> Result<(), Error> {
        if found == self.len { Ok(()) } else { Err(Error::Length { expected: self.len, found }) }
    }

    /// An operation of no bytes, for a buffer without any.
    #[track_caller]
    fn touch_nothing(&self, stream: &Stream) -> Result<Submission, Error> {
        Ok(stream.copy_on_device(self, 0, self, 0, 0)?)
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
        let block = self.block.whole();
        block.part(0, self.bytes()).expect("a block has the bytes that were asked for")
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

#[cfg(test)]
mod tests {
    use super::Pattern;

    #[test]
    fn a_pattern_is_the_shortest_that_the_driver_repeats() {
        assert_eq!(Pattern::of(&[7; 16]), Pattern::Bytes(7));
        assert_eq!(Pattern::of(&[1, 2]), Pattern::Words(u32::from_ne_bytes([1, 2, 1, 2])));
        let word = 1.5_f32.to_ne_bytes();
        assert_eq!(Pattern::of(&word), Pattern::Words(u32::from_ne_bytes(word)));
        let twice = [word, word].concat();
        assert_eq!(Pattern::of(&twice), Pattern::Words(u32::from_ne_bytes(word)));
        assert_eq!(Pattern::of(&1.1_f64.to_ne_bytes()), Pattern::Longer);
        assert_eq!(Pattern::of(&[1, 2, 3]), Pattern::Longer);
        assert_eq!(Pattern::of(&[]), Pattern::Bytes(0));
    }
}
