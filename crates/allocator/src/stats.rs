//! What is counted, and the figures made of it.
//!
//! Each shard counts under its lock, and its counts are added up when asked; the peaks over all
//! shards are kept as [`SharedCounters`] says.

use crate::ceilings::Levels;
use crate::sync::{AtomicU64, Ordering};

/// A count with its highest value so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub struct Gauge {
    /// Now.
    pub current: u64,
    /// The most since the start or the last [`crate::Allocator::reset_peaks`].
    pub peak: u64,
}

/// How many requests each step of service answered (R4), cheapest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub struct ServedBy {
    /// A free block of the stream itself; no driver call.
    pub own_stream: u64,
    /// A block of another stream, known to be ordered before this one; no driver call.
    pub known_order: u64,
    /// A block whose uses were known to be complete, where order alone would not have done.
    pub completion: u64,
    /// A pending block that the stream was made to wait for on the device.
    pub device_wait: u64,
    /// New memory.
    pub growth: u64,
    /// The out-of-memory ladder, after growth had failed.
    pub ladder: u64,
}

impl ServedBy {
    /// All requests that were served.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.own_stream
            + self.known_order
            + self.completion
            + self.device_wait
            + self.growth
            + self.ladder
    }
}

/// Figures of an allocator at one moment. The names are PyTorch's where the meaning is the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub struct Stats {
    /// Bytes in blocks that are handed out, after rounding.
    pub allocated_bytes: Gauge,
    /// Bytes in blocks that are handed out, or freed but still in use by a stream or a hold. The
    /// peak is looked for at each request that the stream's memory serves and when the figures are
    /// read.
    pub active_bytes: Gauge,
    /// Bytes freed by their owner but still in use by a stream or a hold.
    pub pending_bytes: Gauge,
    /// Bytes of device memory held, in use or cached.
    pub reserved_bytes: Gauge,
    /// Bytes that were freed and are of no use now to the stream whose memory they are; or, where
    /// that stream has ended, are not everyone's yet. By cause: [`crate::Allocator::stranded`].
    pub stranded_bytes: u64,
    /// Bytes asked for in blocks that are handed out, before rounding.
    pub requested_bytes: u64,
    /// Blocks handed out now.
    pub allocation_count: u64,
    /// Requests served since the start.
    pub allocation_total: u64,
    /// Frees since the start.
    pub free_total: u64,
    /// Frees whose uses were not known to be over.
    pub deferred_free_total: u64,
    /// How requests were served.
    pub served_by: ServedBy,
    /// Requests before which their stream was made to wait, at no cost, for memory of its own,
    /// because more of it was pending than the stream needs ([`crate::WaitDepth`]).
    pub stock_wait_total: u64,
    /// Joins of neighbours that different streams had used.
    pub cross_stream_merges: u64,
    /// Blocks cut in two for a request although a stream other than the requester had used them.
    pub cross_stream_splits: u64,
    /// Regions of addresses that are open.
    pub segment_count: u64,
    /// Pieces of memory committed since the start.
    pub num_device_alloc: u64,
    /// Pieces of memory given back since the start.
    pub num_device_free: u64,
    /// Times growth failed and cached memory was given back to make room.
    pub num_alloc_retries: u64,
    /// Requests that ended in an out-of-memory error.
    pub num_ooms: u64,
    /// Times the host was held up at a [`crate::Bound`].
    pub host_throttle_total: u64,
    /// Times a stream was made to wait on the device at a [`crate::Bound`].
    pub device_throttle_total: u64,
    /// Times a [`crate::Bound`] was passed because nobody may wait for what is pending (R5).
    pub bound_passed_total: u64,
    /// Errors that a drop met and could not return.
    pub drop_errors: u64,
}

impl Stats {
    /// How often a request made its stream wait on the device: to be served at all without new
    /// memory, or at no cost before it was served.
    #[must_use]
    pub fn device_waits(&self) -> u64 {
        self.served_by.device_wait + self.stock_wait_total
    }
}

