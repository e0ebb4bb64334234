//! Sizes in bytes, and the rounding that every request goes through.
//!
//! Knows nothing of streams, blocks or the driver.

use std::fmt;

/// The unit of every block: requests are rounded up to whole grains, and addresses are
/// multiples of it. The driver's own allocations are aligned to as much.
pub const GRAIN: u64 = 512;

/// The largest request that can be meant: more is refused before anything is rounded, as PyTorch
/// does at the same figure.
pub const REQUEST_BYTES_MAX: u64 = 1 << 60;

/// Requests of up to this many bytes are carved from the small pool, as in PyTorch.
pub const SMALL_BYTES_MAX: u64 = 1 << 20;

/// Rounds a request up to whole grains; the caller has refused what is above the maximum.
#[must_use]
pub(crate) const fn round_up(request: u64) -> u64 {
    request.next_multiple_of(GRAIN)
}

/// A size in bytes that prints as people read it: `20.0 MiB`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Bytes(pub u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(u32, &str); 4] = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
        for (shift, unit) in UNITS {
            if 1 << shift <= self.0 {
                let tenths = (u128::from(self.0) * 10) >> shift;
                return write!(f, "{}.{} {unit}", tenths / 10, tenths % 10);
            }
        }
        write!(f, "{} bytes", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::{Bytes, round_up};

    #[test]
    fn a_request_is_rounded_up_to_whole_grains() {
        for (request, rounded) in [(1, 512), (512, 512), (513, 1024), (1 << 60, 1 << 60)] {
            assert_eq!(round_up(request), rounded);
        }
    }

    #[test]
    fn a_size_prints_as_people_read_it() {
        for (bytes, text) in [(0, "0 bytes"), (1536, "1.5 KiB"), (20 << 20, "20.0 MiB")] {
            assert_eq!(Bytes(bytes).to_string(), text);
        }
        assert_eq!(Bytes(u64::MAX).to_string(), "16777215.9 TiB");
    }
}
