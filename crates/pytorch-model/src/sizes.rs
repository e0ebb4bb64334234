//! How requests are rounded, and how much is asked of the driver for them.

use crate::settings::Settings;

/// Every block is a multiple of this, and no smaller remainder is split off.
pub const GRAIN_BYTES: u64 = 512;
/// The largest rounded request that the small pool serves.
pub const SMALL_REQUEST_BYTES_MAX: u64 = 1 << 20;
/// A segment of the small pool, and what large segments are a multiple of.
pub const CHUNK_SMALL_BYTES: u64 = 2 << 20;
/// The default segment of the large pool, for requests below 10 MiB.
pub const LARGE_SEGMENT_BYTES: u64 = 20 << 20;
/// Requests from here on get a segment of their own size.
const OWN_SEGMENT_BYTES_MIN: u64 = 10 << 20;
/// Requests from here on fail at once.
pub(crate) const REQUEST_BYTES_END: u64 = 1 << 60;

/// The size of the block that a request of `bytes` is given room for.
pub(crate) fn rounded(bytes: u64, settings: &Settings) -> u64 {
    if bytes < GRAIN_BYTES {
        return GRAIN_BYTES;
    }
    let divisions = settings.divisions(bytes);
    if 1 < divisions && GRAIN_BYTES.saturating_mul(divisions) < bytes {
        return rounded_to_division(bytes, divisions);
    }
    bytes.next_multiple_of(GRAIN_BYTES)
}

/// The next step, where each doubling has `divisions` of them. A power of two stays as it is.
fn rounded_to_division(bytes: u64, divisions: u64) -> u64 {
    if bytes.is_power_of_two() {
        return bytes;
    }
    let floor = 1_u64 << bytes.ilog2();
    let step = floor / divisions;
    if step == 0 { floor * 2 } else { bytes.next_multiple_of(step) }
}

/// Whether a block of this size comes from the small pool.
pub(crate) const fn is_small(rounded: u64) -> bool {
    rounded <= SMALL_REQUEST_BYTES_MAX
}

/// What the driver is asked for where a block of this size finds no room.
pub(crate) const fn segment_bytes(rounded: u64, settings: &Settings) -> u64 {
    if is_small(rounded) {
        CHUNK_SMALL_BYTES
    } else if rounded < OWN_SEGMENT_BYTES_MIN {
        settings.large_segment_bytes
    } else {
        rounded.next_multiple_of(CHUNK_SMALL_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::{rounded, segment_bytes};
    use crate::settings::Settings;

    const MIB: u64 = 1 << 20;

    fn settings(text: &str) -> Settings {
        Settings::parse(text).unwrap()
    }

    #[test]
    fn requests_round_up_to_whole_grains() {
        let found = [1, 511, 512, 513, MIB].map(|bytes| rounded(bytes, &settings("")));
        assert_eq!(found, [512, 512, 512, 1024, MIB]);
    }

    #[test]
    fn divisions_round_up_between_powers_of_two() {
        let eight = settings("roundup_power2_divisions:8");
        let found =
            [84 * MIB, 400 * MIB, 64 * MIB, 4096, 4097, 4608 + 1].map(|b| rounded(b, &eight));
        assert_eq!(found, [88 * MIB, 416 * MIB, 64 * MIB, 4096, 4608, 5120]);
        let list = settings("roundup_power2_divisions:[64:8,128:2,256:4,512:1,1024:1,>:1]");
        assert_eq!(rounded(84 * MIB, &list), 88 * MIB);
        assert_eq!(rounded(200 * MIB, &list), 256 * MIB, "halves from 128 to 256 MiB");
        assert_eq!(rounded(600 * MIB + 1, &list), 600 * MIB + 512, "one is off");
    }

    #[test]
    fn segments_are_of_three_sizes() {
        let default = settings("");
        let found = [MIB, MIB + 512, 10 * MIB - 512, 10 * MIB, 11 * MIB]
            .map(|bytes| segment_bytes(bytes, &default));
        assert_eq!(found, [2 * MIB, 20 * MIB, 20 * MIB, 10 * MIB, 12 * MIB]);
        assert_eq!(segment_bytes(2 * MIB, &settings("large_segment_size_mb:64")), 64 * MIB);
    }
}
