//! Serves decompressed bytes in order through one small buffer, and knows their offset.

use super::error::ReadError;
use super::input::{self, Input};

/// How much is asked of the decompressor at once; at first less, since most files are small.
const CHUNK_BYTES: usize = 256 << 10;
const FIRST_CHUNK_BYTES: usize = 16 << 10;
/// The longest run that [`Window::take`] gives in one piece.
pub(super) const TAKE_BYTES_MAX: usize = 64 << 10;
/// How far [`Window::ahead`] sees unless the pickle ends before: a trace entry with its stack.
pub(super) const AHEAD_BYTES: usize = 2 << 10;

/// The bytes of a pickle, from the first to the last.
pub(super) struct Window<'a> {
    input: Input<'a>,
    /// Room for the bytes, of which those from `start` to `end` are not served yet.
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// Offset in the pickle of the first byte in `buffer`.
    buffer_offset: u64,
    bytes_max: u64,
    has_ended: bool,
}

impl<'a> Window<'a> {
    pub(super) const fn new(input: Input<'a>, bytes_max: u64) -> Self {
        Self {
            input,
            buffer: Vec::new(),
            start: 0,
            end: 0,
            buffer_offset: 0,
            bytes_max,
            has_ended: false,
        }
    }

    /// Offset of the next byte.
    pub(super) fn offset(&self) -> u64 {
        self.buffer_offset + to_u64(self.start)
    }

    pub(super) const fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    /// What was read and is not served yet.
    #[inline]
    fn held(&self) -> &[u8] {
        self.buffer.get(self.start..self.end).expect("what is held is in the buffer")
    }

    /// Refuses what does not begin as a pickle, without taking any byte.
    pub(super) fn check_pickle_start(&mut self) -> Result<(), ReadError> {
        while self.held().len() < 2 && self.refill()? {}
        input::check_pickle_start(self.held())
    }

    #[inline]
    pub(super) fn byte(&mut self) -> Result<u8, ReadError> {
        self.array::<1>().map(|[byte]| byte)
    }

    #[inline]
    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], ReadError> {
        if let Some(&bytes) = self.held().first_chunk() {
            self.start += N;
            return Ok(bytes);
        }
        self.fill(N)?;
        self.array()
    }

    /// The next `count` bytes, at most [`TAKE_BYTES_MAX`].
    #[inline]
    pub(super) fn take(&mut self, count: usize) -> Result<&[u8], ReadError> {
        debug_assert!(count <= TAKE_BYTES_MAX, "longer runs are skipped, not taken");
        if self.end - self.start < count {
            self.fill(count)?;
        }
        let taken = self.buffer.get(self.start..self.start + count);
        self.start += count;
        taken.ok_or(ReadError::Truncated { offset: self.buffer_offset })
    }

    /// The bytes that follow, without taking them; only near the end are they few.
    #[inline]
    pub(super) fn ahead(&mut self) -> Result<&[u8], ReadError> {
        if self.end - self.start < AHEAD_BYTES && !self.has_ended {
            self.refill()?;
        }
        Ok(self.held())
    }

    /// Takes `count` of the bytes that [`Self::ahead`] showed.
    #[inline]
    pub(super) fn pass(&mut self, count: usize) {
        self.start += count;
        debug_assert!(self.start <= self.end, "only what is there can be passed");
    }

    /// Passes over `count` bytes, which must be there.
    pub(super) fn skip(&mut self, mut count: u64) -> Result<(), ReadError> {
        loop {
            let here = to_u64(self.end - self.start).min(count);
            self.start += usize::try_from(here).expect("no more than the buffer holds");
            count -= here;
            if count == 0 {
                return Ok(());
            }
            self.fill(1)?;
        }
    }

    /// Lets the decompressor see the end of its data, so that it checks its sum. What follows a
    /// pickle is nobody's: one chunk is looked at and ignored, as Python does.
    pub(super) fn finish(&mut self) -> Result<(), ReadError> {
        self.start = self.end;
        self.refill().map(|_| ())
    }

    #[cold]
    fn fill(&mut self, count: usize) -> Result<(), ReadError> {
        while self.end - self.start < count {
            if !self.refill()? {
                let end = self.buffer_offset + to_u64(self.end);
                return Err(if end == 0 {
                    ReadError::Empty
                } else {
                    ReadError::Truncated { offset: end }
                });
            }
        }
        Ok(())
    }

    /// Reads one more chunk behind what is not yet served; false at the end.
    fn refill(&mut self) -> Result<bool, ReadError> {
        self.buffer.copy_within(self.start..self.end, 0);
        self.buffer_offset += to_u64(self.start);
        self.end -= self.start;
        self.start = 0;
        let chunk_bytes = if self.buffer_offset == 0 { FIRST_CHUNK_BYTES } else { CHUNK_BYTES };
        if self.buffer.len() < self.end + chunk_bytes {
            self.buffer.resize(self.end + chunk_bytes, 0);
        }
        let offset = self.buffer_offset + to_u64(self.end);
        let room = self.buffer.get_mut(self.end..).unwrap_or_default();
        let read_count = self.input.read(room, offset)?;
        self.end += read_count;
        self.has_ended = read_count == 0;
        if self.bytes_max < offset + to_u64(read_count) {
            return Err(ReadError::TooLong { limit: self.bytes_max });
        }
        Ok(0 < read_count)
    }
}

/// A length in memory as a number of bytes in a file.
pub(super) fn to_u64(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}
