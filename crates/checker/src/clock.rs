//! How much of each stream comes before something: a vector clock by stream id.

/// For each stream, how many of its additions are covered.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Clock {
    /// Sorted by stream.
    entries: Vec<(u64, u64)>,
}

impl Clock {
    /// How many additions of `stream` are covered.
    pub(crate) fn get(&self, stream: u64) -> u64 {
        let found = self.entries.binary_search_by_key(&stream, |entry| entry.0);
        found.ok().and_then(|at| self.entries.get(at)).map_or(0, |entry| entry.1)
    }

    /// Covers `stream` up to `ordinal`, at least.
    pub(crate) fn raise(&mut self, stream: u64, ordinal: u64) {
        match self.entries.binary_search_by_key(&stream, |entry| entry.0) {
            Ok(at) => {
                if let Some(entry) = self.entries.get_mut(at) {
                    entry.1 = entry.1.max(ordinal);
                }
            }
            Err(at) => self.entries.insert(at, (stream, ordinal)),
        }
    }

    /// Covers what `other` covers, too.
    pub(crate) fn join(&mut self, other: &Self) {
        for (stream, ordinal) in &other.entries {
            self.raise(*stream, *ordinal);
        }
    }

    /// Whether `other` covers all that this covers.
    pub(crate) fn is_within(&self, other: &Self) -> bool {
        self.entries.iter().all(|(stream, ordinal)| *ordinal <= other.get(*stream))
    }

    /// Forgets what `other` covers.
    pub(crate) fn forget(&mut self, other: &Self) {
        self.entries.retain(|(stream, ordinal)| other.get(*stream) < *ordinal);
    }

    /// Forgets streams that `kept` does not name.
    pub(crate) fn keep(&mut self, kept: impl Fn(u64) -> bool) {
        self.entries.retain(|(stream, _)| kept(*stream));
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }
}

#[cfg(test)]
mod tests {
    use super::Clock;

    #[test]
    fn a_clock_keeps_the_most_of_each_stream() {
        let (mut a, mut b) = (Clock::default(), Clock::default());
        a.raise(7, 3);
        a.raise(7, 2);
        b.raise(1, 5);
        assert!(!b.is_within(&a));
        a.join(&b);
        assert_eq!((a.get(7), a.get(1), a.get(2)), (3, 5, 0));
        assert!(b.is_within(&a));
        a.forget(&b);
        assert_eq!((a.get(1), a.len()), (0, 1));
    }
}
