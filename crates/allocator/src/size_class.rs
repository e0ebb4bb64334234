//! Maps a block size to its bin, and finds the next bin that holds anything.
//!
//! Knows nothing of streams, blocks or the driver. Bins grow like a tiny float: exact up to
//! sixteen grains, then sixteen to a doubling, so that the sizes in one bin differ by less than
//! one sixteenth. Invariant, tested both ways: a larger size never has a smaller bin.

use crate::bytes::GRAIN;

/// Bins to a doubling, as a power of two.
const STEPS_LOG2: u32 = 4;
const STEPS: u32 = 1 << STEPS_LOG2;
/// Doublings above the exact bins: enough for every size below 2^63 grains' worth of bytes.
const DOUBLINGS: usize = 52;
/// How many bins there are.
pub(crate) const BIN_COUNT: usize = DOUBLINGS << STEPS_LOG2;

/// The index of a bin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Bin(u16);

impl Bin {
    /// The bin of a block of `size` bytes, which is whole grains.
    #[inline]
    pub(crate) fn of(size: u64) -> Self {
        let grains = size / GRAIN;
        let Some(log2) = grains.checked_ilog2() else { return Self(0) };
        if log2 < STEPS_LOG2 {
            return Self(low_bits(grains));
        }
        let shift = log2 - STEPS_LOG2;
        let step = low_bits((grains >> shift) & u64::from(STEPS - 1));
        let row = u16::try_from((shift + 1) << STEPS_LOG2).unwrap_or(u16::MAX);
        Self(row + step)
    }

    /// Its place in an array of [`BIN_COUNT`].
    #[inline]
    pub(crate) fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// The value as a bin offset; callers have masked or bounded it.
#[inline]
fn low_bits(value: u64) -> u16 {
    u16::try_from(value & 0xffff).unwrap_or(u16::MAX)
}

/// Which bins hold anything: one bit a bin, and one bit a word of those.
#[derive(Debug, Clone)]
pub(crate) struct BinMap {
    words: [u64; BIN_COUNT.div_ceil(64)],
    summary: u64,
}

impl BinMap {
    pub(crate) fn new() -> Self {
        Self { words: [0; BIN_COUNT.div_ceil(64)], summary: 0 }
    }

    #[inline]
    pub(crate) fn set(&mut self, bin: Bin) {
        let (word, bit) = (bin.index() / 64, bin.index() % 64);
        if let Some(bits) = self.words.get_mut(word) {
            *bits |= 1 << bit;
            self.summary |= 1 << word;
        }
    }

    #[inline]
    pub(crate) fn clear(&mut self, bin: Bin) {
        let (word, bit) = (bin.index() / 64, bin.index() % 64);
        if let Some(bits) = self.words.get_mut(word) {
            *bits &= !(1 << bit);
            if *bits == 0 {
                self.summary &= !(1 << word);
            }
        }
    }

    /// The first bin at or above `bin` that holds anything.
    #[inline]
    pub(crate) fn first_from(&self, bin: Bin) -> Option<Bin> {
        self.first_at(bin.index())
    }

    /// The first bin above `bin` that holds anything.
    #[inline]
    pub(crate) fn first_after(&self, bin: Bin) -> Option<Bin> {
        self.first_at(bin.index() + 1)
    }

    #[inline]
    fn first_at(&self, index: usize) -> Option<Bin> {
        let (word, bit) = (index / 64, index % 64);
        let here = self.words.get(word)? & (u64::MAX << bit);
        if here != 0 {
            return Some(Self::bin_at(word, here));
        }
        let above = if word < 63 { self.summary & (u64::MAX << (word + 1)) } else { 0 };
        if above == 0 {
            return None;
        }
        let word = usize::try_from(above.trailing_zeros()).ok()?;
        Some(Self::bin_at(word, *self.words.get(word)?))
    }

    #[inline]
    fn bin_at(word: usize, bits: u64) -> Bin {
        let index = (word << 6) | usize::try_from(bits.trailing_zeros()).unwrap_or(0);
        Bin(u16::try_from(index).unwrap_or(u16::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::{BIN_COUNT, Bin, BinMap};
    use crate::bytes::GRAIN;

    #[test]
    fn a_larger_size_never_has_a_smaller_bin() {
        let mut last = Bin::of(GRAIN);
        for grains in 1..100_000_u64 {
            let bin = Bin::of(grains * GRAIN);
            assert!(last <= bin, "{grains} grains");
            last = bin;
        }
        for log2 in 9..63 {
            assert!(Bin::of(1 << log2) < Bin::of((1 << log2) + (1 << log2 >> 1)) || log2 < 11);
            assert!(Bin::of(1 << log2).index() < BIN_COUNT);
        }
    }

    #[test]
    fn the_map_finds_the_next_bin_that_holds_anything() {
        let mut map = BinMap::new();
        let bins: Vec<Bin> = [512, 8192, 1 << 20, 1 << 40].map(Bin::of).to_vec();
        for bin in &bins {
            map.set(*bin);
        }
        assert_eq!(map.first_from(bins[0]), Some(bins[0]));
        assert_eq!(map.first_after(bins[0]), Some(bins[1]));
        assert_eq!(map.first_after(bins[1]), Some(bins[2]));
        assert_eq!(map.first_after(bins[2]), Some(bins[3]));
        assert_eq!(map.first_after(bins[3]), None);
        map.clear(bins[2]);
        assert_eq!(map.first_after(bins[1]), Some(bins[3]));
    }
}
