//! Writes stamps into blocks on the device, and counts there what is not as it was written.

#![allow(unsafe_code, reason = "the replay's blocks are numbers, and their uses are not counted")]

use replay::{Placed, StampCounts};
use trace::StreamNumber;
use wellspring::streams::memory::DeviceMemory;
use wellspring::streams::{Error, RawSpan};
use wellspring::{Context, Kernels, Stream};

use super::Stamps;

const WORD_BYTES: u64 = 4;
const COUNTER_BYTES: u64 = 8;
/// One word in every 64 KiB.
const STRIDE_WORDS: u64 = (64 << 10) / WORD_BYTES;

/// The kernels, and a counter for each stream.
#[derive(Debug)]
pub(super) struct Stamper {
    kernels: Kernels,
    stamps: Stamps,
    counters: DeviceMemory,
    checked: u64,
}

impl Stamper {
    /// Counters at zero, for each of `streams`.
    pub(super) fn new(
        context: &Context,
        kernels: Kernels,
        stamps: Stamps,
        streams: &[Stream],
    ) -> Result<Self, Error> {
        let count = u64::try_from(streams.len()).unwrap_or(u64::MAX);
        let bytes = count.saturating_mul(COUNTER_BYTES).max(COUNTER_BYTES);
        let counters = DeviceMemory::allocate(context, bytes)?;
        let mut stamper = Self { kernels, stamps, counters, checked: 0 };
        for (number, stream) in (0..).zip(streams) {
            let number = StreamNumber(number);
            let counter = stamper.counter(number);
            let word = Placed { address: counter.span().address, bytes: WORD_BYTES };
            // Both kernels run once before any gate is closed: a driver may load a kernel at its
            // first launch, and wait for all that runs while it does.
            stamper.stamp(stream, word, 0)?;
            stamper.check(stream, number, word, 0)?;
            stream.fill_bytes(&counter, 0, COUNTER_BYTES, 0)?.wait()?;
        }
        stamper.checked = 0;
        Ok(stamper)
    }

    /// Writes `value` to a block.
    pub(super) fn stamp(&self, stream: &Stream, placed: Placed, value: u32) -> Result<(), Error> {
        if placed.bytes < WORD_BYTES {
            return Ok(());
        }
        let mut words = uncounted(placed);
        let submitted = match self.stamps {
            Stamps::Sparse => self.kernels.stamp(stream, &mut words, STRIDE_WORDS, value),
            Stamps::Full => self.kernels.fill_u32(stream, &mut words, value),
        };
        submitted.map(drop)
    }

    /// Has a block checked for `value`.
    pub(super) fn check(
        &mut self,
        stream: &Stream,
        number: StreamNumber,
        placed: Placed,
        value: u32,
    ) -> Result<(), Error> {
        if placed.bytes < WORD_BYTES {
            return Ok(());
        }
        self.checked += stamped_words(self.stamps, placed.bytes / WORD_BYTES);
        let words = uncounted(placed);
        let mut counter = self.counter(number);
        let submitted = match self.stamps {
            Stamps::Sparse => {
                self.kernels.check_stamp(stream, &words, STRIDE_WORDS, value, &mut counter)
            }
            Stamps::Full => self.kernels.check_u32(stream, &words, value, &mut counter),
        };
        submitted.map(drop)
    }

    /// What was found, after everything that the streams still do.
    pub(super) fn counts(&self, streams: &[Stream]) -> Result<StampCounts, Error> {
        let mut wrong = 0_u64;
        for (number, stream) in (0..).zip(streams) {
            let mut bytes = [0; 8];
            stream.copy_to_host(&mut bytes, &self.counter(StreamNumber(number)), 0)?;
            wrong = wrong.saturating_add(u64::from_le_bytes(bytes));
        }
        Ok(StampCounts { checked: self.checked, wrong })
    }

    fn counter(&self, stream: StreamNumber) -> RawSpan {
        let address = self.counters.address() + u64::from(stream.0) * COUNTER_BYTES;
        uncounted(Placed { address, bytes: COUNTER_BYTES })
    }
}

/// How many words of so many are stamped: the first, every so many, and the last.
fn stamped_words(stamps: Stamps, words: u64) -> u64 {
    match (stamps, words.checked_sub(1)) {
        (_, None) => 0,
        (Stamps::Full, Some(_)) => words,
        (Stamps::Sparse, Some(last)) => {
            last / STRIDE_WORDS + 1 + u64::from(!last.is_multiple_of(STRIDE_WORDS))
        }
    }
}

/// Memory that the replay keeps alive while kernels use it: a block that is not freed yet, or a
/// counter. Its uses are not counted: the trace says which streams use a block, and the allocator
/// is to hear no more than that.
fn uncounted(placed: Placed) -> RawSpan {
    // SAFETY: the plan stamps and checks a block between its allocation and its free, on the
    // block's own stream; the counters go after the target has waited for its streams.
    unsafe { RawSpan::from_raw(placed.address, placed.bytes) }
}

#[cfg(test)]
mod tests {
    use super::{STRIDE_WORDS, stamped_words};
    use crate::target::Stamps;

    #[test]
    fn both_ends_and_every_64_kib_are_counted() {
        for (words, stamped) in [
            (0, 0),
            (1, 1),
            (2, 2),
            (STRIDE_WORDS, 2),
            (STRIDE_WORDS + 1, 2),
            (STRIDE_WORDS + 2, 3),
            (4 * STRIDE_WORDS, 5),
        ] {
            assert_eq!(stamped_words(Stamps::Sparse, words), stamped, "{words}");
            assert_eq!(stamped_words(Stamps::Full, words), words);
        }
    }
}
