//! Counts every call that reached the machine, by entry point.

use std::collections::BTreeMap;

use cuda_sys::Table;

/// How often each entry point was called.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Journal {
    total: u64,
    counts: Vec<u64>,
}

impl Journal {
    pub(crate) fn new() -> Self {
        Self { total: 0, counts: vec![0; Table::ENTRY_POINTS.len()] }
    }

    #[inline]
    pub(crate) fn note(&mut self, entry: usize) {
        self.total += 1;
        if let Some(count) = self.counts.get_mut(entry) {
            *count += 1;
        }
    }

    /// All calls.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.total
    }

    /// The calls of one entry point, by the name `cuGetProcAddress` knows.
    #[must_use]
    pub fn calls(&self, name: &str) -> u64 {
        let position = Table::ENTRY_POINTS.iter().position(|entry| entry.name == name);
        position.and_then(|index| self.counts.get(index)).copied().unwrap_or(0)
    }

    /// The entry points that were called, with how often.
    #[must_use]
    pub fn by_name(&self) -> BTreeMap<&'static str, u64> {
        Table::ENTRY_POINTS
            .iter()
            .zip(&self.counts)
            .filter(|(_, count)| 0 < **count)
            .map(|(entry, count)| (entry.name, *count))
            .collect()
    }
}
