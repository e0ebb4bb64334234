//! Sizes as they are written on a command line: `2GiB`, `512MiB`, `1.5g`, `1048576`.

use std::str::FromStr;

/// A number of bytes, at least one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Size(pub(crate) u64);

/// Numbers below it are bytes only where a unit says so: `24` for a capacity is never 24 bytes.
const BARE_BYTES_MIN: u64 = 1 << 20;

/// Why a text is no size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoSize {
    /// It is no number with a unit, or not one that can be had.
    Unreadable,
    /// A number so small that a unit is likely to be missing.
    NoUnit(u64),
}

impl std::fmt::Display for NoSize {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unreadable => f.write_str(
                "write a size such as 2GiB, 512MiB or 1048576, above zero and below 2^64",
            ),
            Self::NoUnit(number) => {
                write!(f, "its unit is missing: write {number}GiB, or {number}B for so few bytes")
            }
        }
    }
}

impl std::error::Error for NoSize {}

impl FromStr for Size {
    type Err = NoSize;

    fn from_str(text: &str) -> Result<Self, NoSize> {
        let end = text.find(|it: char| !it.is_ascii_digit() && it != '.').unwrap_or(text.len());
        let (number, unit) = text.split_at_checked(end).ok_or(NoSize::Unreadable)?;
        let is_bare = unit.trim_start().is_empty();
        let unit = unit_bytes(unit.trim_start()).ok_or(NoSize::Unreadable)?;
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.is_empty() || (number.contains('.') && fraction.is_empty()) {
            return Err(NoSize::Unreadable);
        }
        let whole: u128 = whole.parse().map_err(|_| NoSize::Unreadable)?;
        let mut bytes = whole.checked_mul(unit).ok_or(NoSize::Unreadable)?;
        if !fraction.is_empty() {
            let digits = u32::try_from(fraction.len()).map_err(|_| NoSize::Unreadable)?;
            let scale = 10_u128.checked_pow(digits).ok_or(NoSize::Unreadable)?;
            let fraction: u128 = fraction.parse().map_err(|_| NoSize::Unreadable)?;
            bytes += fraction.checked_mul(unit).ok_or(NoSize::Unreadable)? / scale;
        }
        match u64::try_from(bytes) {
            Ok(bytes) if is_bare && 0 < bytes && bytes < BARE_BYTES_MIN => {
                Err(NoSize::NoUnit(bytes))
            }
            Ok(bytes) if 0 < bytes => Ok(Self(bytes)),
            Ok(_) | Err(_) => Err(NoSize::Unreadable),
        }
    }
}

/// The bytes of one unit. A letter alone is binary, as memory is counted.
fn unit_bytes(unit: &str) -> Option<u128> {
    Some(match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        "t" | "tib" => 1 << 40,
        "p" | "pib" => 1 << 50,
        "e" | "eib" => 1 << 60,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        "pb" => 1_000_000_000_000_000,
        "eb" => 1_000_000_000_000_000_000,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::{NoSize, Size};

    #[test]
    fn sizes_are_read() {
        for (text, bytes) in [
            ("1B", 1),
            ("24 b", 24),
            ("2EiB", 2 << 60),
            ("0.5PiB", 1 << 49),
            ("1EB", 1_000_000_000_000_000_000),
            ("1048576", 1 << 20),
            ("2GiB", 2 << 30),
            ("512mib", 512 << 20),
            ("1.5GiB", 3 << 29),
            ("0.5k", 512),
            ("3 MiB", 3 << 20),
            ("2GB", 2_000_000_000),
            ("18446744073709551615", u64::MAX),
        ] {
            assert_eq!(text.parse(), Ok(Size(bytes)), "{text}");
        }
    }

    #[test]
    fn other_texts_are_not() {
        for text in [
            "",
            "0",
            "0.0001",
            "-1",
            "GiB",
            "1.",
            ".5",
            "1.2.3",
            "1e9",
            "2XiB",
            "2GiBs",
            "1,5",
            "18446744073709551616",
            "16777216TiB",
            "16EiB",
            "99999999999999999999999999999999999999999",
            "1.99999999999999999999999999999999999999999k",
            "é",
        ] {
            assert_eq!(text.parse::<Size>(), Err(NoSize::Unreadable), "{text}");
        }
    }

    #[test]
    fn a_bare_number_is_not_taken_for_a_few_bytes() {
        for (text, number) in [("24", 24), ("80", 80), ("1", 1), ("1048575", 1_048_575)] {
            let refused = text.parse::<Size>();
            assert_eq!(refused, Err(NoSize::NoUnit(number)), "{text}");
            assert!(refused.unwrap_err().to_string().contains(&format!("{text}GiB")));
        }
    }
}