/// What a shard counts under its lock.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct ShardCounters {
    pub(crate) served_by: ServedBy,
    pub(crate) freed: u64,
    pub(crate) deferred: u64,
    pub(crate) requested_bytes: u64,
    pub(crate) stock_waits: u64,
    pub(crate) cross_stream_merges: u64,
    pub(crate) cross_stream_splits: u64,
}

/// Counters that all shards share.
///
/// Allocated bytes are counted by each shard and published in plain stores; how the peak over all
/// shards is kept without a word that all of them write: `ceilings`.
#[derive(Debug)]
pub(crate) struct SharedCounters {
    pub(crate) allocated_peak: AtomicU64,
    pub(crate) pending: AtomicU64,
    pub(crate) pending_peak: AtomicU64,
    pub(crate) active_peak: AtomicU64,
    pub(crate) reserved: AtomicU64,
    pub(crate) reserved_peak: AtomicU64,
    /// Bytes of pieces that a thread is giving back: neither free any more nor unreserved yet.
    pub(crate) leaving: AtomicU64,
    pub(crate) device_alloc: AtomicU64,
    pub(crate) device_free: AtomicU64,
    pub(crate) retries: AtomicU64,
    pub(crate) out_of_memory: AtomicU64,
    pub(crate) host_throttles: AtomicU64,
    pub(crate) device_throttles: AtomicU64,
    pub(crate) bounds_passed: AtomicU64,
    pub(crate) drop_errors: AtomicU64,
}

impl SharedCounters {
    pub(crate) fn new() -> Self {
        let zero = || AtomicU64::new(0);
        Self {
            allocated_peak: zero(),
            pending: zero(),
            pending_peak: zero(),
            active_peak: zero(),
            reserved: zero(),
            reserved_peak: zero(),
            leaving: zero(),
            device_alloc: zero(),
            device_free: zero(),
            retries: zero(),
            out_of_memory: zero(),
            host_throttles: zero(),
            device_throttles: zero(),
            bounds_passed: zero(),
            drop_errors: zero(),
        }
    }

    /// The peaks are so much higher than they were.
    pub(crate) fn raise_peaks(&self, by: Levels) {
        self.allocated_peak.fetch_add(by.allocated, Ordering::Relaxed);
        self.active_peak.fetch_add(by.active, Ordering::Relaxed);
    }

    /// Bytes became pending, or stopped being so.
    pub(crate) fn pend(&self, bytes: u64) {
        let pending = self.pending.fetch_add(bytes, Ordering::Relaxed) + bytes;
        raise(&self.pending_peak, pending);
    }

    /// Bytes stopped being pending.
    pub(crate) fn unpend(&self, bytes: u64) {
        self.pending.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// How often a piece of memory has come or gone.
    pub(crate) fn remapped(&self) -> u64 {
        self.device_alloc.load(Ordering::Relaxed) + self.device_free.load(Ordering::Relaxed)
    }

    /// Reserves `bytes` of the budget unless that would pass `limit`.
    pub(crate) fn reserve(&self, bytes: u64, limit: u64) -> bool {
        let fits =
            |reserved: u64| reserved.checked_add(bytes).filter(|reserved| *reserved <= limit);
        let order = Ordering::Relaxed;
        match self.reserved.fetch_update(order, order, fits) {
            Ok(before) => {
                raise(&self.reserved_peak, before + bytes);
                true
            }
            Err(_) => false,
        }
    }

    /// Gives budget back.
    pub(crate) fn unreserve(&self, bytes: u64) {
        self.reserved.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Starts the peaks again from these values.
    pub(crate) fn reset_peaks(&self, levels: Levels) {
        let order = Ordering::Relaxed;
        self.allocated_peak.store(levels.allocated, order);
        self.pending_peak.store(self.pending.load(order), order);
        self.active_peak.store(levels.active, order);
        self.reserved_peak.store(self.reserved.load(order), order);
    }
}

/// Raises a peak; plain loads unless it really rises.
#[inline]
fn raise(peak: &AtomicU64, value: u64) {
    if peak.load(Ordering::Relaxed) < value {
        peak.fetch_max(value, Ordering::Relaxed);
    }
}
