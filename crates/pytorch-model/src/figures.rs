//! What is held and used, now and at most.

/// Bytes and counts, in the words of `torch.cuda.memory_stats`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Figures {
    /// Bytes held from the driver.
    pub reserved_bytes: u64,
    /// The most of them.
    pub reserved_peak_bytes: u64,
    /// Bytes of blocks that are handed out.
    pub allocated_bytes: u64,
    /// The most of them.
    pub allocated_peak_bytes: u64,
    /// Bytes of blocks that are handed out or wait for other streams.
    pub active_bytes: u64,
    /// The most of them.
    pub active_peak_bytes: u64,
    /// Segments held; pages of expandable segments do not count.
    pub segment_count: u64,
    /// The most of them.
    pub segment_peak_count: u64,
    /// How often the driver had no memory, and all that was cached was given back.
    pub retry_count: u64,
    /// Requests that failed.
    pub out_of_memory_count: u64,
    /// Driver calls that take memory: segments, and mappings of pages.
    pub driver_allocation_count: u64,
    /// Driver calls that give memory back.
    pub driver_free_count: u64,
}

impl Figures {
    pub(crate) fn reserve(&mut self, bytes: u64) {
        self.reserved_bytes += bytes;
        self.reserved_peak_bytes = self.reserved_peak_bytes.max(self.reserved_bytes);
        self.driver_allocation_count += 1;
    }

    pub(crate) fn give_back(&mut self, bytes: u64) {
        self.reserved_bytes -= bytes;
        self.driver_free_count += 1;
    }

    pub(crate) fn add_segment(&mut self) {
        self.segment_count += 1;
        self.segment_peak_count = self.segment_peak_count.max(self.segment_count);
    }

    pub(crate) fn hand_out(&mut self, bytes: u64) {
        self.allocated_bytes += bytes;
        self.allocated_peak_bytes = self.allocated_peak_bytes.max(self.allocated_bytes);
        self.active_bytes += bytes;
        self.active_peak_bytes = self.active_peak_bytes.max(self.active_bytes);
    }
}
