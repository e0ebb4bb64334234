//! A snapshot against the figures that were counted: what can be computed again must agree.

use crate::snapshot::{BlockState, SegmentSnapshot, Snapshot};
use crate::stats::Stats;

/// Where a snapshot and the figures, or the parts of a snapshot, contradict each other.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Mismatch {
    /// A figure was counted as one value, and adding up the blocks gives another.
    #[error("{figure} was counted as {counted}, and the snapshot gives {found}")]
    Figure {
        /// Which figure.
        figure: &'static str,
        /// What the statistics say.
        counted: u64,
        /// What the snapshot says.
        found: u64,
    },
    /// A current value is above its own peak.
    #[error("{figure} is {current} now, above its peak of {peak}")]
    AbovePeak {
        /// Which figure.
        figure: &'static str,
        /// Now.
        current: u64,
        /// The highest so far, as counted.
        peak: u64,
    },
    /// The blocks of a segment do not follow each other.
    #[error("the segment at {segment:#x} has a gap or an overlap at {address:#x}")]
    Gap {
        /// The segment's first address.
        segment: u64,
        /// Where the next block should begin, or the segment end.
        address: u64,
    },
    /// A block that is not unmapped has no memory behind all of it.
    #[error("the block of {bytes} bytes at {address:#x} is not backed by memory")]
    Unbacked {
        /// The block's first address.
        address: u64,
        /// The block's size in bytes.
        bytes: u64,
    },
    /// Two segments share addresses.
    #[error("the segments at {first:#x} and {second:#x} overlap")]
    Overlap {
        /// The first address of the one.
        first: u64,
        /// The first address of the other.
        second: u64,
    },
}

impl Snapshot {
    /// Computes every figure that has a current value again and compares it with `stats`; looks
    /// at the peaks, and at whether the blocks fill their segments and have memory behind them.
    ///
    /// Both must have been taken while no other thread used the allocator, the figures first.
    ///
    /// # Errors
    /// The first contradiction.
    pub fn check(&self, stats: &Stats) -> Result<(), Mismatch> {
        self.check_places()?;
        self.check_figures(stats)?;
        check_peaks(stats)
    }

    fn check_figures(&self, stats: &Stats) -> Result<(), Mismatch> {
        let allocated = self.bytes_in(BlockState::Allocated);
        let pending = self.bytes_in(BlockState::Pending) + self.bytes_in(BlockState::Held);
        let live = || self.blocks().filter(|block| block.state == BlockState::Allocated);
        let requested = live().map(|block| block.requested).sum::<u64>();
        let live_count = count(live());
        let pieces = self.segments.iter().map(|segment| count(&segment.pieces)).sum::<u64>();
        let lost = self.segments.iter().map(|segment| count(segment.without_memory())).sum::<u64>();
        let stranded = self.blocks().filter(|block| block.stranded.is_some());
        let stranded = stranded.map(|block| block.size).sum::<u64>();
        let figures = [
            ("allocated_bytes", stats.allocated_bytes.current, allocated),
            ("pending_bytes", stats.pending_bytes.current, pending),
            ("active_bytes", stats.active_bytes.current, allocated + pending),
            ("stranded_bytes", stats.stranded_bytes, stranded),
            ("reserved_bytes", stats.reserved_bytes.current, self.reserved_bytes()),
            ("requested_bytes", stats.requested_bytes, requested),
            ("allocation_count", stats.allocation_count, live_count),
            ("allocation_total", stats.allocation_total, stats.free_total + live_count),
            ("served_by", stats.served_by.total(), stats.allocation_total),
            ("segment_count", stats.segment_count, count(&self.segments)),
            ("num_device_alloc", stats.num_device_alloc, stats.num_device_free + pieces + lost),
        ];
        for (figure, counted, found) in figures {
            if counted != found {
                return Err(Mismatch::Figure { figure, counted, found });
            }
        }
        Ok(())
    }

    fn check_places(&self) -> Result<(), Mismatch> {
        let mut end = (0, 0);
        for segment in &self.segments {
            if segment.address < end.1 {
                return Err(Mismatch::Overlap { first: end.0, second: segment.address });
            }
            end = (segment.address, segment.address + segment.span_bytes);
            segment.check_places()?;
        }
        Ok(())
    }
}

impl SegmentSnapshot {
    fn check_places(&self) -> Result<(), Mismatch> {
        let gap = |address| Err(Mismatch::Gap { segment: self.address, address });
        let mut next = self.address;
        for block in &self.blocks {
            if block.address != next || block.size == 0 {
                return gap(next);
            }
            next += block.size;
            let needs_memory = !matches!(block.state, BlockState::Unmapped | BlockState::Reserved);
            if needs_memory && !self.is_backed(block.address, block.size) {
                return Err(Mismatch::Unbacked { address: block.address, bytes: block.size });
            }
        }
        if next == self.address + self.span_bytes { Ok(()) } else { gap(next) }
    }

    fn is_backed(&self, address: u64, bytes: u64) -> bool {
        let mut next = address;
        for (piece, piece_bytes) in &self.pieces {
            if *piece <= next && next < piece + piece_bytes {
                next = piece + piece_bytes;
            }
        }
        address + bytes <= next
    }
}

fn check_peaks(stats: &Stats) -> Result<(), Mismatch> {
    let gauges = [
        ("allocated_bytes", stats.allocated_bytes),
        ("pending_bytes", stats.pending_bytes),
        ("active_bytes", stats.active_bytes),
        ("reserved_bytes", stats.reserved_bytes),
    ];
    for (figure, gauge) in gauges {
        let (current, peak) = (gauge.current, gauge.peak);
        if peak < current {
            return Err(Mismatch::AbovePeak { figure, current, peak });
        }
    }
    Ok(())
}

fn count(things: impl IntoIterator) -> u64 {
    things.into_iter().map(|_| 1).sum()
}
