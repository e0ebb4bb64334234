//! Bytes and counts as people read them, for everything that tells of a trace.

/// Bytes in the largest binary unit that they fill, with two digits behind the point, cut off and
/// not rounded: `1.50 GiB`; below 1 KiB whole: `512 B`.
///
/// ```
/// assert_eq!(trace::amount::bytes_text(3 << 29), "1.50 GiB");
/// ```
#[must_use]
pub fn bytes_text(bytes: u64) -> String {
    const UNITS: [(u64, &str); 4] =
        [(1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    for (unit_bytes, name) in UNITS {
        if unit_bytes <= bytes {
            let hundredths = u128::from(bytes) * 100 / u128::from(unit_bytes);
            return format!("{}.{:02} {name}", hundredths / 100, hundredths % 100);
        }
    }
    format!("{bytes} B")
}

/// A count with commas between its thousands; one that is no `u64` is told as the largest.
///
/// ```
/// assert_eq!(trace::amount::count_text(1_234_567_u64), "1,234,567");
/// ```
#[must_use]
pub fn count_text(count: impl TryInto<u64>) -> String {
    let digits = count.try_into().unwrap_or(u64::MAX).to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if 0 < place && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A count with the name of what is counted, which gets an `s` unless it is one.
///
/// ```
/// assert_eq!(trace::amount::counted(2_u64, "block"), "2 blocks");
/// ```
#[must_use]
pub fn counted(count: impl TryInto<u64>, name: &str) -> String {
    let text = count_text(count);
    let ending = if text == "1" { "" } else { "s" };
    format!("{text} {name}{ending}")
}

#[cfg(test)]
mod tests {
    use super::{bytes_text, count_text, counted};

    #[test]
    fn bytes_are_told_in_the_largest_unit_that_they_fill() {
        for (bytes, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.00 KiB"),
            (1536, "1.50 KiB"),
            ((1 << 20) - 1, "1023.99 KiB"),
            (3 << 29, "1.50 GiB"),
            ((1 << 40) - 1, "1023.99 GiB"),
            (u64::MAX, "16777215.99 TiB"),
        ] {
            assert_eq!(bytes_text(bytes), text);
        }
    }

    #[test]
    fn thousands_are_set_apart() {
        for (count, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(count_text(count), text);
        }
    }

    #[test]
    fn one_is_not_many() {
        assert_eq!(counted(0, "free"), "0 frees");
        assert_eq!(counted(1, "free"), "1 free");
        assert_eq!(counted(1_234_567, "free"), "1,234,567 frees");
    }
}
