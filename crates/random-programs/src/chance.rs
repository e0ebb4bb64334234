//! Chance from a seed: the same seed gives the same draws.

/// The generator known as splitmix64.
#[derive(Debug, Clone)]
pub struct Chance(u64);

impl Chance {
    /// The draws of this seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x2545_f491_4f6c_dd1d).wrapping_add(0x1234_5678_9abc_def1))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let word = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    /// A number below `count`.
    ///
    /// # Panics
    /// `count` is zero.
    pub fn below(&mut self, count: usize) -> usize {
        let count = u64::try_from(count).expect("counts are small");
        usize::try_from(self.next() % count).expect("below a count that fits")
    }

    /// True once in `odds` times.
    pub fn once_in(&mut self, odds: usize) -> bool {
        self.below(odds) == 0
    }

    /// One of the items.
    ///
    /// # Panics
    /// There is none.
    pub fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        *items.get(self.below(items.len())).expect("a place below the length")
    }

    /// The place of a weight, more often that of a greater one.
    ///
    /// # Panics
    /// All weights are zero.
    pub fn weighted(&mut self, weights: &[usize]) -> usize {
        let mut rest = self.below(weights.iter().sum());
        for (index, weight) in weights.iter().enumerate() {
            if rest < *weight {
                return index;
            }
            rest -= weight;
        }
        unreachable!("the draw lies below the sum")
    }
}
