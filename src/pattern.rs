//! How a value is repeated over device memory by fills of the driver.

/// How a value is repeated over memory.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Pattern {
    Bytes(u8),
    Words(u32),
    /// No fill of the driver repeats it.
    Longer,
}

impl Pattern {
    pub(crate) fn of(value: &[u8]) -> Self {
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
